"""The memory tools on a real file."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from sluice.agent.ports import ToolFailure, Toolset
from sluice.tools import build, memory
from tests.tools.support import Config, call, make, setup

pytestmark = pytest.mark.anyio


async def add(toolset: Toolset, cwd: Path, said: str, **more: str) -> str:
    """Add a note and return its id."""
    return (await call(toolset, cwd, "add_memory", memory=said, **more)).text.split()[1].rstrip(".")


@pytest.mark.requirement("tools.memory.crud")
async def test_notes_are_added_listed_found_changed_and_removed_and_another_session_sees_them(tmp_path: Path) -> None:
    toolset = make("memory", tmp_path, path="notes/memory.json")
    assert (await call(toolset, tmp_path, "get_memories")).text == "No memories."
    assert not (tmp_path / "notes").exists()  # looking makes nothing
    tabs = await add(toolset, tmp_path, "Prefers TABS over spaces", category="Style")
    port = await add(toolset, tmp_path, "The server is on port 8000")
    other = make("memory", tmp_path, path=str(tmp_path / "notes" / "memory.json"))
    assert (await call(other, tmp_path, "get_memories")).text == (
        f"{tabs} [Style]: Prefers TABS over spaces\n{port}: The server is on port 8000"
    )
    found = f"{tabs} [Style]: Prefers TABS over spaces"
    assert (await call(other, tmp_path, "search_memories", query="spaces tabs")).text == found
    assert (await call(other, tmp_path, "search_memories", category="style")).text == found
    assert (await call(other, tmp_path, "search_memories", query="port", category="style")).text == "No memories."
    await call(other, tmp_path, "update_memory", id=tabs, memory="Prefers spaces")
    assert (
        await call(toolset, tmp_path, "search_memories", query="prefers")
    ).text == f"{tabs} [Style]: Prefers spaces"
    await call(toolset, tmp_path, "delete_memory", id=port)
    assert (await call(other, tmp_path, "get_memories")).text == f"{tabs} [Style]: Prefers spaces"


@pytest.mark.requirement("tools.memory.crud")
async def test_only_looking_is_read_only(tmp_path: Path) -> None:
    toolset = make("memory", tmp_path, path="m")
    assert [tool.name for tool in toolset.tools() if tool.read_only] == ["get_memories", "search_memories"]
    assert len(toolset.tools()) == 5


async def test_an_unknown_id_and_a_note_that_is_too_long_are_told_and_change_nothing(tmp_path: Path) -> None:
    toolset = make("memory", tmp_path, path="m")
    made = await add(toolset, tmp_path, "kept")
    for name, arguments in (
        ("update_memory", {"id": "no", "memory": "x"}),
        ("delete_memory", {"id": "no"}),
        ("add_memory", {"memory": "x" * (memory.MAX_MEMORY + 1)}),
        ("add_memory", {"memory": ""}),
        ("add_memory", {"memory": "\ud800"}),
    ):
        with pytest.raises(ToolFailure):
            await call(toolset, tmp_path, name, **arguments)
    assert (await call(toolset, tmp_path, "get_memories")).text == f"{made}: kept"


@pytest.mark.parametrize(
    "content", ["hello", "[]", '{"format": "other"}', '{"format": "sluice-memory-1", "memories": [3]}']
)
async def test_a_file_that_holds_something_else_is_an_error_and_stays_as_it_is(tmp_path: Path, content: str) -> None:
    (tmp_path / "m").write_text(content)
    toolset = make("memory", tmp_path, path="m")
    for name, arguments in (("get_memories", {}), ("add_memory", {"memory": "x"})):
        with pytest.raises(ToolFailure, match="cannot be used"):
            await call(toolset, tmp_path, name, **arguments)
    assert (tmp_path / "m").read_text() == content


async def test_a_full_memory_says_so_and_keeps_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toolset = make("memory", tmp_path, path="m")
    made = await add(toolset, tmp_path, "kept")
    monkeypatch.setattr(memory, "MAX_FILE", 500)
    with pytest.raises(ToolFailure, match="full"):
        await add(toolset, tmp_path, "x" * 600)
    assert (await call(toolset, tmp_path, "get_memories")).text == f"{made}: kept"


async def test_notes_added_at_once_are_all_kept(tmp_path: Path) -> None:
    toolsets = [make("memory", tmp_path, path="m") for _ in range(8)]
    async with anyio.create_task_group() as tasks:
        for number, toolset in enumerate(toolsets):
            tasks.start_soon(add, toolset, tmp_path, f"note {number}")
    listed = (await call(toolsets[0], tmp_path, "get_memories")).text
    assert sorted(line.partition(": ")[2] for line in listed.splitlines()) == [f"note {n}" for n in range(8)]


def test_a_memory_without_a_path_cannot_be_built(tmp_path: Path) -> None:
    with pytest.raises(ToolFailure, match="path"):
        build(Config("memory"), setup=setup(tmp_path))
