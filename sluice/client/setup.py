"""The parameters that open a session, in the form strict agents want and no wider than the agent advertises.

Source: https://agentclientprotocol.com/protocol/session-setup
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sluice.client.capabilities import Capabilities
from sluice.client.errors import ClientError

__all__ = ["absolute", "setup_params"]


def setup_params(
    method: str,
    capabilities: Capabilities,
    cwd: str | Path,
    servers: Sequence[Mapping[str, Any]],
    roots: Sequence[str | Path],
) -> dict[str, Any]:
    """Build cwd, mcpServers and additionalDirectories for session/new, session/load or session/resume.

    Args:
        method: which of the three.
        capabilities: what the agent advertises.
        cwd: the working directory; made absolute.
        servers: MCP servers as plain data; missing inner lists are supplied.
        roots: additional directories; made absolute, and left out when there are none.

    Raises:
        NotAdvertised: the agent lacks the method, the transport of a server, or additional directories.
        ClientError: a server with a transport ACP does not know.
    """
    capabilities.check_method(method)
    capabilities.check_servers(method, servers)
    params: dict[str, Any] = {"cwd": absolute(cwd), "mcpServers": [_server(server) for server in servers]}
    if roots:
        capabilities.require(f"{method} with additional directories", "sessionCapabilities.additionalDirectories")
        params["additionalDirectories"] = [absolute(root) for root in roots]
    return params


def absolute(path: str | Path) -> str:
    """The path as an absolute one, links unresolved."""
    try:
        return str(Path(path).absolute())
    except FileNotFoundError:
        raise ClientError("the current directory no longer exists") from None


def _server(server: Mapping[str, Any]) -> dict[str, Any]:
    # A stdio entry has no type in ACP version 1, and some agents refuse entries without their inner lists.
    entry = dict(server)
    if entry.get("type") in (None, "stdio"):
        entry.pop("type", None)
        return {"args": [], "env": [], **entry}
    return {"headers": [], **entry}
