"""From configuration to tools: building toolsets, filtering them, joining them, and bounding what tools say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any, Literal

from sluice.agent.ports import Tool, ToolContext, ToolResult, Toolset
from sluice.tools.setup import ToolsetConfigLike, ToolsetSetup, UnknownToolset

__all__ = ["PLACEHOLDER", "RESULT_BYTES", "TYPES", "FilteredToolset", "bound", "build", "collect", "filtered"]

RESULT_BYTES = 50 * 1024
"""The most a tool result may hand to the model, in bytes of UTF-8 (requirement `tools.registry.result-bound`)."""

PLACEHOLDER = "{ORIGINAL_INSTRUCTIONS}"
"""Where a configured instruction wants the toolset's own text."""

TYPES = ("filesystem", "shell", "think", "todo")
"""The toolset types of this room; each is a module with a `build(config, setup)`, imported when first needed."""


def build(config: ToolsetConfigLike, *, setup: ToolsetSetup) -> Toolset:
    """Build a configured toolset with its filters and its instruction applied. Nothing is started.

    Raises:
        UnknownToolset: there is no such type.
        ToolFailure: an option of the toolset cannot be used.
    """
    if config.type not in TYPES:
        raise UnknownToolset(f"unknown toolset type {config.type!r}; known types: {', '.join(TYPES)}")
    make: Callable[[ToolsetConfigLike, ToolsetSetup], Toolset] = import_module(f"sluice.tools.{config.type}").build
    return filtered(
        make(config, setup),
        tools=config.tools or (),
        readonly=config.readonly,
        instruction=config.instruction or "",
    )


class FilteredToolset:
    """A toolset of which only a part is shown; its life is that of the toolset inside."""

    def __init__(self, inner: Toolset, tools: tuple[str, ...], readonly: bool, instruction: str) -> None:
        self._inner = inner
        self._names = frozenset(tools)
        self._readonly = readonly
        self._instruction = instruction

    @property
    def inner(self) -> Toolset:
        """The toolset inside."""
        return self._inner

    @property
    def instruction(self) -> str:
        """The configured instruction, with the toolset's own in place of the placeholder; else the own one."""
        if not self._instruction:
            return self._inner.instruction
        return self._instruction.replace(PLACEHOLDER, self._inner.instruction)

    async def start(self) -> None:
        """Start the toolset inside."""
        await self._inner.start()

    def tools(self) -> Sequence[Tool]:
        """The tools that pass the filters, in their order."""
        return tuple(tool for tool in self._inner.tools() if self._passes(tool))

    async def stop(self) -> None:
        """Stop the toolset inside."""
        await self._inner.stop()

    def _passes(self, tool: Tool) -> bool:
        return (not self._names or tool.name in self._names) and (tool.read_only or not self._readonly)


def filtered(
    inner: Toolset, *, tools: tuple[str, ...] = (), readonly: bool = False, instruction: str = ""
) -> FilteredToolset:
    """Show a part of any toolset.

    Args:
        inner: the toolset; its life is shared.
        tools: names to keep; empty keeps all.
        readonly: whether only tools with the read-only hint are kept.
        instruction: replaces the toolset's own text, which stands for `{ORIGINAL_INSTRUCTIONS}` in it; "" keeps it.
    """
    return FilteredToolset(inner, tuple(tools), readonly, instruction)


def collect(toolsets: Iterable[Toolset]) -> dict[str, Tool]:
    """Join started toolsets by name; with equal names the first one wins. Their results are bounded."""
    joined: dict[str, Tool] = {}
    for toolset in toolsets:
        for tool in toolset.tools():
            joined.setdefault(tool.name, _bounded(tool))
    return joined


def _bounded(tool: Tool) -> Tool:
    async def run(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        result = await tool.run(arguments, context)
        return replace(result, text=bound(result.text))

    return replace(tool, run=run)


def bound(text: str, limit: int = RESULT_BYTES, *, keep: Literal["head", "tail"] = "head") -> str:
    """Cut a text to a number of UTF-8 bytes, with a notice where it was cut; no character is cut in two.

    Args:
        text: the whole text.
        limit: the most bytes the returned text has, notice included.
        keep: which end stays.
    """
    # A surrogate cannot be encoded for the model either; it becomes a question mark here at the latest.
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return text if text.isascii() else data.decode()
    notice = f"[cut: {len(data)} bytes, more than the {limit} a result may have]"
    room = max(0, limit - len(notice.encode()) - 1)
    if keep == "head":
        return data[:room].decode("utf-8", "ignore") + "\n" + notice
    return notice + "\n" + data[len(data) - room :].decode("utf-8", "ignore")
