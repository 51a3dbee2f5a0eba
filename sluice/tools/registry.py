"""From configuration to tools: building toolsets, filtering them and joining them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module

from sluice.agent.ports import Tool, Toolset
from sluice.tools.setup import ToolsetConfigLike, ToolsetSetup, UnknownToolset

__all__ = ["PLACEHOLDER", "TYPES", "FilteredToolset", "build", "collect", "filtered"]

PLACEHOLDER = "{ORIGINAL_INSTRUCTIONS}"
"""Where a configured instruction wants the toolset's own text."""

TYPES = (
    "filesystem",
    "shell",
    "think",
    "todo",
    "background_jobs",
    "background_agents",
    "environment",
    "git",
    "user_prompt",
    "memory",
    "fetch",
    "api",
    "openapi",
    "script",
)
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
        tools=config.tools,
        readonly=config.readonly,
        instruction=config.instruction,
        defer=config.defer,
    )


class FilteredToolset:
    """A toolset of which only a part is shown; its life is that of the toolset inside.

    Attributes:
        defers: whether tools are hidden until they are added.
    """

    def __init__(
        self,
        inner: Toolset,
        tools: tuple[str, ...] | None,
        readonly: bool,
        instruction: str | None,
        defer: bool | tuple[str, ...] = False,
    ) -> None:
        self.defers = bool(defer)
        self._defer = defer
        self._added: set[str] = set()
        self._inner = inner
        self._names = None if tools is None else frozenset(tools)
        self._readonly = readonly
        self._instruction = instruction

    @property
    def inner(self) -> Toolset:
        """The toolset inside."""
        return self._inner

    @property
    def instruction(self) -> str:
        """The configured instruction, with the toolset's own in place of the placeholder; else the own one."""
        if self._instruction is None:
            return self._inner.instruction
        return self._instruction.replace(PLACEHOLDER, self._inner.instruction)

    async def start(self) -> None:
        """Start the toolset inside."""
        await self._inner.start()

    def tools(self) -> Sequence[Tool]:
        """The tools that pass the filters and are not hidden, in their order."""
        return tuple(tool for tool in self._inner.tools() if self._passes(tool) and not self._hidden(tool))

    def waiting(self) -> Sequence[Tool]:
        """The tools that pass the filters and are hidden, in their order."""
        return tuple(tool for tool in self._inner.tools() if self._passes(tool) and self._hidden(tool))

    def add(self, name: str) -> None:
        """Hide a tool no longer."""
        self._added.add(name)

    async def stop(self) -> None:
        """Stop the toolset inside."""
        await self._inner.stop()

    def _hidden(self, tool: Tool) -> bool:
        deferred = self._defer if isinstance(self._defer, bool) else tool.name in self._defer
        return deferred and tool.name not in self._added

    def _passes(self, tool: Tool) -> bool:
        return (self._names is None or tool.name in self._names) and (tool.read_only or not self._readonly)


def filtered(
    inner: Toolset,
    *,
    tools: tuple[str, ...] | None = None,
    readonly: bool = False,
    instruction: str | None = None,
    defer: bool | tuple[str, ...] = False,
) -> FilteredToolset:
    """Show a part of any toolset.

    Args:
        inner: the toolset; its life is shared.
        tools: names to keep; None keeps all.
        readonly: whether only tools with the read-only hint are kept.
        instruction: replaces the toolset's own text, which stands for `{ORIGINAL_INSTRUCTIONS}` in it; None keeps it.
        defer: whether all tools, or which of them, are hidden until they are added.
    """
    return FilteredToolset(inner, tools, readonly, instruction, defer)


def collect(toolsets: Iterable[Toolset]) -> dict[str, Tool]:
    """Join started toolsets by name; with equal names the first one wins."""
    joined: dict[str, Tool] = {}
    for toolset in toolsets:
        for tool in toolset.tools():
            joined.setdefault(tool.name, tool)
    return joined
