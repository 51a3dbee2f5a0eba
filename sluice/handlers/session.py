"""The owner of one session: one object and one task per incarnation.

A session id has one session machine for as long as this process knows it; each time the session is opened, an
`Incarnation` is made, with a turn machine of its own and everything that is started for it. The task that runs
`Incarnation.run` holds the task group of all that, and **the end of that task is the joint work of close**: closing
fires the event, cancels scopes and sets `stop`; it starts nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

import anyio
from anyio.abc import TaskGroup

from sluice import acp, machines
from sluice.agent.conversation import Conversation
from sluice.agent.team import Agent, Team
from sluice.agent.turn_hooks import end_session
from sluice.handlers.answers import refused, wire_error
from sluice.handlers.background_agents import BackgroundAgents, BackgroundWork
from sluice.handlers.elicitation import ClientElicitation
from sluice.handlers.entry import Entry
from sluice.handlers.holder import Holder
from sluice.handlers.joint import Joint
from sluice.handlers.mcp_servers import retire_servers
from sluice.handlers.terminals import ClientTerminals
from sluice.machines import answers, coupling, verdicts
from sluice.wire import tracing
from sluice.wire.cleanup import shielded
from sluice.wire.errors import BackendError, RequestCancelled
from sluice.wire.peer import IncomingRequest

if TYPE_CHECKING:
    from typing import Unpack

    from sluice.handlers.connection import Connection
    from sluice.handlers.team_setup import Built
    from sluice.mcp.servers import McpToolset
    from sluice.mcp.supervised import SupervisedToolset
    from sluice.persistence.sessions import SessionChanges

__all__ = ["Entry", "Holder", "Incarnation", "Setup"]

log = logging.getLogger(__name__)

SESSION_END_SECONDS = 5.0
"""How long the `session_end` hooks of a session may take together, in seconds: a close waits for them."""


class Setup(Protocol):
    """What new, load and resume differ in; see `session_setup`."""

    async def build(self, incarnation: Incarnation) -> str:
        """Make the session; returns constructed or not_found, raises for setup_failed."""
        ...

    async def abandon(self, incarnation: Incarnation) -> None:
        """Undo what was stored for a session whose construction was overtaken by its close."""
        ...

    def result(self, incarnation: Incarnation) -> tuple[Any, list[tuple[str, Any]]]:
        """The result of the request and the notifications that follow it directly."""
        ...


class Incarnation:
    """One opening of a session, from its construction to the end of everything started for it.

    Attributes:
        turn: the turn machine; None until the session is constructed.
        conversation: what the turn works on; None until the session is constructed.
        workspace: the stored directory, None for a session that was stored without one.
        team: the agents with their models and toolsets; stopped by the owner, also when setup failed half way.
        servers: the client's MCP servers, replaced as a whole by load and resume.
        supervised: the MCP servers of the agent file; the team stops them again, to hear how that went.
        generation: how many lists of servers this incarnation has had; it tells names of their tools apart.
        assembled: what the session was made from; None until the session is constructed.
        shown_options: the options as the client was told them last.
        kept: the columns that `keep` has stored, as they are in the store.
        built: set when setup has ended, however; waiters read the recorded results, never the machine.
        stop: set by closing; the owner then leaves its task group.
        ending: the joint work of close.
        setup_error: why the construction failed, for the request that asked for it.
    """

    def __init__(self, connection: Connection, entry: Entry, request: IncomingRequest, setup: Setup) -> None:
        self.connection = connection
        self.entry = entry
        self.request = request
        self.setup = setup
        self.turn: machines.CompiledTurn | None = None
        self.conversation: Conversation | None = None
        self.workspace: str | None = None
        self.holder: Holder | None = None
        self.queued: Holder | None = None
        self.team: Team | None = None
        self.servers: list[McpToolset] = []
        self.supervised: list[SupervisedToolset] = []
        self.generation = 0
        self.background: list[BackgroundWork] = []
        self.background_agents = BackgroundAgents(self)
        self.terminals = ClientTerminals(self)
        self.elicitation = ClientElicitation(self)
        self.assembled: Built | None = None
        self.shown_options: list[acp.SessionConfigOption] = []
        self.kept: SessionChanges = {}
        self.build_scope = anyio.CancelScope()
        self.built = anyio.Event()
        self.stop = anyio.Event()
        self.closed_under: tracing.Trace | None = None
        self.ending = Joint()
        self.setup_error: BaseException | None = None
        self.toolset_error = False
        self.tasks: TaskGroup

    @property
    def id(self) -> str:
        """The session id."""
        return self.entry.id

    @property
    def talk(self) -> Conversation:
        """The conversation of a constructed session."""
        assert self.conversation is not None, "only a constructed session has a conversation"
        return self.conversation

    def agents(self) -> Iterable[Agent]:
        """The agents of the team; none before there is one."""
        return self.team.agents.values() if self.team is not None else ()

    def offer_tools(self) -> None:
        """Give every agent the tools of the client's servers, as they are now, behind its own."""
        for agent in self.agents():
            agent.refresh(self.servers)

    async def notify(self, update: acp.SessionUpdate) -> None:
        """Send an update of this session; waits for room in the queue."""
        await self.connection.peer.notify("session/update", acp.SessionNotification(self.id, update))

    async def keep(self, **changes: Unpack[SessionChanges]) -> None:
        """Store columns of this session. What is stored already costs no transaction: most turns change nothing here.

        Raises:
            StoreError: nothing was stored.
        """
        if changes.items() <= self.kept.items():
            return
        store = await self.connection.assembly.store()
        await store.update_session(self.id, **changes)
        self.kept.update(changes)

    # --- the owner's task -------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Build, serve until `stop`, join everything, and end by exactly one of `drained` and `unresolved`."""
        try:
            try:
                await self._live()
            except Exception:
                log.exception("the owner of session %s failed", self.id)
                with shielded(None, "what is left of a session is settled before it ends"):
                    await self._collapse()
            if self.entry.machine.state == "absent":
                return  # nothing after the event that freed the id
            with shielded(None, "a session makes the last releases and joins its toolsets before it ends"):
                with tracing.under(self.closed_under):
                    await self.terminals.last_attempt()
                await self._stop_toolsets()
            event = verdicts.verdict("session", self._children())
            if event is None and self.toolset_error:
                event = "unresolved"
            assert event is not None, "everything is joined, so the verdict is there"
            if event == "unresolved":
                self.entry.error = "The session's cleanup failed: a toolset, server or terminal could not be stopped."
                self.ending.error = refused(machines.Refusal("cleanup_failed", -32603), self.id, self.entry.error)
            self.ending.result = {}
            self.entry.live = None
            self.entry.machine.fire(event)
        finally:
            self.built.set()
            self.ending.settle()
            self.connection.session_ended(self.entry)

    async def _live(self) -> None:
        event = "setup_failed"
        async with anyio.create_task_group() as self.tasks:
            with self.build_scope:
                event = await self._build()
            if self.entry.machine.state != "constructing":
                with shielded(None, "a construction that was closed leaves nothing behind"):
                    await self._abandon()
            if event == "constructed" and self.entry.machine.state == "constructing":
                self.turn = machines.CompiledTurn(key=self.id, record=self.connection.record)
            if event != "not_found" or self.entry.machine.state != "constructing":
                self.constructed(event)
                await self.stop.wait()
                # Servers first: a tool call that is stuck in one must not keep its turn from draining.
                with shielded(None, "a session stops its MCP servers before it joins its turn"):
                    await retire_servers([*self.servers, *self.supervised])
            # Leaving the block joins every child.
        if not self.built.is_set():
            self.constructed("not_found")

    async def _abandon(self) -> None:
        try:
            await self.setup.abandon(self)
        except Exception as error:
            # A row that stays is no resource that stays: the session ends as it would have.
            log.error("session %s was given up and its row is still there: %s", self.id, wire_error(error))

    async def _collapse(self) -> None:
        """Bring the machines to rest after an error nobody foresaw; every task of this incarnation has ended.

        The session keeps the failure, since nobody knows what was left undone. The connection and its other sessions
        go on.
        """
        self.toolset_error = True
        self.fire_session("setup_failed")
        if not self.built.is_set():
            self.request.fail(BackendError("The session could not be set up"))
        for task in self.background:
            if task.can("finished"):
                task.fire("finished")
        if self.turn is None or self.turn.state == "closed":
            return
        if self.holder is not None:
            await self._settle(self.holder)
        self.fire_turn("unresolved")

    async def _build(self) -> str:
        try:
            return await self.setup.build(self)
        except Exception as error:
            self.setup_error = wire_error(error)
            return "setup_failed"

    def constructed(self, event: str) -> None:
        """Fire how the construction ended and answer its request, in one step."""
        before = self.entry.machine.state
        self.entry.machine.fire(event)
        if before == "constructing":
            self._entered_session()
        if answers.answer(before, event).holder == "request_cancelled":
            self.request.fail(RequestCancelled("Request cancelled"))
        elif event == "constructed":
            result, then = self.setup.result(self)
            self.request.answer(result, then)
        else:
            self.request.fail(self.setup_error or BackendError("The session could not be set up"))
        self.built.set()

    async def _stop_toolsets(self) -> None:
        if self.team is None:
            return
        if self.conversation is not None:
            with shielded(SESSION_END_SECONDS, "the session_end hooks of a session run"):
                await end_session(self.conversation)
        try:
            await self.team.stop()
        except Exception:
            log.exception("the toolsets of session %s could not be stopped", self.id)
            self.toolset_error = True

    def _children(self) -> dict[str, list[str]]:
        return {
            "constructor": ["ended"],
            "turn": [self.turn.state] if self.turn is not None else [],
            "background": [task.state for task in self.background],
            "mcp": [server.machine.state for server in self.servers],
            "terminal": self.terminals.states(),
            "toolsets": ["failed" if self.toolset_error else "stopped"],
        }

    # --- the foreground slot ----------------------------------------------------------------------------------

    def hold(self, holder: Holder) -> None:
        """Take the slot that the turn machine has just given, or wait for it when the machine says queued."""
        assert self.turn is not None
        if self.turn.state == "queued":
            self.queued = holder
        else:
            self.holder = holder
            self.tasks.start_soon(self._hold, holder)

    async def _hold(self, holder: Holder) -> None:
        """One task per holder. The event that frees the slot is the last thing it does."""
        tracing.adopt(holder.trace)
        with holder.scope:
            try:
                holder.outcome = await holder.work(holder)
            except Exception as error:
                holder.outcome = wire_error(error)
        with shielded(None, "a turn settles its calls and stores what was said before its slot is freed"):
            await self._settle(holder)
        event = verdicts.verdict("turn", self._own_children(holder))
        assert event is not None, "the run is settled, so the verdict is there"
        self.fire_turn(event)

    async def _settle(self, holder: Holder) -> None:
        if holder.settle is None:
            return
        try:
            await holder.settle()
        except Exception as error:
            log.exception("a turn of session %s could not be settled", self.id)
            holder.outcome = wire_error(error)

    def _own_children(self, holder: Holder) -> dict[str, list[str]]:
        calls = holder.run.every_call() if holder.run is not None else []
        return {
            "own tool": [call.machine.state for call in calls],
            "own terminal": self.terminals.states(owner=""),
            "terminal": self.terminals.states(),
            "mcp": [server.machine.state for server in self.servers],
        }

    # --- firing, with coupling and effects in the same step ----------------------------------------------------

    def fire_session(self, event: str) -> None:
        """Fire at the session machine, then what its new state asks of the children."""
        before = self.entry.machine.state
        self.entry.machine.fire(event)
        if self.entry.machine.state != before:
            self._entered_session()

    def _entered_session(self) -> None:
        state = self.entry.machine.state
        for child, event in coupling.children("session", state):
            if child == "mcp":
                for server in self.servers:
                    server.retire()
            elif child == "turn" and self.turn is not None and self.turn.can(event):
                self.fire_turn(event)
            elif child == "background":
                for task in self.background:
                    if task.can(event):
                        task.fire(event)
        if state in ("closing", "deleting"):
            # The last releases belong to who closed the session, not to who opened it (tracing.scope.final-close).
            self.closed_under = tracing.current()
            self.build_scope.cancel()
            self.stop.set()

    def fire_turn(self, event: str) -> None:
        """Fire at the turn machine; answer whom the table ANSWERS names; couple; start a promoted prompt."""
        assert self.turn is not None
        before = self.turn.state
        self.turn.fire(event)
        holder, queued = self.holder, self.queued
        due = answers.answer(before, event, holder.method if holder is not None else "session/prompt")
        if due.holder is not None and holder is not None:
            self.holder = None
            holder.respond(self.id, due.holder)
        if due.queued is not None and queued is not None:
            self.queued = None
            if due.queued == "promoted":
                self.hold(queued)
            elif due.queued == "cancelled":
                queued.request.answer(acp.PromptResponse("cancelled"))
            else:
                queued.request.fail(refused(machines.Refusal("cleanup_failed", -32603), self.id, self.entry.error))
        self._entered_turn()

    def _entered_turn(self) -> None:
        assert self.turn is not None
        if self.holder is None or self.turn.state not in ("draining", "closing"):
            return
        for child, _event in coupling.children("turn", self.turn.state):
            if child == "tool" and self.holder.run is not None:
                for call in self.holder.run.every_call():
                    call.interrupt()
            elif child == "terminal":
                self.terminals.stop(owner="")
        self.holder.scope.cancel()

    def couple_upwards(self, child: str, state: str) -> None:
        """A child entered a state that may close the foreground slot: block the turn where the table says so."""
        turn = self.turn
        for parent, event in coupling.children(child, state):
            if parent == "turn" and turn is not None and coupling.reaches(child, state, "turn", turn.state):
                self.fire_turn(event)

    def background_state(self, owner: str) -> str:
        """The state of one background task; a task that is not known has ended."""
        return next((task.state for task in self.background if task.key == owner), "ended")
