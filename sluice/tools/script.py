"""The script toolset: each configured command line is a tool (requirement `tools.script.entries`).

An argument reaches the command line as a variable of its environment and nowhere else: its text is never part of the
line that the shell parses, so that nothing in it can become a command. Scripts run on the agent's host.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import anyio.to_thread

from sluice.agent.ports import Tool, ToolContext, ToolFailure, ToolResult, ToolSpec
from sluice.tools import process
from sluice.tools.paths import absolute
from sluice.tools.setup import ToolsetConfigLike, ToolsetSetup
from sluice.tools.shell import INTERPRETER, said_of

__all__ = ["TIMEOUT", "ScriptToolset", "build"]

TIMEOUT = 300.0
"""Seconds a script may run: builds and test runs are what people write scripts for."""

MAX_ARGUMENT = 100_000
"""Bytes of one argument; Linux takes 128 KiB for one variable."""

_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MEANINGFUL = re.compile(
    r"(PATH|HOME|IFS|ENV|BASH_.*|SHELL|SHELLOPTS|CDPATH|PS4|OLDPWD|PWD|LD_.*|DYLD_.*|PYTHON.*|GIT_.*)"
)
"""Variables that change how a shell or a program runs: no name for what a model may choose."""

_INSTRUCTION = "Prefer a script of this project to a command line of your own where one does what is wanted: {}."


class ScriptToolset:
    """One tool for each entry.

    Args:
        scripts: tool name -> `cmd`, `description`, `args`, `required`, `env` and `working_dir`.
        env: the environment of the commands, before an entry's own `env` and the arguments.

    Raises:
        ToolFailure: a name cannot be used.
    """

    def __init__(self, scripts: Mapping[str, Mapping[str, Any]], env: Mapping[str, str]) -> None:
        self._env = env
        self._left: set[int] = set()
        self._tools = tuple(self._tool(name, script) for name, script in scripts.items())

    @property
    def instruction(self) -> str:
        """How to use the tools, for the system prompt."""
        return _INSTRUCTION.format(", ".join(tool.name for tool in self._tools))

    async def start(self) -> None:
        """Nothing to start: each call has its own process."""

    def tools(self) -> Sequence[Tool]:
        """The tools, in the order of the configuration."""
        return self._tools

    async def stop(self) -> None:
        """End what the scripts left running in their groups."""
        groups, self._left = self._surviving(), set()
        await process.end_groups(groups)

    def _surviving(self) -> set[int]:
        return {group for group in self._left if process.orphaned(group)}

    def _tool(self, name: str, script: Mapping[str, Any]) -> Tool:
        if not _TOOL_NAME.fullmatch(name):
            raise ToolFailure(f"{name!r} is no name for a tool: letters, digits, _ and -, at most 64")
        declared, env = script.get("args") or {}, script.get("env") or {}
        for argument in declared:
            if not _VARIABLE.fullmatch(argument) or _MEANINGFUL.fullmatch(argument) or argument in env:
                raise ToolFailure(f"{argument!r} is no name for an argument of {name}: it must be a free variable's")
        required = declared if script.get("required") is None else script["required"]
        if unknown := set(required) - set(declared):
            raise ToolFailure(f"{name} requires {', '.join(sorted(unknown))}, which is not among its args")

        async def run(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
            return await self._run(script, {key: arguments.get(key) for key in declared}, context)

        schema = {
            "type": "object",
            "properties": {key: {"type": "string", **kind} for key, kind in declared.items()},
            "required": list(required),
        }
        description = script.get("description") or f"Runs the command line: {script['cmd']}"
        return Tool(ToolSpec(name, description, schema), run, subject=next(iter(required), ""))

    async def _run(self, script: Mapping[str, Any], values: Mapping[str, Any], context: ToolContext) -> ToolResult:
        # An argument that was not given is not inherited from the agent's own environment either.
        env = {key: value for key, value in self._env.items() if key not in values} | dict(script.get("env") or {})
        env |= {key: _value(key, value) for key, value in values.items() if value is not None}
        cwd = absolute(script.get("working_dir") or ".", context.cwd)
        if not await anyio.to_thread.run_sync(os.path.isdir, cwd, abandon_on_cancel=True):
            raise ToolFailure(f"the directory {cwd} does not exist")
        outcome = await process.run(process.Command((INTERPRETER, "-c", script["cmd"]), cwd, env, TIMEOUT))
        self._left = self._surviving()
        if outcome.leftover is not None:
            self._left.add(outcome.leftover)
        return said_of(outcome, TIMEOUT)


def _value(name: str, value: Any) -> str:
    """An argument as the text of a variable: a text as it is, anything else as JSON."""
    said = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    try:
        size = len(said.encode())
    except UnicodeEncodeError:
        raise ToolFailure(f"the argument {name!r} holds half of a surrogate pair, which is no text") from None
    if "\0" in said or size > MAX_ARGUMENT:
        raise ToolFailure(f"the argument {name!r} must be a text without NUL of at most {MAX_ARGUMENT} bytes")
    return said


def build(config: ToolsetConfigLike, setup: ToolsetSetup) -> ScriptToolset:
    """Build the toolset from the option `shell`. Raises ToolFailure for names that cannot be used."""
    return ScriptToolset(config.options.get("shell") or {}, setup.env)
