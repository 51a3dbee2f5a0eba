"""A real MCP server, written with the `mcp` package, whose tools put questions; each tells what it was answered."""

from __future__ import annotations

import sys

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import SamplingMessage, TextContent, ToolAnnotations
from pydantic import BaseModel, Field

server = MCPServer("asking", log_level="ERROR")
READS = ToolAnnotations(read_only_hint=True)


class Name(BaseModel):
    """What is asked for."""

    name: str


class Secret(BaseModel):
    """What no form may ask for."""

    value: str = Field(description="Your API password")


@server.tool(annotations=READS)
async def ask(ctx: Context) -> str:
    """Asks for a name."""
    answer = await ctx.elicit("Who are you?", Name)
    return f"accept {answer.data.name}" if answer.action == "accept" else answer.action


@server.tool(annotations=READS)
async def ask_secret(ctx: Context) -> str:
    """Asks for a password."""
    return (await ctx.elicit("Please fill this in", Secret)).action


@server.tool(annotations=READS)
async def ask_page(url: str, ctx: Context) -> str:
    """Asks to visit a page."""
    return (await ctx.elicit_url("Please sign in", url, "server-made")).action


@server.tool(annotations=READS)
async def sample(ctx: Context) -> str:
    """Wants the client's model to say something."""
    said = TextContent(type="text", text="Say something.")
    await ctx.session.create_message([SamplingMessage(role="user", content=said)], max_tokens=10)
    return "sampled"


if __name__ == "__main__":
    sys.stderr.write("\x1b]0;asking\x07 Welcome!\n")
    sys.stderr.flush()
    server.run("stdio")
