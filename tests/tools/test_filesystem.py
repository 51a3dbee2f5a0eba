"""The file tools on real files, and the same tools over a client's files."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from sluice.agent.ports import ToolContext, ToolFailure, Toolset
from sluice.tools import build, collect
from sluice.tools.textfiles import READ_BYTES
from tests.tools.support import Config, call, make, setup

pytestmark = pytest.mark.anyio

READ = {"read_file", "read_multiple_files"}
HOST = {"list_directory", "directory_tree", "search_files_content", "create_directory", "remove_directory"}


class EditorFiles:
    """A client that keeps texts in buffers."""

    def __init__(self, **texts: str) -> None:
        self.texts = {path.replace("__", "/"): text for path, text in texts.items()}
        self.asked: list[tuple[Any, ...]] = []

    async def read_text_file(self, path: str, line: int | None = None, limit: int | None = None) -> str:
        self.asked.append(("read", path, line, limit))
        await anyio.lowlevel.checkpoint()
        if path not in self.texts:
            raise ToolFailure(f"the client has no {path}")
        return self.texts[path]

    async def write_text_file(self, path: str, content: str) -> None:
        self.asked.append(("write", path))
        await anyio.lowlevel.checkpoint()
        self.texts[path] = content


def names(toolset: Toolset) -> set[str]:
    return {tool.name for tool in toolset.tools()}


async def edit(cwd: Path, path: str, *pairs: tuple[str, str], toolset: Toolset | None = None) -> Any:
    edits = [{"oldText": old, "newText": new} for old, new in pairs]
    return await call(toolset or make("filesystem", cwd), cwd, "edit_file", path=path, edits=edits)


# --- the set of tools


@pytest.mark.requirement("tools.filesystem.full-set")
def test_there_are_nine_tools_with_their_parameters_and_hints(tmp_path: Path) -> None:
    found = {
        tool.name: (tool.read_only, set(tool.spec.parameters["properties"]), set(tool.spec.parameters["required"]))
        for tool in make("filesystem", tmp_path).tools()
    }
    assert found == {
        "read_file": (True, {"path", "line", "limit"}, {"path"}),
        "read_multiple_files": (True, {"paths", "json"}, {"paths"}),
        "write_file": (False, {"path", "content"}, {"path", "content"}),
        "edit_file": (False, {"path", "edits"}, {"path", "edits"}),
        "list_directory": (True, {"path"}, {"path"}),
        "directory_tree": (True, {"path"}, {"path"}),
        "search_files_content": (True, {"path", "query", "is_regex", "excludePatterns"}, {"path", "query"}),
        "create_directory": (False, {"paths"}, {"paths"}),
        "remove_directory": (False, {"paths"}, {"paths"}),
    }


@pytest.mark.requirement("client-fs.gate.table")
@pytest.mark.parametrize(
    ("can_read", "can_write", "expected"),
    [
        (False, False, set()),
        (True, False, READ),
        (False, True, {"write_file"}),
        (True, True, READ | {"write_file", "edit_file"}),
    ],
)
def test_the_capabilities_decide_which_file_tools_are_offered(
    tmp_path: Path, can_read: bool, can_write: bool, expected: set[str]
) -> None:
    toolset = build(
        Config("filesystem"), setup=setup(tmp_path, EditorFiles(), can_read=can_read, can_write=can_write)
    )
    assert names(toolset) == expected | HOST


@pytest.mark.requirement("client-fs.gate.filters-apply")
def test_filters_reduce_what_the_capabilities_allow(tmp_path: Path) -> None:
    wanted = Config("filesystem", tools=("read_multiple_files", "write_file"))
    assert names(build(wanted, setup=setup(tmp_path, EditorFiles()))) == {"read_multiple_files", "write_file"}
    read_only = build(Config("filesystem", readonly=True), setup=setup(tmp_path, EditorFiles()))
    assert names(read_only) == READ | {"list_directory", "directory_tree", "search_files_content"}


@pytest.mark.requirement("client-fs.read.text-only")
def test_descriptions_promise_no_images(tmp_path: Path) -> None:
    for tool in make("filesystem", tmp_path).tools():
        assert "image" not in tool.spec.description.lower()


# --- reading


@pytest.mark.requirement("tools.filesystem.native-without-acp")
async def test_a_file_is_read_relative_to_the_session_directory_and_by_lines(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\nfour")
    toolset = make("filesystem", tmp_path)
    assert (await call(toolset, tmp_path, "read_file", path="a.txt")).text == "one\ntwo\nthree\nfour"
    assert (await call(toolset, tmp_path, "read_file", path="./x/../a.txt", line=2, limit=2)).text == "two\nthree\n"
    assert (await call(toolset, tmp_path, "read_file", path=str(tmp_path / "a.txt"), line=4)).text == "four"
    with pytest.raises(ToolFailure, match="fewer than 5 lines"):
        await call(toolset, tmp_path, "read_file", path="a.txt", line=5)


async def test_a_tilde_is_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a.txt").write_text("home")
    assert (await call(make("filesystem", Path("/")), Path("/"), "read_file", path="~/a.txt")).text == "home"


@pytest.mark.parametrize("bad", [0, -1, True, 1.5, "2"])
async def test_a_line_is_a_whole_number_from_one(tmp_path: Path, bad: object) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    with pytest.raises(ToolFailure, match="'line'"):
        await call(make("filesystem", tmp_path), tmp_path, "read_file", path="a.txt", line=bad)


async def test_what_is_no_text_file_is_a_failure_and_nothing_waits(tmp_path: Path) -> None:
    (tmp_path / "bin").write_bytes(b"ab\0cd")
    os.mkfifo(tmp_path / "fifo")
    toolset = make("filesystem", tmp_path)
    with anyio.fail_after(5):
        for path, reason in (("bin", "binary"), ("fifo", "no regular"), (".", "directory"), ("none", "No such file")):
            with pytest.raises(ToolFailure, match=reason):
                await call(toolset, tmp_path, "read_file", path=path)


async def test_bytes_that_are_no_utf8_and_a_byte_order_mark_do_not_stop_reading(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"caf\xe9\n")
    (tmp_path / "bom").write_bytes(b"\xef\xbb\xbfhi")
    (tmp_path / "empty").write_bytes(b"")
    toolset = make("filesystem", tmp_path)
    assert (await call(toolset, tmp_path, "read_file", path="latin")).text == "caf\ufffd\n"
    assert (await call(toolset, tmp_path, "read_file", path="bom")).text == "hi"
    assert "empty" in (await call(toolset, tmp_path, "read_file", path="empty")).text


async def test_a_huge_file_of_one_line_is_read_in_part(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(0)
        file.write(b"x" * 2_000_000)
    result = await call(make("filesystem", tmp_path), tmp_path, "read_file", path="huge")
    assert len(result.text) <= 2 * READ_BYTES


async def test_several_files_keep_order_and_duplicates_and_note_errors_each(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("A")
    (tmp_path / "b").write_text("B")
    toolset = make("filesystem", tmp_path)
    result = await call(toolset, tmp_path, "read_multiple_files", paths=["b", "none", "a", "b"], json=True)
    found = json.loads(result.text)
    assert [item["path"] for item in found] == ["b", "none", "a", "b"]
    assert [item.get("content") for item in found] == ["B", None, "A", "B"]
    assert "No such file" in found[1]["error"]
    assert not result.is_error
    plain = await call(toolset, tmp_path, "read_multiple_files", paths=["a", "none"])
    assert "=== a ===\nA" in plain.text
    assert (await call(toolset, tmp_path, "read_multiple_files", paths=["none"])).is_error


async def test_files_beyond_the_bound_of_a_result_are_not_read(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / str(number)).write_text("x" * READ_BYTES)
    result = await call(
        make("filesystem", tmp_path), tmp_path, "read_multiple_files", paths=["0", "1", "2", "3"], json=True
    )
    assert ["content" in item for item in json.loads(result.text)] == [True, True, False, False]


@pytest.mark.requirement("client-fs.read.multiple-order")
async def test_a_client_is_asked_for_every_file_even_when_the_result_is_full(tmp_path: Path) -> None:
    files = EditorFiles()
    paths = [str(tmp_path / str(number)) for number in range(4)]
    files.texts = dict.fromkeys(paths, "x" * READ_BYTES)
    toolset = build(Config("filesystem"), setup=setup(tmp_path, files))
    result = await call(toolset, tmp_path, "read_multiple_files", paths=paths, json=True)
    assert [path for _, path, *_ in files.asked] == paths
    assert ["content" in item for item in json.loads(result.text)] == [True, True, False, False]


# --- writing


@pytest.mark.requirement("tool-locations-diffs.diff.write-file-text-only")
async def test_writing_makes_parents_replaces_whole_files_and_has_no_diff(tmp_path: Path) -> None:
    toolset = make("filesystem", tmp_path)
    result = await call(toolset, tmp_path, "write_file", path="x/y/z.txt", content="é\r\n")
    assert (tmp_path / "x/y/z.txt").read_bytes() == "é\r\n".encode()
    assert result.diff is None
    assert "4 bytes" in result.text
    await call(toolset, tmp_path, "write_file", path="x/y/z.txt", content="")
    assert (tmp_path / "x/y/z.txt").read_bytes() == b""
    assert os.listdir(tmp_path / "x/y") == ["z.txt"]


async def test_writing_keeps_the_mode_and_new_files_follow_the_umask(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text("old")
    script.chmod(0o754)
    toolset = make("filesystem", tmp_path)
    await call(toolset, tmp_path, "write_file", path="run.sh", content="new")
    assert stat.S_IMODE(script.stat().st_mode) == 0o754
    mask = os.umask(0)
    os.umask(mask)
    await call(toolset, tmp_path, "write_file", path="new.txt", content="new")
    assert stat.S_IMODE((tmp_path / "new.txt").stat().st_mode) == 0o666 & ~mask


async def test_writing_through_a_link_keeps_the_link(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    await call(make("filesystem", tmp_path), tmp_path, "write_file", path="link", content="new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"


async def test_directories_and_devices_are_not_overwritten(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    toolset = make("filesystem", tmp_path)
    for path in (".", "fifo", "fifo/below"):
        with pytest.raises(ToolFailure):
            await call(toolset, tmp_path, "write_file", path=path, content="x")
    assert stat.S_ISFIFO((tmp_path / "fifo").stat().st_mode)


async def test_half_a_surrogate_pair_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ToolFailure, match="surrogate"):
        await call(make("filesystem", tmp_path), tmp_path, "write_file", path="a", content="\ud800")
    assert os.listdir(tmp_path) == []


# --- editing


@pytest.mark.requirement("tools.filesystem.edit-rules", "tool-locations-diffs.diff.not-reconstructed")
async def test_an_edit_replaces_the_first_occurrence_and_shows_both_whole_texts(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\ny\nx\n")
    result = await edit(tmp_path, "a.txt", ("x", "z"), ("y", "w"))
    assert (tmp_path / "a.txt").read_text() == "z\nw\nx\n"
    assert result.diff is not None
    assert (result.diff.path, result.diff.old, result.diff.new) == (str(tmp_path / "a.txt"), "x\ny\nx\n", "z\nw\nx\n")


@pytest.mark.requirement("tools.filesystem.edit-rules")
@pytest.mark.parametrize(("pair", "reason"), [(("", "b"), "oldText"), (("gone", "b"), "not found")])
async def test_a_bad_edit_changes_nothing_even_after_a_good_one(
    tmp_path: Path, pair: tuple[str, str], reason: str
) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    with pytest.raises(ToolFailure, match=reason):
        await edit(tmp_path, "a.txt", ("a", "changed"), pair)
    assert (tmp_path / "a.txt").read_text() == "a\n"


@pytest.mark.requirement("tool-locations-diffs.diff.omitted-cases")
async def test_bytes_that_are_no_utf8_survive_an_edit_which_then_has_no_diff(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"\xff\xfe caf\xe9 one\r\ntwo\r\nend")
    result = await edit(tmp_path, "latin", ("one\ntwo", "1\n2"))
    assert (tmp_path / "latin").read_bytes() == b"\xff\xfe caf\xe9 1\r\n2\r\nend"
    assert result.diff is None


@pytest.mark.requirement("tool-locations-diffs.diff.omitted-cases")
async def test_texts_of_more_than_a_mebibyte_have_no_diff(tmp_path: Path) -> None:
    (tmp_path / "big").write_text("a" + "x" * 600_000)
    assert (await edit(tmp_path, "big", ("a", "b"))).diff is None
    assert (tmp_path / "big").read_text()[0] == "b"


@pytest.mark.requirement("tools.filesystem.edit-rules")
async def test_edits_of_one_file_at_the_same_time_all_count(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"<{number}>" for number in range(20)))
    toolset = make("filesystem", tmp_path)
    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(partial(edit, tmp_path, "a.txt", (f"<{number}>", f"[{number}]"), toolset=toolset))
    assert (tmp_path / "a.txt").read_text() == "".join(f"[{number}]" for number in range(20))


# --- the client's files


@pytest.mark.requirement(
    "client-fs.read.client-text", "client-fs.fallback.never", "tool-locations-diffs.diff.edit-file"
)
async def test_client_files_are_read_edited_and_written_without_touching_the_disk(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("on disk")
    path = str(tmp_path / "a.txt")
    files = EditorFiles()
    files.texts = {path: "buffer\r\n"}
    toolset = build(Config("filesystem"), setup=setup(tmp_path, files))
    assert (await call(toolset, tmp_path, "read_file", path="a.txt", line=1, limit=5)).text == "buffer\r\n"
    result = await edit(tmp_path, "a.txt", ("buffer\n", "b\nc\n"), toolset=toolset)
    assert files.texts[path] == "b\r\nc\r\n"
    assert result.diff is not None and (result.diff.old, result.diff.new) == ("buffer\r\n", "b\r\nc\r\n")
    assert files.asked == [("read", path, 1, 5), ("read", path, None, None), ("write", path)]
    with pytest.raises(ToolFailure, match="the client has no"):
        await call(toolset, tmp_path, "read_file", path="b.txt")
    assert (tmp_path / "a.txt").read_text() == "on disk"


@pytest.mark.requirement("tool-locations-diffs.diff.write-file-text-only")
async def test_writing_to_the_client_reads_nothing_first(tmp_path: Path) -> None:
    files = EditorFiles()
    toolset = build(Config("filesystem"), setup=setup(tmp_path, files))
    result = await call(toolset, tmp_path, "write_file", path="new.txt", content="")
    assert files.asked == [("write", str(tmp_path / "new.txt"))]
    assert result.diff is None
    assert os.listdir(tmp_path) == []


@pytest.mark.requirement("fs-policy.check.before-client-io")
async def test_the_lists_are_enforced_before_the_client_is_asked(tmp_path: Path) -> None:
    (tmp_path / ".agentsignore").write_text("*.env\n")
    files = EditorFiles()
    config = Config("filesystem", options={"allow_list": ["."], "deny_list": ["secret"]})
    toolset = build(config, setup=setup(tmp_path, files))
    for path in ("/etc/hostname", "secret/a", "prod.env"):
        for name, more in (
            ("read_file", {}),
            ("write_file", {"content": "x"}),
            ("edit_file", {"edits": [{"oldText": "a", "newText": "b"}]}),
        ):
            with pytest.raises(ToolFailure, match="may not be"):
                await call(toolset, tmp_path, name, path=path, **more)
        assert (await call(toolset, tmp_path, "read_multiple_files", paths=[path])).is_error
    assert files.asked == []


@pytest.mark.requirement("client-fs.read.multiple-order", "client-fs.read.errors-per-file")
async def test_several_files_are_asked_for_once_each_in_order(tmp_path: Path) -> None:
    (tmp_path / ".agentsignore").write_text("no\n")
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    files = EditorFiles()
    files.texts = {a: "A"}
    toolset = build(Config("filesystem"), setup=setup(tmp_path, files))
    result = await call(toolset, tmp_path, "read_multiple_files", paths=["a", "b", "no", "a"], json=True)
    assert [path for _, path, *_ in files.asked] == [a, b, a]
    assert [item.get("content") for item in json.loads(result.text)] == ["A", None, None, "A"]


@pytest.mark.requirement("tool-locations-diffs.diff.omitted-cases")
async def test_an_edit_whose_target_moves_between_read_and_write_shows_no_diff(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("")
    (tmp_path / "two").write_text("")
    link = tmp_path / "link"
    link.symlink_to("one")

    class Turning(EditorFiles):
        async def read_text_file(self, path: str, line: int | None = None, limit: int | None = None) -> str:
            link.unlink()
            link.symlink_to("two")
            return "text"

    files = Turning()
    toolset = build(Config("filesystem"), setup=setup(tmp_path, files))
    result = await edit(tmp_path, "link", ("text", "new"), toolset=toolset)
    assert result.diff is None
    assert files.texts == {str(tmp_path / "two"): "new"}


@pytest.mark.requirement("workspace.roots.confine-client-paths", "fs-policy.check.symlink-and-dangling")
async def test_client_files_outside_of_the_session_directories_are_refused_before_the_client_is_asked(
    tmp_path: Path,
) -> None:
    work, root, outside = tmp_path / "work", tmp_path / "root", tmp_path / "outside"
    for directory in (work, root, outside):
        directory.mkdir()
    (work / "out").symlink_to(outside)
    (work / "gone").symlink_to(outside / "nothing")
    (work / "in").symlink_to(root)
    files = EditorFiles()
    files.texts = {str(root / "a"): "A"}
    tools = collect([build(Config("filesystem"), setup=setup(work, files))])
    where = ToolContext("session", "call", str(work), (str(root),))
    for path in ("../outside/a", "out/a", str(outside / "a"), "gone", "sub/../../outside/a", "/etc/hostname"):
        for name, more in (
            ("read_file", {}),
            ("write_file", {"content": "x"}),
            ("edit_file", {"edits": [{"oldText": "a", "newText": "b"}]}),
        ):
            with pytest.raises(ToolFailure):
                await tools[name].run({"path": path, **more}, where)
        assert (await tools["read_multiple_files"].run({"paths": [path]}, where)).is_error
    assert files.asked == []
    assert (await tools["read_file"].run({"path": "in/a"}, where)).text == "A"
    with pytest.raises(ToolFailure, match="outside"):
        await tools["read_file"].run({"path": "in/a"}, replace(where, roots=()))


@pytest.mark.requirement("workspace.match.aliases-accepted")
async def test_a_client_is_asked_under_the_name_it_gave_its_workspace(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    alias = tmp_path / "alias"
    alias.symlink_to("real")
    files = EditorFiles()
    files.texts = {str(alias / "a"): "A"}
    toolset = build(Config("filesystem"), setup=setup(alias, files))
    result = await edit(alias, "a", ("A", "B"), toolset=toolset)
    assert files.texts == {str(alias / "a"): "B"}
    assert result.diff.path == str(alias / "a")


@pytest.mark.requirement("fs-policy.check.roots-in-addition")
async def test_the_ignore_file_of_a_root_counts_while_the_root_does(tmp_path: Path) -> None:
    work, root = tmp_path / "work", tmp_path / "root"
    work.mkdir()
    root.mkdir()
    (root / ".agentsignore").write_text("secret\n")
    (root / "secret").write_text("s")
    tools = collect([build(Config("filesystem"), setup=setup(work))])
    where = ToolContext("session", "call", str(work), (str(root),))
    with pytest.raises(ToolFailure, match="agentsignore"):
        await tools["read_file"].run({"path": str(root / "secret")}, where)
    assert "secret" not in (await tools["list_directory"].run({"path": str(root)}, where)).text
    assert (await tools["read_file"].run({"path": str(root / "secret")}, replace(where, roots=()))).text == "s"
