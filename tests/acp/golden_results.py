"""Every result, as the struct and as the JSON it must be."""

from __future__ import annotations

from typing import Any

from sluice import acp

__all__ = ["RESULTS"]

MODES = acp.SessionModeState(
    "default", [acp.SessionMode("default", "Default", "Ask"), acp.SessionMode("free", "Free")]
)
MODES_JSON = {
    "currentModeId": "default",
    "availableModes": [
        {"id": "default", "name": "Default", "description": "Ask"},
        {"id": "free", "name": "Free"},
    ],
}
OPTIONS: list[acp.SessionConfigOption] = [
    acp.SessionConfigSelect(
        "mode", "Mode", "default", [acp.SessionConfigSelectOption("default", "Default", "Ask")], "How", "mode"
    ),
    acp.SessionConfigSelect(
        "model",
        "Model",
        "a",
        [acp.SessionConfigSelectGroup("g", "Group", [acp.SessionConfigSelectOption("a", "A")])],
    ),
    acp.SessionConfigBoolean("fast", "Fast", False),
]
OPTIONS_JSON = [
    {
        "type": "select",
        "id": "mode",
        "name": "Mode",
        "description": "How",
        "category": "mode",
        "currentValue": "default",
        "options": [{"value": "default", "name": "Default", "description": "Ask"}],
    },
    {
        "type": "select",
        "id": "model",
        "name": "Model",
        "currentValue": "a",
        "options": [{"group": "g", "name": "Group", "options": [{"value": "a", "name": "A"}]}],
    },
    {"type": "boolean", "id": "fast", "name": "Fast", "currentValue": False},
]

RESULTS: list[tuple[str, Any, dict[str, Any]]] = [
    (
        "initialize",
        acp.InitializeResponse(
            1,
            acp.AgentCapabilities(
                True,
                acp.PromptCapabilities(True, True, True),
                acp.McpCapabilities(True, True),
                acp.SessionCapabilities(
                    acp.SessionListCapabilities(),
                    acp.SessionDeleteCapabilities(),
                    acp.SessionAdditionalDirectoriesCapabilities(),
                    acp.SessionResumeCapabilities(),
                    acp.SessionCloseCapabilities(),
                ),
                acp.AgentAuthCapabilities(acp.LogoutCapabilities()),
            ),
            [acp.AuthMethodAgent("a", "A"), acp.AuthMethodTerminal("t", "T", args=["x"], env={"K": "v"})],
            acp.Implementation("sluice", "0.1", "sluice"),
        ),
        {
            "protocolVersion": 1,
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
                "mcpCapabilities": {"http": True, "sse": True},
                "sessionCapabilities": {
                    "list": {},
                    "delete": {},
                    "additionalDirectories": {},
                    "resume": {},
                    "close": {},
                },
                "auth": {"logout": {}},
            },
            "authMethods": [
                {"id": "a", "name": "A"},
                {"type": "terminal", "id": "t", "name": "T", "args": ["x"], "env": {"K": "v"}},
            ],
            "agentInfo": {"name": "sluice", "version": "0.1", "title": "sluice"},
        },
    ),
    ("initialize", acp.InitializeResponse(1, auth_methods=[]), {"protocolVersion": 1, "authMethods": []}),
    ("authenticate", acp.AuthenticateResponse(), {}),
    ("logout", acp.LogoutResponse(), {}),
    (
        "session/new",
        acp.NewSessionResponse("s1", MODES, OPTIONS),
        {"sessionId": "s1", "modes": MODES_JSON, "configOptions": OPTIONS_JSON},
    ),
    (
        "session/load",
        acp.LoadSessionResponse(MODES, OPTIONS),
        {"modes": MODES_JSON, "configOptions": OPTIONS_JSON},
    ),
    ("session/resume", acp.ResumeSessionResponse(MODES, []), {"modes": MODES_JSON, "configOptions": []}),
    (
        "session/list",
        acp.ListSessionsResponse(
            [acp.SessionInfo("s1", "/w", ["/x"], "T", "2026-01-02T03:04:05Z"), acp.SessionInfo("s2", "/w")], "next"
        ),
        {
            "sessions": [
                {
                    "sessionId": "s1",
                    "cwd": "/w",
                    "additionalDirectories": ["/x"],
                    "title": "T",
                    "updatedAt": "2026-01-02T03:04:05Z",
                },
                {"sessionId": "s2", "cwd": "/w"},
            ],
            "nextCursor": "next",
        },
    ),
    ("session/list", acp.ListSessionsResponse([]), {"sessions": []}),
    ("session/delete", acp.DeleteSessionResponse(), {}),
    ("session/close", acp.CloseSessionResponse(), {}),
    ("session/set_mode", acp.SetSessionModeResponse(), {}),
    (
        "session/set_config_option",
        acp.SetSessionConfigOptionResponse(OPTIONS),
        {"configOptions": OPTIONS_JSON},
    ),
    ("session/prompt", acp.PromptResponse("end_turn"), {"stopReason": "end_turn"}),
    (
        "session/request_permission",
        acp.RequestPermissionResponse(acp.SelectedPermissionOutcome("yes")),
        {"outcome": {"outcome": "selected", "optionId": "yes"}},
    ),
    (
        "session/request_permission",
        acp.RequestPermissionResponse(acp.CancelledPermissionOutcome()),
        {"outcome": {"outcome": "cancelled"}},
    ),
    ("fs/read_text_file", acp.ReadTextFileResponse(""), {"content": ""}),
    ("fs/write_text_file", acp.WriteTextFileResponse(), {}),
    ("terminal/create", acp.CreateTerminalResponse("x"), {"terminalId": "x"}),
    (
        "terminal/output",
        acp.TerminalOutputResponse("out", False, acp.TerminalExitStatus(0)),
        {"output": "out", "truncated": False, "exitStatus": {"exitCode": 0}},
    ),
    ("terminal/wait_for_exit", acp.WaitForTerminalExitResponse(signal="SIGKILL"), {"signal": "SIGKILL"}),
    ("terminal/kill", acp.KillTerminalResponse(), {}),
    ("terminal/release", acp.ReleaseTerminalResponse(), {}),
    (
        "elicitation/create",
        acp.CreateElicitationResponse("accept", {"name": "a", "many": ["a"]}),
        {"action": "accept", "content": {"name": "a", "many": ["a"]}},
    ),
    ("elicitation/create", acp.CreateElicitationResponse("decline"), {"action": "decline"}),
]
