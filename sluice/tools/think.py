"""The think toolset: a place for the model to write down a thought. Requirement `tools.think.one-argument`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sluice.agent.ports import Tool, ToolContext, ToolResult, ToolSpec
from sluice.tools.setup import ToolsetConfigLike, ToolsetSetup, text

__all__ = ["ThinkToolset", "build"]

_INSTRUCTION = (
    "Use the think tool before a hard step: list what is known, which rules apply, what is still missing, and check"
    " the plan against them. It fetches nothing and changes nothing."
)


class ThinkToolset:
    """One tool that hands the thought back, so that it stands in the conversation."""

    def __init__(self) -> None:
        schema = {
            "type": "object",
            "properties": {"thought": {"type": "string", "description": "The thought to write down"}},
            "required": ["thought"],
        }
        spec = ToolSpec("think", "Writes down a thought. Nothing is fetched and nothing changes.", schema)
        self._tool = Tool(spec, self._run, read_only=True)

    @property
    def instruction(self) -> str:
        """How to use the tool, for the system prompt."""
        return _INSTRUCTION

    async def start(self) -> None:
        """Nothing to start."""

    def tools(self) -> Sequence[Tool]:
        """The one tool, `think`."""
        return (self._tool,)

    async def stop(self) -> None:
        """Nothing to end."""

    async def _run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        return ToolResult(f"Noted: {text(arguments, 'thought')}")


def build(config: ToolsetConfigLike, setup: ToolsetSetup) -> ThinkToolset:
    """Build the toolset; it has no options."""
    return ThinkToolset()
