"""The ACP v1 vocabulary: typed messages, the method table, validation. Knows no behaviour.

One module per page of the specification (`initialize`, `session`, `session_config`, `prompt`, `content`, `tools`,
`updates`, `client`, `elicitation`); `methods` is the table of methods and gates, `validation` decodes params and
results, `rules` holds what a type cannot say. Everything public is re-exported here, and loaded
when it is first used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sluice.lazy import lazy

if TYPE_CHECKING:
    from sluice.acp.base import *
    from sluice.acp.capabilities import *
    from sluice.acp.client import *
    from sluice.acp.content import *
    from sluice.acp.elicitation import *
    from sluice.acp.initialize import *
    from sluice.acp.methods import *
    from sluice.acp.prompt import *
    from sluice.acp.rules import *
    from sluice.acp.session import *
    from sluice.acp.session_config import *
    from sluice.acp.tools import *
    from sluice.acp.updates import *
    from sluice.acp.validation import *

_NAMES: Mapping[str, tuple[str, ...]] = {
    "sluice.acp.base": ("Message", "encode"),
    "sluice.acp.capabilities": ("ClientCapabilities",),
    "sluice.acp.client": (
        "CreateTerminalRequest",
        "CreateTerminalResponse",
        "KillTerminalRequest",
        "KillTerminalResponse",
        "ReadTextFileRequest",
        "ReadTextFileResponse",
        "ReleaseTerminalRequest",
        "ReleaseTerminalResponse",
        "TerminalExitStatus",
        "TerminalOutputRequest",
        "TerminalOutputResponse",
        "WaitForTerminalExitRequest",
        "WaitForTerminalExitResponse",
        "WriteTextFileRequest",
        "WriteTextFileResponse",
    ),
    "sluice.acp.content": (
        "Annotations",
        "AudioContent",
        "BlobResourceContents",
        "ContentBlock",
        "EmbeddedResource",
        "EmbeddedResourceResource",
        "ImageContent",
        "ResourceLink",
        "Role",
        "TextContent",
        "TextResourceContents",
    ),
    "sluice.acp.elicitation": (
        "BooleanPropertySchema",
        "CompleteElicitationNotification",
        "CreateElicitationRequest",
        "CreateElicitationResponse",
        "ElicitationFormMode",
        "ElicitationPropertySchema",
        "ElicitationSchema",
        "ElicitationUrlMode",
        "EnumOption",
        "IntegerPropertySchema",
        "MultiSelectItems",
        "MultiSelectPropertySchema",
        "NumberPropertySchema",
        "StringFormat",
        "StringMultiSelectItems",
        "StringPropertySchema",
        "TitledMultiSelectItems",
    ),
    "sluice.acp.initialize": (
        "AgentAuthCapabilities",
        "AgentCapabilities",
        "AuthMethod",
        "AuthMethodAgent",
        "AuthMethodTerminal",
        "AuthenticateRequest",
        "AuthenticateResponse",
        "Implementation",
        "InitializeRequest",
        "InitializeResponse",
        "LogoutCapabilities",
        "LogoutRequest",
        "LogoutResponse",
        "McpCapabilities",
        "PromptCapabilities",
        "SessionAdditionalDirectoriesCapabilities",
        "SessionCapabilities",
        "SessionCloseCapabilities",
        "SessionDeleteCapabilities",
        "SessionListCapabilities",
        "SessionResumeCapabilities",
    ),
    "sluice.acp.methods": (
        "Kind",
        "MCP_GATES",
        "METHODS",
        "Method",
        "PROMPT_GATES",
        "Receiver",
        "UPDATE_GATES",
        "agent_allows",
        "find",
        "update_gate",
    ),
    "sluice.acp.prompt": (
        "CancelNotification",
        "CancelRequestNotification",
        "PromptRequest",
        "PromptResponse",
        "StopReason",
    ),
    "sluice.acp.rules": ("check_mcp_servers", "check_prompt_gates", "check_transport_gates"),
    "sluice.acp.session": (
        "CloseSessionRequest",
        "CloseSessionResponse",
        "DeleteSessionRequest",
        "DeleteSessionResponse",
        "EnvVariable",
        "HttpHeader",
        "ListSessionsRequest",
        "ListSessionsResponse",
        "LoadSessionRequest",
        "LoadSessionResponse",
        "McpServer",
        "McpServerHttp",
        "McpServerSse",
        "McpServerStdio",
        "NewSessionRequest",
        "NewSessionResponse",
        "ResumeSessionRequest",
        "ResumeSessionResponse",
        "SessionInfo",
    ),
    "sluice.acp.session_config": (
        "SessionConfigBoolean",
        "SessionConfigOption",
        "SessionConfigSelect",
        "SessionConfigSelectEntry",
        "SessionConfigSelectGroup",
        "SessionConfigSelectOption",
        "SessionMode",
        "SessionModeState",
        "SetSessionConfigOptionRequest",
        "SetSessionConfigOptionResponse",
        "SetSessionModeRequest",
        "SetSessionModeResponse",
    ),
    "sluice.acp.tools": (
        "CancelledPermissionOutcome",
        "Content",
        "Diff",
        "PermissionOption",
        "PermissionOptionKind",
        "RequestPermissionOutcome",
        "RequestPermissionRequest",
        "RequestPermissionResponse",
        "SelectedPermissionOutcome",
        "Terminal",
        "ToolCall",
        "ToolCallContent",
        "ToolCallLocation",
        "ToolCallProgress",
        "ToolCallStatus",
        "ToolCallUpdate",
        "ToolKind",
    ),
    "sluice.acp.updates": (
        "AgentMessageChunk",
        "AgentThoughtChunk",
        "AvailableCommand",
        "AvailableCommandsUpdate",
        "CompactionSummaryChunk",
        "CompactionUpdate",
        "ConfigOptionUpdate",
        "ContentChunk",
        "Cost",
        "CurrentModeUpdate",
        "Notice",
        "Plan",
        "PlanEntry",
        "PlanEntryPriority",
        "PlanEntryStatus",
        "SessionInfoUpdate",
        "SessionNotification",
        "SessionUpdate",
        "UnstructuredCommandInput",
        "UsageUpdate",
        "UserMessageChunk",
        "text_chunk",
    ),
    "sluice.acp.validation": (
        "BadAnswer",
        "decode_notification",
        "decode_params",
        "decode_result",
        "permission_outcome",
    ),
}

__all__ = [name for given in _NAMES.values() for name in given]

__getattr__ = lazy(__name__, _NAMES)
