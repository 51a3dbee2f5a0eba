"""`sluice run FILE [PROMPT]`: start `sluice serve acp FILE` as a child and talk to it over the real wire.

With a prompt, or with piped input, one turn is run; on a terminal a conversation.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from sluice.cli.conversation import Conversation
from sluice.cli.opening import Opening
from sluice.cli.output import INTERRUPTED, STDIN, STDOUT, complain, explain, read_all
from sluice.cli.parsers import HOOK_FLAGS
from sluice.client.process import AgentCommand
from sluice.client.wording import one_line

if TYPE_CHECKING:
    from sluice.config.environment import Environment

__all__ = ["INTERRUPTED", "Conversation", "converse", "explain", "run", "serve_command"]


def run(options: argparse.Namespace) -> int:
    """Run the command. Returns the exit status: 0, 1 after an error, 2 without a prompt, 130 after an interrupt."""
    opening = Opening(options.resume, options.latest, options.mode, options.model)
    if opening.resume == "" and not (os.isatty(STDIN) and os.isatty(STDOUT)):
        complain("without a terminal there is nothing to pick from: name the session, --resume=ID, or use --continue")
        return 2
    prompt = options.prompt
    if prompt is None and not os.isatty(STDIN):
        prompt = read_all(STDIN).decode("utf-8", "replace")
    if prompt is not None and not prompt.strip():
        complain("nothing to do: give a prompt, pipe one in, or leave it out on a terminal")
        return 2
    from sluice.cli.serve_acp import credentials

    # Read here as well, because the agent would say only that they cannot be read: a client is not told which.
    environment = credentials(options)
    command = AgentCommand(serve_command(options), echo_stderr=options.debug)
    cwd = options.working_dir or "."
    conversation = Conversation(command, cwd, prompt, options.yes, options.plain, opening)
    conversation.welcome = _welcome(options, environment) if prompt is None else ""
    return converse(conversation, debug=options.debug)


def converse(conversation: Conversation, *, debug: bool = False) -> int:
    """Hold a conversation with any agent.

    Args:
        conversation: what to do.
        debug: whether to log to stderr.

    Returns:
        The exit status.
    """
    _set_up_logging(debug)
    return anyio.run(conversation.run)


def serve_command(options: argparse.Namespace) -> list[str]:
    """The command line of the agent: this program's own `serve acp`, with the shared flags passed on."""
    command = [sys.executable, "-m", "sluice", "serve", "acp"]
    for flag in ("working_dir", "data_dir", "config_dir", "session_db", "log_file", "models_gateway"):
        if (value := getattr(options, flag)) is not None:
            command += [f"--{flag.replace('_', '-')}={value}"]
    command += [f"--env-from-file={name}" for name in options.env_from_file or ()]
    command += [f"--flavor={name}" for name in options.flavor or ()]
    command += [f"--allow-address={network}" for network in options.allow_address or ()]
    for event in HOOK_FLAGS:
        flag = f"--hook-{event.replace('_', '-')}"
        command += [f"{flag}={line}" for line in getattr(options, f"hook_{event}") or ()]
    command += ["--debug"] if options.debug else []
    return [*command, "--", options.agent_file]


def _welcome(options: argparse.Namespace, environment: Environment) -> str:
    """The default agent's welcome message, which no model sees. A broken file is the agent's to complain about."""
    from sluice.config.errors import ConfigError
    from sluice.config.load import load

    try:
        file = load(Path(options.agent_file), environment, options.flavor or ())
    except ConfigError:
        return ""
    lines = file.default_agent.welcome_message.strip().splitlines()
    return "\n".join(one_line(line, 1000) for line in lines)


def _set_up_logging(debug: bool) -> None:
    if debug:
        logging.basicConfig(level=logging.DEBUG, format="%(levelname)s %(name)s: %(message)s")
    else:
        # What the client library notices (a banner it skipped, say) is not for the user of this command.
        logging.getLogger("sluice").addHandler(logging.NullHandler())
