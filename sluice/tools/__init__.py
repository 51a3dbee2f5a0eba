"""Built-in toolsets: what an agent can do on its host, built by type from the configuration."""

from __future__ import annotations

from sluice.tools.registry import FilteredToolset, build, collect, filtered
from sluice.tools.setup import ToolsetConfigLike, ToolsetSetup, UnknownToolset

__all__ = [
    "FilteredToolset",
    "ToolsetConfigLike",
    "ToolsetSetup",
    "UnknownToolset",
    "build",
    "collect",
    "filtered",
]
