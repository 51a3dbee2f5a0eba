"""Background agents: tasks that other agents work on while the conversation goes on, owned by the session.

Each has a machine, a scope of its own and a run in the session's task group: cancelling a turn does not reach it,
closing the session cancels it and waits for it. Nobody is asked for leave on its behalf and nothing it does is told
to the client; its use is in the books with the next thing that is told. Requirements `teams.background.*` and
usage-cost.background.no-unsolicited.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Protocol

import anyio

from sluice import machines
from sluice.agent import delegation
from sluice.agent.events import Event
from sluice.agent.loop import Ports, Run
from sluice.agent.ports import ToolFailure, ToolResult
from sluice.agent.unattended import DenyAll
from sluice.handlers.nesting import nest_in
from sluice.machines import admission, coupling, verdicts
from sluice.machines.admission import View
from sluice.persistence.records import Message
from sluice.wire.cleanup import shielded

if TYPE_CHECKING:
    from sluice.handlers.session import Incarnation

__all__ = ["MOST_EVER", "MOST_RUNNING", "BackgroundAgents", "BackgroundWork"]

log = logging.getLogger(__name__)

MOST_RUNNING = 20
"""Agents that may work in the background of one session at the same time."""

MOST_EVER = 100
"""Agents that may be started in the background of one session while it is open."""

STOPPING = 10.0
"""Seconds that a stop waits for the end before it says that the task is still being stopped."""

NOT_ADMITTED = "No agent is started any more: what it was for is being ended."


class BackgroundWork(Protocol):
    """A background task as its session sees it: a machine, and what hangs on it."""

    @property
    def key(self) -> str:
        """Its id in records and as the owner of calls and terminals."""
        ...

    @property
    def state(self) -> str:
        """The state of its machine."""
        ...

    def can(self, event: str) -> bool:
        """Whether the machine has a row for the event now."""
        ...

    def fire(self, event: str) -> object:
        """Fire at the machine, then what its new state asks of the children."""
        ...


class _Task:
    """One agent at work in the background; a `BackgroundWork`.

    Attributes:
        id: what the tools call it.
        run: None while its session is being stored.
        end: what came of it, in a word and a text; None while nothing did. "stopped" is what stands when nothing else
            came before the end.
        ended: set in the step in which the machine ends.
    """

    def __init__(self, live: Incarnation, number: int, agent: str) -> None:
        self.live = live
        self.id = f"agent-{number}"
        self.agent = agent
        self.machine = machines.CompiledBackground(key=f"{live.id}/{self.id}", record=live.connection.record)
        self.scope = anyio.CancelScope()
        self.run: Run | None = None
        self.end: tuple[str, str] | None = None
        self.ended = anyio.Event()

    @property
    def key(self) -> str:
        return self.machine.key

    @property
    def state(self) -> str:
        return self.machine.state

    def can(self, event: str) -> bool:
        return self.machine.can(event)

    def fire(self, event: str) -> None:
        self.machine.fire(event)
        for child, _event in coupling.children("background", self.state):
            if child == "tool" and self.run is not None:
                for call in self.run.every_call():
                    call.interrupt()
            elif child == "terminal":
                self.live.terminals.stop(owner=self.key)
        if self.state == "cancelling":
            self.scope.cancel()
        elif self.state == "ended":
            self.ended.set()

    def finish(self) -> None:
        """Fire how it ended; everything of it is settled."""
        event = verdicts.verdict(
            "background",
            {
                "own tool": [call.machine.state for call in self.run.every_call()] if self.run is not None else [],
                "own terminal": self.live.terminals.states(owner=self.key),
            },
        )
        assert event is not None, "the run is settled, so the verdict is there"
        if self.can(event):
            self.fire(event)

    def line(self) -> str:
        """How it is, on one line."""
        how = {"running": "working", "cancelling": "being stopped"}.get(self.state, (self.end or ("stopped", ""))[0])
        return f"{self.id} ({self.agent}): {how}"

    def shown(self) -> str:
        """How it is, and what it has said: its answer, or the last words so far."""
        text = self.end[1] if self.end is not None else ""
        if not text and self.run is not None:
            said = self.run.attempts.partial(self.agent) if self.run.attempts is not None else None
            text = (said.text if said is not None else "") or delegation.last_answer(self.run.conversation)
        return f"{self.line()}\n{text}" if text else self.line()


async def _nowhere(event: Event) -> None:
    """The sink of what nobody is told."""


class BackgroundAgents:
    """The background agents of one incarnation; see `sluice.agent.ports.Background`."""

    def __init__(self, live: Incarnation) -> None:
        self.live = live
        self._tasks: dict[str, _Task] = {}
        self._numbers = count(1)

    async def start(self, run: Run, agent: str, task: Message) -> str:
        """Let an agent work on a task; returns its id once its session is stored. Raises ToolFailure."""
        made = self._admit(run, agent)
        try:
            # To its end, or a task that was admitted would never be worked on and never end.
            with shielded(None, "a background agent that was admitted is started; the store has a bound of its own"):
                ports = await self._ports(run, made)
                assert ports.nest is not None, "it has just been put there"
                nested = await delegation.nested_in(run, ports.nest, agent)
                made.run = delegation.below(run, nested, agent, apart=True)
                self.live.tasks.start_soon(self._work, made, nested, task)
        except Exception:
            made.end = ("failed", "It could not be started.")
            made.finish()
            raise
        return made.id

    def _admit(self, run: Run, agent: str) -> _Task:
        """Look, decide, and begin: no await in between. Raises ToolFailure when the table or a limit refuses."""
        live, connection = self.live, self.live.connection
        view = View(
            connection=connection.machine.state,
            session=live.entry.machine.state if live.entry.live is live else "closed",
            turn=live.turn.state if live.turn is not None else None,
            owner=live.background_state(run.ports.owner) if run.ports.owner else None,
        )
        if admission.admit("background start", view).verdict != "admitted":
            raise ToolFailure(NOT_ADMITTED)
        if sum(task.state != "ended" for task in self._tasks.values()) >= MOST_RUNNING:
            raise ToolFailure(
                f"{MOST_RUNNING} agents work in the background already; wait for one or stop one first."
            )
        if len(self._tasks) >= MOST_EVER:
            raise ToolFailure(f"{MOST_EVER} agents were started in this session, which is the most.")
        made = _Task(live, next(self._numbers), agent)
        self._tasks[made.id] = made
        live.background.append(made)
        return made

    async def _ports(self, run: Run, task: _Task) -> Ports:
        """The way out of a background agent and of the tasks that it gives: to nobody."""
        store = await self.live.connection.assembly.store()
        ports = replace(run.ports, sink=_nowhere, post=lambda event: None, permission=DenyAll(), owner=task.key)
        mode = run.conversation.approval.mode
        ports.nest = nest_in(store, self.live.workspace, mode, lambda owner: ports)
        return ports

    async def _work(self, task: _Task, nested: delegation.Nested, message: Message) -> None:
        """One task per agent. The event that ends it is the last thing it does."""
        run = task.run
        assert run is not None, "it is started with its run"
        with task.scope:
            try:
                task.end = ("done", delegation.answer_of(run, await run.run(message)))
            except ToolFailure as failure:
                task.end = ("failed", str(failure))
            except Exception:
                log.exception("the background agent %s failed", task.key)
                task.end = ("failed", "The agent failed unexpectedly; the log has the details.")
        with shielded(None, "a background agent settles its calls and stores what was said before it ends"):
            try:
                await delegation.settle(run, nested)
            except Exception:
                log.exception("the background agent %s could not be settled", task.key)
        task.finish()

    # --- what calls ask -------------------------------------------------------------------------------------------

    def overview(self) -> ToolResult:
        """All of them and how each is."""
        return ToolResult("\n".join(task.line() for task in self._tasks.values()) or "No agent was started yet.")

    def view(self, task_id: str) -> ToolResult:
        """How one is, and what it has said last."""
        return ToolResult(self._task(task_id).shown())

    async def stop(self, task_id: str) -> ToolResult:
        """Stop one, and say how it is."""
        task = self._task(task_id)
        if task.can("cancel"):
            task.fire("cancel")
        with anyio.move_on_after(STOPPING):
            await task.ended.wait()
        return ToolResult(task.shown())

    async def wait(self, task_ids: Sequence[str], seconds: float) -> ToolResult:
        """Wait for all of them, or until the time is up; then say how each is."""
        tasks = [self._task(task_id) for task_id in task_ids]
        with anyio.move_on_after(seconds):
            for task in tasks:
                await task.ended.wait()
        return ToolResult("\n\n".join(task.shown() for task in tasks))

    def _task(self, task_id: str) -> _Task:
        if task_id not in self._tasks:
            known = ", ".join(self._tasks) or "none"
            raise ToolFailure(f"There is no background agent {task_id!r}. There are: {known}.")
        return self._tasks[task_id]
