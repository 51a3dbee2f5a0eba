"""What a client sees of a tool call, from its first report to its last."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.support.editor import FS, Editor
from tests.support.model_server import Call, Finish, ModelServer, Reply, ToolCalls, Wait, call, calls, text
from tests.support.setup import TOOLSETS, Stage, agent_on, on_stage
from tests.support.wire import serving

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

FREE = {"safety": "autonomous"}
END = {"stopReason": "end_turn"}


def reports(stage: Stage) -> list[Json]:
    return [u for u in stage.client.updates() if u["sessionUpdate"] in ("tool_call", "tool_call_update")]


def by_name(stage: Stage) -> dict[str, Json]:
    return {u["name"]: u for u in reports(stage) if u["sessionUpdate"] == "tool_call"}


EDIT = {"path": "a.py", "edits": [{"oldText": "one", "newText": "two"}]}

KINDS: dict[str, tuple[str, Json]] = {
    "read_file": ("read", {"path": "a.py"}),
    "read_multiple_files": ("read", {"paths": ["a.py", "~/b"]}),
    "write_file": ("edit", {"path": "b.py", "content": "x"}),
    "edit_file": ("edit", EDIT),
    "list_directory": ("read", {"path": "."}),
    "directory_tree": ("read", {"path": "."}),
    "search_files_content": ("search", {"path": ".", "query": "x"}),
    "create_directory": ("edit", {"paths": ["new"]}),
    "remove_directory": ("delete", {"paths": ["new"]}),
    "shell": ("execute", {"cmd": "echo hi"}),
    "think": ("think", {"thought": "hm"}),
    "create_todo": ("edit", {"description": "a"}),
    "list_todos": ("read", {}),
}
"""Tool -> its kind, and arguments to call it with."""


@pytest.mark.requirement(
    "tool-lifecycle.kind.one-classifier",
    "tool-lifecycle.title.always",
    "tool-locations-diffs.location.absolute",
    "message-ids.tool-name.everywhere",
)
async def test_every_built_in_tool_has_its_kind_a_title_and_absolute_places(tmp_path: Path) -> None:
    batch = calls(*(Call(name, arguments) for name, (_, arguments) in KINDS.items()))
    async with on_stage(tmp_path, batch, text("done"), agent=FREE, fs=FS) as stage:
        Editor(stage.client, {str(stage.cwd / "a.py"): "one"})
        assert (await stage.client.prompt(stage.session, "go"))["result"] == END
        first = by_name(stage)
        assert {name: u["kind"] for name, u in first.items()} == {name: kind for name, (kind, _) in KINDS.items()}
        assert all(u["title"].startswith(name) for name, u in first.items())
        assert {name: u["rawInput"] for name, u in first.items()} == {
            name: given for name, (_, given) in KINDS.items()
        }
        places = [place["path"] for u in first.values() for place in u.get("locations") or ()]
        assert places and all(Path(path).is_absolute() and "~" not in path for path in places)
        assert [place["path"] for place in first["read_multiple_files"]["locations"]] == [
            str(stage.cwd / "a.py"),
            str(Path.home() / "b"),
        ]
        assert not first["shell"].get("locations") and not first["think"].get("locations")


@pytest.mark.requirement("permission.request.enough-to-decide", "tool-lifecycle.kind.one-classifier")
async def test_a_question_has_the_kind_title_and_places_of_the_report(tmp_path: Path) -> None:
    asked_about = {
        name: given for name, (_, given) in KINDS.items() if name in ("write_file", "create_directory", "shell")
    }
    batch = calls(*(Call(name, given) for name, given in asked_about.items()))
    async with on_stage(tmp_path, batch, text("done"), fs=FS) as stage:
        prompt = await stage.client.send(
            "session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": "go"}]
        )
        for _ in asked_about:
            question = (await stage.client.allow("reject"))["params"]["toolCall"]
            report = by_name(stage)[question["name"]]
            for key in ("toolCallId", "title", "kind", "rawInput"):
                assert question[key] == report[key]
            assert (question.get("locations") or []) == report["locations"]
        await stage.client.answer(prompt)


@pytest.mark.requirement(
    "tool-lifecycle.update.replacement-lists",
    "tool-lifecycle.result.raw-output",
    "tool-lifecycle.stream.no-partial-arguments",
)
async def test_an_update_holds_whole_lists_and_leaves_out_what_has_not_changed(tmp_path: Path) -> None:
    async with on_stage(tmp_path, calls(Call("edit_file", EDIT)), text("done"), agent=FREE, fs=FS) as stage:
        path = str(stage.cwd / "a.py")
        Editor(stage.client, {path: "one"})
        await stage.client.prompt(stage.session, "go")
        first, last = reports(stage)
        assert first["status"] == "in_progress" and first["locations"] == [{"path": path}]
        assert "content" not in first or first["content"] == []
        assert set(last) == {"sessionUpdate", "toolCallId", "status", "content", "rawOutput", "name"}
        assert [block["type"] for block in last["content"]] == ["content", "diff"]
        assert last["rawOutput"] == {"content": last["content"][0]["content"]["text"]}


@pytest.mark.requirement("tool-lifecycle.stream.no-partial-arguments")
async def test_neither_arguments_nor_output_are_streamed_in_pieces(tmp_path: Path) -> None:
    gate = anyio.Event()
    slow = Reply(
        [ToolCalls([call("shell", cmd="echo one; echo two >&2; echo three")]), Wait(gate), Finish("tool_calls")]
    )
    async with on_stage(tmp_path, slow, text("done"), agent=FREE) as stage:
        client = stage.client
        prompt = await client.send("session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": "go"}])
        await stage.model.wait_for_call()
        await client.result("session/list")  # whatever was to be sent before the gate is in the log by now
        assert reports(stage) == []
        gate.set()
        assert (await client.answer(prompt))["result"] == END
        assert [u["status"] for u in reports(stage)] == ["in_progress", "completed"]
        assert reports(stage)[0]["rawInput"] == {"cmd": "echo one; echo two >&2; echo three"}
        assert reports(stage)[1]["rawOutput"] == {"content": "one\ntwo\nthree\n"}


@pytest.mark.requirement("tool-lifecycle.id.agent-aware", "tool-lifecycle.id.fresh")
async def test_equal_ids_of_two_agents_are_two_calls(tmp_path: Path) -> None:
    think = calls(Call("think", {"thought": "hm"}, "call_1"))
    second = {"model": "m", "description": "another", "instruction": "Help.", "toolsets": TOOLSETS}
    first = {**second, "commands": {"other": {"description": "go to the other", "agent": "helper"}}}
    cwd = tmp_path / "project"
    cwd.mkdir()
    async with ModelServer([think, text("1"), think, text("2")]) as model:
        file = agent_on(tmp_path, model.base_url, agents={"root": first, "helper": second})
        async with serving(file, tmp_path / "s.db") as server:
            client = server.client
            await client.initialize()
            session = await client.new(cwd)
            await client.prompt(session, "one")
            await client.prompt(session, "/other two")
            ids = [u["toolCallId"] for u in client.updates(session, "tool_call")]
            assert len(ids) == len(set(ids)) == 2
            last = {u["toolCallId"]: u["status"] for u in client.updates() if "toolCallId" in u}
            assert list(last.values()) == ["completed"] * 2
            told = [m["tool_call_id"] for m in model.requests[3].messages if m["role"] == "tool"]
            assert len(set(told)) == 2


@pytest.mark.requirement(
    "tool-lifecycle.title.always", "tool-lifecycle.status.errors", "message-ids.tool-name.omitted"
)
@pytest.mark.parametrize("name", ["x" * 10_000, "no such tool", "a\nb", " "])
async def test_a_name_that_is_no_tools_still_has_a_title_of_one_line(tmp_path: Path, name: str) -> None:
    async with on_stage(tmp_path, calls(Call(name, {})), text("done")) as stage:
        await stage.client.prompt(stage.session, "go")
        first, last = reports(stage)
        assert first["title"].strip() and len(first["title"]) <= 160 and first["title"].isprintable()
        assert first.get("name") in (None, name)
        assert (first["status"], last["status"]) == ("pending", "failed")
        assert last["content"][0]["content"]["text"] == last["rawOutput"]["content"]
