"""The `sluice` command: arguments in, one command out. Each command's module is imported when it is chosen.

An argument may also come from the environment as SLUICE_ and its name in capitals; what is typed outranks it
(cli.env.prefix). Start-up time is what an editor waits for, so this module imports nothing but argparse.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from sluice import __version__
from sluice.cli import parsers
from sluice.cli.agent_file import HELP, agent_file
from sluice.cli.descriptors import filled
from sluice.cli.model_options import add_model

__all__ = ["build_parser", "main"]

if TYPE_CHECKING:
    # argparse has no public name for what `add_subparsers` returns.
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_Add: TypeAlias = "Callable[[_Commands, Sequence[str]], None]"
"""Adds a command to the parser, given the words that follow it."""

_TRUE = frozenset({"1", "true", "yes", "on"})

_FROM_ENVIRONMENT = ("working_dir", "data_dir", "config_dir", "session_db", "log_file", "models_gateway")

_VARIABLES = """\
environment:
  SLUICE_WORKING_DIR, SLUICE_DATA_DIR, SLUICE_CONFIG_DIR, SLUICE_SESSION_DB, SLUICE_LOG_FILE, SLUICE_MODELS_GATEWAY,
  SLUICE_DEBUG=1 and SLUICE_ENV_FROM_FILE (several files joined by the system's path separator) stand for the options
  of these names,
  SLUICE_FLAVOR (names separated by commas) for --flavor, and SLUICE_ALLOW_ADDRESSES (networks separated by commas)
  for --allow-address; an option that is given outranks its variable.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: without the program's name; None for those of the process.

    Returns:
        The exit status: 0, 1 after an error, 2 for wrong usage, 130 after an interrupt.
    """
    words = sys.argv[1:] if arguments is None else arguments
    if not filled():
        return 1
    try:
        options = _parsed(build_parser(words), words)
    except SystemExit as stop:
        # argparse has written the help or the usage error already.
        return stop.code if isinstance(stop.code, int) else 2
    _add_environment(options, os.environ)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        status = command(options)
        sys.stdout.flush()  # here, where a reader that has left is no error; at the exit it would be one
        return status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read the output has left, as `| head` does. Nobody is there to be told of it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if options.debug:
            raise
        from sluice.cli.reasons import reason

        print(f"sluice: {reason(error)}", file=sys.stderr)
        return 1


def _parsed(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """Parse; a prompt may also stand behind options, where older versions of argparse no longer expect it."""
    options, rest = parser.parse_known_args(arguments)
    if len(rest) == 1 and not rest[0].startswith("-") and getattr(options, "prompt", "") is None:
        options.prompt = rest.pop()
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return options


def build_parser(words: Sequence[str] = ()) -> argparse.ArgumentParser:
    """The parser; the chosen command is `options.command`, a function from options to a status.

    Args:
        words: what will be parsed. When it begins with a command, and `serve` with a protocol, the parser has no
            other one: an editor that starts `serve acp` does not wait until the options of all are put together.
    """
    parser = argparse.ArgumentParser(
        prog="sluice",
        description="Serve agents defined in YAML files to editors over the Agent Client Protocol (ACP).",
        epilog=parsers.MANUAL,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"sluice {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for add in _chosen(_COMMANDS, words[:1]):
        add(commands, words[1:])
    return parser


def _chosen(known: Mapping[str, _Add], word: Sequence[str]) -> Iterable[_Add]:
    """The one that the word names, else all."""
    return [known[name] for name in word if name in known] or known.values()


def _add_serve(commands: _Commands, words: Sequence[str]) -> None:
    serve = commands.add_parser("serve", help="serve an agent to another program")
    protocols = serve.add_subparsers(title="protocols", metavar="PROTOCOL", required=True)
    for add in _chosen(_PROTOCOLS, words[:1]):
        add(protocols, words[1:])


def _add_serve_acp(protocols: _Commands, _words: Sequence[str]) -> None:
    acp = protocols.add_parser(
        "acp",
        parents=[_runtime_options()],
        help="to an editor, over ACP on standard input and output",
        description="Serve an agent over the Agent Client Protocol on standard input and output. Editors start this.",
        epilog=_VARIABLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    acp.add_argument("agent_file", metavar="FILE", type=agent_file, help=HELP)
    acp.add_argument("--journal", metavar="FILE", help="note every frame and every transition of a machine in FILE")
    acp.add_argument("--journal-bodies", action="store_true", help="keep the frames whole; they hold what was said")
    acp.add_argument(
        "--attachable", action="store_true", help="let `serve mcp --attach` of the same user reach the sessions"
    )
    acp.add_argument(
        "--otel", action="store_true", help="send spans to an OpenTelemetry collector, as the OTEL_* variables say"
    )
    acp.set_defaults(command=_serve_acp)


def _add_serve_mcp(protocols: _Commands, _words: Sequence[str]) -> None:
    mcp = protocols.add_parser(
        "mcp",
        parents=[_runtime_options()],
        help="to an MCP client, each agent as a tool",
        description=(
            "Serve the agents of a file as tools over the Model Context Protocol, on standard input and output or,\n"
            "with --http, over Streamable HTTP."
        ),
        epilog=_VARIABLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    mcp.add_argument("agent_file", metavar="FILE", nargs="?", type=agent_file, help=f"{HELP}; not with --attach")
    mcp.add_argument("-a", "--agent", metavar="NAME", help="expose this agent only (default: all of the file)")
    mcp.add_argument("--tool-name", metavar="NAME", help="what the tool is called, when one agent is exposed")
    mcp.add_argument(
        "--mcp-keepalive", metavar="DURATION", help="ping the client this often, such as 30s (stdio only)"
    )
    http = mcp.add_argument_group("over HTTP")
    http.add_argument(
        "--http", action="store_true", help="serve Streamable HTTP instead of standard input and output"
    )
    http.add_argument(
        "-l", "--listen", metavar="ADDRESS", default="127.0.0.1:8081", help="where (default: 127.0.0.1:8081)"
    )
    http.add_argument("--auth-token", metavar="TOKEN", help="want this bearer token of every request")
    http.add_argument(
        "--insecure-no-auth", action="store_true", help="let anybody in who can reach an address off this machine"
    )
    http.add_argument(
        "--safety",
        choices=("strict", "balanced", "restricted", "autonomous"),
        help="the safety mode (default: that of the agent, else of the file, else restricted)",
    )
    mcp.add_argument(
        "--attach",
        metavar="WHICH",
        nargs="?",
        const="",
        help="expose a session of a running `serve acp --attachable`: process, address or session (default: newest)",
    )
    mcp.set_defaults(command=_serve_mcp)


def _add_diagrams(commands: _Commands, _words: Sequence[str]) -> None:
    diagrams = commands.add_parser(
        "diagrams",
        help="write the state diagrams, or check that they are current",
        description="Write the diagrams and tables of every state machine as Markdown.",
    )
    diagrams.add_argument(
        "--check", action="store_true", help="write nothing; fail and name the files that are stale"
    )
    diagrams.add_argument("--directory", metavar="DIR", default="diagrams", help="where they are (default: diagrams)")
    diagrams.add_argument("-d", "--debug", action="store_true", help="show a traceback when something fails")
    diagrams.set_defaults(command=_diagrams)


def _add_journal(commands: _Commands, _words: Sequence[str]) -> None:
    journal = commands.add_parser(
        "journal",
        help="read what `serve acp --journal FILE` wrote",
        description="Print a journal as a timeline. --check replays its transitions against the machines and names "
        "the first that is no row.",
    )
    journal.add_argument("file", metavar="FILE", help="the journal")
    form = journal.add_mutually_exclusive_group()
    form.add_argument("--mermaid", action="store_true", help="print a Mermaid sequence diagram instead")
    form.add_argument("--check", action="store_true", help="check instead of print; exit 1 at a foreign transition")
    journal.set_defaults(command=_journal, debug=False)


_PROTOCOLS: Mapping[str, _Add] = {"acp": _add_serve_acp, "mcp": _add_serve_mcp}

_COMMANDS: Mapping[str, _Add] = {
    "serve": _add_serve,
    "run": lambda commands, _: parsers.add_run(commands, _runtime_options(), _VARIABLES, _run),
    "check-config": lambda commands, _: parsers.add_check_config(commands, _check_options(), _check_config),
    "sessions": lambda commands, _: parsers.add_sessions(
        commands, _store_options(), {"list": _sessions_list, "show": _show, "delete": _delete}
    ),
    "export": lambda commands, _: parsers.add_export(commands, _store_options(), _export),
    "model": lambda commands, _: add_model(commands),
    "diagrams": _add_diagrams,
    "journal": _add_journal,
}
"""command -> what adds it, in the order of the manual."""


def _runtime_options() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False)
    group = shared.add_argument_group("runtime options")
    group.add_argument("-d", "--debug", action="store_true", help="log everything, and show tracebacks")
    group.add_argument("--log-file", metavar="PATH", help="log to this file (default: standard error)")
    group.add_argument(
        "--working-dir",
        metavar="DIR",
        help="work in this directory; paths given here stay relative to the current one (default: the current one)",
    )
    _add_store_options(group)
    group.add_argument(
        "--allow-address",
        metavar="CIDR",
        action="append",
        help="let clients and tools reach this network besides the public internet; may be repeated",
    )
    parsers.add_hook_options(group)
    _add_file_options(shared.add_argument_group("how the agent file is read"))
    return shared


def _check_options() -> argparse.ArgumentParser:
    """The options of a command that reads agent files and runs nothing."""
    shared = argparse.ArgumentParser(add_help=False)
    _add_file_options(shared.add_argument_group("how the agent file is read"))
    shared.add_argument("-d", "--debug", action="store_true", help="show a traceback when something fails")
    shared.add_argument(
        "--data-dir",
        metavar="DIR",
        help="look for data here (default: $XDG_DATA_HOME/sluice, else ~/.local/share/sluice)",
    )
    return shared


def _add_file_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--env-from-file",
        metavar="PATH",
        action="append",
        help="read variables such as API keys from this file; may be repeated, the first file that has one wins",
    )
    group.add_argument(
        "--config-dir",
        metavar="DIR",
        help="read settings here (default: $XDG_CONFIG_HOME/sluice, else ~/.config/sluice)",
    )
    group.add_argument(
        "--flavor",
        metavar="NAME",
        action="append",
        help="apply this patch of the agent file (its key flavors); may be repeated, they are applied in order",
    )
    group.add_argument(
        "--models-gateway",
        metavar="URL",
        help="ask this gateway in place of the model providers; its login is SLUICE_MODELS_GATEWAY_TOKEN",
    )


def _store_options() -> argparse.ArgumentParser:
    """The options of commands that only look for the store."""
    shared = argparse.ArgumentParser(add_help=False)
    group = shared.add_argument_group("where sessions are kept")
    _add_store_options(group)
    shared.add_argument("-d", "--debug", action="store_true", help="show a traceback when something fails")
    return shared


def _add_store_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "-s",
        "--session-db",
        metavar="PATH",
        help="keep sessions in this file (default: session.db in the data directory)",
    )
    group.add_argument(
        "--data-dir",
        metavar="DIR",
        help="keep data here (default: $XDG_DATA_HOME/sluice, else ~/.local/share/sluice)",
    )


def _add_environment(options: argparse.Namespace, environment: Mapping[str, str]) -> None:
    """Fill in what was not typed; an empty variable counts as unset."""
    options.debug = options.debug or environment.get("SLUICE_DEBUG", "").lower() in _TRUE
    for name in _FROM_ENVIRONMENT:
        if getattr(options, name, "") is None:
            setattr(options, name, environment.get(f"SLUICE_{name.upper()}") or None)
    if getattr(options, "env_from_file", "") is None:
        named = environment.get("SLUICE_ENV_FROM_FILE", "")
        options.env_from_file = [name for name in named.split(os.pathsep) if name] or None
    if getattr(options, "flavor", "") is None:
        options.flavor = environment.get("SLUICE_FLAVOR", "").replace(",", " ").split() or None
    if getattr(options, "allow_address", "") is None:
        options.allow_address = environment.get("SLUICE_ALLOW_ADDRESSES", "").replace(",", " ").split() or None


def _serve_acp(options: argparse.Namespace) -> int:
    from sluice.cli.serve_acp import serve_acp

    return serve_acp(options)


def _serve_mcp(options: argparse.Namespace) -> int:
    from sluice.cli.serve_mcp import serve_mcp

    return serve_mcp(options)


def _run(options: argparse.Namespace) -> int:
    from sluice.cli.run import run

    return run(options)


def _journal(options: argparse.Namespace) -> int:
    from sluice.cli.journal import journal

    return journal(options)


def _check_config(options: argparse.Namespace) -> int:
    from sluice.cli.check_config import check_config

    return check_config(options)


def _sessions_list(options: argparse.Namespace) -> int:
    from sluice.cli.sessions import list_sessions

    return list_sessions(options)


def _show(options: argparse.Namespace) -> int:
    from sluice.cli.sessions import show

    return show(options)


def _delete(options: argparse.Namespace) -> int:
    from sluice.cli.sessions import delete

    return delete(options)


def _export(options: argparse.Namespace) -> int:
    from sluice.cli.sessions import export

    return export(options)


def _diagrams(options: argparse.Namespace) -> int:
    from sluice.cli.diagrams import diagrams

    return diagrams(options)
