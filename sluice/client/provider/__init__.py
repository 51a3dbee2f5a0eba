"""Any ACP agent as a chat provider of a Python program: a spec in, frozen events out.

    provider = create_acp_provider(AcpProviderSpec(kind="mine", name="Mine", command="mine", args=["acp"]))
    async with provider.create_backend().start(Launch(Path.cwd(), on_event=print)) as chat:
        await chat.send("hello")

How it is used: docs/provider.md.
"""

from __future__ import annotations

from sluice.client.errors import ChatStartError
from sluice.client.provider.backend import AcpBackend, Chat, ChatBackend, create_acp_backend
from sluice.client.provider.events import (
    ApprovalRequested,
    ApprovalWithdrawn,
    ChatEvent,
    CommandsChanged,
    FileChange,
    FileEdit,
    ModelChanged,
    Note,
    PermissionsChanged,
    Row,
    TextDelta,
    TextDone,
    ThinkingDelta,
    ThinkingDone,
    TitleChanged,
    ToolDone,
    ToolStarted,
    TurnAborted,
    TurnDone,
    TurnEvent,
    TurnFailed,
    UsageChanged,
)
from sluice.client.provider.policy import RUNTIME_MODES, ModeMap, RuntimeMode
from sluice.client.provider.providers import ChatProvider, ProviderRegistry, create_acp_provider
from sluice.client.provider.spec import (
    ACP_CAPABILITIES,
    AcpAgentSpec,
    AcpClientInfo,
    AcpProviderSpec,
    AcpSessionInfo,
    ChatCapabilities,
    Detection,
    Launch,
    Model,
    ModelCatalog,
    Selection,
)

__all__ = [
    "ACP_CAPABILITIES",
    "RUNTIME_MODES",
    "AcpAgentSpec",
    "AcpBackend",
    "AcpClientInfo",
    "AcpProviderSpec",
    "AcpSessionInfo",
    "ApprovalRequested",
    "ApprovalWithdrawn",
    "Chat",
    "ChatBackend",
    "ChatCapabilities",
    "ChatEvent",
    "ChatProvider",
    "ChatStartError",
    "CommandsChanged",
    "Detection",
    "FileChange",
    "FileEdit",
    "Launch",
    "Model",
    "ModelCatalog",
    "ModeMap",
    "ModelChanged",
    "Note",
    "PermissionsChanged",
    "ProviderRegistry",
    "Row",
    "RuntimeMode",
    "Selection",
    "TextDelta",
    "TextDone",
    "ThinkingDelta",
    "ThinkingDone",
    "TitleChanged",
    "ToolDone",
    "ToolStarted",
    "TurnAborted",
    "TurnDone",
    "TurnEvent",
    "TurnFailed",
    "UsageChanged",
    "create_acp_backend",
    "create_acp_provider",
]
