"""Tools that the model is not told of until it looks for them: `search_tool` and `add_tool`.

Requirement `tools.registry.deferred`. What was added stays for the life of the session's toolsets; a session that is
opened again begins without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sluice.agent.ports import Tool, ToolContext, ToolFailure, ToolResult, Toolset, ToolSpec
from sluice.tools.registry import FilteredToolset
from sluice.tools.setup import text

__all__ = ["MAX_FOUND", "DeferredToolset", "discoverable"]

MAX_FOUND = 30
"""Tools that one search names."""

_INSTRUCTION = (
    "Not all tools are listed. When none of them does what is needed, look for one with search_tool and make it"
    " available with add_tool; it can be called from your next answer on."
)


class DeferredToolset:
    """The two tools over the deferred ones of other toolsets.

    Args:
        sources: the toolsets of an agent that defer tools, in their order.
        readonly: whether the agent is offered read-only tools alone.

    Attributes:
        on_change: called when a tool was added, so that the agent lists its tools again.
    """

    def __init__(self, sources: Sequence[FilteredToolset], readonly: bool) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self._sources = tuple(sources)
        self._readonly = readonly
        self._tools = (
            Tool(_SEARCH, self._search, read_only=True, subject="query"),
            Tool(_ADD, self._add, read_only=True, subject="name"),
        )

    @property
    def instruction(self) -> str:
        """How to use the tools, for the system prompt."""
        return _INSTRUCTION

    async def start(self) -> None:
        """Nothing to start: the other toolsets have their own lives."""

    def tools(self) -> Sequence[Tool]:
        """search_tool and add_tool."""
        return self._tools

    async def stop(self) -> None:
        """Nothing to end."""

    def _waiting(self) -> dict[str, tuple[Tool, FilteredToolset]]:
        """What can be added, by name; with equal names the first toolset wins."""
        found: dict[str, tuple[Tool, FilteredToolset]] = {}
        for source in self._sources:
            for tool in source.waiting():
                if tool.read_only or not self._readonly:
                    found.setdefault(tool.name, (tool, source))
        return found

    async def _search(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        words = text(arguments, "query", empty=True).casefold().split()
        found = [tool for tool, _ in self._waiting().values() if all(_fits(word, tool) for word in words)]
        lines = [f"{tool.name}: {tool.spec.description}" for tool in found[:MAX_FOUND]]
        if len(found) > MAX_FOUND:
            lines.append(f"[{len(found) - MAX_FOUND} more; say more of what you are looking for]")
        return ToolResult("\n".join(lines) or "No tool was found.")

    async def _add(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        name = text(arguments, "name")
        waiting = self._waiting().get(name)
        if waiting is None:
            raise ToolFailure(f"there is no tool {name!r} to be added; search_tool finds the ones there are")
        waiting[1].add(name)
        self.on_change()
        return ToolResult(f"{name} can be called now.")


def _fits(word: str, tool: Tool) -> bool:
    """Whether a word occurs in name or description, or its letters occur in the name in their order."""
    name = tool.name.casefold()
    letters = iter(name)
    return word in name or word in tool.spec.description.casefold() or all(letter in letters for letter in word)


def discoverable(toolsets: Sequence[Toolset], readonly: bool) -> tuple[list[Toolset], DeferredToolset | None]:
    """Add the two tools where a toolset defers some.

    Args:
        toolsets: those of one agent, in their order.
        readonly: whether the agent is offered read-only tools alone.

    Returns:
        The toolsets to use, and the added one; None when nothing is deferred.
    """
    sources = [toolset for toolset in toolsets if isinstance(toolset, FilteredToolset) and toolset.defers]
    if not sources:
        return list(toolsets), None
    made = DeferredToolset(sources, readonly)
    return [*toolsets, made], made


_SEARCH = ToolSpec(
    "search_tool",
    "Finds tools that are not listed yet, by words of their name or description.",
    {
        "type": "object",
        "properties": {"query": {"type": "string", "description": 'Words that must all fit; "" finds every tool'}},
        "required": ["query"],
    },
)
_ADD = ToolSpec(
    "add_tool",
    "Makes a tool that search_tool has found available.",
    {
        "type": "object",
        "properties": {"name": {"type": "string", "description": "The tool's name"}},
        "required": ["name"],
    },
)
