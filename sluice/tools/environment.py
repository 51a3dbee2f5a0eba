"""The environment toolset: facts about where the agent works. Requirement `tools.environment.info`."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio.to_thread

from sluice.agent.ports import Tool, ToolContext, ToolResult, ToolSpec
from sluice.tools.setup import ToolsetConfigLike, ToolsetSetup
from sluice.tools.shell import INTERPRETER, interpreter

__all__ = ["EnvironmentToolset", "build"]

_INSTRUCTION = (
    "Use get_environment_info when a command or a path depends on the platform, the directory or the shell."
)


class EnvironmentToolset:
    """One tool that reports platform, directories and interpreter.

    Everything but the interpreter describes the agent's host. The interpreter is the one the shell tool uses, in the
    client's terminal when there is one.
    """

    def __init__(self, terminal: bool) -> None:
        self._terminal = terminal
        spec = ToolSpec(
            "get_environment_info",
            "Tells the platform, the working directory, further directories, and which interpreter runs commands.",
            {"type": "object", "properties": {}},
        )
        self._tool = Tool(spec, self._run, read_only=True)

    @property
    def instruction(self) -> str:
        """When to use the tool, for the system prompt."""
        return _INSTRUCTION

    async def start(self) -> None:
        """Nothing to start."""

    def tools(self) -> Sequence[Tool]:
        """The one tool, `get_environment_info`."""
        return (self._tool,)

    async def stop(self) -> None:
        """Nothing to end."""

    async def _run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        repository = await anyio.to_thread.run_sync(_in_repository, context.cwd)
        where = "in the client's terminal" if self._terminal else "on the agent's host"
        facts = {
            "Platform": f"{platform.system()} {platform.release()}",
            "Architecture": platform.machine(),
            "Working directory": context.cwd,
            "Further directories": ", ".join(context.roots) or "none",
            "Git repository": "yes" if repository else "no",
            "Commands run with": f"{interpreter()[0] if self._terminal else INTERPRETER}, {where}",
        }
        return ToolResult("\n".join(f"{name}: {fact}" for name, fact in facts.items()))


def _in_repository(cwd: str) -> bool:
    here = Path(cwd)
    return any((directory / ".git").exists() for directory in (here, *here.parents))


def build(config: ToolsetConfigLike, setup: ToolsetSetup) -> EnvironmentToolset:
    """Build the toolset; it has no options."""
    return EnvironmentToolset(setup.terminal is not None)
