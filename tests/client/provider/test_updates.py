"""Updates of the agent as events of the chat, with the scripted agent as a real process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sluice.client.provider import (
    ChatEvent,
    CommandsChanged,
    FileChange,
    FileEdit,
    ModelChanged,
    PermissionsChanged,
    Row,
    TextDelta,
    TextDone,
    ThinkingDelta,
    ThinkingDone,
    TitleChanged,
    ToolDone,
    ToolStarted,
    TurnDone,
    UsageChanged,
)
from sluice.client.provider.rows import ROW_NAMES
from sluice.client.updates import Command, PlanEntry
from tests.client.provider.support import Host, change, chatting, said, tool, turn, update

pytestmark = pytest.mark.anyio

END = TurnDone("end_turn")


async def events_of(tmp_path: Path, *actions: Any, **spec: Any) -> list[ChatEvent]:
    """What a turn with these actions tells, its end left out."""
    host = Host()
    async with chatting(tmp_path, turn(*actions), host=host, spec=spec) as it:
        await it.chat.send("x")
        told = list(host.events)
    assert told[-1] == END
    return told[:-1]


async def rows_of(tmp_path: Path, *actions: Any) -> list[tuple[str, Row]]:
    """The row events of a turn, as (started or done, row)."""
    told = await events_of(tmp_path, *actions)
    return [
        ("started" if isinstance(event, ToolStarted) else "done", event.row)
        for event in told
        if isinstance(event, ToolStarted | ToolDone)
    ]


# --- messages


@pytest.mark.requirement("acp-provider.update.message-chunk")
async def test_a_message_is_told_in_pieces_and_closed_by_another_id_thinking_a_call_and_the_end(
    tmp_path: Path,
) -> None:
    told = await events_of(
        tmp_path,
        said("a", messageId="m1"),
        said("b", messageId="m1"),
        said("c", messageId="m2"),
        said("hm", thought=True),
        said("d"),
        said("e"),
        tool("c1"),
        said("f"),
        change("c1", status="in_progress"),
        said("g"),
    )
    spoken = [event for event in told if not isinstance(event, ToolStarted)]
    assert spoken == [
        TextDelta("a", "m1"),
        TextDelta("b", "m1"),
        TextDone("ab", "m1"),
        TextDelta("c", "m2"),
        TextDone("c", "m2"),
        ThinkingDelta("hm"),
        ThinkingDone("hm"),
        TextDelta("d"),
        TextDelta("e"),
        TextDone("de"),
        TextDelta("f"),
        TextDelta("g"),
        TextDone("fg"),
    ]
    assert told.index(TextDone("de")) + 1 == next(i for i, e in enumerate(told) if isinstance(e, ToolStarted))


@pytest.mark.requirement("acp-provider.update.message-media")
async def test_pictures_sounds_and_resources_in_messages_are_left_out(tmp_path: Path) -> None:
    blocks: list[Any] = [
        {"type": "image", "data": "AA==", "mimeType": "image/png"},
        {"type": "audio", "data": "AA==", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "file:///a", "name": "a"},
        {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}},
        {"type": "hologram", "text": "no text block"},
    ]
    media = [update("agent_message_chunk", content=block, messageId="m9") for block in blocks]
    thought = update("agent_thought_chunk", content=blocks[0])
    told = await events_of(tmp_path, said("one, ", messageId="m1"), *media, thought, said("two", messageId="m1"))
    assert told == [TextDelta("one, ", "m1"), TextDelta("two", "m1"), TextDone("one, two", "m1")]


@pytest.mark.requirement("acp-provider.update.thought-chunk")
async def test_thoughts_are_thinking_and_are_closed_as_messages_are(tmp_path: Path) -> None:
    told = await events_of(
        tmp_path,
        said("1", thought=True, messageId="t1"),
        said("2", thought=True, messageId="t1"),
        said("3", thought=True, messageId="t2"),
        said("so", messageId="m"),
        said("4", thought=True),
    )
    assert told == [
        ThinkingDelta("1", "t1"),
        ThinkingDelta("2", "t1"),
        ThinkingDone("12", "t1"),
        ThinkingDelta("3", "t2"),
        ThinkingDone("3", "t2"),
        TextDelta("so", "m"),
        TextDone("so", "m"),
        ThinkingDelta("4"),
        ThinkingDone("4"),
    ]


async def test_what_the_user_said_is_not_told_back(tmp_path: Path) -> None:
    echo = update("user_message_chunk", content={"type": "text", "text": "x"})
    assert await events_of(tmp_path, echo) == []


# --- rows


@pytest.mark.requirement("acp-provider.update.tool-events")
async def test_a_call_is_told_when_it_starts_on_each_change_and_when_it_is_done(tmp_path: Path) -> None:
    words = [{"type": "content", "content": {"type": "text", "text": "out"}}]
    rows = await rows_of(
        tmp_path,
        tool("c1", kind="execute", rawInput={"command": "ls"}),
        change("c1", status="in_progress"),
        change("c1", status="in_progress", title=None, kind=None, content=None, rawInput=None),
        change("c1"),
        change("c1", title="list"),
        change("c1", status="completed", content=words),
    )
    first = Row("c1", "Bash", "c1", "pending", {"command": "ls"})
    assert [(how, row.status, row.title, row.output) for how, row in rows] == [
        ("started", "pending", "c1", ""),
        ("started", "in_progress", "c1", ""),
        ("started", "in_progress", "list", ""),
        ("done", "completed", "list", "out"),
    ]
    assert rows[0][1] == first
    assert all(row.input == {"command": "ls"} for _, row in rows)


@pytest.mark.requirement("acp-provider.update.tool-events")
async def test_a_failed_call_is_done_and_one_that_comes_ended_is_started_and_done(tmp_path: Path) -> None:
    rows = await rows_of(tmp_path, tool("c1"), change("c1", status="failed"), tool("c2", status="completed"))
    assert [(how, row.id, row.status) for how, row in rows] == [
        ("started", "c1", "pending"),
        ("done", "c1", "failed"),
        ("started", "c2", "completed"),
        ("done", "c2", "completed"),
    ]


@pytest.mark.requirement("acp-provider.update.tool-orphan-and-reuse")
async def test_an_unannounced_call_makes_a_row_and_a_reused_id_makes_another(tmp_path: Path) -> None:
    first = [change("c9", status="in_progress"), tool("c1", rawInput=1, status="completed"), tool("open")]
    second = [tool("c1"), change("c1", status="completed"), tool("open")]
    end = {"result": {"stopReason": "end_turn"}}
    async with chatting(tmp_path, {"session/prompt": [[*first, end], [*second, end]]}) as it:
        await it.chat.send("x")
        assert [(row.id, row.title) for row in it.host.rows][:1] == [("c9", "c9")]
        old = next(row for row in it.host.rows if row.id == "c1")
        told = len(it.host.rows)
        await it.chat.send("y")
        new = it.host.rows[told:]
        assert [(row.id, row.status) for row in new] == [
            ("c1#2", "pending"),
            ("c1#2", "completed"),
            ("open#2", "pending"),
        ]
        assert (old.input, new[0].input) == (1, None)


@pytest.mark.requirement("acp-provider.update.tool-row-name")
@pytest.mark.parametrize(
    ("members", "name"),
    [
        ({"kind": "execute"}, "Bash"),
        ({"kind": "read"}, "Read"),
        ({"kind": "search"}, "Grep"),
        ({"kind": "fetch", "rawInput": {"url": "https://h/"}}, "WebFetch"),
        ({"kind": "fetch", "rawInput": {"query": "sluice gates"}}, "WebSearch"),
        ({"kind": "fetch", "rawInput": {"url": "https://h/", "query": "what is it"}}, "WebFetch"),
        ({"kind": "fetch"}, "WebFetch"),
        ({"kind": "edit"}, "Edit"),
        ({"kind": "delete"}, "Delete"),
        ({"kind": "move"}, "Move"),
        ({"kind": "think"}, "Think"),
        ({"kind": "other"}, "Tool"),
        ({"kind": "from the future"}, "Tool"),
        ({}, "Tool"),
    ],
)
async def test_the_kind_names_the_row(tmp_path: Path, members: dict[str, Any], name: str) -> None:
    (row,) = await rows_of(tmp_path, tool("c1", **members))
    assert row[1].name == name


def test_every_row_of_the_table_of_names_is_tested() -> None:
    assert set(ROW_NAMES) == {"execute", "read", "search", "fetch", "edit", "delete", "move", "think"}


def diff(path: str, old: str | None, new: str) -> dict[str, Any]:
    return {"type": "diff", "path": path, "oldText": old, "newText": new}


@pytest.mark.requirement("acp-provider.update.tool-diff")
@pytest.mark.parametrize(
    ("content", "name", "edits"),
    [
        ([diff("/a", "one\n", "two\n")], "Edit", (FileEdit("/a", "one\n", "two\n"),)),
        ([diff("/a", None, "new\n")], "Write", (FileEdit("/a", None, "new\n"),)),
        ([diff("/a", "", "new\n")], "Edit", (FileEdit("/a", "", "new\n"),)),
        (
            [diff("/a", "1", "2"), diff("/a", "3", "4")],
            "MultiEdit",
            (FileEdit("/a", "1", "2"), FileEdit("/a", "3", "4")),
        ),
        ([diff("/a", "1", "2"), diff("/b", "same", "same")], "Edit", (FileEdit("/a", "1", "2"),)),
    ],
)
async def test_one_changed_file_is_drawn_from_its_text_before_and_after(
    tmp_path: Path, content: list[Any], name: str, edits: tuple[FileEdit, ...]
) -> None:
    ((_, row),) = await rows_of(tmp_path, tool("c1", kind="other", content=content))
    assert (row.name, row.edits, row.changes) == (name, edits, ())


@pytest.mark.requirement("acp-provider.update.tool-diff")
async def test_several_changed_files_become_unified_changes(tmp_path: Path) -> None:
    content = [
        diff("/a", "1\n2\n3\n", "1\n2x\n3\n"),
        diff("/b", None, "fresh\n"),
        {"type": "diff", "path": "/c", "oldText": "x"},
        diff("/a", "7\n", "8"),
    ]
    ((_, row),) = await rows_of(tmp_path, tool("c1", kind="edit", content=content))
    assert (row.name, row.edits) == ("Edit", ())
    assert row.changes == (
        FileChange(
            "/a",
            "--- /a\n+++ /a\n@@ -1,3 +1,3 @@\n 1\n-2\n+2x\n 3\n--- /a\n+++ /a\n@@ -1 +1 @@\n-7\n+8\n",
        ),
        FileChange("/b", "--- /dev/null\n+++ /b\n@@ -0,0 +1 @@\n+fresh\n"),
    )


@pytest.mark.requirement("acp-provider.update.plan")
async def test_a_plan_is_one_row_with_the_whole_plan_replaced_each_time(tmp_path: Path) -> None:
    def plan(*steps: tuple[str, str]) -> Any:
        return update(
            "plan", entries=[{"content": words, "status": status, "priority": "high"} for words, status in steps]
        )

    rows = await rows_of(
        tmp_path,
        plan(("a", "in_progress"), ("b", "pending")),
        plan(("c", "pending")),
        plan(("c", "pending")),
        plan(("c", "completed")),
        plan(),
    )
    assert len({row.id for _, row in rows}) == 1
    assert {row.name for _, row in rows} == {"TodoWrite"}
    assert [(how, row.todos) for how, row in rows] == [
        ("started", (PlanEntry("a", "in_progress", "high"), PlanEntry("b", "pending", "high"))),
        ("started", (PlanEntry("c", "pending", "high"),)),
        ("done", (PlanEntry("c", "completed", "high"),)),
        ("done", ()),
    ]


@pytest.mark.requirement("acp-provider.client.paths")
async def test_paths_are_shown_as_the_agent_writes_them(tmp_path: Path) -> None:
    places: list[Any] = [
        {"path": "C:\\w\\a.py", "line": 3},
        {"path": "/a b%20c.py", "line": "4"},
        {"line": 1},
        {"path": "../up"},
    ]
    ((_, row),) = await rows_of(tmp_path, tool("c1", locations=places))
    assert row.locations == (("C:\\w\\a.py", 3), ("/a b%20c.py", None), ("../up", None))


# --- the session


@pytest.mark.requirement("acp-provider.update.commands")
async def test_commands_are_the_chats_slash_commands(tmp_path: Path) -> None:
    commands: list[Any] = [
        {"name": "go", "description": "Go", "input": {"hint": "where"}},
        {"description": "nameless"},
        "junk",
    ]
    told = await events_of(tmp_path, update("available_commands_update", availableCommands=commands))
    assert told == [CommandsChanged((Command("go", "Go", "where"),))]


MODES: dict[str, Any] = {"modes": {"supervised": ["ask"], "auto": ["smart", "ask"], "full-access": ["yolo"]}}


@pytest.mark.requirement("acp-provider.update.mode")
@pytest.mark.parametrize(
    ("mode_id", "events"),
    [
        ("yolo", [PermissionsChanged("full-access")]),
        ("smart", [PermissionsChanged("auto")]),
        ("ask", [PermissionsChanged("supervised")]),
        ("unheard of", []),
    ],
)
async def test_a_mode_is_told_as_the_runtime_mode_it_is_mapped_under(
    tmp_path: Path, mode_id: str, events: list[ChatEvent]
) -> None:
    assert await events_of(tmp_path, update("current_mode_update", currentModeId=mode_id), **MODES) == events


def select(category: str | None, current: Any, *values: str, option_id: str = "") -> dict[str, Any]:
    """A setting as agents send it."""
    return {
        "id": option_id or category,
        "name": "?",
        "type": "select",
        "category": category,
        "currentValue": current,
        "options": [{"value": value, "name": value.title()} for value in values],
    }


@pytest.mark.requirement("acp-provider.update.config-options")
async def test_changed_options_are_told_as_model_and_permissions(tmp_path: Path) -> None:
    options = [
        select("model", "big", "big", "small"),
        select("mode", "yolo", "ask", "yolo"),
        select("weird", "x", "x"),
    ]
    told = await events_of(tmp_path, update("config_option_update", configOptions=options), **MODES)
    assert told == [ModelChanged("big"), PermissionsChanged("full-access")]


@pytest.mark.requirement("acp-provider.update.config-options")
async def test_options_without_a_model_or_a_mapped_mode_tell_nothing(tmp_path: Path) -> None:
    options = [
        select("mode", "unheard of", "unheard of"),
        {"id": "model", "type": "boolean", "category": "model", "currentValue": True},
        select("thought_level", "high", "high"),
    ]
    assert await events_of(tmp_path, update("config_option_update", configOptions=options), **MODES) == []
    broken = tmp_path / "broken"
    broken.mkdir()
    assert await events_of(broken, update("config_option_update", configOptions="none"), **MODES) == []


@pytest.mark.requirement("acp-provider.update.usage")
async def test_usage_is_told_with_its_cost_only_in_dollars_and_odd_values_break_nothing(tmp_path: Path) -> None:
    odd: list[Any] = [
        {"used": None, "size": 200},
        {"used": 5},
        {"used": -1, "size": 200},
        {"used": "5", "size": 200},
        {"used": 5, "size": 0},
    ]
    told = await events_of(
        tmp_path,
        update("usage_update", used=50, size=200, cost={"amount": 0.25, "currency": "USD"}),
        update("usage_update", used=60, size=200, cost={"amount": 1, "currency": "EUR"}),
        update("usage_update", used=70, size=200, cost=None),
        update("usage_update", used=80, size=200, cost={"amount": "1", "currency": "USD"}),
        update("usage_update", used=300, size=200, cost={"amount": 1, "currency": None}),
        *(update("usage_update", **members) for members in odd),
        said("still here"),
    )
    assert told == [
        UsageChanged(50, 200, 0.25),
        UsageChanged(60, 200),
        UsageChanged(70, 200),
        UsageChanged(80, 200),
        UsageChanged(200, 200),
        TextDelta("still here"),
        TextDone("still here"),
    ]


@pytest.mark.requirement("acp-provider.update.title")
async def test_a_title_is_set_kept_when_absent_and_cleared_by_null(tmp_path: Path) -> None:
    told = await events_of(
        tmp_path,
        update("session_info_update", title="A tale"),
        update("session_info_update", updatedAt="2026-01-01T00:00:00Z"),
        update("session_info_update", title=7),
        update("session_info_update", title=None),
    )
    assert told == [TitleChanged("A tale"), TitleChanged(None)]


@pytest.mark.requirement("acp-provider.update.unknown-ignored", "acp-provider.leaves-out.list")
async def test_other_updates_and_notifications_are_ignored(tmp_path: Path) -> None:
    def note(method: str, params: Any) -> Any:
        return {"send": {"jsonrpc": "2.0", "method": method, "params": params}}

    told = await events_of(
        tmp_path,
        update("compaction_update", state="running"),
        update("notice", text="mind the gap"),
        update("plan_update", entries=3),
        {"update": {"sessionUpdate": None}},
        {"update": ["no", "object"]},
        note("session/notice", {"sessionId": "s1", "message": "x"}),
        note("elicitation/complete", {"elicitationId": "e"}),
        note("_vendor/limits", {"left": 3}),
        said("on", annotations={"x": 1}),
    )
    assert told == [TextDelta("on"), TextDone("on")]


@pytest.mark.requirement("acp-provider.update.unhandled-request", "acp-provider.leaves-out.list")
async def test_files_terminals_and_elicitations_are_not_served_and_no_servers_are_passed(tmp_path: Path) -> None:
    methods = [
        "fs/read_text_file",
        "fs/write_text_file",
        "terminal/create",
        "elicitation/create",
        "mcp/connect",
        "_x",
    ]
    steps: list[Any] = []
    for method in methods:
        params = {"sessionId": "s1"}
        steps.append({"send": {"jsonrpc": "2.0", "id": method, "method": method, "params": params}})
        steps.append({"wait": {"response": method}})
    async with chatting(tmp_path, turn(*steps)) as it:
        await it.chat.send("x")
        assert {key: line["error"]["code"] for key, line in it.answers().items()} == dict.fromkeys(methods, -32601)
        assert it.host.events == [END]
        assert it.params("session/new")[0]["mcpServers"] == []
        assert it.params("initialize")[0]["clientCapabilities"] == {
            "fs": {"readTextFile": False, "writeTextFile": False},
            "terminal": False,
        }
