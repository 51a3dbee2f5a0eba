"""The method table: every stable method of ACP v1, who receives it, what it carries, and which capability gates it.

This one table drives dispatch, our outgoing calls and the tests (capability-matrix.tests.single-gate-table). Methods
of the unstable schema are left out on purpose: here they are simply unknown.

A gate is a dotted path into the receiver's capabilities: into `agentCapabilities` for what an agent receives, into
`clientCapabilities` for what a client receives. "elicitation" stands for either of its modes.

Source: ACP "Schema"; requirement capability-matrix.agent.not-offered.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    from sluice.acp.initialize import AgentCapabilities

__all__ = [
    "MCP_GATES",
    "METHODS",
    "PROMPT_GATES",
    "UPDATE_GATES",
    "Kind",
    "Method",
    "Receiver",
    "agent_allows",
    "find",
    "update_gate",
]

Receiver = Literal["agent", "client", "both"]
Kind = Literal["request", "notification"]


class Method(msgspec.Struct, frozen=True, dict=True):
    """One row of the table; the dict keeps the types once they are loaded.

    Attributes:
        name: the method on the wire.
        receiver: who handles it.
        kind: whether it is answered.
        takes: where the type of its params is, below this package; loaded when it is first needed.
        gives: where the type of its result is; "" for a notification.
        gate: the capability without which it must not be called; None for the baseline.
    """

    name: str
    receiver: Receiver
    kind: Kind
    takes: str
    gives: str = ""
    gate: str | None = None

    @cached_property
    def params(self) -> Any:
        """The type of its params, or a union of types."""
        return _load(self.takes)

    @cached_property
    def result(self) -> Any:
        """The type of its result; None for a notification."""
        return _load(self.gives) if self.gives else None

    def received_by(self, side: str) -> bool:
        """Whether this side ("agent" or "client") handles the method."""
        return self.receiver in (side, "both")


def _load(place: str) -> Any:
    module, _, name = place.partition(".")
    return getattr(import_module(f"sluice.acp.{module}"), name)


def _agent(name: str, params: str, result: str, gate: str | None = None) -> Method:
    return Method(name, "agent", "request", params, result, gate)


def _client(name: str, params: str, result: str, gate: str | None = None) -> Method:
    return Method(name, "client", "request", params, result, gate)


_ROWS = (
    _agent("initialize", "initialize.InitializeRequest", "initialize.InitializeResponse"),
    _agent("authenticate", "initialize.AuthenticateRequest", "initialize.AuthenticateResponse"),
    _agent("logout", "initialize.LogoutRequest", "initialize.LogoutResponse", "auth.logout"),
    _agent("session/new", "session.NewSessionRequest", "session.NewSessionResponse"),
    _agent("session/load", "session.LoadSessionRequest", "session.LoadSessionResponse", "loadSession"),
    _agent(
        "session/resume",
        "session.ResumeSessionRequest",
        "session.ResumeSessionResponse",
        "sessionCapabilities.resume",
    ),
    _agent("session/list", "session.ListSessionsRequest", "session.ListSessionsResponse", "sessionCapabilities.list"),
    _agent(
        "session/delete",
        "session.DeleteSessionRequest",
        "session.DeleteSessionResponse",
        "sessionCapabilities.delete",
    ),
    _agent(
        "session/close", "session.CloseSessionRequest", "session.CloseSessionResponse", "sessionCapabilities.close"
    ),
    _agent("session/set_mode", "session_config.SetSessionModeRequest", "session_config.SetSessionModeResponse"),
    _agent(
        "session/set_config_option",
        "session_config.SetSessionConfigOptionRequest",
        "session_config.SetSessionConfigOptionResponse",
    ),
    _agent("session/prompt", "prompt.PromptRequest", "prompt.PromptResponse"),
    Method("session/cancel", "agent", "notification", "prompt.CancelNotification"),
    Method("session/update", "client", "notification", "updates.SessionNotification"),
    _client("session/request_permission", "tools.RequestPermissionRequest", "tools.RequestPermissionResponse"),
    _client("fs/read_text_file", "client.ReadTextFileRequest", "client.ReadTextFileResponse", "fs.readTextFile"),
    _client("fs/write_text_file", "client.WriteTextFileRequest", "client.WriteTextFileResponse", "fs.writeTextFile"),
    _client("terminal/create", "client.CreateTerminalRequest", "client.CreateTerminalResponse", "terminal"),
    _client("terminal/output", "client.TerminalOutputRequest", "client.TerminalOutputResponse", "terminal"),
    _client(
        "terminal/wait_for_exit",
        "client.WaitForTerminalExitRequest",
        "client.WaitForTerminalExitResponse",
        "terminal",
    ),
    _client("terminal/kill", "client.KillTerminalRequest", "client.KillTerminalResponse", "terminal"),
    _client("terminal/release", "client.ReleaseTerminalRequest", "client.ReleaseTerminalResponse", "terminal"),
    _client(
        "elicitation/create",
        "elicitation.CreateElicitationRequest",
        "elicitation.CreateElicitationResponse",
        "elicitation",
    ),
    Method(
        "elicitation/complete",
        "client",
        "notification",
        "elicitation.CompleteElicitationNotification",
        gate="elicitation.url",
    ),
    Method("$/cancel_request", "both", "notification", "prompt.CancelRequestNotification"),
)

METHODS: Mapping[str, Method] = MappingProxyType({row.name: row for row in _ROWS})
"""The table, by method name."""

UPDATE_GATES: Mapping[str, str] = MappingProxyType(
    {
        "Notice": "session.notices",
        "CompactionUpdate": "session.compaction",
        "CompactionSummaryChunk": "session.compaction",
    }
)
"""The session updates, by the name of their type, that need a client capability; every other one is baseline."""

PROMPT_GATES: Mapping[str, str] = MappingProxyType(
    {
        "image": "promptCapabilities.image",
        "audio": "promptCapabilities.audio",
        "resource": "promptCapabilities.embeddedContext",
    }
)
"""The prompt blocks, by type, that need an agent capability; text and resource links are baseline."""


MCP_GATES: Mapping[str, str] = MappingProxyType(
    {"McpServerHttp": "mcpCapabilities.http", "McpServerSse": "mcpCapabilities.sse"}
)
"""The MCP transports, by the name of their type, that need an agent capability; stdio is baseline."""


def find(name: str, side: Literal["agent", "client"], kind: Kind) -> Method | None:
    """The row that this side handles under this name and kind, or None when there is none."""
    row = METHODS.get(name)
    return row if row is not None and row.kind == kind and row.received_by(side) else None


def update_gate(update: object) -> str | None:
    """The client capability this session update needs, or None for the baseline."""
    return UPDATE_GATES.get(type(update).__name__)


def agent_allows(capabilities: AgentCapabilities, gate: str | None) -> bool:
    """Whether an agent with these capabilities offers what is behind the gate.

    Args:
        capabilities: what the agent advertises.
        gate: a dotted path such as "sessionCapabilities.close"; None is always open.
    """
    if gate is None:
        return True
    found: Any = capabilities
    for key in gate.split("."):
        found = getattr(found, _field(key), None)
    return found is not None and found is not False


def _field(key: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in key)
