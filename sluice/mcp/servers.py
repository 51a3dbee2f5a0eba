"""One MCP server as a toolset: connected by an owner task, listed once, called from anywhere, and ended for certain.

The client of the MCP library must be left by the task that entered it, so one task owns it from beginning to end and
everyone else only calls (requirements `client-mcp.stdio.*`, `client-mcp.life.*`, `client-mcp.replace.*`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from sluice.agent.ports import Tool, ToolContext, ToolFailure, ToolResult, ToolSpec
from sluice.machines import McpServer
from sluice.mcp.client import (
    error_text,
    handshake_refused,
    is_list_change,
    leaf,
    list_tools,
    load,
    scrubbed,
    secrets_of,
)
from sluice.mcp.names import alias
from sluice.mcp.results import to_result
from sluice.mcp.specs import SETUP_SECONDS, Link, McpSetup, RemoteSpec, ServerSpec, Spec
from sluice.mcp.stdio import POLITE_SECONDS, Launch, StdioServer

if TYPE_CHECKING:
    from mcp.client import Client
    from mcp.types import Tool as McpTool

__all__ = ["JOIN_SECONDS", "SETUP_SECONDS", "McpSetup", "McpToolset", "RemoteSpec", "ServerSpec", "Spec"]

JOIN_SECONDS = 2.0
"""How long the calls of a server that is being stopped may take to end once cancelled, in seconds."""

_log = logging.getLogger(__name__)


class McpToolset:
    """The tools of one MCP server.

    The machine is fired here for what happens to the server: listed, lost, stopped, stop_failed, and retire unless
    somebody did so before `stop`. A server that is lost stays lost; nothing is restarted.
    """

    def __init__(self, spec: Spec, setup: McpSetup, machine: McpServer) -> None:
        self.spec = spec
        self.machine = machine
        self._setup = setup
        self._tools: tuple[Tool, ...] = ()
        self._listed: dict[str, tuple[McpTool, Tool]] = {}
        self._problem = ""
        self._changed = anyio.Event()
        self._client: Client | None = None
        self._failure: Exception | None = None
        self._gone = True
        self._scope = anyio.CancelScope()
        self._settled = anyio.Event()  # connected and listed, or given up
        self._end = anyio.Event()  # the owner is to leave
        self._done = anyio.Event()  # there is no owner, or it has left
        self._done.set()
        self._calls: dict[anyio.CancelScope, tuple[anyio.Event, ToolContext]] = {}

    @property
    def instruction(self) -> str:
        """Nothing: what a server says about itself is not put into the system prompt."""
        return ""

    def tools(self) -> Sequence[Tool]:
        """The tools of all pages; they stay here when the server is lost, and then fail."""
        return self._tools

    async def start(self) -> None:
        """Connect and list within the budget.

        Raises:
            ToolFailure: it did not work. Nothing of the server runs any more, and the machine is retired or failed.
        """
        self._done = anyio.Event()
        self._setup.tasks.start_soon(self._own)
        ready = False
        try:
            with anyio.move_on_after(self._setup.budget):
                await self._settled.wait()
            # It may have ended again before this task ran.
            ready = self._client is not None and not self._end.is_set()
        finally:
            if not ready:
                await self._give_up()
        if not ready:
            raise ToolFailure(f"the MCP server {self.spec.name!r} {self._reason()}") from self._failure
        self.machine.fire("listed")

    async def _give_up(self) -> None:
        with anyio.CancelScope(shield=True):
            self._scope.cancel()
            await self._done.wait()
        if self.machine.can("lost"):
            self.machine.fire("lost")
        self._finish()

    def retire(self) -> None:
        """Take no more calls; those that run are cancelled. Does nothing when that was done before."""
        if self.machine.can("retire"):
            self.machine.fire("retire")
        for scope in self._calls:
            scope.cancel()

    async def stop(self) -> None:
        """End the calls and the process with its group; shielded, in a bounded time.

        Raises:
            ToolFailure: something of the server still runs; the machine is in `failed`.
        """
        self.retire()
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(JOIN_SECONDS):
                for ended, _context in tuple(self._calls.values()):
                    await ended.wait()
            self._end.set()
            if not self._settled.is_set():
                self._scope.cancel()
            await self._done.wait()
        self._finish()
        if self.machine.state == "failed":
            raise ToolFailure(f"the MCP server {self.spec.name!r} could not be ended")

    def _finish(self) -> None:
        event = "stopped" if self._gone else "stop_failed"
        if self.machine.can(event):
            self.machine.fire(event)

    # --- the owner task

    async def _own(self) -> None:
        """Hold the client until told to end. Raises nothing but cancellation: the task group is somebody else's."""
        try:
            with self._scope:
                await anyio.to_thread.run_sync(load, abandon_on_cancel=True)
                # The handshake every server knows comes first: some servers end when they meet the newer one.
                for mode in ("legacy", "auto"):
                    if not await self._serve(mode):
                        break
        except Exception as error:
            self._failure = leaf(error)
        finally:
            self._client = None
            self._settled.set()
            self._done.set()

    async def _serve(self, mode: str) -> bool:
        """Run the server once; True when it only refused this handshake and another one may work."""
        from mcp.client import Client

        link = self._link()
        try:
            async with Client(link.connect(), mode=mode, cache=None, **self._callbacks()) as client:
                link.polite = POLITE_SECONDS
                self._take(await list_tools(client))
                self._client = client
                self._settled.set()
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._relist, client)
                    tasks.start_soon(self._listen, client)
                    await self._end.wait()
                    self._client = None
                    tasks.cancel_scope.cancel()
        except Exception as error:
            self._problem = link.problem
            if self._client is None and mode == "legacy" and not link.problem and handshake_refused(error):
                return True
            raise
        finally:
            self._gone = self._gone and link.gone
        return False

    def _link(self) -> Link:
        spec, setup = self.spec, self._setup
        if isinstance(spec, ServerSpec):
            env = dict(setup.env) | dict(spec.env)
            return StdioServer(Launch(spec.name, spec.command, spec.args, setup.cwd, env), self._lost)
        from sluice.mcp.guarded import Endpoint, RemoteServer

        endpoint = Endpoint(spec.name, spec.url, spec.sse, spec.headers, setup.policy, setup.env, setup.resolver)
        return RemoteServer(endpoint, self._lost)

    def _lost(self) -> None:
        if self.machine.state == "ready":
            _log.warning("MCP server %s has ended", self.spec.name)
            self.machine.fire("lost")
            if self._setup.on_lost is not None:
                self._setup.on_lost()
        if self._client is not None:
            self._end.set()

    def _reason(self) -> str:
        if self._end.is_set():
            return "ended as soon as it was started"
        if self._problem:
            return self._problem
        if self._failure is None:
            return f"did not get ready within {self._setup.budget:g} seconds"
        if isinstance(self._failure, OSError) and self._failure.strerror:
            return f"could not be started: {self._failure.strerror}"
        return f"could not be started: {self._text(self._failure)}"

    def _text(self, error: Exception) -> str:
        text = error_text(error)
        if isinstance(self.spec, RemoteSpec):
            text = scrubbed(text, secrets_of(self.spec.url, self.spec.headers))
        return text

    def _callbacks(self) -> dict[str, Any]:
        """What the server may ask and tell: sampling and roots are not offered, so the library refuses them."""
        from sluice.mcp.elicitation import callback

        return {
            "message_handler": self._heard,
            "elicitation_callback": callback(self._setup.elicitation, self._owner),
        }

    def _owner(self) -> ToolContext | None:
        """The one call that runs, which a question can belong to; None when there is not exactly one."""
        running = [context for _ended, context in self._calls.values()]
        return running[0] if len(running) == 1 else None

    # --- changes of the list

    async def _heard(self, message: Any) -> None:
        if is_list_change(message):
            self._changed.set()

    async def _listen(self, client: Client) -> None:
        """Subscribe to changes where the newer protocol wants that; older servers send them by themselves."""
        from mcp.types.version import MODERN_PROTOCOL_VERSIONS

        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        try:
            async with client.listen(tools_list_changed=True) as events:
                async for _ in events:
                    self._changed.set()
        except Exception as error:
            _log.debug("MCP server %s: no news of its tools (%s)", self.spec.name, type(error).__name__)

    async def _relist(self, client: Client) -> None:
        """List again whenever the server says that its tools have changed."""
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            try:
                self._take(await list_tools(client))
            except Exception as error:
                _log.warning("MCP server %s: its changed tools could not be listed (%s)", self.spec.name, type(error))
                continue
            if self._setup.on_change is not None:
                self._setup.on_change()

    def _take(self, given: Sequence[McpTool]) -> None:
        """Take a list as the one in force.

        A tool whose definition has changed gets another name: what a person allowed was the tool as it was shown.
        """
        fresh: dict[str, tuple[McpTool, Tool]] = {}
        for tool in given:
            known = self._listed.get(tool.name)
            fresh[tool.name] = known if known is not None and known[0] == tool else (tool, self._tool(tool))
        self._listed = fresh
        self._tools = tuple(tool for _, tool in fresh.values())

    # --- tools

    def _tool(self, given: McpTool) -> Tool:
        name = alias(self.spec.name, given.name, self._setup.generation, self._setup.taken)
        self._setup.taken.add(name)
        hints = given.annotations
        parameters = {"type": "object", **given.input_schema}
        return Tool(
            ToolSpec(name, given.description or "", parameters),
            partial(self._call, given.name),
            title=(hints.title if hints and hints.title else None) or given.title or "",
            read_only=bool(hints and hints.read_only_hint),
            destructive=hints.destructive_hint if hints else None,
            idempotent=bool(hints and hints.idempotent_hint),
            open_world=hints.open_world_hint if hints else None,
        )

    async def _call(self, name: str, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        client = self._client
        if client is None or self.machine.state != "ready":
            raise ToolFailure(f"the MCP server {self.spec.name!r} is not connected any more")
        limit, ended = self._setup.call_timeout, anyio.Event()
        with anyio.CancelScope() as scope:

            async def alive(progress: float, total: float | None, message: str | None) -> None:
                scope.deadline = anyio.current_time() + limit  # who makes progress is not hanging

            await alive(0, None, None)
            self._calls[scope] = (ended, context)
            try:
                return to_result(await client.call_tool(name, dict(arguments), progress_callback=alive))
            except Exception as error:
                raise ToolFailure(self._call_failed(error)) from error
            finally:
                del self._calls[scope]
                ended.set()
                if self._setup.elicitation is not None:
                    self._setup.elicitation.withdraw(context)
        if anyio.current_time() >= scope.deadline:
            raise ToolFailure(f"the MCP server {self.spec.name!r} made no progress for {limit:g} seconds")
        raise ToolFailure(f"the MCP server {self.spec.name!r} was stopped during the call")

    def _call_failed(self, error: Exception) -> str:
        if self.machine.state != "ready":
            return f"the MCP server {self.spec.name!r} ended during the call; parts of it may have taken effect"
        return f"the MCP server {self.spec.name!r} failed: {self._text(leaf(error))}"
