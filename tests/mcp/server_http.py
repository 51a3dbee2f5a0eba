"""A real MCP server over HTTP, written with the `mcp` package: Streamable HTTP on /mcp and HTTP+SSE on /sse.

Usage: server_http.py LOG. The first line on stdout is the port; each request is a line of JSON in LOG. The paths that
misbehave point at the port in the query.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import ToolAnnotations

LOG = Path(sys.argv[1])

server = MCPServer("remote", log_level="CRITICAL")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def echo(text: str) -> str:
    """Say it again."""
    return f"echo {text}"


@server.tool()
async def wait(marker: str) -> str:
    """Wait for ever; says in a file when it started and when it was cancelled."""
    Path(marker).write_text("started")
    try:
        await anyio.sleep_forever()
    finally:
        Path(marker).write_text("cancelled")
    return ""


@server.tool()
def die() -> str:
    """End the server in the middle of a call."""
    os._exit(3)


@server.tool()
async def grow(name: str, ctx: Context) -> str:
    """Get another tool and say so."""

    def grown() -> str:
        return "new"

    server.add_tool(grown, name=name)
    await ctx.session.send_tool_list_changed()
    return "grown"


class Door:
    """Records every request, hands out a cookie, and misbehaves on some paths."""

    def __init__(self, streamable: Any, sse: Any) -> None:
        self.streamable = streamable
        self.sse = sse

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self.streamable(scope, receive, send)
            return
        headers = {key.decode(): value.decode() for key, value in scope["headers"]}
        other = scope["query_string"].decode().partition("port=")[2].partition("&")[0] or "1"
        with LOG.open("a") as log:
            log.write(json.dumps({"method": scope["method"], "path": scope["path"], "headers": headers}) + "\n")

        async def with_cookie(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), (b"set-cookie", b"kitchen=warm; Path=/")]
            await send(message)

        # The library refuses names it does not know; which one was asked for is in the log.
        own = f"127.0.0.1:{scope['server'][1]}".encode()
        scope = {**scope, "headers": [(key, own if key == b"host" else value) for key, value in scope["headers"]]}
        path = scope["path"]
        moved = {"/moved": "/mcp", "/away": f"http://127.0.0.1:{other}/mcp", "/moved-sse": "/sse"}
        if path in moved:
            await with_cookie(
                {"type": "http.response.start", "status": 307, "headers": [(b"location", moved[path].encode())]}
            )
            await send({"type": "http.response.body", "body": b""})
        elif path == "/foreign-sse":
            start = {"type": "http.response.start", "status": 200}
            await send({**start, "headers": [(b"content-type", b"text/event-stream")]})
            event = f"event: endpoint\ndata: http://127.0.0.1:{other}/messages\n\n".encode()
            await send({"type": "http.response.body", "body": event, "more_body": True})
            await anyio.sleep_forever()
        elif path == "/hang" or (path == "/slow-delete" and scope["method"] == "DELETE"):
            await anyio.sleep_forever()
        elif path == "/slow-delete":
            await self.streamable({**scope, "path": "/mcp"}, receive, with_cookie)
        elif path.startswith(("/sse", "/messages")):
            await self.sse(scope, receive, with_cookie)
        else:
            await self.streamable(scope, receive, with_cookie)


def main() -> None:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()  # whoever reads the port may connect at once
    os.write(1, f"{listener.getsockname()[1]}\n".encode())
    app = Door(server.streamable_http_app(), server.sse_app())
    config = uvicorn.Config(app, lifespan="on", log_level="critical", timeout_graceful_shutdown=1)
    anyio.run(lambda: uvicorn.Server(config).serve([listener]))


if __name__ == "__main__":
    main()
