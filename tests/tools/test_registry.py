"""Building, filtering, joining and bounding."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.agent.ports import Tool, ToolContext, ToolResult, ToolSpec
from sluice.tools import UnknownToolset, bound, build, collect, filtered
from sluice.tools.registry import RESULT_BYTES, TYPES
from tests.tools.support import Config, context, make, setup


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


def test_every_type_can_be_built(tmp_path: Path) -> None:
    for kind in TYPES:
        toolset = make(kind, tmp_path)
        assert toolset.tools()
        assert toolset.instruction


def test_an_unknown_type_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UnknownToolset, match=r"'shel'.*shell"):
        build(Config("shel"), setup=setup(tmp_path))


@pytest.mark.requirement("tools.registry.filter")
def test_filters_work_on_any_toolset() -> None:
    inner = Fixed(tool("a", read_only=True), tool("b"), tool("c", read_only=True))
    assert [item.name for item in filtered(inner).tools()] == ["a", "b", "c"]
    assert [item.name for item in filtered(inner, tools=("b", "a", "x")).tools()] == ["a", "b"]
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
    assert build(Config("think", instruction="mine"), setup=setup(tmp_path)).instruction == "mine"


@pytest.mark.anyio
@pytest.mark.requirement("tools.registry.first-wins")
async def test_with_equal_names_the_first_toolset_wins(tmp_path: Path) -> None:
    joined = collect([Fixed(tool("a", "first"), tool("b")), Fixed(tool("c"), tool("a", "second"))])
    assert list(joined) == ["a", "b", "c"]
    assert (await joined["a"].run({}, context(tmp_path))).text == "first"


@pytest.mark.anyio
@pytest.mark.requirement("tools.registry.result-bound")
async def test_no_tool_says_more_than_the_bound(tmp_path: Path) -> None:
    result = await collect([Fixed(tool("a", "é" * 60_000))])["a"].run({}, context(tmp_path))
    assert len(result.text.encode()) <= RESULT_BYTES
    assert result.text.endswith(f"[cut: 120000 bytes, more than the {RESULT_BYTES} a result may have]")


@given(st.text(max_size=400), st.integers(80, 200), st.sampled_from(["head", "tail"]))
def test_a_bounded_text_fits_and_keeps_whole_characters_of_one_end(text: str, limit: int, keep: str) -> None:
    cut = bound(text, limit, keep="head" if keep == "head" else "tail")
    assert len(cut.encode()) <= limit
    if len(text.encode()) <= limit:
        assert cut == text
    else:
        lines = cut.split("[cut:")
        kept = lines[0].removesuffix("\n") if keep == "head" else cut[cut.index("]") + 2 :]
        assert text.startswith(kept) if keep == "head" else text.endswith(kept)
