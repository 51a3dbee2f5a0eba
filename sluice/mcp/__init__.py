"""The MCP servers of a session: child processes and connections as toolsets.

The `mcp` library is loaded when the first server is started.
"""

from __future__ import annotations

from sluice.mcp.servers import McpSetup, McpToolset, RemoteSpec, ServerSpec

__all__ = ["McpSetup", "McpToolset", "RemoteSpec", "ServerSpec"]
