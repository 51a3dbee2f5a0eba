"""Listing, trees, searching, making and removing on real directories."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from sluice.agent.ports import ToolFailure
from sluice.tools import directories, tree
from tests.tools.support import call, make

pytestmark = pytest.mark.anyio


def fill(cwd: Path, **files: str) -> None:
    for name, content in files.items():
        path = cwd / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


async def search(cwd: Path, query: str, **more: object) -> str:
    arguments: dict[str, object] = {"path": ".", "query": query, **more}
    return (await call(make("filesystem", cwd), cwd, "search_files_content", **arguments)).text


# --- looking


async def test_a_listing_tells_directories_files_and_links_apart(tmp_path: Path) -> None:
    fill(tmp_path, b="", d__x="")
    (tmp_path / "l").symlink_to("nowhere")
    listing = await call(make("filesystem", tmp_path), tmp_path, "list_directory", path=".")
    assert listing.text == "FILE b\nDIR  d\nLINK l -> nowhere"


async def test_an_empty_directory_is_said_to_be_empty(tmp_path: Path) -> None:
    toolset = make("filesystem", tmp_path)
    assert "is empty" in (await call(toolset, tmp_path, "list_directory", path=".")).text
    assert "is empty" in (await call(toolset, tmp_path, "directory_tree", path=".")).text


async def test_what_cannot_be_listed_is_a_failure(tmp_path: Path) -> None:
    fill(tmp_path, f="")
    toolset = make("filesystem", tmp_path)
    for name in ("list_directory", "directory_tree"):
        for path, reason in (("none", "No such file"), ("f", "Not a directory")):
            with pytest.raises(ToolFailure, match=reason):
                await call(toolset, tmp_path, name, path=path)


async def test_a_tree_is_indented_and_leaves_out_what_is_ignored(tmp_path: Path) -> None:
    fill(
        tmp_path, a="", d__e__f="", node__x="", _dot_gitignore="node/\n", _dot_git__HEAD="", d___dot_gitignore="skip"
    )
    fill(tmp_path, d__skip="", secret="", _dot_agentsignore="secret\n")
    (tmp_path / "d/up").symlink_to("..")
    drawn = (await call(make("filesystem", tmp_path), tmp_path, "directory_tree", path=".")).text
    assert drawn.splitlines()[1:] == [
        "  .agentsignore",
        "  .gitignore",
        "  a",
        "  d/",
        "    .gitignore",
        "    e/",
        "      f",
        "    up -> ..",
    ]
    everything = await call(make("filesystem", tmp_path, ignore_vcs=False), tmp_path, "directory_tree", path=".")
    assert "node/" in everything.text
    assert ".git/" in everything.text
    assert "secret" not in everything.text


@pytest.mark.requirement("tools.filesystem.search-bounds")
async def test_a_tree_shows_at_most_a_hundred_files(tmp_path: Path) -> None:
    fill(tmp_path, **{f"f{number:03}": "" for number in range(120)})
    lines = (await call(make("filesystem", tmp_path), tmp_path, "directory_tree", path=".")).text.splitlines()
    assert len([line for line in lines if line.startswith("  f")]) == 100
    assert "cut" in lines[-1]


async def test_a_tree_of_directories_alone_ends_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "TREE_DIRECTORIES", 5)
    for number in range(9):
        (tmp_path / str(number)).mkdir()
    lines = (await call(make("filesystem", tmp_path), tmp_path, "directory_tree", path=".")).text.splitlines()
    assert len(lines) == 7


# --- searching


async def test_a_search_gives_path_line_and_text(tmp_path: Path) -> None:
    fill(tmp_path, a="one\r\nneedle here\r\n", d__b="\n\n  needle\n", c="none")
    assert await search(tmp_path, "needle") == "a:2: needle here\nd/b:3: needle\n"
    assert await search(tmp_path, "needle", path="d/b") == "b:3: needle\n"
    assert await search(tmp_path, "nothing") == "No matches.\n"


async def test_a_plain_query_is_no_pattern_and_a_pattern_is(tmp_path: Path) -> None:
    fill(tmp_path, a="x.y\nxzy\n")
    assert await search(tmp_path, "x.y") == "a:1: x.y\n"
    assert await search(tmp_path, "x.y", is_regex=True) == "a:1: x.y\na:2: xzy\n"
    with pytest.raises(ToolFailure, match="no regular expression"):
        await search(tmp_path, "(", is_regex=True)


async def test_a_search_leaves_out_what_is_excluded_ignored_or_denied(tmp_path: Path) -> None:
    fill(
        tmp_path, a_dot_py="q", a_dot_txt="q", v__b_dot_py="q", n__c_dot_py="q", _dot_gitignore="n\n", s__d_dot_py="q"
    )
    fill(tmp_path, _dot_agentsignore="s\n")
    assert await search(tmp_path, "q", excludePatterns=["*.txt", "v/"]) == "a.py:1: q\n"
    toolset = make("filesystem", tmp_path, deny_list=["v"])
    result = await call(toolset, tmp_path, "search_files_content", path=".", query="q", excludePatterns=["*.txt"])
    assert result.text == "a.py:1: q\n"
    with pytest.raises(ToolFailure, match="may not be used"):
        await call(toolset, tmp_path, "search_files_content", path="v/b.py", query="q")


@pytest.mark.requirement("tools.filesystem.search-bounds")
async def test_binaries_large_files_devices_and_links_are_not_searched(tmp_path: Path) -> None:
    fill(tmp_path, a="needle")
    (tmp_path / "bin").write_bytes(b"\0needle")
    with (tmp_path / "large").open("wb") as file:
        file.write(b"needle\n")
        file.truncate(10 * 1024 * 1024 + 1)
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("a")
    with anyio.fail_after(20):
        assert await search(tmp_path, "needle") == "a:1: needle\n"


@pytest.mark.requirement("tools.filesystem.search-bounds")
async def test_a_search_stops_after_a_hundred_files_or_too_much_output(tmp_path: Path) -> None:
    fill(tmp_path, **{f"f{number:03}": "q" for number in range(120)})
    found = await search(tmp_path, "q")
    assert len(found.splitlines()) == 101
    assert "stopped after 100 files" in found
    fill(tmp_path, f000="q" * 200 + "\n" + ("q" * 1000 + "\n") * 500)
    many = await search(tmp_path, "q", path="f000")
    assert "bytes of matches" in many
    assert len(many.encode()) < 50 * 1024


async def test_a_pattern_that_never_ends_is_given_up_and_can_be_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, a="a" * 60 + "b")
    monkeypatch.setattr(directories, "SEARCH_SECONDS", 0.3)
    with anyio.fail_after(10), pytest.raises(ToolFailure, match="longer than"):
        await search(tmp_path, "(a+)+$", is_regex=True)
    monkeypatch.setattr(directories, "SEARCH_SECONDS", 300.0)
    with anyio.fail_after(10):
        with anyio.move_on_after(0.3) as scope:
            await search(tmp_path, "(a+)+$", is_regex=True)
        assert scope.cancelled_caught


async def test_what_a_search_prints_is_text_whatever_the_file_holds(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"caf\xe9 needle\n")
    os.mkdir(os.fsencode(tmp_path) + b"/odd\xff")
    (tmp_path / os.fsdecode(b"odd\xff") / "f").write_text("needle")
    found = await search(tmp_path, "needle")
    assert "latin:1: caf\ufffd needle" in found
    found.encode()


# --- changing


@pytest.mark.requirement("tools.filesystem.remove-empty-only")
async def test_directories_are_made_with_parents_and_removed_only_when_empty(tmp_path: Path) -> None:
    toolset = make("filesystem", tmp_path)
    made = await call(toolset, tmp_path, "create_directory", paths=["a/b", "c", "a"])
    assert not made.is_error
    (tmp_path / "c/f").write_text("")
    removed = await call(toolset, tmp_path, "remove_directory", paths=["a/b", "c", "none"])
    assert removed.is_error
    assert removed.text.splitlines()[0] == "Removed a/b."
    assert "not empty" in removed.text
    assert sorted(os.listdir(tmp_path)) == ["a", "c"]
    assert (tmp_path / "c/f").exists()


async def test_changes_obey_the_lists_and_need_a_path(tmp_path: Path) -> None:
    toolset = make("filesystem", tmp_path, deny_list=["no"])
    result = await call(toolset, tmp_path, "create_directory", paths=["no/x", "yes"])
    assert result.is_error
    assert os.listdir(tmp_path) == ["yes"]
    with pytest.raises(ToolFailure, match="at least one"):
        await call(toolset, tmp_path, "remove_directory", paths=[])
