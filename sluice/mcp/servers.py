"""One MCP server as a toolset: connected by an owner task, listed once, called from anywhere, and ended for certain.

The client of the MCP library must be left by the task that entered it, so one task owns it from beginning to end and
everyone else only calls (requirements `client-mcp.stdio.*`, `client-mcp.life.*`, `client-mcp.replace.*`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from sluice.agent.ports import Tool, ToolContext, ToolFailure, ToolResult, ToolSpec
from sluice.machines import McpServer
from sluice.mcp.names import alias
from sluice.mcp.results import to_result
from sluice.mcp.stdio import POLITE_SECONDS, Launch, StdioServer

if TYPE_CHECKING:
    from mcp.client import Client
    from mcp.types import Tool as McpTool

__all__ = ["JOIN_SECONDS", "SETUP_SECONDS", "McpSetup", "McpToolset", "ServerSpec"]

SETUP_SECONDS = 30.0
"""How long connecting and listing may take, in seconds (requirement `client-mcp.setup.thirty-seconds`)."""

JOIN_SECONDS = 2.0
"""How long the calls of a server that is being stopped may take to end once cancelled, in seconds."""

_MOST_PAGES = 100
_MOST_TOOLS = 1000
_ERROR_CHARACTERS = 300

_log = logging.getLogger(__name__)
_importing = Lock()


@dataclass(frozen=True)
class ServerSpec:
    """A stdio server as it was given: values are literal, of equal names in `env` the last one counts."""

    name: str
    command: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class McpSetup:
    """The session a server works for.

    Attributes:
        tasks: where the owner task lives; it must outlive `stop`.
        cwd: the directory the process runs in, absolute.
        env: the whole environment before the server's own entries.
        budget: seconds for `start`.
        generation: how many server lists the session had before; names of tools differ between generations.
        taken: names of tools in use. Servers of one list share the set and add theirs.
    """

    tasks: TaskGroup
    cwd: str
    env: Mapping[str, str] = field(repr=False)
    budget: float = SETUP_SECONDS
    generation: int = 0
    taken: set[str] = field(default_factory=set)


class McpToolset:
    """The tools of one MCP server.

    The machine is fired here for what happens to the server: listed, lost, stopped, stop_failed, and retire unless
    somebody did so before `stop`. A server that is lost stays lost; nothing is restarted.
    """

    def __init__(self, spec: ServerSpec, setup: McpSetup, machine: McpServer) -> None:
        self.spec = spec
        self.machine = machine
        self._setup = setup
        self._tools: tuple[Tool, ...] = ()
        self._client: Client | None = None
        self._failure: Exception | None = None
        self._gone = True
        self._scope = anyio.CancelScope()
        self._settled = anyio.Event()  # connected and listed, or given up
        self._end = anyio.Event()  # the owner is to leave
        self._done = anyio.Event()  # there is no owner, or it has left
        self._done.set()
        self._calls: dict[anyio.CancelScope, anyio.Event] = {}

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
                for ended in tuple(self._calls.values()):
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
                await anyio.to_thread.run_sync(_import, abandon_on_cancel=True)
                # The handshake every server knows comes first: some servers end when they meet the newer one.
                for mode in ("legacy", "auto"):
                    if not await self._serve(mode):
                        break
        except Exception as error:
            self._failure = _leaf(error)
        finally:
            self._client = None
            self._settled.set()
            self._done.set()

    async def _serve(self, mode: str) -> bool:
        """Run the server once; True when it only refused this handshake and another one may work."""
        from mcp.client import Client

        child = StdioServer(self._launch(), self._lost)
        try:
            async with Client(child.connect(), mode=mode, cache=None) as client:
                child.polite = POLITE_SECONDS
                self._tools = tuple(self._tool(tool) for tool in await _listed(client))
                self._client = client
                self._settled.set()
                await self._end.wait()
                self._client = None
        except Exception as error:
            if self._client is None and mode == "legacy" and _handshake_refused(error):
                return True
            raise
        finally:
            self._gone = self._gone and child.gone
        return False

    def _launch(self) -> Launch:
        env = dict(self._setup.env) | dict(self.spec.env)
        return Launch(self.spec.name, self.spec.command, self.spec.args, self._setup.cwd, env)

    def _lost(self) -> None:
        if self.machine.state == "ready":
            _log.warning("MCP server %s has ended", self.spec.name)
            self.machine.fire("lost")
        if self._client is not None:
            self._end.set()

    def _reason(self) -> str:
        if self._end.is_set():
            return "ended as soon as it was started"
        if self._failure is None:
            return f"did not get ready within {self._setup.budget:g} seconds"
        if isinstance(self._failure, OSError) and self._failure.strerror:
            return f"could not be started: {self._failure.strerror}"
        return f"could not be started: {_text(self._failure)}"

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
        )

    async def _call(self, name: str, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        client = self._client
        if client is None or self.machine.state != "ready":
            raise ToolFailure(f"the MCP server {self.spec.name!r} is not connected any more")
        ended = anyio.Event()
        with anyio.CancelScope() as scope:
            self._calls[scope] = ended
            try:
                return to_result(await client.call_tool(name, dict(arguments)))
            except Exception as error:
                raise ToolFailure(self._call_failed(error)) from error
            finally:
                del self._calls[scope]
                ended.set()
        raise ToolFailure(f"the MCP server {self.spec.name!r} was stopped during the call")

    def _call_failed(self, error: Exception) -> str:
        if self.machine.state != "ready":
            return f"the MCP server {self.spec.name!r} ended during the call; parts of it may have taken effect"
        return f"the MCP server {self.spec.name!r} failed: {_text(_leaf(error))}"


def _import() -> None:
    """Load the MCP library; it takes long, and one thread at a time may meet its half-loaded modules."""
    with _importing:
        import_module("mcp")


async def _listed(client: Client) -> list[McpTool]:
    """List the tools of all pages; a server that repeats a cursor or never ends is listened to only so long."""
    found: dict[str, McpTool] = {}
    cursor: str | None = None
    seen: set[str | None] = set()
    while cursor not in seen and len(seen) < _MOST_PAGES and len(found) < _MOST_TOOLS:
        seen.add(cursor)
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            found.setdefault(tool.name, tool)
        cursor = page.next_cursor
        if cursor is None:
            break
    return list(found.values())[:_MOST_TOOLS]


def _leaf(error: BaseException) -> Exception:
    """Return the first real error; the task groups of the library wrap it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error if isinstance(error, Exception) else RuntimeError(type(error).__name__)


def _handshake_refused(error: Exception) -> bool:
    """Whether the server answered `initialize` with an error of its own, and so speaks only the newer handshake."""
    from mcp import MCPError
    from mcp.types import CONNECTION_CLOSED, REQUEST_TIMEOUT

    leaf = _leaf(error)
    return isinstance(leaf, MCPError) and leaf.code not in (CONNECTION_CLOSED, REQUEST_TIMEOUT)


def _text(error: Exception) -> str:
    from mcp import MCPError

    if isinstance(error, MCPError):
        return " ".join(error.error.message.split())[:_ERROR_CHARACTERS] or "an error without a message"
    # The text of anything else is not meant for people and may hold what the server sent.
    return f"its answer could not be used ({type(error).__name__})"
