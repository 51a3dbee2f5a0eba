"""Building, filtering, joining and bounding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sluice.agent.ports import Tool, ToolContext, ToolResult, ToolSpec
from sluice.config.schema import ApiConfig
from sluice.tools import UnknownToolset, build, collect, filtered
from sluice.tools.registry import TYPES
from tests.tools.support import Config, context, setup


class Fixed:
    """A toolset with given tools."""

    instruction = "own text"

    def __init__(self, *tools: Tool) -> None:
        self._tools = tools
        self.life: list[str] = []

    async def start(self) -> None:
        self.life.append("start")

    def tools(self) -> tuple[Tool, ...]:
        return self._tools

    async def stop(self) -> None:
        self.life.append("stop")


def tool(name: str, text: str = "", *, read_only: bool = False) -> Tool:
    async def run(arguments: object, context: ToolContext) -> ToolResult:
        return ToolResult(text)

    return Tool(ToolSpec(name, "", {"type": "object"}), run, read_only=read_only)


NEEDED: dict[str, dict[str, Any]] = {
    "api": {"api_config": ApiConfig(name="n", endpoint="https://x/")},
    "memory": {"path": "m"},
    "openapi": {"url": "https://api.example.org/openapi.json"},
    "script": {"shell": {"a": {"cmd": "true"}}},
}
"""The options that a type cannot do without."""


def test_every_type_can_be_built(tmp_path: Path) -> None:
    session = setup(tmp_path, sub_agents={"helper": "helps"}, background_agents=True)
    for kind in TYPES:
        toolset = build(Config(kind, options=NEEDED.get(kind, {})), setup=session)
        assert toolset.tools() or kind == "openapi"  # whose tools come with its start
        assert toolset.instruction


def test_an_unknown_type_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UnknownToolset, match=r"'shel'.*shell"):
        build(Config("shel"), setup=setup(tmp_path))


@pytest.mark.requirement("tools.registry.filter")
def test_filters_work_on_any_toolset() -> None:
    inner = Fixed(tool("a", read_only=True), tool("b"), tool("c", read_only=True))
    assert [item.name for item in filtered(inner).tools()] == ["a", "b", "c"]
    assert [item.name for item in filtered(inner, tools=("b", "a", "x")).tools()] == ["a", "b"]
    assert filtered(inner, tools=()).tools() == ()
    assert [item.name for item in filtered(inner, readonly=True).tools()] == ["a", "c"]
    assert [item.name for item in filtered(inner, tools=("a", "b"), readonly=True).tools()] == ["a"]


@pytest.mark.anyio
async def test_a_filtered_toolset_shares_the_life_of_the_one_inside() -> None:
    inner = Fixed()
    await filtered(inner).start()
    await filtered(inner).stop()
    assert inner.life == ["start", "stop"]


@pytest.mark.requirement("tools.registry.instruction")
def test_an_instruction_replaces_or_wraps_the_built_in_one(tmp_path: Path) -> None:
    assert filtered(Fixed(), instruction="mine").instruction == "mine"
    assert filtered(Fixed(), instruction="a {ORIGINAL_INSTRUCTIONS} b").instruction == "a own text b"
    assert filtered(Fixed()).instruction == "own text"
    assert filtered(Fixed(), instruction="").instruction == ""
    assert build(Config("think", instruction="mine"), setup=setup(tmp_path)).instruction == "mine"


@pytest.mark.anyio
@pytest.mark.requirement("tools.registry.first-wins")
async def test_with_equal_names_the_first_toolset_wins(tmp_path: Path) -> None:
    joined = collect([Fixed(tool("a", "first"), tool("b")), Fixed(tool("c"), tool("a", "second"))])
    assert list(joined) == ["a", "b", "c"]
    assert (await joined["a"].run({}, context(tmp_path))).text == "first"
