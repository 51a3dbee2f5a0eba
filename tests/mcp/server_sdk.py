"""A real MCP server written with the `mcp` package, started by the tests as a child process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import BaseModel

server = MCPServer("probe", log_level="ERROR")


@server.tool(title="Surroundings", annotations=ToolAnnotations(read_only_hint=True))
def env() -> str:
    """Tells what the process was given."""
    names = ("PROJECT_MODE", "PATH")
    found = {name: os.environ.get(name) for name in names}
    return json.dumps({**found, "cwd": str(Path.cwd()), "argv": sys.argv[1:], "pid": os.getpid()})


@server.tool(annotations=ToolAnnotations(title="Refuse", destructive_hint=True))
def refuse(reason: str) -> str:
    """Fails with the given reason."""
    raise ToolError(reason)


@server.tool()
async def wait(marker: str) -> str:
    """Waits until it is cancelled; says so in a file."""
    Path(marker).write_text("started\n")
    try:
        await anyio.sleep_forever()
    finally:
        Path(marker).write_text("cancelled\n")
    return ""


@server.tool()
def leave_child() -> str:
    """Starts a grandchild that outlives the server and keeps its pipes open."""
    return str(subprocess.Popen(["sleep", "300"]).pid)


class Name(BaseModel):
    """What is asked for."""

    name: str


@server.tool()
async def ask(ctx: Context) -> str:
    """Asks the person at the client for a name."""
    answer = await ctx.elicit("Who are you?", Name)
    return f"{answer.action} {answer.data.name}" if answer.action == "accept" else answer.action


@server.tool()
def die() -> str:
    """Ends the server in the middle of a call."""
    os._exit(3)


if __name__ == "__main__":
    sys.stderr.write("to stderr\n")
    sys.stderr.flush()
    server.run("stdio")
