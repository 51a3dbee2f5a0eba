"""Reading updates: tolerant of everything, and folding tool calls as the protocol says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.client.updates import (
    Commands,
    CurrentMode,
    MessageChunk,
    Plan,
    SessionInfo,
    ToolRows,
    ToolUpdate,
    Unchanged,
    Usage,
    parse_update,
)

KINDS = [
    "user_message_chunk",
    "agent_message_chunk",
    "agent_thought_chunk",
    "tool_call",
    "tool_call_update",
    "plan",
    "available_commands_update",
    "current_mode_update",
    "config_option_update",
    "session_info_update",
    "usage_update",
    "notice",
]
FIELDS = [
    "content", "toolCallId", "title", "kind", "status", "locations", "entries", "availableCommands", "currentModeId",
    "configOptions", "updatedAt", "used", "size", "cost", "messageId", "rawInput", "options", "id", "type", "name",
    "value", "currentValue", "input", "text", "priority",
]  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(FIELDS), inner),
    max_leaves=12,
)


@pytest.mark.requirement("acp-provider.update.unknown-ignored")
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(KINDS), st.dictionaries(st.sampled_from(FIELDS), JSON))
def test_no_shape_of_an_update_raises(kind: str, fields: dict[str, Any]) -> None:
    update = parse_update({"sessionUpdate": kind, **fields})
    if isinstance(update, ToolUpdate):
        ToolRows().apply(update)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(JSON)
def test_nothing_else_raises_either(value: Any) -> None:
    assert parse_update(value) is None


@pytest.mark.requirement("acp-provider.update.tool-events")
def test_absent_and_null_keep_old_values_and_lists_are_replaced() -> None:
    rows = ToolRows()

    def apply(**fields: Any) -> Any:
        update = parse_update({"toolCallId": "c1", **fields})
        assert isinstance(update, ToolUpdate)
        return rows.apply(update)

    apply(sessionUpdate="tool_call", title="T", kind="read", locations=[{"path": "C:\\w\\a.py"}], content=[{"a": 1}])
    row = apply(sessionUpdate="tool_call_update", status="completed", title=None, kind=None, locations=None)
    assert (row.title, row.kind, row.status, row.content) == ("T", "read", "completed", ({"a": 1},))
    assert row.locations == ({"path": "C:\\w\\a.py"},)
    assert apply(sessionUpdate="tool_call_update", content=["junk", {"b": 2}], locations=[]).content == ({"b": 2},)
    assert rows.latest["c1"].locations == ()


@pytest.mark.requirement("acp-provider.update.tool-orphan-and-reuse")
def test_an_orphan_makes_a_row_and_a_reused_id_a_new_one() -> None:
    rows = ToolRows()
    assert rows.apply(ToolUpdate("c9", status="in_progress")).title == "c9"
    first = rows.apply(ToolUpdate("c9", status="completed", title="old"))
    second = rows.apply(ToolUpdate("c9", announced=True, title="new"))
    assert (first.title, first.status) == ("old", "completed")
    assert (second.title, second.status) == ("new", "pending")


def test_marking_open_calls_as_cancelled_leaves_ended_ones_alone() -> None:
    rows = ToolRows()
    rows.apply(ToolUpdate("a", status="completed"))
    rows.apply(ToolUpdate("b", status="in_progress"))
    assert [row.call_id for row in rows.cancel_open()] == ["b"]
    assert rows.latest["a"].status == "completed"
    assert rows.cancel_open() == ()


@pytest.mark.requirement("acp-provider.update.title")
def test_an_absent_title_is_unchanged_and_null_clears() -> None:
    assert parse_update({"sessionUpdate": "session_info_update", "title": "a"}) == SessionInfo(title="a")
    assert parse_update({"sessionUpdate": "session_info_update", "title": None}) == SessionInfo(title=None)
    info = parse_update({"sessionUpdate": "session_info_update", "updatedAt": 3})
    assert isinstance(info, SessionInfo)
    assert isinstance(info.title, Unchanged)
    assert isinstance(info.updated_at, Unchanged)


@pytest.mark.requirement("acp-provider.update.usage")
@pytest.mark.parametrize(
    ("fields", "usage"),
    [
        ({"used": 3, "size": 10}, Usage(3, 10)),
        ({"used": 3, "size": 10, "cost": {"amount": 1, "currency": "EUR"}}, Usage(3, 10, (1.0, "EUR"))),
        ({"used": 3, "size": 10, "cost": {"amount": "1", "currency": "EUR"}}, Usage(3, 10)),
        ({"used": None, "size": 10}, None),
        ({"used": True, "size": 10}, None),
        ({"used": 1, "size": 0}, None),
        ({"used": -1, "size": 5}, None),
    ],
)
def test_usage_needs_real_numbers(fields: dict[str, Any], usage: Usage | None) -> None:
    assert parse_update({"sessionUpdate": "usage_update", **fields}) == usage


def test_the_documented_misspelling_of_the_mode_is_read() -> None:
    assert parse_update({"sessionUpdate": "current_mode_update", "modeId": "ask"}) == CurrentMode("ask")


def test_bad_items_are_left_out_and_good_ones_kept() -> None:
    commands = parse_update(
        {
            "sessionUpdate": "available_commands_update",
            "availableCommands": [1, {"name": ""}, {"name": "go", "input": 3}],
        }
    )
    assert isinstance(commands, Commands)
    assert [(command.name, command.hint) for command in commands.commands] == [("go", None)]
    plan = parse_update({"sessionUpdate": "plan", "entries": [{"content": 1}, {"content": "a", "status": None}]})
    assert isinstance(plan, Plan)
    assert [(entry.content, entry.status) for entry in plan.entries] == [("a", "pending")]


def test_a_chunk_without_text_keeps_its_content() -> None:
    content = {"type": "image", "data": "", "mimeType": "image/png", "text": "not text"}
    chunk = parse_update({"sessionUpdate": "agent_message_chunk", "content": content, "messageId": 3})
    assert chunk == MessageChunk("agent", "", content, None)
