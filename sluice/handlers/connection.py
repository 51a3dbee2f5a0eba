"""The owner of one connection: its machines, its sessions, and the door every message comes through.

The reader calls `request`, `notification` and `end_of_input` synchronously and in read order. Each looks up, asks the
admission table, fires, and starts the work that was admitted; nothing is awaited in between, so admitted or refused,
never half. All work runs in `tasks`, or in the tasks of the session it belongs to.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import TaskGroup

from sluice import acp, machines
from sluice.acp import ClientCapabilities
from sluice.handlers.answers import auth_required, refused, wire_error
from sluice.handlers.entry import Entry
from sluice.handlers.joint import Joint
from sluice.machines import Decision, Refusal, View, admission, coupling, verdicts
from sluice.wire.cleanup import shielded
from sluice.wire.errors import MethodNotFound, RequestCancelled
from sluice.wire.peer import IncomingRequest, Peer
from sluice.wire.tracing import Tracing

if TYPE_CHECKING:
    from sluice.handlers.assembly import Assembly
    from sluice.handlers.elicitation import Pending

__all__ = ["Admit", "Connection", "Notice"]

log = logging.getLogger(__name__)

Admit = Callable[["Connection", IncomingRequest], None]
"""The synchronous half of a handler: look up, fire, decide; it starts the work that was admitted."""

Notice = Callable[["Connection", bytes], None]
"""The handler of a notification; it gets the raw params and answers nobody."""

MAX_HELD = 256
"""Requests kept while initializing; more are refused, so that a flood cannot fill memory."""

INITIALIZE_BUDGET = 2.0
"""Seconds that shutdown waits for initialize and what is held behind it before both are ended."""

FLUSH_BUDGET = 2.0
"""Seconds for the last answers to leave after everything has ended; then the exit status says that they did not."""


class Connection:
    """One client on one transport.

    Attributes:
        machine, deletion: the connection's machine and the barrier that an admitted delete holds.
        entries: session ids known here that are neither closed nor deleted.
        ended: ids that were closed or deleted here, by the name of that state.
        capabilities: what the client can do, from the first initialize.
        elicitations: the questions that are open at the client, of all sessions.
    """

    def __init__(
        self,
        peer: Peer,
        assembly: Assembly,
        requests: Mapping[str, Admit],
        notifications: Mapping[str, Notice],
        record: Callable[[machines.Transition], None] | None = None,
    ) -> None:
        self.peer = peer
        self.assembly = assembly
        offered = assembly.options.capabilities
        self.requests = {
            method: admit
            for method, admit in requests.items()
            if offered is None or acp.agent_allows(offered, acp.METHODS[method].gate)
        }
        self.notifications = notifications
        self.record = record
        self.machine = machines.CompiledConnection(key="connection", record=record)
        self.deletion = machines.CompiledDeletion(key="deletion", record=record)
        self.entries: dict[str, Entry] = {}
        self.ended: dict[str, str] = {}
        self.removals: set[Joint] = set()
        self.elicitations: dict[str, Pending] = {}
        self.held: list[IncomingRequest | None] = []  # None: end of input, always the last
        self.input_ended = anyio.Event()
        self.initializing: Joint | None = None
        self.initialize_scope = anyio.CancelScope()
        self.authenticating: Joint | None = None
        self.logging_out: Joint | None = None
        self.capabilities = ClientCapabilities()
        self.tracing = Tracing(assembly.options.spans)
        self.validation_failed = False
        self.tasks: TaskGroup

    # --- serving ----------------------------------------------------------------------------------------------

    async def serve(self) -> int:
        """Serve until end of input and join everything. Returns the exit status: 0 only after a clean end."""
        written = anyio.Event()

        async def write() -> None:
            await self.peer.write()
            written.set()

        async with anyio.create_task_group() as self.tasks:
            self.tasks.start_soon(write)
            self.tasks.start_soon(self._read)
            await self.input_ended.wait()
            with shielded(None, "shutdown joins every session before the store closes"):
                await self._shutdown()
            self.peer.close()
            with anyio.move_on_after(FLUSH_BUDGET):
                await written.wait()
            self.tasks.cancel_scope.cancel()
        return 0 if written.is_set() and self.machine.state == "closed" else 1

    async def _read(self) -> None:
        """Read to the very end, also while shutting down: what comes then is refused and not left unanswered."""

        async def watch() -> None:
            await self.peer.broken.wait()
            self.end_of_input()

        async with anyio.create_task_group() as watching:
            watching.start_soon(watch)
            await self.peer.read(self)
            watching.cancel_scope.cancel()

    async def _shutdown(self) -> None:
        if self.machine.state == "initializing" and self.initializing is not None:
            with anyio.move_on_after(INITIALIZE_BUDGET):
                await self.initializing.done.wait()
        if self.machine.state == "initializing":
            self.initialize_scope.cancel()
            self.fire("end_of_input")
            self._release_held()
        # Nobody can answer our requests any more, so every outstanding one fails now and not after its own budget.
        self.peer.fail_outstanding()
        for joint in (self.initializing, self.authenticating, self.logging_out):
            if joint is not None:
                await joint.done.wait()
        for entry in list(self.entries.values()):
            if entry.live is not None:
                await entry.live.ending.done.wait()
        for removal in list(self.removals):
            await removal.done.wait()
        await self.stop_validation()
        event = verdicts.verdict("connection", self.children())
        assert event is not None, "everything is joined, so the verdict is there"
        await self.assembly.aclose()
        self.machine.fire(event)

    async def stop_validation(self) -> None:
        """Stop the team that validates credentials; a failure counts in the verdict."""
        try:
            await self.assembly.stop_validation()
        except Exception:
            log.exception("the validation team could not be stopped")
            self.validation_failed = True

    def children(self) -> dict[str, list[str]]:
        """The states that the verdict on the connection looks at."""
        return {
            "initialize": [_running(self.initializing)],
            "authenticate": [_running(self.authenticating)],
            "session": [entry.machine.state for entry in self.entries.values()],
            "deletion": [self.deletion.state],
            "validation": ["failed" if self.validation_failed else "stopped"],
        }

    # --- the router: called by the reader, in read order, never awaiting ---------------------------------------

    def request(self, request: IncomingRequest) -> None:
        """Admit, hold or refuse one request."""
        if request.method not in self.requests:
            raise MethodNotFound(f"Method not found: {request.method[:100]!r}")
        if admission.admit(request.method, View(connection=self.machine.state)).verdict == "held":
            self._hold(request)
        else:
            with self.tracing.serving(request.method, request.params) as request.on_answered:
                self.requests[request.method](self, request)

    def notification(self, method: str, params: bytes) -> None:
        """Act on one notification; unknown ones are dropped in silence."""
        if method in self.notifications:
            with self.tracing.serving(method, params) as handled:
                try:
                    self.notifications[method](self, params)
                finally:
                    handled()

    def end_of_input(self) -> None:
        """Begin the shutdown; also for a signal and for a client that no longer reads. Only the first call counts."""
        if not self.input_ended.is_set():
            self.input_ended.set()
            self._end_input()

    def _end_input(self) -> None:
        """Fire end_of_input, or put it behind what is held while initializing."""
        if self.machine.state == "initializing":
            self.held.append(None)
        elif self.machine.can("end_of_input"):
            # Not when the deadline of an initialize has fired it already and what was held is released after that.
            self.fire("end_of_input")

    def _hold(self, request: IncomingRequest) -> None:
        if self.input_ended.is_set():
            raise refused(Refusal("shutting_down", -32600))
        if len(self.held) >= MAX_HELD:
            raise refused(Refusal("not_initialized", -32600))
        self.held.append(request)

        def leave() -> None:
            self.held.remove(request)
            request.fail(RequestCancelled("Request cancelled"))

        request.on_cancel = leave

    def _release_held(self) -> None:
        """Admit what was held, in read order, each as if it had just been read."""
        held, self.held = self.held, []
        for request in held:
            if request is None:
                self._end_input()
                continue
            request.on_cancel = None
            try:
                self.request(request)
            except Exception as error:
                request.fail(error)

    # --- deciding and firing ----------------------------------------------------------------------------------

    def decide(self, method: str, entry: Entry | None = None, others: Iterable[Entry] = ()) -> Decision:
        """What the admission table says now. Raises the refusal as its wire error."""
        live = entry.live if entry is not None else None
        turn = live.turn if live is not None else None
        view = View(
            connection=self.machine.state,
            deletion=self.deletion.state,
            session=entry.machine.state if entry is not None else "absent",
            turn=turn.state if turn is not None else None,
            background=tuple(task.state for task in live.background) if live is not None else (),
            others=tuple(other.machine.state for other in others),
        )
        decision = admission.admit(method, view)
        if decision.verdict == "refused":
            assert decision.refusal is not None
            if decision.refusal.reason == "auth_required" and self.assembly.missing:
                raise auth_required(self.assembly.missing)
            raise refused(decision.refusal, entry.id if entry else None, entry.error if entry else None)
        return decision

    def fire(self, event: str) -> None:
        """Fire at the connection machine, then close the sessions where its new state asks for that."""
        before = self.machine.state
        self.machine.fire(event)
        if self.machine.state == before:
            return
        for child, wanted in coupling.children("connection", self.machine.state):
            assert child == "session", "the connection couples to sessions only"
            for entry in list(self.entries.values()):
                if entry.live is not None and entry.machine.can(wanted):
                    entry.live.fire_session(wanted)

    def initialized(self, event: str) -> None:
        """Leave `initializing`: fire, then admit what was held, in the same step."""
        was_initializing = self.machine.state == "initializing"
        self.fire(event)
        if was_initializing:
            self._release_held()

    # --- sessions ---------------------------------------------------------------------------------------------

    def entry(self, session_id: str) -> Entry:
        """The entry of an id; a new one, not registered, for an id that is not live here."""
        known = self.entries.get(session_id)
        if known is not None:
            return known
        state = self.ended.get(session_id, "absent")
        return Entry(session_id, machines.Session(key=session_id, record=self.record, start_value=state))

    def register(self, entry: Entry) -> None:
        """Keep an entry at whose machine an event was fired."""
        self.ended.pop(entry.id, None)
        self.entries[entry.id] = entry

    def session_ended(self, entry: Entry) -> None:
        """Keep only the name of a session that is closed or deleted, and nothing of one that never was."""
        state = entry.machine.state
        if state in ("closed", "deleted"):
            self.ended[entry.id] = state
        if state in ("closed", "deleted", "absent"):
            self.entries.pop(entry.id, None)

    # --- work that no session owns ----------------------------------------------------------------------------

    def perform(self, request: IncomingRequest, work: Callable[[], Awaitable[Any]]) -> None:
        """Run `work` in a task of the connection and answer with its result; its cancel answers -32800."""
        scope = anyio.CancelScope()
        request.on_cancel = scope.cancel

        async def run() -> None:
            with scope:
                try:
                    request.answer(await work())
                except Exception as error:
                    request.fail(wire_error(error))
            if not request.answered:
                request.fail(RequestCancelled("Request cancelled"))

        self.tasks.start_soon(run)


def _running(joint: Joint | None) -> str:
    return "running" if joint is not None and not joint.done.is_set() else "ended"
