"""`serve mcp`: the agents of a file as tools of an MCP server, on standard input and output.

Built on the MCP library's plain server, which negotiates the protocol's revision and knows no transport of ours.
Requirements `serve-mcp.stdio.*`, `serve-mcp.server-info.*`, `serve-mcp.tools.*`, `serve-mcp.call.*`. Import this
module where it is needed: it loads the MCP library.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import anyio
import mcp.types as types
from mcp import MCPError
from mcp.server import Server
from mcp.server.caching import CacheHint
from mcp.server.lowlevel.server import NotificationOptions
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from sluice import __version__
from sluice.config.schema import AgentConfig, AgentFile
from sluice.handlers.mcp_calls import NO_ANSWER, AgentCall, CallFailed, Calls
from sluice.wire.errors import RpcError
from sluice.wire.lines import LineSplitter, Oversized
from sluice.wire.transport import Transport

if TYPE_CHECKING:
    from sluice.handlers.attachable import AttachedSession

__all__ = ["SESSION_KEY", "AgentServer", "AttachedServer", "Exposed", "serve_stdio"]

log = logging.getLogger(__name__)

SESSION_KEY = "sluice/session"
"""Where a result's `_meta` has the id to go on with."""

MESSAGE = {"type": "string", "description": "What to tell the agent."}

INPUT = {
    "type": "object",
    "properties": {
        "message": MESSAGE,
        "session": {
            "type": "string",
            "description": f"Go on with an earlier call: the id in `_meta` of its result, under `{SESSION_KEY}`.",
        },
    },
    "required": ["message"],
    "additionalProperties": False,
}

OUTPUT = {
    "type": "object",
    "properties": {"response": {"type": "string", "description": "What the agent answered."}},
    "required": ["response"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Exposed:
    """Which agents are tools: all of the file, or one, which may go by another name."""

    agent: str | None = None
    tool_name: str | None = None

    def of(self, file: AgentFile) -> dict[str, AgentConfig]:
        """Tool name -> agent. Raises CallFailed when the file has no such agent, or several under one name."""
        found = dict(file.agents)
        if self.agent is not None:
            if self.agent not in found:
                raise CallFailed(f"There is no agent {self.agent!r} in the agent file.")
            found = {self.agent: found[self.agent]}
        if self.tool_name is None:
            return found
        if len(found) != 1:
            raise CallFailed("A tool name can be given when exactly one agent is exposed.")
        return {self.tool_name: next(iter(found.values()))}


class AgentServer(Server[Any]):
    """An MCP server whose tools are agents. The agent file is read again for each request."""

    def __init__(self, calls: Calls, exposed: Exposed) -> None:
        self._calls = calls
        self._exposed = exposed
        self._known: list[str] | None = None
        self._bus = InMemorySubscriptionBus()
        super().__init__(
            "sluice",
            version=__version__,
            on_list_tools=self._list,
            on_call_tool=self._call,
            on_subscriptions_listen=ListenHandler(self._bus),
            cache_hints={"tools/list": CacheHint(ttl_ms=0, scope="public")},
        )
        self.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._set_level)

    def get_capabilities(
        self, notification_options: NotificationOptions | None = None, *args: Any, **more: Any
    ) -> types.ServerCapabilities:
        """What is offered; a change of the list is always told."""
        return super().get_capabilities(NotificationOptions(tools_changed=True), *args, **more)

    async def _set_level(self, ctx: Any, params: types.SetLevelRequestParams) -> types.EmptyResult:
        """Take the level: nothing is logged to clients at any."""
        return types.EmptyResult()

    async def _now(self, ctx: Any) -> dict[str, AgentConfig]:
        """The agents now; who listens is told when the list is another one than before."""
        try:
            found = self._exposed.of(await self._calls.file())
        except CallFailed as failed:
            raise MCPError(types.INTERNAL_ERROR, str(failed)) from failed
        before, self._known = self._known, list(found)
        if before is not None and before != self._known:
            await self._bus.publish(ToolsListChanged())
            await ctx.session.send_tool_list_changed()
        return found

    async def _list(self, ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[await self._tool(*item) for item in (await self._now(ctx)).items()])

    async def _tool(self, name: str, agent: AgentConfig) -> types.Tool:
        text = agent.description or f"Run the agent {agent.name}."
        hints = await self._calls.hints(agent.name)
        return types.Tool(
            name=name,
            title=text,
            description=text,
            input_schema=INPUT,
            output_schema=OUTPUT,
            annotations=types.ToolAnnotations(
                title=text,
                read_only_hint=hints.read_only,
                idempotent_hint=hints.idempotent,
                destructive_hint=hints.destructive,
                open_world_hint=hints.open_world,
            ),
        )

    async def _call(self, ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        found = await self._now(ctx)
        if params.name not in found:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name[:100]}")
        steps = count(1)

        async def progress(text: str) -> None:
            await ctx.session.report_progress(next(steps), None, text)

        try:
            wanted = _wanted(found[params.name].name, params.arguments or {})
            reply = await self._calls.call(wanted, progress)
        except CallFailed as failed:
            return types.CallToolResult(content=[types.TextContent(text=str(failed))], is_error=True)
        return _answered(reply.response, **{SESSION_KEY: reply.session})


class AttachedServer(Server[Any]):
    """An MCP server with two tools on one session of a running editor: send a message, and read what was said."""

    def __init__(self, session: AttachedSession) -> None:
        self._session = session
        super().__init__(
            "sluice",
            title="Sluice (attached)",
            version=__version__,
            instructions=f"Attached to the session {session.id} of a running editor.",
            on_list_tools=self._list,
            on_call_tool=self._call,
        )

    async def _list(self, ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        send = {**INPUT, "properties": {"message": MESSAGE}}
        nothing = {"type": "object", "properties": {}, "additionalProperties": False}
        reads = types.ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
        tools = [
            types.Tool(
                name="send",
                description="Send a message to the session and wait for the answer.",
                input_schema=send,
                output_schema=OUTPUT,
            ),
            types.Tool(
                name="transcript",
                description="What was said in the session so far.",
                input_schema=nothing,
                annotations=reads,
            ),
        ]
        return types.ListToolsResult(tools=tools)

    async def _call(self, ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            if params.name == "transcript":
                return types.CallToolResult(content=[types.TextContent(text=self._session.transcript())])
            if params.name == "send":
                said = await self._session.send(_wanted("", params.arguments or {}).message)
                return _answered(said or NO_ANSWER)
        except (CallFailed, LookupError) as failed:
            return types.CallToolResult(content=[types.TextContent(text=str(failed))], is_error=True)
        except RpcError as refused:
            return types.CallToolResult(content=[types.TextContent(text=refused.message)], is_error=True)
        raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name[:100]}")


def _answered(response: str, **meta: Any) -> types.CallToolResult:
    """The answer as structured content, and the same as text."""
    answer = {"response": response}
    text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
    content: list[types.ContentBlock] = [types.TextContent(text=text)]
    if not meta:
        return types.CallToolResult(content=content, structured_content=answer)
    return types.CallToolResult(content=content, structured_content=answer, _meta=meta)


def _wanted(agent: str, arguments: Mapping[str, Any]) -> AgentCall:
    message, session = arguments.get("message"), arguments.get("session", "")
    if not isinstance(message, str) or not message.strip():
        raise CallFailed("`message` must be a text that is not empty.")
    if not isinstance(session, str):
        raise CallFailed("`session` must be a text.")
    if unknown := sorted(set(arguments) - {"message", "session"}):
        raise CallFailed(f"There is no argument {unknown[0][:100]!r}.")
    return AgentCall(agent, message, session)


# --- standard input and output


async def serve_stdio(server: Server[Any], transport: Transport, keepalive: float = 0.0) -> None:
    """Serve one client until its end of input; turns still running are cancelled then, and settle.

    Args:
        server: what to serve.
        transport: lines of JSON.
        keepalive: seconds between pings; a client that has not answered one when the next is due counts as gone.
            0 sends none.
    """
    async with _streams(transport, keepalive) as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


@asynccontextmanager
async def _streams(transport: Transport, keepalive: float) -> AsyncIterator[tuple[Any, Any]]:
    to_server, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    pings = _Pings(transport)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read, transport, to_server, pings)
        tasks.start_soon(_write, transport, from_server, incoming)
        if keepalive:
            tasks.start_soon(pings.send, keepalive, to_server)
        with incoming, outgoing:
            yield incoming, outgoing
        tasks.cancel_scope.cancel()


async def _read(transport: Transport, to_server: Any, pings: _Pings) -> None:
    splitter = LineSplitter()
    with to_server:
        while data := await transport.receive():
            for line in splitter.feed(data):
                if isinstance(line, Oversized):
                    await to_server.send(ValueError("the line is too long"))
                elif line.strip() and not pings.answered_by(line):
                    await to_server.send(_message(line))


def _message(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


async def _write(transport: Transport, from_server: Any, incoming: Any) -> None:
    with from_server:
        async for message in from_server:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            try:
                await transport.send(text.encode("utf-8", "replace") + b"\n")
            except (OSError, anyio.BrokenResourceError):
                incoming.close()  # nobody reads any more: the end of input for the server
                return


class _Pings:
    """Asks a client of the older protocol, in which a server may ask, whether it is still there."""

    PREFIX = "sluice-ping-"

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._ready = anyio.Event()
        self._open = False

    def answered_by(self, line: bytes) -> bool:
        """Whether a line answers a ping; it is not for the server then."""
        if not self._ready.is_set() and b"notifications/initialized" in line:
            self._ready.set()
        if self.PREFIX.encode() not in line:
            return False
        try:
            found = json.loads(line)
        except ValueError:
            return False
        if not isinstance(found, dict) or "method" in found or not str(found.get("id")).startswith(self.PREFIX):
            return False
        self._open = False
        return True

    async def send(self, every: float, to_server: Any) -> None:
        """Ping from the handshake on, until one stays without an answer."""
        await self._ready.wait()
        for number in count(1):
            await anyio.sleep(every)
            if self._open:
                log.warning("the MCP client did not answer a ping; it counts as gone")
                to_server.close()
                return
            self._open = True
            ping = {"jsonrpc": "2.0", "id": f"{self.PREFIX}{number}", "method": "ping"}
            await self._transport.send(json.dumps(ping).encode() + b"\n")
