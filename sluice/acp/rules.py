"""The rules about values that a type cannot express: paths, MCP servers, URLs, headers.

Every rule raises `InvalidParams` with the path of the bad field. A message never repeats a URL, a header value or an
environment value, because those may be secret.

Source: ACP "Session Setup"; requirements session.new.*, workspace.*, client-mcp.names.*, client-mcp.url.form,
client-mcp.headers.*.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn
from urllib.parse import urlsplit

from sluice.acp import prompt, session
from sluice.acp.initialize import AgentCapabilities
from sluice.acp.methods import MCP_GATES, PROMPT_GATES, agent_allows
from sluice.acp.session import HttpHeader, McpServer, McpServerHttp, McpServerSse, McpServerStdio
from sluice.wire.errors import InvalidParams

__all__ = ["RULES", "check_mcp_servers", "check_prompt_gates", "check_transport_gates", "check_url", "refuse"]

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_NOT_IN_URL = re.compile(r"[\x00-\x20\x7f\\]")

_CONTROLLED = frozenset(
    {
        "host",
        "accept",
        "connection",
        "expect",
        "idempotency-key",
        "keep-alive",
        "last-event-id",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_CONTROLLED_PREFIXES = ("mcp-", "proxy-", "accept-", "content-")


def refuse(path: str, reason: str) -> NoReturn:
    """Raise InvalidParams for the field at this path.

    Args:
        path: where the field is, such as "$.prompt[0].type".
        reason: one line for a person.
    """
    raise InvalidParams(f"Invalid params at {path}: {reason}", {"path": path})


def _absolute(value: str, path: str) -> None:
    """An absolute path is all we ask here; whether the directory exists is for the handler to find out."""
    if not value.startswith("/"):
        refuse(path, "must be an absolute path")
    if "\0" in value:
        refuse(path, "must not hold a NUL character")


def _workspace(params: Any) -> None:
    _absolute(params.cwd, "$.cwd")
    for index, directory in enumerate(params.additional_directories):
        _absolute(directory, f"$.additionalDirectories[{index}]")
    check_mcp_servers(params.mcp_servers)


def check_mcp_servers(servers: Sequence[McpServer], path: str = "$.mcpServers") -> None:
    """The rules for the MCP servers a client brings.

    Args:
        servers: the whole mixed list.
        path: where the list is.

    Raises:
        InvalidParams: a name is empty or used twice, a command is relative, or a URL or header is not allowed.
    """
    seen: set[str] = set()
    for index, server in enumerate(servers):
        here = f"{path}[{index}]"
        if not server.name.strip():
            refuse(f"{here}.name", "must not be empty")
        if server.name in seen:
            refuse(f"{here}.name", "is used by another server of this call")
        seen.add(server.name)
        match server:
            case McpServerStdio():
                _stdio(server, here)
            case McpServerHttp() | McpServerSse():
                check_url(server.url, f"{here}.url")
                _headers(server.headers, f"{here}.headers")


def _stdio(server: McpServerStdio, path: str) -> None:
    _absolute(server.command, f"{path}.command")
    for index, argument in enumerate(server.args):
        if "\0" in argument:
            refuse(f"{path}.args[{index}]", "must not hold a NUL character")
    for index, variable in enumerate(server.env):
        if not variable.name or "=" in variable.name or "\0" in variable.name:
            refuse(f"{path}.env[{index}].name", "is no name of an environment variable")
        if "\0" in variable.value:
            refuse(f"{path}.env[{index}].value", "must not hold a NUL character")


def check_url(url: str, path: str) -> None:
    """An http(s) URL with a host, and without user info, fragment, blanks or control characters.

    Raises:
        InvalidParams: the URL has another form; the message does not repeat it.
    """
    if _NOT_IN_URL.search(url):
        refuse(path, "must not hold blanks, backslashes or control characters")
    if "#" in url:
        refuse(path, "must not have a fragment")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        refuse(path, "is no valid URL")
    if parts.scheme not in ("http", "https"):
        refuse(path, "must be an http or https URL")
    if "@" in parts.netloc:
        refuse(path, "must not carry user info")
    if not host or port == 0:
        refuse(path, "must name a host")


def _headers(headers: Sequence[HttpHeader], path: str) -> None:
    seen: set[str] = set()
    for index, header in enumerate(headers):
        here = f"{path}[{index}]"
        name = header.name.lower()
        if not _TOKEN.fullmatch(name):
            refuse(f"{here}.name", "is no valid HTTP header name")
        if name in _CONTROLLED or name.startswith(_CONTROLLED_PREFIXES):
            refuse(f"{here}.name", "is a header that the transport controls")
        if name in seen:
            refuse(f"{here}.name", "is given twice")
        seen.add(name)
        if _CONTROL.search(header.value) or header.value.strip() != header.value:
            refuse(f"{here}.value", "must not hold control characters, nor begin or end with a blank")


def _prompt(params: prompt.PromptRequest) -> None:
    if not params.prompt:
        refuse("$.prompt", "must hold at least one content block")


def check_prompt_gates(params: prompt.PromptRequest, capabilities: AgentCapabilities) -> None:
    """No block of a kind that the agent does not advertise (turn-admission.params.ungated-block).

    Raises:
        InvalidParams: there is one; `data["path"]` names the first.
    """
    for index, block in enumerate(params.prompt):
        kind = str(type(block).__struct_config__.tag)
        if not agent_allows(capabilities, PROMPT_GATES.get(kind)):
            refuse(f"$.prompt[{index}].type", f"`{kind}` blocks are not supported here")


def check_transport_gates(servers: Sequence[McpServer], capabilities: AgentCapabilities) -> None:
    """No transport that the agent does not advertise (client-mcp.accept.unadvertised-transport).

    Raises:
        InvalidParams: there is one; the message names the transport.
    """
    for index, server in enumerate(servers):
        gate = MCP_GATES.get(type(server).__name__)
        if not agent_allows(capabilities, gate):
            refuse(f"$.mcpServers[{index}].type", f"the transport of {gate} is not supported here")


def _list(params: session.ListSessionsRequest) -> None:
    if params.cwd is not None:
        _absolute(params.cwd, "$.cwd")


def _delete(params: session.DeleteSessionRequest) -> None:
    if not params.session_id:
        refuse("$.sessionId", "must not be empty")


RULES: Mapping[str, Callable[[Any], None]] = MappingProxyType(
    {
        "session/new": _workspace,
        "session/load": _workspace,
        "session/resume": _workspace,
        "session/list": _list,
        "session/delete": _delete,
        "session/prompt": _prompt,
    }
)
"""What is checked after the shape, by method."""
