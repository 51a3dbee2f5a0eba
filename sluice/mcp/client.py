"""Small things about the MCP library's client: loading it, listing tools over all pages, reading its errors."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

if TYPE_CHECKING:
    from mcp.client import Client
    from mcp.types import Tool as McpTool

__all__ = [
    "error_text",
    "handshake_refused",
    "is_list_change",
    "leaf",
    "list_tools",
    "load",
    "scrubbed",
    "secrets_of",
]

MOST_PAGES = 100
MOST_TOOLS = 1000
_ERROR_CHARACTERS = 300
_SHORTEST_SECRET = 4

_URL = re.compile(r"\bhttps?://[^\s'\"<>]+", re.IGNORECASE)
_importing = Lock()


def load() -> None:
    """Load the MCP library; it takes long, and one thread at a time may meet its half-loaded modules."""
    with _importing:
        import_module("mcp")


async def list_tools(client: Client) -> list[McpTool]:
    """List the tools of all pages; a server that repeats a cursor or never ends is listened to only so long."""
    found: dict[str, McpTool] = {}
    cursor: str | None = None
    seen: set[str | None] = set()
    while cursor not in seen and len(seen) < MOST_PAGES and len(found) < MOST_TOOLS:
        seen.add(cursor)
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            found.setdefault(tool.name, tool)
        cursor = page.next_cursor
        if cursor is None:
            break
    return list(found.values())[:MOST_TOOLS]


def is_list_change(message: Any) -> bool:
    """Whether a message says that the list of tools has changed; both generations of the protocol."""
    return getattr(message, "method", "") == "notifications/tools/list_changed" or (
        type(message).__name__ == "ToolsListChanged"
    )


def leaf(error: BaseException) -> Exception:
    """Return the first real error; the task groups of the library wrap it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error if isinstance(error, Exception) else RuntimeError(type(error).__name__)


def handshake_refused(error: Exception) -> bool:
    """Whether the server answered `initialize` with an error of its own, and so speaks only the newer handshake."""
    from mcp import MCPError
    from mcp.types import CONNECTION_CLOSED, REQUEST_TIMEOUT

    first = leaf(error)
    return isinstance(first, MCPError) and first.code not in (CONNECTION_CLOSED, REQUEST_TIMEOUT)


def error_text(error: Exception) -> str:
    """One line about a failed request: the server's own words if it gave some."""
    from mcp import MCPError

    if isinstance(error, MCPError):
        return " ".join(error.error.message.split())[:_ERROR_CHARACTERS] or "an error without a message"
    # The text of anything else is not meant for people and may hold what the server sent.
    return f"its answer could not be used ({type(error).__name__})"


def secrets_of(url: str, headers: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """What must not be shown of a connection: path, query and header values, the longest first."""
    parts = urlsplit(url)
    found = [url, parts.path, parts.query, *(value for _, value in parse_qsl(parts.query))]
    for _, value in headers:
        found += [value, *value.split()]
    return tuple(sorted({text for text in found if len(text) >= _SHORTEST_SECRET}, key=len, reverse=True))


def scrubbed(text: str, secrets: Iterable[str]) -> str:
    """The text without addresses and without any of the secrets (client-mcp.errors.generic)."""
    text = _URL.sub("(address)", text)
    for secret in secrets:
        text = text.replace(secret, "(left out)")
    return text
