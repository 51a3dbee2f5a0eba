"""What the tool tests share: a setup on a temporary directory, and calling a tool by name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sluice.agent.ports import Files, ToolContext, ToolResult, Toolset
from sluice.tools import ToolsetSetup, build, collect


@dataclass(frozen=True)
class Config:
    type: str
    tools: tuple[str, ...] | None = None
    readonly: bool = False
    instruction: str | None = None
    defer: bool | tuple[str, ...] = False
    name: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


def setup(cwd: Path, files: Files | None = None, **more: Any) -> ToolsetSetup:
    return ToolsetSetup(cwd=str(cwd), env=dict(os.environ), config_dir=cwd, files=files, **more)


def make(kind: str, cwd: Path, **options: Any) -> Toolset:
    return build(Config(kind, options=options), setup=setup(cwd))


def context(cwd: Path) -> ToolContext:
    return ToolContext("session", "call", str(cwd))


async def call(toolset: Toolset, cwd: Path, name: str, /, **arguments: Any) -> ToolResult:
    return await collect([toolset])[name].run(arguments, context(cwd))
