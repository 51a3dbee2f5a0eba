"""Every request and notification, as the struct and as the JSON it must be."""

from __future__ import annotations

from typing import Any

from sluice import acp
from tests.acp.golden_updates import PATH, UPDATES

__all__ = ["PARAMS"]

SERVERS: list[acp.McpServer] = [
    acp.McpServerStdio("s", "/bin/s", ["a b"], [acp.EnvVariable("K", "")]),
    acp.McpServerHttp("h", "https://example.org/mcp", [acp.HttpHeader("Authorization", "Bearer x")]),
    acp.McpServerSse("e", "http://example.org/sse", []),
]
SERVERS_JSON = [
    {"name": "s", "command": "/bin/s", "args": ["a b"], "env": [{"name": "K", "value": ""}]},
    {
        "type": "http",
        "name": "h",
        "url": "https://example.org/mcp",
        "headers": [{"name": "Authorization", "value": "Bearer x"}],
    },
    {"type": "sse", "name": "e", "url": "http://example.org/sse", "headers": []},
]
BLOCKS: list[acp.ContentBlock] = [
    acp.TextContent("hi", acp.Annotations(audience=["user"], last_modified="2026-01-02T03:04:05Z", priority=0.5)),
    acp.AudioContent("AA==", "audio/wav"),
    acp.ResourceLink("file:///a", "a", "A", "what", "text/plain", 12),
    acp.EmbeddedResource(acp.TextResourceContents("file:///a", "body", "text/plain")),
    acp.EmbeddedResource(acp.BlobResourceContents("file:///b", "AA==")),
]
BLOCKS_JSON = [
    {
        "type": "text",
        "text": "hi",
        "annotations": {"audience": ["user"], "lastModified": "2026-01-02T03:04:05Z", "priority": 0.5},
    },
    {"type": "audio", "data": "AA==", "mimeType": "audio/wav"},
    {
        "type": "resource_link",
        "uri": "file:///a",
        "name": "a",
        "title": "A",
        "description": "what",
        "mimeType": "text/plain",
        "size": 12,
    },
    {"type": "resource", "resource": {"uri": "file:///a", "text": "body", "mimeType": "text/plain"}},
    {"type": "resource", "resource": {"uri": "file:///b", "blob": "AA=="}},
]
FORM = acp.ElicitationSchema(
    {
        "name": acp.StringPropertySchema(title="Name", min_length=1, max_length=9, pattern="^a", format="email"),
        "pick": acp.StringPropertySchema(one_of=[acp.EnumOption("a", "A")], default="a"),
        "plain": acp.StringPropertySchema(enum=["a"]),
        "size": acp.NumberPropertySchema(minimum=0.5, maximum=1.5, default=1.0),
        "count": acp.IntegerPropertySchema(minimum=0, maximum=9, default=0),
        "on": acp.BooleanPropertySchema(default=False),
        "many": acp.MultiSelectPropertySchema(acp.StringMultiSelectItems(["a", "b"]), min_items=0, max_items=2),
        "titled": acp.MultiSelectPropertySchema(
            acp.TitledMultiSelectItems([acp.EnumOption("a", "A")]), default=["a"]
        ),
    },
    required=["name"],
)
FORM_JSON = {
    "type": "object",
    "properties": {
        "name": {
            "type": "string",
            "title": "Name",
            "minLength": 1,
            "maxLength": 9,
            "pattern": "^a",
            "format": "email",
        },
        "pick": {"type": "string", "oneOf": [{"const": "a", "title": "A"}], "default": "a"},
        "plain": {"type": "string", "enum": ["a"]},
        "size": {"type": "number", "minimum": 0.5, "maximum": 1.5, "default": 1.0},
        "count": {"type": "integer", "minimum": 0, "maximum": 9, "default": 0},
        "on": {"type": "boolean", "default": False},
        "many": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "minItems": 0, "maxItems": 2},
        "titled": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}, "default": ["a"]},
    },
    "required": ["name"],
}
CAPABILITIES = acp.ClientCapabilities(fs_read=True, terminal=True, elicitation_form=True)

PARAMS: list[tuple[str, Any, dict[str, Any]]] = [
    (
        "initialize",
        acp.InitializeRequest(1, CAPABILITIES.to_wire(), acp.Implementation("ed", "1.2", "Editor")),
        {
            "protocolVersion": 1,
            "clientCapabilities": {"fs": {"readTextFile": True}, "terminal": True, "elicitation": {"form": {}}},
            "clientInfo": {"name": "ed", "title": "Editor", "version": "1.2"},
        },
    ),
    ("authenticate", acp.AuthenticateRequest("host-credentials"), {"methodId": "host-credentials"}),
    ("logout", acp.LogoutRequest(), {}),
    (
        "session/new",
        acp.NewSessionRequest("/w", SERVERS, ["/x"]),
        {"cwd": "/w", "mcpServers": SERVERS_JSON, "additionalDirectories": ["/x"]},
    ),
    (
        "session/load",
        acp.LoadSessionRequest("s1", "/w", [], meta={"traceparent": "x"}),
        {"sessionId": "s1", "cwd": "/w", "mcpServers": [], "_meta": {"traceparent": "x"}},
    ),
    ("session/resume", acp.ResumeSessionRequest("s1", "/w"), {"sessionId": "s1", "cwd": "/w"}),
    ("session/list", acp.ListSessionsRequest("/w", "next"), {"cwd": "/w", "cursor": "next"}),
    ("session/list", acp.ListSessionsRequest(), {}),
    ("session/delete", acp.DeleteSessionRequest("s1"), {"sessionId": "s1"}),
    ("session/close", acp.CloseSessionRequest("s1"), {"sessionId": "s1"}),
    ("session/set_mode", acp.SetSessionModeRequest("s1", "default"), {"sessionId": "s1", "modeId": "default"}),
    (
        "session/set_config_option",
        acp.SetSessionConfigOptionRequest("s1", "model", "default"),
        {"sessionId": "s1", "configId": "model", "value": "default"},
    ),
    (
        "session/set_config_option",
        acp.SetSessionConfigOptionRequest("s1", "fast", True, "boolean"),
        {"sessionId": "s1", "configId": "fast", "value": True, "type": "boolean"},
    ),
    ("session/prompt", acp.PromptRequest("s1", BLOCKS), {"sessionId": "s1", "prompt": BLOCKS_JSON}),
    ("session/cancel", acp.CancelNotification("s1"), {"sessionId": "s1"}),
    ("$/cancel_request", acp.CancelRequestNotification(7), {"requestId": 7}),
    ("$/cancel_request", acp.CancelRequestNotification("7"), {"requestId": "7"}),
    (
        "session/request_permission",
        acp.RequestPermissionRequest(
            "s1",
            acp.ToolCallUpdate("t1", title="Run", kind="execute", raw_input={"cmd": "ls"}, name="shell"),
            [acp.PermissionOption("yes", "Yes", "allow_once"), acp.PermissionOption("no", "No", "reject_once")],
        ),
        {
            "sessionId": "s1",
            "toolCall": {
                "toolCallId": "t1",
                "title": "Run",
                "kind": "execute",
                "rawInput": {"cmd": "ls"},
                "name": "shell",
            },
            "options": [
                {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
                {"optionId": "no", "name": "No", "kind": "reject_once"},
            ],
        },
    ),
    (
        "fs/read_text_file",
        acp.ReadTextFileRequest("s1", PATH, 1, 10),
        {"sessionId": "s1", "path": PATH, "line": 1, "limit": 10},
    ),
    (
        "fs/write_text_file",
        acp.WriteTextFileRequest("s1", PATH, ""),
        {"sessionId": "s1", "path": PATH, "content": ""},
    ),
    (
        "terminal/create",
        acp.CreateTerminalRequest("s1", "/bin/sh", ["-c", "ls"], [acp.EnvVariable("K", "v")], "/w", 65536),
        {
            "sessionId": "s1",
            "command": "/bin/sh",
            "args": ["-c", "ls"],
            "env": [{"name": "K", "value": "v"}],
            "cwd": "/w",
            "outputByteLimit": 65536,
        },
    ),
    ("terminal/output", acp.TerminalOutputRequest("s1", "x"), {"sessionId": "s1", "terminalId": "x"}),
    ("terminal/wait_for_exit", acp.WaitForTerminalExitRequest("s1", "x"), {"sessionId": "s1", "terminalId": "x"}),
    ("terminal/kill", acp.KillTerminalRequest("s1", "x"), {"sessionId": "s1", "terminalId": "x"}),
    ("terminal/release", acp.ReleaseTerminalRequest("s1", "x"), {"sessionId": "s1", "terminalId": "x"}),
    (
        "elicitation/create",
        acp.ElicitationFormMode("Who?", FORM, session_id="s1", tool_call_id="t1"),
        {"mode": "form", "message": "Who?", "requestedSchema": FORM_JSON, "sessionId": "s1", "toolCallId": "t1"},
    ),
    (
        "elicitation/create",
        acp.ElicitationUrlMode("Go", "e1", "https://example.org/x", request_id=0),
        {
            "mode": "url",
            "message": "Go",
            "elicitationId": "e1",
            "url": "https://example.org/x",
            "requestId": 0,
        },
    ),
    ("elicitation/complete", acp.CompleteElicitationNotification("e1"), {"elicitationId": "e1"}),
    *[
        ("session/update", acp.SessionNotification("s1", update), {"sessionId": "s1", "update": wire})
        for update, wire in UPDATES
    ],
]
