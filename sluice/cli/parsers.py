"""What `run`, `check-config`, `sessions` and `export` are called with, and their manuals.

Imported at every start, so it imports nothing but argparse.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from sluice.cli.agent_file import HELP, agent_file

__all__ = [
    "HOOK_FLAGS",
    "MANUAL",
    "add_check_config",
    "add_export",
    "add_hook_options",
    "add_run",
    "add_sessions",
]

if TYPE_CHECKING:
    # argparse has no public name for what `add_subparsers` returns.
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

Command = Callable[[argparse.Namespace], int]

MANUAL = """\
examples:
  sluice run examples/scripted.yaml            talk to an agent that needs no model and no key
  sluice run agent.yaml "what is in here?"     one prompt, then leave
  git diff | sluice run agent.yaml             the same, with the prompt from a pipe
  sluice serve acp agent.yaml                  what an editor starts (docs/editors.md)
  sluice check-config agent.yaml               is the file right?
  sluice sessions list                         what was talked about
  sluice export ID -o talk.md                  one of them as a document

exit status:
  0 done, 1 an error, 2 wrong usage, 130 interrupted.

`sluice COMMAND --help` explains a command; docs/cli.md has all of it on one page.
"""

HOOK_FLAGS = {
    "pre_tool_use": "before a tool call that the mode would ask about; it may deny, ask or allow",
    "post_tool_use": "after a tool call",
    "session_start": "before the first prompt of a session",
    "session_end": "when a session is closed",
    "stop": "when a model has nothing more to call",
}
"""Event -> when the hook of its flag runs; the option is called `hook_` and the event."""

_RUN = """\
in the conversation:
  /NAME TEXT            a command of the agent; TAB completes it
  :help                 the commands below and the agent's
  :mode [NAME]          show the modes, or choose one
  :model [NAME]         show the models, or choose one
  :set [OPTION [VALUE]] show everything that can be set, or set it
  :sessions             list this directory's sessions
  :resume ID            go on with another session
  :new                  begin a new session
  :quit                 leave, as ctrl-d does
  Agents' commands begin with a slash and ours with a colon, so that they never meet. A prompt that begins with a
  colon and a letter is typed with a blank before it.

examples:
  sluice run agent.yaml                        a conversation
  sluice run agent.yaml "fix the typo" --yes   one prompt; whatever it asks for is allowed
  sluice run agent.yaml --continue             go on where this directory's latest session ended
  sluice run agent.yaml --resume=3f2a          go on with the session whose id begins so
  sluice run agent.yaml "sum up" > notes.txt   plain text into a file; questions are asked on stderr

exit status:
  0 the turn ended, 1 an error or the agent refused, 2 wrong usage, 130 interrupted or cancelled.

"""

_CHECK = """\
Each finding is a line `FILE:LINE: KEY: what is wrong`, or `FILE:LINE: KEY: warning: what has no effect`. No model is
asked and no tool is started. A missing key or file of weights is a warning: it is no fault of the file.

examples:
  sluice check-config agent.yaml
  sluice check-config --strict agents/*.yaml   in CI: a warning fails too
  sluice check-config --quiet *.yaml           say nothing about files that are right

exit status:
  0 every file can be used, 1 one cannot (with --strict: or has a warning), 2 wrong usage.
"""

_SESSIONS = """\
examples:
  sluice sessions list --cwd .                 this directory's sessions
  sluice sessions list | cut -f1               ids only: into a pipe, fields are separated by tabs
  sluice sessions list --json --limit 5        the latest five, for programs
  sluice sessions show 3f2a                    read one; the beginning of an id is enough
  sluice sessions delete 3f2a 90bc --yes       delete two, with their sub-sessions

exit status:
  0 done, 1 an error or no such session, 2 wrong usage, 130 interrupted.
"""

_EXPORT = """\
The store is only read, also while an agent uses it. JSON holds everything that is stored, attachments included;
Markdown is the conversation as a person would read it.

examples:
  sluice export 3f2a -o talk.md
  sluice export 3f2a --format json | jq '.items | length'

exit status:
  0 written, 1 an error or no such session, 2 wrong usage.
"""


def add_run(commands: Commands, shared: argparse.ArgumentParser, variables: str, command: Command) -> None:
    """`sluice run`."""
    run = _parser(
        commands,
        "run",
        shared,
        "talk to an agent on this terminal",
        "Start an agent as an editor would, and talk to it on this terminal. With PROMPT, or with piped input,\n"
        "one turn is run; otherwise a conversation. Ctrl-c cancels the turn, a second one leaves.",
        _RUN + variables,
    )
    run.add_argument("agent_file", metavar="FILE", type=agent_file, help=HELP)
    run.add_argument("prompt", metavar="PROMPT", nargs="?", help="run this one prompt and leave")
    sessions = run.add_mutually_exclusive_group()
    sessions.add_argument(
        "--resume",
        metavar="ID",
        nargs="?",
        const="",
        help="go on with this session, named by its id or the beginning of it (written --resume=ID); without ID, "
        "pick one of this directory's (default: begin a new session)",
    )
    sessions.add_argument(
        "--continue", dest="latest", action="store_true", help="go on with this directory's latest session"
    )
    run.add_argument("--mode", metavar="NAME", help="begin in this mode (default: the agent's choice)")
    run.add_argument("--model", metavar="NAME", help="begin with this model (default: the agent's choice)")
    run.add_argument(
        "--yes", action="store_true", help="allow everything the agent asks for, once each, without asking"
    )
    run.add_argument(
        "--plain",
        action="store_true",
        help="write line by line, as into a pipe, even on a terminal that can do more",
    )
    run.set_defaults(command=command)


def add_hook_options(group: argparse._ArgumentGroup) -> None:
    """A flag for each event of `HOOK_FLAGS`."""
    for event, when in HOOK_FLAGS.items():
        group.add_argument(
            f"--hook-{event.replace('_', '-')}",
            metavar="COMMAND",
            action="append",
            help=f"run this command {when} (docs/hooks.md); may be repeated",
        )


def add_check_config(commands: Commands, shared: argparse.ArgumentParser, command: Command) -> None:
    """`sluice check-config`."""
    check = _parser(
        commands, "check-config", shared, "say what is wrong with agent files", "Check agent files.", _CHECK
    )
    check.add_argument("files", metavar="FILE", nargs="+", type=agent_file, help="an agent file (YAML), or `default`")
    check.add_argument("--strict", action="store_true", help="exit with 1 for a warning too")
    check.add_argument("-q", "--quiet", action="store_true", help="do not name the files that are right")
    check.set_defaults(command=command)


def add_sessions(commands: Commands, shared: argparse.ArgumentParser, actions: Mapping[str, Command]) -> None:
    """`sluice sessions list|show|delete`; `actions` by these names."""
    sessions = commands.add_parser(
        "sessions",
        help="list, read and delete stored sessions",
        description="Stored sessions, without starting an agent.",
        epilog=_SESSIONS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    kinds = sessions.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = _parser(kinds, "list", shared, "list them, newest first", "List sessions, newest first.", _SESSIONS)
    listing.add_argument("--cwd", metavar="DIR", help="only those of this directory (default: all)")
    listing.add_argument("--limit", metavar="N", type=_from_one, help="at most so many (default: all)")
    listing.add_argument("--json", action="store_true", help="as JSON")
    listing.set_defaults(command=actions["list"])
    show = _parser(kinds, "show", shared, "read one", "Print a session as a person would read it.", _SESSIONS)
    show.add_argument("session", metavar="SESSION", help="its id, or the beginning of it")
    show.add_argument("--plain", action="store_true", help="the Markdown itself, also on a colour terminal")
    show.set_defaults(command=actions["show"])
    delete = _parser(
        kinds,
        "delete",
        shared,
        "delete some for good",
        "Delete sessions with their sub-sessions. Close them in your editor first.",
        _SESSIONS,
    )
    delete.add_argument("session", metavar="SESSION", nargs="+", help="its id, or the beginning of it")
    delete.add_argument("-y", "--yes", action="store_true", help="do not ask")
    delete.set_defaults(command=actions["delete"])


def add_export(commands: Commands, shared: argparse.ArgumentParser, command: Command) -> None:
    """`sluice export`."""
    export = _parser(
        commands, "export", shared, "write a stored session as JSON or Markdown", "Write one session whole.", _EXPORT
    )
    export.add_argument("session", metavar="SESSION", help="its id, or the beginning of it")
    export.add_argument(
        "-f",
        "--format",
        choices=("json", "markdown"),
        help="the form (default: json when the output's name ends in .json, else markdown)",
    )
    export.add_argument("-o", "--output", metavar="FILE", help="write to this file (default: standard output)")
    export.set_defaults(command=command)


def _parser(
    commands: Commands,
    name: str,
    shared: argparse.ArgumentParser,
    *texts: str,
) -> argparse.ArgumentParser:
    """A command's parser; `texts` are its line in the list of commands, its description and its manual."""
    line, description, manual = texts
    made: argparse.ArgumentParser = commands.add_parser(
        name,
        parents=[shared],
        help=line,
        description=description,
        epilog=manual,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return made


def _from_one(typed: str) -> int:
    if not (typed.isascii() and typed.isdigit() and int(typed[:18])):
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, got {typed[:40]!r}")
    return int(typed[:18])
