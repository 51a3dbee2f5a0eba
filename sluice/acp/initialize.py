"""Initialization and authentication: versions, capabilities of both sides, authentication methods.

Source: ACP "Initialization" and "Authentication".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec

from sluice.acp.base import Message, Untagged
from sluice.acp.capabilities import ClientCapabilities

__all__ = [
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
]

ProtocolVersion = Annotated[int, msgspec.Meta(ge=0, le=65535)]


class Implementation(Message, frozen=True):
    """Which program is on the other side; `name` is for programs, `title` for people."""

    name: str
    version: str
    title: str | None = None


class InitializeRequest(Message, frozen=True):
    """The first request of a connection.

    Attributes:
        client_capabilities: the JSON object as the client sent it, or None; read it through `capabilities`.
        client_info: None when the client did not say, or said it in a shape nobody knows.
    """

    protocol_version: ProtocolVersion
    client_capabilities: dict[str, Any] | None = None
    client_info: Implementation | None = None

    @property
    def capabilities(self) -> ClientCapabilities:
        """What the client can do; whatever is missing or malformed counts as unsupported."""
        return ClientCapabilities.from_wire(self.client_capabilities)


class PromptCapabilities(Message, frozen=True):
    """Which content blocks a prompt may hold besides text and resource links."""

    image: bool = False
    audio: bool = False
    embedded_context: bool = False


class McpCapabilities(Message, frozen=True):
    """Which MCP transports the agent connects to besides stdio."""

    http: bool = False
    sse: bool = False


class SessionListCapabilities(Message, frozen=True):
    """Marker: `session/list` is supported."""


class SessionDeleteCapabilities(Message, frozen=True):
    """Marker: `session/delete` is supported."""


class SessionAdditionalDirectoriesCapabilities(Message, frozen=True):
    """Marker: `additionalDirectories` is honoured."""


class SessionResumeCapabilities(Message, frozen=True):
    """Marker: `session/resume` is supported."""


class SessionCloseCapabilities(Message, frozen=True):
    """Marker: `session/close` is supported."""


class SessionCapabilities(Message, frozen=True):
    """Object markers of the optional session methods; None means unsupported."""

    list: SessionListCapabilities | None = None
    delete: SessionDeleteCapabilities | None = None
    additional_directories: SessionAdditionalDirectoriesCapabilities | None = None
    resume: SessionResumeCapabilities | None = None
    close: SessionCloseCapabilities | None = None


class LogoutCapabilities(Message, frozen=True):
    """Marker: `logout` is supported."""


class AgentAuthCapabilities(Message, frozen=True):
    """What the agent offers around authentication."""

    logout: LogoutCapabilities | None = None


class AgentCapabilities(Message, frozen=True):
    """What the agent offers; everything left out is unsupported."""

    load_session: bool = False
    prompt_capabilities: PromptCapabilities | None = None
    mcp_capabilities: McpCapabilities | None = None
    session_capabilities: SessionCapabilities | None = None
    auth: AgentAuthCapabilities | None = None


class AuthMethod(Untagged):
    """Either `AuthMethodAgent` (no `type`, or "agent") or `AuthMethodTerminal`."""

    __slots__ = ()

    @staticmethod
    def select(value: Mapping[str, Any]) -> type[Any]:
        """The terminal method by its type; anything else is the agent's own."""
        return AuthMethodTerminal if value.get("type") == "terminal" else AuthMethodAgent


class AuthMethodAgent(Message, AuthMethod, frozen=True):
    """The agent authenticates by itself when `authenticate` names this id."""

    id: str
    name: str
    description: str | None = None


class AuthMethodTerminal(Message, AuthMethod, frozen=True, tag="terminal", tag_field="type"):
    """The client runs the agent in a terminal to log in; only for clients with `auth.terminal`."""

    id: str
    name: str
    description: str | None = None
    args: Sequence[str] | None = None
    env: dict[str, str] | None = None


class InitializeResponse(Message, frozen=True):
    """The agent's version, capabilities and authentication methods."""

    protocol_version: ProtocolVersion
    agent_capabilities: AgentCapabilities | None = None
    auth_methods: Sequence[AuthMethod] | None = None
    agent_info: Implementation | None = None


class AuthenticateRequest(Message, frozen=True):
    """Use the method `method_id`, one of the ids the agent listed."""

    method_id: str


class AuthenticateResponse(Message, frozen=True):
    """Authenticated."""


class LogoutRequest(Message, frozen=True):
    """End the authenticated state."""


class LogoutResponse(Message, frozen=True):
    """Logged out."""
