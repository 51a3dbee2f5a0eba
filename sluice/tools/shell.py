"""The shell toolset: one command line, one new process group; or one terminal of the client, when there is one.

Requirements `tools.shell.semantics`, `tools.shell.cancel-kills-group` and `client-terminal.*`. With a client terminal
nothing ever runs on the agent's host instead, whatever the client answers.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from typing import Any

import anyio.to_thread

from sluice.agent.ports import Terminal, TerminalCommand, Tool, ToolContext, ToolFailure, ToolResult, ToolSpec
from sluice.tools import process
from sluice.tools.paths import absolute
from sluice.tools.setup import ToolsetConfigLike, ToolsetSetup, text

__all__ = [
    "DEFAULT_TIMEOUT",
    "INTERPRETER",
    "NO_OUTPUT",
    "ShellToolset",
    "build",
    "environment",
    "interpreter",
    "said_of",
]

DEFAULT_TIMEOUT = 30.0
"""How long a command may run when the call does not say, in seconds."""

MAX_TIMEOUT = 24 * 3600.0
"""The longest time a call may ask for, in seconds: a day, so that nothing is kept for ever by a slip."""

INTERPRETER = "/bin/sh"
WINDOWS_INTERPRETER = r"C:\Windows\System32\cmd.exe"
NO_OUTPUT = "<no output>"

_TIMED_OUT = "Timed out after {:g} seconds; the command and its children were ended. Output so far:"
_FAILED = "The command failed with exit code {}."

_INSTRUCTION = (
    "Use the shell tool to run commands. Every call starts a new shell in the given directory: variables, functions"
    " and `cd` do not last until the next call. There is no terminal and nothing to read from standard input, so"
    " pass the flags that keep a command from asking. Send the output of background processes to a file."
)


def interpreter(system: str | None = None) -> tuple[str, ...]:
    """Return program and leading arguments that run a command line in the client's terminal.

    An absolute path of the system: never $SHELL, ComSpec or a search along PATH. `system` is the platform's name,
    None for this one; client and agent share it.
    """
    if (system or platform.system()) == "Windows":
        return WINDOWS_INTERPRETER, "/D", "/C"
    return INTERPRETER, "-c"


def overrides(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the option `env` of a toolset. Raises ToolFailure when it is no mapping of names to values."""
    extra = options.get("env") or {}
    if not isinstance(extra, Mapping):
        raise ToolFailure("the toolset option 'env' must be a mapping of names to values")
    return {str(name): str(value) for name, value in extra.items()}


def environment(setup: ToolsetSetup, options: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment of a toolset's children: the session's, overridden by the option `env`.

    Raises:
        ToolFailure: `env` is no mapping of names to values.
    """
    return dict(setup.env) | overrides(options)


class ShellToolset:
    """Runs command lines on the agent host; what they leave running ends with the toolset.

    Processes that start a session of their own (setsid, daemons) leave the group and are not followed.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self._left: set[int] = set()
        where = f"with {INTERPRETER} on {platform.system()}"
        self._tool = Tool(_spec(where), self._run, subject="cmd")

    @property
    def instruction(self) -> str:
        """How to use the tool, for the system prompt."""
        return _INSTRUCTION

    async def start(self) -> None:
        """Nothing to start: each call has its own process."""

    def tools(self) -> Sequence[Tool]:
        """The one tool, `shell`."""
        return (self._tool,)

    async def stop(self) -> None:
        """End what the commands left running in their groups."""
        groups, self._left = self._surviving(), set()
        await process.end_groups(groups)

    def _surviving(self) -> set[int]:
        return {group for group in self._left if process.orphaned(group)}

    async def _run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        line = text(arguments, "cmd" if "cmd" in arguments else "command")
        cwd = absolute(arguments.get("cwd") or ".", context.cwd)
        seconds = _timeout(arguments.get("timeout"))
        if not await anyio.to_thread.run_sync(os.path.isdir, cwd, abandon_on_cancel=True):
            raise ToolFailure(f"the directory {cwd} does not exist")
        command = process.Command((INTERPRETER, "-c", line), cwd, self._env, seconds)
        outcome = await process.run(command)
        self._left = self._surviving()
        if outcome.leftover is not None:
            self._left.add(outcome.leftover)
        return said_of(outcome, seconds)


class TerminalShellToolset:
    """Runs command lines in the client's terminal.

    Args:
        terminal: the client's terminal.
        env: what is set there over the client's own environment; nothing of this process's environment is sent.
        askpass: whether the file asks for `sudo_askpass`, which the client's terminal cannot do.
    """

    def __init__(self, terminal: Terminal, env: Mapping[str, str], askpass: bool) -> None:
        self._terminal = terminal
        self._env = env
        self._askpass = askpass
        where = f"in the client's terminal, with {interpreter()[0]} on {platform.system()},"
        self._tool = Tool(_spec(where), self._run, subject="cmd")

    @property
    def instruction(self) -> str:
        """How to use the tool, for the system prompt."""
        return _INSTRUCTION

    async def start(self) -> None:
        """Nothing to start: each call has its own terminal."""

    def tools(self) -> Sequence[Tool]:
        """The one tool, `shell`."""
        return (self._tool,)

    async def stop(self) -> None:
        """Nothing to end: each call gives its terminal back."""

    async def _run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        if self._askpass:
            raise ToolFailure("sudo_askpass does not work in the client's terminal; the command was not run")
        line = text(arguments, "cmd" if "cmd" in arguments else "command")
        cwd = absolute(text(arguments, "cwd") if arguments.get("cwd") else ".", context.cwd)
        seconds = _timeout(arguments.get("timeout"))
        command = TerminalCommand((*interpreter(), line), cwd, self._env, seconds)
        outcome = await self._terminal.run(command, context)
        tail = process.Tail(process.KEEP_BYTES)
        tail.add(outcome.output.encode("utf-8", "replace"))
        if outcome.timed_out:
            said = _TIMED_OUT.format(seconds)
        elif outcome.signal:
            said = f"The command was ended by signal {outcome.signal}."
        elif outcome.exit_code is None:
            said = "The client did not say how the command ended."
        else:
            said = _FAILED.format(outcome.exit_code) if outcome.exit_code else ""
        cut = "[the beginning of the output is left out]" if outcome.truncated or tail.omitted else ""
        return ToolResult("\n".join(filter(None, (said, cut, tail.text() or NO_OUTPUT))), is_error=bool(said))


def _timeout(value: object) -> float:
    if value is None:
        return DEFAULT_TIMEOUT
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= MAX_TIMEOUT:
        raise ToolFailure(f"the argument 'timeout' must be a number of seconds above 0 and at most {MAX_TIMEOUT:g}")
    return float(value)


def said_of(outcome: process.Outcome, seconds: float) -> ToolResult:
    """Return what a command that ran on the host for at most `seconds` seconds gave."""
    parts = []
    if outcome.code is None:
        parts.append(_TIMED_OUT.format(seconds))
    elif outcome.code < 0:
        parts.append(f"The command was ended by signal {-outcome.code}.")
    elif outcome.code > 0:
        parts.append(_FAILED.format(outcome.code))
    if outcome.omitted:
        parts.append(f"[the first {outcome.omitted} bytes of the output are left out]")
    parts.append(outcome.output or NO_OUTPUT)
    return ToolResult("\n".join(parts), is_error=outcome.code != 0)


def _spec(where: str) -> ToolSpec:
    return ToolSpec(
        "shell",
        f"Runs a command line {where} and returns what it printed, standard output and standard error together.",
        {
            "type": "object",
            "properties": {
                "cmd": {"type": "string", "description": "The command line"},
                "cwd": {"type": "string", "description": "Directory to run in, default '.', the working directory"},
                "timeout": {"type": "integer", "description": "Seconds the command may run, default 30"},
            },
            "required": ["cmd"],
        },
    )


def build(config: ToolsetConfigLike, setup: ToolsetSetup) -> ShellToolset | TerminalShellToolset:
    """Build the toolset; reads the options `env` and `sudo_askpass`. Raises ToolFailure for a bad one."""
    if setup.terminal is not None:
        askpass = bool(config.options.get("sudo_askpass"))
        return TerminalShellToolset(setup.terminal, overrides(config.options), askpass)
    return ShellToolset(environment(setup, config.options))
