"""The text tools on the client's files, over the wire; directories and searches stay on the host."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.editor import FS, Editor
from tests.support.model_server import Scripted, call, calls, text
from tests.support.setup import Stage, on_stage

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

FREE = {"safety": "autonomous"}
"""An agent that asks nobody, for tests about files."""


@asynccontextmanager
async def edited(
    directory: Path, *replies: Scripted, texts: dict[str, str] | None = None, **agent: Any
) -> AsyncIterator[tuple[Stage, Editor]]:
    """A stage whose client is an editor with buffers; paths are relative to the session's directory."""
    async with on_stage(directory, *replies, text("done"), agent={**FREE, **agent}, fs=FS) as stage:
        yield stage, Editor(stage.client, {str(stage.cwd / name): body for name, body in (texts or {}).items()})


def results(stage: Stage, request: int = 1) -> list[str]:
    return [m["content"] for m in stage.model.requests[request].messages if m["role"] == "tool"]


def last(stage: Stage) -> list[Json]:
    """The last update of each tool call, in order of the calls."""
    found = {u["toolCallId"]: u for u in stage.client.updates() if "toolCallId" in u}
    return list(found.values())


def blocks(update: Json, kind: str) -> list[Json]:
    return [block for block in update.get("content") or [] if block["type"] == kind]


@pytest.mark.requirement(
    "client-fs.read.client-text", "client-fs.request.shape", "client-fs.host.search-and-directories"
)
async def test_reading_gives_the_unsaved_text_and_searching_the_saved_one(tmp_path: Path) -> None:
    batch = calls(
        call("read_file", path="a.txt"),
        call("read_file", path="a.txt", line=2, limit=1),
        call("read_file", path="empty.txt"),
        call("search_files_content", path=".", query="unsaved"),
        call("list_directory", path="."),
    )
    texts = {"a.txt": "unsaved\ntwo\nthree\n", "empty.txt": ""}
    async with edited(tmp_path, batch, texts=texts) as (stage, editor):
        (stage.cwd / "a.txt").write_text("saved")
        assert (await stage.client.prompt(stage.session, "go"))["result"] == {"stopReason": "end_turn"}
        whole, part, empty, found, listed = results(stage)
        assert (whole, part, found) == ("unsaved\ntwo\nthree\n", "two\n", "No matches.\n")
        assert "empty" in empty and "error" not in empty
        assert listed == "FILE a.txt"
        path = str(stage.cwd / "a.txt")
        asked = {json.dumps(params, sort_keys=True) for _, params in editor.asked}
        assert asked == {
            json.dumps(params, sort_keys=True)
            for params in (
                {"sessionId": stage.session, "path": path},
                {"sessionId": stage.session, "path": path, "line": 2, "limit": 1},
                {"sessionId": stage.session, "path": str(stage.cwd / "empty.txt")},
            )
        }


@pytest.mark.requirement("client-fs.request.any-error-is-tool-error", "client-fs.fallback.never")
@pytest.mark.parametrize(
    "answer",
    [
        {"error": {"code": -32002, "message": "gone"}},
        {"error": {"code": -32603, "message": "broken"}},
        {"error": {"code": -32601, "message": "what?"}},
        {"error": {"code": 12345, "message": "odd"}},
        {"result": None},
        {"result": {}},
        {"result": {"content": 3}},
        {"result": {"content": None}},
        {"result": "text"},
    ],
    ids=str,
)
async def test_whatever_the_client_answers_besides_a_text_is_a_tool_error_and_nothing_is_read_from_the_disk(
    tmp_path: Path, answer: Json
) -> None:
    batch = calls(
        call("read_file", path="a"), call("edit_file", path="a", edits=[{"oldText": "disk", "newText": "x"}])
    )
    async with edited(tmp_path, batch) as (stage, editor):
        (stage.cwd / "a").write_text("disk")
        editor.errors[str(stage.cwd / "a")] = answer
        assert (await stage.client.prompt(stage.session, "go"))["result"] == {"stopReason": "end_turn"}
        assert [u["status"] for u in last(stage)] == ["failed", "failed"]
        assert "disk" not in "".join(results(stage))
        assert editor.methods() == ["read", "read"]
        assert (stage.cwd / "a").read_text() == "disk"


@pytest.mark.requirement("client-fs.request.any-error-is-tool-error", "client-fs.fallback.never")
async def test_a_refused_write_is_a_tool_error_and_null_is_a_written_file(tmp_path: Path) -> None:
    batch = calls(call("write_file", path="no", content="x"), call("write_file", path="yes", content=""))
    async with edited(tmp_path, batch) as (stage, editor):
        editor.errors = {
            str(stage.cwd / "no"): {"error": {"code": -32603, "message": "read only"}},
            str(stage.cwd / "yes"): {"result": None},
        }
        await stage.client.prompt(stage.session, "go")
        assert [u["status"] for u in last(stage)] == ["failed", "completed"]
        assert "read only" in results(stage)[0]
        assert editor.methods() == ["write", "write"]
        assert list(stage.cwd.iterdir()) == []


@pytest.mark.requirement("client-fs.read.multiple-order", "client-fs.read.errors-per-file")
async def test_several_files_are_asked_for_in_order_with_duplicates_and_each_error_is_noted(tmp_path: Path) -> None:
    batch = calls(call("read_multiple_files", paths=["b", "none", "a", "b"], json=True))
    async with edited(tmp_path, batch, texts={"a": "A", "b": "B"}) as (stage, editor):
        await stage.client.prompt(stage.session, "go")
        assert [Path(path).name for path in editor.paths()] == ["b", "none", "a", "b"]
        assert [item.get("content") for item in json.loads(results(stage)[0])] == ["B", None, "A", "B"]
        assert "error" in json.loads(results(stage)[0])[1]
        assert last(stage)[0]["status"] == "completed"


@pytest.mark.requirement("client-fs.read.cancel-stops-further")
async def test_after_a_cancel_no_further_read_is_sent(tmp_path: Path) -> None:
    batch = calls(call("read_multiple_files", paths=["a", "b", "c"]))
    async with on_stage(tmp_path, batch, agent=FREE, fs=FS) as stage:
        client = stage.client
        prompt = await client.send("session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": "go"}])
        asked = await client.until(lambda m: m.get("method") == "fs/read_text_file")
        await client.notify("session/cancel", sessionId=stage.session)
        assert (await client.answer(prompt))["result"] == {"stopReason": "cancelled"}
        await client.respond(asked, {"content": "A"})  # too late
        await client.result("session/list")
        assert [m for m in client.log if m.get("method") == "fs/read_text_file"] == [asked]


@pytest.mark.requirement("client-fs.limits.frame")
async def test_an_answer_above_the_frame_limit_fails_that_read_only(tmp_path: Path) -> None:
    batch = calls(call("read_file", path="huge"), call("read_file", path="small"))
    async with edited(tmp_path, batch, texts={"small": "S", "huge": "x" * (11 << 20)}) as (stage, _):
        response = await stage.client.prompt(stage.session, "go")
        assert response["result"] == {"stopReason": "end_turn"}
        assert [u["status"] for u in last(stage)] == ["failed", "completed"]
        assert results(stage)[1] == "S"
        assert [m for m in stage.client.log if m.get("id", 0) is None and m["error"]["code"] == -32600]


@pytest.mark.requirement(
    "tool-locations-diffs.diff.edit-file",
    "tool-locations-diffs.diff.not-reconstructed",
    "tool-locations-diffs.diff.presentation-only",
    "tool-lifecycle.result.raw-output",
    "tool-lifecycle.result.text-and-diff-only",
)
async def test_an_edit_reads_once_writes_once_and_shows_the_two_texts(tmp_path: Path) -> None:
    before = "one\r\ntwo two\r\nthree"
    batch = calls(call("edit_file", path="a.py", edits=[{"oldText": "two", "newText": "2\nII"}]))
    async with edited(tmp_path, batch, texts={"a.py": before}) as (stage, editor):
        await stage.client.prompt(stage.session, "go")
        path, after = str(stage.cwd / "a.py"), "one\r\n2\r\nII two\r\nthree"
        assert editor.methods() == ["read", "write"]
        assert editor.texts[path] == after
        (update,) = last(stage)
        assert blocks(update, "diff") == [{"type": "diff", "path": path, "oldText": before, "newText": after}]
        (block,) = blocks(update, "content")
        assert update["rawOutput"] == {"content": block["content"]["text"]} == {"content": results(stage)[0]}
        assert "II two" not in results(stage)[0]
        store = await stage.server.connection.assembly.store()
        assert "II two" not in str(await store.items(stage.session))


@pytest.mark.requirement("tools.filesystem.edit-rules")
@pytest.mark.parametrize("edits", [[{"oldText": "", "newText": "x"}], [{"oldText": "missing", "newText": "x"}], []])
async def test_an_edit_that_does_not_fit_writes_nothing(tmp_path: Path, edits: list[Json]) -> None:
    async with edited(tmp_path, calls(call("edit_file", path="a", edits=edits)), texts={"a": "A"}) as (stage, editor):
        await stage.client.prompt(stage.session, "go")
        assert last(stage)[0]["status"] == "failed"
        assert "write" not in editor.methods()


@pytest.mark.requirement("tool-locations-diffs.diff.write-file-text-only")
async def test_writing_never_reads_first_and_never_has_a_diff(tmp_path: Path) -> None:
    async with edited(tmp_path, calls(call("write_file", path="new/a", content="A"))) as (stage, editor):
        await stage.client.prompt(stage.session, "go")
        assert editor.asked == [
            ("write", {"sessionId": stage.session, "path": str(stage.cwd / "new/a"), "content": "A"})
        ]
        assert blocks(last(stage)[0], "diff") == []
        assert list(stage.cwd.iterdir()) == []


@pytest.mark.requirement("tool-locations-diffs.diff.omitted-cases")
async def test_a_large_edit_is_made_and_has_no_diff(tmp_path: Path) -> None:
    batch = calls(call("edit_file", path="a", edits=[{"oldText": "!", "newText": "?"}]))
    async with edited(tmp_path, batch, texts={"a": "x" * (1 << 20) + "!"}) as (stage, editor):
        await stage.client.prompt(stage.session, "go")
        assert editor.texts[str(stage.cwd / "a")].endswith("x?")
        assert last(stage)[0]["status"] == "completed"
        assert blocks(last(stage)[0], "diff") == []


@pytest.mark.requirement(
    "fs-policy.post-edit.after-success-only",
    "fs-policy.post-edit.local-cwd",
    "fs-policy.post-edit.checked-target",
    "fs-policy.post-edit.failure",
    "fs-policy.post-edit.no-mirroring",
    "tool-locations-diffs.diff.omitted-cases",
)
async def test_commands_run_on_the_host_after_a_successful_write_and_their_failure_keeps_the_write(
    tmp_path: Path,
) -> None:
    edit = calls(call("edit_file", path="link.py", edits=[{"oldText": "A", "newText": "B"}]))
    write = calls(call("write_file", path="b.sh", content="x"), call("write_file", path="refused.py", content="x"))
    hooks = [
        {"path": "*.py", "cmd": 'echo "${file}" >> log'},
        {"path": "*.sh", "cmd": "echo no good; exit 3"},
    ]
    toolsets = [{"type": "filesystem", "post_edit": hooks}]
    async with edited(tmp_path, edit, write, texts={"a.py": "A"}, toolsets=toolsets) as (stage, editor):
        (stage.cwd / "a.py").write_text("disk")
        (stage.cwd / "link.py").symlink_to("a.py")
        editor.errors[str(stage.cwd / "refused.py")] = {"error": {"code": -32603, "message": "no"}}
        await stage.client.prompt(stage.session, "go")
        edited_call, failed_hook, refused = last(stage)
        assert edited_call["status"] == "completed" and blocks(edited_call, "diff") == []
        assert (stage.cwd / "log").read_text() == f"{stage.cwd / 'a.py'}\n"
        assert (stage.cwd / "a.py").read_text() == "disk"
        assert editor.texts == {str(stage.cwd / "a.py"): "B", str(stage.cwd / "b.sh"): "x"}
        assert failed_hook["status"] == refused["status"] == "failed"
        told = failed_hook["rawOutput"]["content"]
        assert "written" in told and "no good" in told and "3" in told


@pytest.mark.requirement(
    "workspace.roots.confine-client-paths",
    "workspace.roots.full-replacement",
    "fs-policy.check.symlink-and-dangling",
    "fs-policy.check.before-client-io",
)
async def test_paths_outside_of_the_present_roots_never_reach_the_client(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    inside_root = calls(call("read_file", path=str(root / "r")))
    escapes = calls(
        *(
            call("read_file", path=path)
            for path in (str(outside / "o"), "../outside/o", "out/o", "dangling", "secret")
        )
    )
    async with edited(tmp_path, escapes, text("1"), inside_root, text("2"), inside_root, text("3")) as (
        stage,
        editor,
    ):
        client = stage.client
        (stage.cwd / "out").symlink_to(outside)
        (stage.cwd / "dangling").symlink_to(stage.cwd / "nowhere")
        (stage.cwd / ".agentsignore").write_text("secret\n")
        editor.texts = {str(root / "r"): "R", str(outside / "o"): "O", str(stage.cwd / "secret"): "S"}
        await client.prompt(stage.session, "escape")
        assert editor.asked == []
        assert [u["status"] for u in last(stage)] == ["failed"] * 5
        again = {"sessionId": stage.session, "cwd": str(stage.cwd), "mcpServers": []}
        await client.result("session/resume", **again, additionalDirectories=[str(root)])
        await client.prompt(stage.session, "read the root")
        assert editor.paths() == [str(root / "r")]
        await client.result("session/resume", **again)
        await client.prompt(stage.session, "and again")
        assert editor.paths() == [str(root / "r")]


@pytest.mark.requirement("client-fs.gate.filters-apply")
@pytest.mark.parametrize(
    ("toolset", "offered"),
    [
        ({"readonly": True}, {"read_file", "read_multiple_files"}),
        ({"tools": ["read_multiple_files", "write_file"]}, {"read_multiple_files", "write_file"}),
    ],
)
async def test_filters_of_the_agent_file_reduce_what_the_client_allows(
    tmp_path: Path, toolset: Json, offered: set[str]
) -> None:
    toolsets = [{"type": "filesystem", **toolset}]
    async with edited(tmp_path, toolsets=toolsets) as (stage, _):
        for number in range(2):
            stage.model.add(text("ok"))
            await stage.client.prompt(stage.session, "hi")
            names = {name for name in stage.model.requests[number].tools if name.endswith(("_file", "_files"))}
            assert names == offered
            await stage.client.result("session/close", sessionId=stage.session)
            await stage.client.result("session/resume", sessionId=stage.session, cwd=str(stage.cwd), mcpServers=[])


@pytest.mark.requirement("client-fs.scope.not-authorization", "client-fs.gate.table")
async def test_a_client_that_offers_writing_is_still_asked_for_leave(tmp_path: Path) -> None:
    batch = calls(call("write_file", path="a", content="x"))
    async with on_stage(tmp_path, batch, text("ok"), fs=FS) as stage:
        editor = Editor(stage.client)
        prompt = await stage.client.send(
            "session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": "go"}]
        )
        await stage.client.allow("reject")
        await stage.client.answer(prompt)
        assert editor.asked == []
