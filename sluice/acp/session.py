"""Session set-up and its end: new, load, resume, list, close, delete, and the MCP servers a client brings.

Source: ACP "Session Setup", "Session List" and "Session Delete".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sluice.acp.base import Message, Untagged
from sluice.acp.session_config import SessionConfigOption, SessionModeState

__all__ = [
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
]


class EnvVariable(Message, frozen=True):
    """One environment variable."""

    name: str
    value: str


class HttpHeader(Message, frozen=True):
    """One HTTP header; the value is literal and may be secret."""

    name: str
    value: str


class McpServer(Untagged):
    """One of `McpServerStdio` (no `type`), `McpServerHttp` ("http") and `McpServerSse` ("sse").

    Missing or null `args`, `env` and `headers` are read as empty lists (client-mcp.accept.missing-optional-lists).
    """

    __slots__ = ()
    name: str

    @staticmethod
    def select(value: Mapping[str, Any]) -> type[Any]:
        """The transport by `type`; a spelled-out "stdio" is tolerated, any other type is refused."""
        kind = value.get("type", "stdio")
        member = _TRANSPORTS.get(kind) if isinstance(kind, str) else None
        if member is None:
            raise ValueError("Unknown MCP transport; expected none (stdio), `http` or `sse` - at `$.type`")
        return member


class McpServerStdio(Message, McpServer, frozen=True):
    """A server that the agent starts: `command` is an absolute path, `args` and `env` are passed on verbatim."""

    lists = ("args", "env")

    name: str
    command: str
    args: Sequence[str]
    env: Sequence[EnvVariable]


class McpServerHttp(Message, McpServer, frozen=True, tag="http", tag_field="type"):
    """A server reached by streamable HTTP."""

    lists = ("headers",)

    name: str
    url: str
    headers: Sequence[HttpHeader]


class McpServerSse(Message, McpServer, frozen=True, tag="sse", tag_field="type"):
    """A server reached by the older HTTP with server-sent events."""

    lists = ("headers",)

    name: str
    url: str
    headers: Sequence[HttpHeader]


_TRANSPORTS: dict[str, type[Any]] = {"stdio": McpServerStdio, "http": McpServerHttp, "sse": McpServerSse}


class NewSessionRequest(Message, frozen=True):
    """Make a session that works in the absolute directory `cwd` and in `additional_directories`."""

    cwd: str
    mcp_servers: Sequence[McpServer]
    additional_directories: Sequence[str] = ()


class NewSessionResponse(Message, frozen=True):
    """The new session."""

    session_id: str
    modes: SessionModeState | None = None
    config_options: Sequence[SessionConfigOption] | None = None


class LoadSessionRequest(Message, frozen=True):
    """Open a stored session and replay its history before the answer."""

    session_id: str
    cwd: str
    mcp_servers: Sequence[McpServer]
    additional_directories: Sequence[str] = ()


class LoadSessionResponse(Message, frozen=True):
    """The session is open and its history has been sent."""

    modes: SessionModeState | None = None
    config_options: Sequence[SessionConfigOption] | None = None


class ResumeSessionRequest(Message, frozen=True):
    """Open a stored session without replaying its history."""

    session_id: str
    cwd: str
    mcp_servers: Sequence[McpServer] = ()
    additional_directories: Sequence[str] = ()


class ResumeSessionResponse(Message, frozen=True):
    """The session is open."""

    modes: SessionModeState | None = None
    config_options: Sequence[SessionConfigOption] | None = None


class SessionInfo(Message, frozen=True):
    """One stored session; `updated_at` is ISO 8601."""

    session_id: str
    cwd: str
    additional_directories: Sequence[str] | None = None
    title: str | None = None
    updated_at: str | None = None


class ListSessionsRequest(Message, frozen=True):
    """One page of stored sessions; `cwd` None means every directory, `cursor` None the first page."""

    cwd: str | None = None
    cursor: str | None = None


class ListSessionsResponse(Message, frozen=True):
    """A page; `next_cursor` None means that it is the last."""

    sessions: Sequence[SessionInfo]
    next_cursor: str | None = None


class CloseSessionRequest(Message, frozen=True):
    """Stop a session's work and free what it holds; the stored session stays."""

    session_id: str


class CloseSessionResponse(Message, frozen=True):
    """Closed."""


class DeleteSessionRequest(Message, frozen=True):
    """Remove a session from the store."""

    session_id: str


class DeleteSessionResponse(Message, frozen=True):
    """Not in the store any more, or never was."""
