"""Every session update, as the struct and as the JSON it must be."""

from __future__ import annotations

from typing import Any

from sluice import acp

__all__ = ["PATH", "UPDATES"]

TEXT = {"type": "text", "text": "hi"}
PATH = "/w/a.py"

UPDATES: list[tuple[Any, dict[str, Any]]] = [
    (
        acp.UserMessageChunk(acp.TextContent("hi")),
        {"sessionUpdate": "user_message_chunk", "content": TEXT},
    ),
    (
        acp.AgentMessageChunk(acp.TextContent("hi"), "m1", meta={"k": 1}),
        {"sessionUpdate": "agent_message_chunk", "content": TEXT, "messageId": "m1", "_meta": {"k": 1}},
    ),
    (
        acp.AgentThoughtChunk(acp.ImageContent("AA==", "image/png", uri="file:///a.png")),
        {
            "sessionUpdate": "agent_thought_chunk",
            "content": {"type": "image", "data": "AA==", "mimeType": "image/png", "uri": "file:///a.png"},
        },
    ),
    (
        acp.ToolCall(
            "t1",
            "Edit a.py",
            kind="edit",
            status="pending",
            content=[
                acp.Content(acp.TextContent("hi")),
                acp.Diff(PATH, "new", "old"),
                acp.Diff(PATH, "new"),
                acp.Terminal("term1"),
            ],
            locations=[acp.ToolCallLocation(PATH, 3), acp.ToolCallLocation(PATH)],
            raw_input={"path": "a.py"},
            raw_output=[1, None],
            name="edit_file",
        ),
        {
            "sessionUpdate": "tool_call",
            "toolCallId": "t1",
            "title": "Edit a.py",
            "kind": "edit",
            "status": "pending",
            "content": [
                {"type": "content", "content": TEXT},
                {"type": "diff", "path": PATH, "newText": "new", "oldText": "old"},
                {"type": "diff", "path": PATH, "newText": "new"},
                {"type": "terminal", "terminalId": "term1"},
            ],
            "locations": [{"path": PATH, "line": 3}, {"path": PATH}],
            "rawInput": {"path": "a.py"},
            "rawOutput": [1, None],
            "name": "edit_file",
        },
    ),
    (
        acp.ToolCallProgress("t1", status="completed", content=[]),
        {"sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "completed", "content": []},
    ),
    (
        acp.Plan([acp.PlanEntry("look", "high", "in_progress")]),
        {"sessionUpdate": "plan", "entries": [{"content": "look", "priority": "high", "status": "in_progress"}]},
    ),
    (acp.Plan([]), {"sessionUpdate": "plan", "entries": []}),
    (
        acp.AvailableCommandsUpdate(
            [
                acp.AvailableCommand("compact", "Make room", acp.UnstructuredCommandInput("what to keep")),
                acp.AvailableCommand("usage", "Show usage"),
            ]
        ),
        {
            "sessionUpdate": "available_commands_update",
            "availableCommands": [
                {"name": "compact", "description": "Make room", "input": {"hint": "what to keep"}},
                {"name": "usage", "description": "Show usage"},
            ],
        },
    ),
    (
        acp.CurrentModeUpdate("default"),
        {"sessionUpdate": "current_mode_update", "currentModeId": "default"},
    ),
    (
        acp.ConfigOptionUpdate([]),
        {"sessionUpdate": "config_option_update", "configOptions": []},
    ),
    (acp.SessionInfoUpdate(title="T"), {"sessionUpdate": "session_info_update", "title": "T"}),
    (acp.SessionInfoUpdate(title=None), {"sessionUpdate": "session_info_update", "title": None}),
    (
        acp.SessionInfoUpdate(updated_at="2026-01-02T03:04:05Z"),
        {"sessionUpdate": "session_info_update", "updatedAt": "2026-01-02T03:04:05Z"},
    ),
    (
        acp.UsageUpdate(0, 1000, acp.Cost(0.5, "USD")),
        {"sessionUpdate": "usage_update", "used": 0, "size": 1000, "cost": {"amount": 0.5, "currency": "USD"}},
    ),
    (
        acp.Notice("warning", "Careful", "It is hot"),
        {"sessionUpdate": "notice", "severity": "warning", "title": "Careful", "description": "It is hot"},
    ),
    (
        acp.CompactionUpdate("c1", "in_progress"),
        {"sessionUpdate": "compaction_update", "compactionId": "c1", "status": "in_progress"},
    ),
    (
        acp.CompactionUpdate("c1", "completed", summary=[acp.TextContent("hi")], error=None),
        {
            "sessionUpdate": "compaction_update",
            "compactionId": "c1",
            "status": "completed",
            "summary": [TEXT],
            "error": None,
        },
    ),
    (
        acp.CompactionSummaryChunk("c1", acp.TextContent("hi")),
        {"sessionUpdate": "compaction_summary_chunk", "compactionId": "c1", "content": TEXT},
    ),
]
