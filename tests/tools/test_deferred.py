"""Deferred tools: searched, added, and never more than the filters let through."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.agent.ports import ToolFailure
from sluice.tools import build, collect
from sluice.tools.deferred import DeferredToolset, discoverable
from sluice.tools.registry import FilteredToolset
from tests.tools.support import Config, call, setup

pytestmark = pytest.mark.anyio


def deferring(
    cwd: Path, defer: bool | tuple[str, ...], readonly: bool = False
) -> tuple[FilteredToolset, DeferredToolset]:
    made = build(Config("filesystem", defer=defer), setup=setup(cwd))
    assert isinstance(made, FilteredToolset)
    _, added = discoverable([made], readonly)
    assert added is not None
    return made, added


@pytest.mark.requirement("tools.registry.deferred")
async def test_a_deferred_tool_is_hidden_until_it_is_added(tmp_path: Path) -> None:
    made, added = deferring(tmp_path, ("read_file", "write_file"))
    changes: list[int] = []
    added.on_change = lambda: changes.append(1)
    assert not {"read_file", "write_file"} & set(collect([made])) and "edit_file" in collect([made])
    found = (await call(added, tmp_path, "search_tool", query="FILE")).text
    assert [line.partition(":")[0] for line in found.splitlines()] == ["read_file", "write_file"]
    await call(added, tmp_path, "add_tool", name="read_file")
    assert "read_file" in collect([made]) and "write_file" not in collect([made]) and changes == [1]
    assert "read_file" not in (await call(added, tmp_path, "search_tool", query="")).text
    for name in ("read_file", "edit_file", "nothing"):
        with pytest.raises(ToolFailure, match="no tool"):
            await call(added, tmp_path, "add_tool", name=name)


@pytest.mark.requirement("tools.registry.deferred")
@pytest.mark.parametrize(
    ("query", "first"),
    [("wrtfl", "write_file"), ("directory tree", "directory_tree"), ("zzz", "No tool was found.")],
)
async def test_words_may_be_parts_of_a_name_or_its_letters_in_order(tmp_path: Path, query: str, first: str) -> None:
    _, added = deferring(tmp_path, True)
    assert (await call(added, tmp_path, "search_tool", query=query)).text.startswith(first)


@pytest.mark.requirement("tools.registry.deferred", "tools.registry.filter")
async def test_a_read_only_agent_finds_and_adds_read_only_tools_alone(tmp_path: Path) -> None:
    made, added = deferring(tmp_path, True, readonly=True)
    assert made.tools() == ()
    found = (await call(added, tmp_path, "search_tool", query="")).text
    assert "read_file:" in found and "write_file:" not in found
    with pytest.raises(ToolFailure):
        await call(added, tmp_path, "add_tool", name="write_file")


def test_where_nothing_is_deferred_nothing_is_added(tmp_path: Path) -> None:
    made = build(Config("think"), setup=setup(tmp_path))
    assert discoverable([made], False) == ([made], None)
