"""The shell toolset: one command line, one new process group.

Requirements `tools.shell.semantics` and `tools.shell.cancel-kills-group`.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from typing import Any

import anyio.to_thread

from sluice.agent.ports import Tool, ToolContext, ToolFailure, ToolResult, ToolSpec
from sluice.tools import process
from sluice.tools.paths import absolute
from sluice.tools.setup import ToolsetConfigLike, ToolsetSetup, text

__all__ = ["DEFAULT_TIMEOUT", "INTERPRETER", "NO_OUTPUT", "ShellToolset", "build", "environment"]

DEFAULT_TIMEOUT = 30.0
"""How long a command may run when the call does not say, in seconds."""

MAX_TIMEOUT = 24 * 3600.0
"""The longest time a call may ask for, in seconds: a day, so that nothing is kept for ever by a slip."""

INTERPRETER = "/bin/sh"
NO_OUTPUT = "<no output>"

_INSTRUCTION = (
    "Use the shell tool to run commands. Every call starts a new shell in the given directory: variables, functions"
    " and `cd` do not last until the next call. There is no terminal and nothing to read from standard input, so"
    " pass the flags that keep a command from asking. Send the output of background processes to a file."
)


def environment(setup: ToolsetSetup, options: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment of a toolset's children: the session's, overridden by the option `env`.

    Raises:
        ToolFailure: `env` is no mapping of names to values.
    """
    extra = options.get("env") or {}
    if not isinstance(extra, Mapping):
        raise ToolFailure("the toolset option 'env' must be a mapping of names to values")
    return dict(setup.env) | {str(name): str(value) for name, value in extra.items()}


class ShellToolset:
    """Runs command lines on the agent host; what they leave running ends with the toolset.

    Processes that start a session of their own (setsid, daemons) leave the group and are not followed.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self._left: set[int] = set()
        self._tool = Tool(_spec(), self._run, subject="cmd")

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
        # The leader of a kept group has been reaped, and its pid is not given out again while the group exists:
        # a process with that pid means that the group is gone and the number belongs to somebody else.
        return {group for group in self._left if process.group_alive(group) and not _exists(group)}

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
        return _result(outcome, seconds)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _timeout(value: object) -> float:
    if value is None:
        return DEFAULT_TIMEOUT
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= MAX_TIMEOUT:
        raise ToolFailure(f"the argument 'timeout' must be a number of seconds above 0 and at most {MAX_TIMEOUT:g}")
    return float(value)


def _result(outcome: process.Outcome, seconds: float) -> ToolResult:
    parts = []
    if outcome.code is None:
        parts.append(f"Timed out after {seconds:g} seconds; the command and its children were ended. Output so far:")
    elif outcome.code < 0:
        parts.append(f"The command was ended by signal {-outcome.code}.")
    elif outcome.code > 0:
        parts.append(f"The command failed with exit code {outcome.code}.")
    if outcome.omitted:
        parts.append(f"[the first {outcome.omitted} bytes of the output are left out]")
    parts.append(outcome.output or NO_OUTPUT)
    return ToolResult("\n".join(parts), is_error=outcome.code != 0)


def _spec() -> ToolSpec:
    return ToolSpec(
        "shell",
        f"Runs a command line with {INTERPRETER} on {platform.system()} and returns what it printed, standard output"
        " and standard error together.",
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


def build(config: ToolsetConfigLike, setup: ToolsetSetup) -> ShellToolset:
    """Build the toolset; reads the option `env`. Raises ToolFailure for a bad one."""
    return ShellToolset(environment(setup, config.options))
