"""One connection to one agent: starting it, reading it in order, and knowing why it ended.

Everything the agent sends is taken in by the reader itself, one line after the other, by ordinary functions. So an
update is in the hands of the program before the answer that follows it is reported, by construction. Only what must
wait for somebody (a permission, a request the program handles) becomes a task, owned by the connection's task group.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio
import anyio.abc
import msgspec

from sluice.client.errors import AgentExited
from sluice.client.lines import LINE_LIMIT, ByteStream, MessageFilter
from sluice.client.permissions import PermissionDesk, PermissionHandler
from sluice.client.process import AgentCommand, AgentProcess, start_agent
from sluice.client.reading import members, text
from sluice.client.session import Session, SessionUpdate
from sluice.client.tasks import task_group
from sluice.client.updates import parse_update
from sluice.wire.cleanup import shielded
from sluice.wire.errors import InvalidParams, MethodNotFound, RequestCancelled
from sluice.wire.peer import ConnectionLost, IncomingRequest, Peer

__all__ = ["ClientHandlers", "ClientOptions", "Connection", "RequestHandler", "open_connection"]

_log = logging.getLogger(__name__)

LAST_WORDS = 1.0
"""Seconds the reader gets to take what is still in the pipe once the process is gone or no longer reads."""

HELD_UPDATES = 1000
"""Updates kept for session ids that are not known yet; more than any agent sends before its answer."""

FLUSH = 2.0
"""Seconds the last queued lines get to be written when the connection is closed."""

RequestHandler: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[Any]]
"""Handles a request of the agent: params in, result out, both plain data; an `RpcError` becomes its answer."""


@dataclass(frozen=True)
class ClientHandlers:
    """What the program does with what comes from the agent.

    Attributes:
        on_update: called for each update, in order, by the reader. It must not block; what it raises is logged.
        on_permission: asked for each permission; without one every request is rejected.
        requests: further requests by method, for capabilities the program advertises itself (`ClientOptions`).
            Without an entry the agent gets "method not found"; nothing is handled by default.
    """

    on_update: Callable[[SessionUpdate], None] | None = None
    on_permission: PermissionHandler | None = None
    requests: Mapping[str, RequestHandler] = field(default_factory=dict)


@dataclass(frozen=True)
class ClientOptions:
    """How the client behaves.

    Attributes:
        name: `clientInfo.name`.
        version: `clientInfo.version`.
        title: `clientInfo.title`, or None for none.
        capabilities: `clientCapabilities`; file system and terminal are off.
        line_limit: bytes one line may have, in either direction.
        cancel_grace: seconds an agent has to answer the prompt after `session/cancel` before the connection is given
            up, or None to wait for ever. Nothing else is ever timed: a prompt may be silent for hours.
        close_sessions: seconds open sessions get to be closed before the agent is shut down.
        trace: called for each request; its members (`traceparent`, `tracestate`) go into `params._meta`.
    """

    name: str = "sluice"
    version: str = "0"
    title: str | None = None
    capabilities: Mapping[str, Any] = field(
        default_factory=lambda: {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
    )
    line_limit: int = LINE_LIMIT
    cancel_grace: float | None = 30.0
    close_sessions: float = 2.0
    trace: Callable[[], Mapping[str, str]] | None = None


class Connection:
    """The moving parts below `Agent`; the router of the peer, and the registry of sessions."""

    def __init__(self, stream: ByteStream, handlers: ClientHandlers, options: ClientOptions) -> None:
        self.options = options
        self.process = stream if isinstance(stream, AgentProcess) else None
        self.sessions: dict[str, Session] = {}
        self.permissions = PermissionDesk(self.spawn, handlers.on_permission)
        self.gone = anyio.Event()
        self._handlers = handlers
        self._filter = MessageFilter(stream, options.line_limit)
        # The filter judges the length of lines; the peer's own limit must never be the one that bites.
        self._peer = Peer(self._filter, limit=options.line_limit + 1024)
        self._group: anyio.abc.TaskGroup | None = None
        # A caller that is cancelled still closes its sessions and ends its agent in order; for that, reading and
        # writing must go on. So nothing from outside cancels these tasks, only `shut_down` does.
        self._tasks = anyio.CancelScope(shield=True)
        self._reading = anyio.CancelScope()
        self._read_end = anyio.Event()
        self._written = anyio.Event()
        self._end: AgentExited | None = None
        self._setups = 0
        self._held: dict[str, list[Mapping[str, Any]]] = {}
        self._loading: set[str] = set()

    # --- life

    async def run(self) -> None:
        """Read, write and watch until `shut_down` is through."""
        with self._tasks:
            async with anyio.create_task_group() as self._group:
                self.spawn(self._read)
                self.spawn(self._write)
                if self.process is not None:
                    self.spawn(self.process.attend)
                    self.spawn(self._watch_process, self.process)
                # The agent's end is not ours: a call made after it still needs the group in order to fail properly.
                await anyio.sleep_forever()

    def spawn(self, work: Callable[..., Coroutine[Any, Any, None]], *arguments: Any) -> None:
        """Run something as a task of this connection."""
        assert self._group is not None, "the connection has been started"
        self._group.start_soon(work, *arguments)

    async def shut_down(self) -> None:
        """Answer what is open, write what is queued, and end the process by its ladder."""
        self.permissions.withdraw()
        with shielded(FLUSH, "writing the last lines to the agent"):
            self._peer.close()
            await self._written.wait()
        with shielded(None, "ending the agent's process; its ladder has the budgets"):
            if self.process is not None:
                await self.process.shut_down()
            else:
                await self._filter.aclose()
        self._tasks.cancel()

    def give_up(self, reason: str) -> None:
        """End the connection from this side because the agent is beyond help; its process is killed."""
        self._end = self._end or AgentExited(reason, stderr=self._stderr())
        if self.process is not None:
            self.process.kill()
        self._reading.cancel()

    async def _read(self) -> None:
        with self._reading:
            await self._peer.read(self)
        self._read_end.set()
        await self._report_end()

    async def _report_end(self) -> None:
        """Say why it ended, and only then let everybody go who waits for an answer."""
        self._end = self._end or await self._describe_end()
        self.permissions.withdraw()
        self.gone.set()
        self._peer.fail_outstanding()

    async def _watch_process(self, process: AgentProcess) -> None:
        # A grandchild may hold stdout open after the agent itself has died; then its end is never read.
        await process.wait()
        await self._end_reading()

    async def _write(self) -> None:
        try:
            await self._peer.write()
        finally:
            self._written.set()
        if self._peer.broken.is_set():
            # An agent that reads no more cannot be asked anything; what it still says is taken in first.
            await self._end_reading()

    async def _end_reading(self) -> None:
        with anyio.move_on_after(LAST_WORDS):
            await self._read_end.wait()
        self._reading.cancel()

    async def _describe_end(self) -> AgentExited:
        name = self.process.command.name if self.process is not None else "the agent"
        if self._filter.overflow is not None:
            return AgentExited(f"{name}: {self._filter.overflow}", stderr=self._stderr())
        if self.process is None:
            return AgentExited("the agent closed the connection")
        how, code = await self.process.describe_end()
        return AgentExited(f"{name} {how}", returncode=code, stderr=self._stderr())

    def _stderr(self) -> tuple[str, ...]:
        tail = self.process.stderr_tail if self.process is not None else ()
        return tail or tuple(self._filter.noise)

    # --- calls

    async def call(self, method: str, params: Mapping[str, Any]) -> Any:
        """Call the agent and wait for its answer, however long it takes.

        Returns:
            The result as plain data.

        Raises:
            RemoteError: it answered with an error.
            AgentExited: it is gone, or goes while we wait.
        """
        if self.options.trace is not None and (meta := self.options.trace()):
            params = {**params, "_meta": {**members(params.get("_meta")), **meta}}
        try:
            return await self._peer.request(method, params)
        except ConnectionLost:
            await self.gone.wait()
            raise self._lost(method) from None

    def post(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a small notification behind everything that is queued."""
        self._peer.post(method, params)

    def _lost(self, method: str) -> AgentExited:
        end = self._end or AgentExited("the connection to the agent was closed")
        said = f": {end.stderr[-1]}" if end.stderr else ""
        return AgentExited(f"{end} ({method}){said}", returncode=end.returncode, stderr=end.stderr)

    # --- sessions

    async def set_up(self, method: str, params: Mapping[str, Any], session: Session | None = None) -> Session:
        """Open a session by new, load or resume.

        Args:
            method: the method.
            params: its parameters.
            session: for load and resume the session, known from now on, as its updates come before the answer; for
                new None.

        Returns:
            The session; what came for its id before the answer has been applied.

        Raises:
            RemoteError: the agent refused.
            AgentExited: the agent is gone.
        """
        if session is not None:
            return await self._reopen(method, params, session)
        self._setups += 1
        try:
            answer = await self.call(method, params)
        finally:
            self._setups -= 1
            held = self._held
            if not self._setups:
                self._held = {}
        session_id = text(members(answer).get("sessionId"))
        if not session_id:
            raise AgentExited("the agent opened a session without an id")
        opened = Session(session_id, str(params["cwd"]))
        opened.take_setup(answer)
        self.sessions[session_id] = opened
        # No await between registering and this: an update read later cannot come before those that were held.
        for update in held.pop(session_id, ()):
            self._apply(opened, update)
        return opened

    async def _reopen(self, method: str, params: Mapping[str, Any], session: Session) -> Session:
        self.sessions[session.id] = session
        if method == "session/load":
            self._loading.add(session.id)
        try:
            session.take_setup(await self.call(method, params))
        except BaseException:
            # A refused load leaves nothing behind; a session opened again meanwhile is not ours to remove.
            if self.sessions.get(session.id) is session:
                del self.sessions[session.id]
            raise
        finally:
            self._loading.discard(session.id)
        return session

    def show(self, update: SessionUpdate) -> None:
        """Hand an update to the program; what its handler raises must not stop the reader."""
        if self._handlers.on_update is None:
            return
        try:
            self._handlers.on_update(update)
        except Exception:
            _log.exception("the update handler failed")

    def _apply(self, session: Session, raw: Mapping[str, Any]) -> None:
        update = parse_update(raw)
        if update is None:
            _log.debug("ignored an update of kind %.100r", raw.get("sessionUpdate"))
            return
        row = session.apply(update)
        self.show(SessionUpdate(session.id, update, row, raw, replay=session.id in self._loading))

    # --- the peer's router; called by the reader, in read order

    def notification(self, method: str, params: bytes) -> None:
        """Take an update in; every other notification is ignored."""
        if method != "session/update":
            _log.debug("ignored the notification %.100r", method)
            return
        fields = _read_params(params)
        session_id, raw = text(fields.get("sessionId")), members(fields.get("update"))
        if session_id is None:
            return
        if (session := self.sessions.get(session_id)) is not None:
            self._apply(session, raw)
        elif self._setups and sum(map(len, self._held.values())) < HELD_UPDATES:
            self._held.setdefault(session_id, []).append(raw)
        else:
            _log.warning("dropped an update for the unknown session %.100r", session_id)

    def request(self, request: IncomingRequest) -> None:
        """Take a request of the agent in."""
        if request.method == "session/request_permission":
            params = _read_params(request.params)
            self.permissions.ask(request, params, self.sessions.get(text(params.get("sessionId")) or ""))
        elif (handler := self._handlers.requests.get(request.method)) is not None:
            self.spawn(self._serve, request, handler)
        else:
            request.fail(MethodNotFound(f"this client does not offer {request.method[:100]}"))

    def end_of_input(self) -> None:
        """The reader returns next and reports the end with its reason."""

    async def _serve(self, request: IncomingRequest, handler: RequestHandler) -> None:
        with anyio.CancelScope() as scope:
            request.on_cancel = scope.cancel
            try:
                request.answer(await handler(_strict_params(request.params)))
            except Exception as error:
                request.fail(error)
        if scope.cancelled_caught:
            request.fail(RequestCancelled("the request was withdrawn"))


@asynccontextmanager
async def open_connection(
    target: AgentCommand | Sequence[str] | ByteStream, handlers: ClientHandlers, options: ClientOptions
) -> AsyncIterator[Connection]:
    """Start an agent, or use a stream that leads to one, and end it on the way out.

    Args:
        target: a command to start, or the bytes of an agent that runs elsewhere.
        handlers: what to do with what comes.
        options: how to behave.

    Raises:
        AgentStartError: the program cannot be started.
    """
    command = AgentCommand(list(target)) if isinstance(target, Sequence) else target
    stream: ByteStream = await start_agent(command) if isinstance(command, AgentCommand) else command
    async with task_group() as group:
        connection = Connection(stream, handlers, options)
        group.start_soon(connection.run)
        try:
            yield connection
        finally:
            await connection.shut_down()


def _read_params(params: bytes) -> Mapping[str, Any]:
    try:
        return members(msgspec.json.decode(params)) if params else {}
    except (msgspec.DecodeError, RecursionError):
        _log.warning("unreadable params: %.200r", params)
        return {}


def _strict_params(params: bytes) -> Mapping[str, Any]:
    try:
        value = msgspec.json.decode(params) if params else {}
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidParams("the params are not readable") from error
    if not isinstance(value, dict):
        raise InvalidParams("the params must be an object")
    return value
