"""A server made of real machines and nothing else: what handlers do, without any input or output.

It fires the drivers of `machines.DRIVERS` by ADMISSION, COUPLING, VERDICTS and ANSWERS, and owns more than the search
can afford: any number of calls, terminals, background tasks and MCP servers in three sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from sluice.machines import ALL as DECLARED
from sluice.machines import (
    DRIVERS,
    AnyMachine,
    Decision,
    Transition,
    View,
    admit,
    answer,
    children,
    final_names,
    reaches,
    verdict,
)
from sluice.machines.admission import AT_THE_DEADLINE

PROMPT = "session/prompt"


class Completion(NamedTuple):
    """Something that may arrive now. `progress`: it will, without the good will of client, model or command."""

    label: str
    progress: bool
    act: Callable[[], None]


@dataclass
class Owned:
    """A call or a terminal, and who started it."""

    machine: AnyMachine
    owner: AnyMachine


@dataclass
class Task:
    """A background task: its machine, and whether its work is in flight."""

    machine: AnyMachine
    work: bool = True


@dataclass
class Session:
    """A session id and everything its present incarnation owns."""

    name: str
    machine: AnyMachine
    turn: AnyMachine | None = None
    holder: int | None = None
    holder_method: str = ""
    work: bool = False
    queued: int | None = None
    constructor: int | None = None
    constructing: bool = False
    calls: list[Owned] = field(default_factory=list)
    terminals: list[Owned] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    servers: list[AnyMachine] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)  # for the end of its closing
    deleting: list[int] = field(default_factory=list)  # for the end of its removal


class Server:
    """One connection. `answers` holds what each request was told; a second answer to one raises."""

    def __init__(self, names: str) -> None:
        self.history: list[Transition] = []
        self.connection = self.machine("connection")
        self.barrier = self.machine("deletion")
        self.sessions = {name: Session(name, self.machine("session", name)) for name in names}
        self.deleter: Session | None = None
        self.initializing = self.authenticating = False
        self.authenticate_request: int | None = None
        self.initialize_request: int | None = None
        self.logging_out: list[int] = []
        self.held: list[tuple[int, str, Session | None]] = []
        self.input_ended = False
        self.methods: list[str] = []
        self.answers: dict[int, str] = {}

    def machine(self, name: str, key: str = "") -> AnyMachine:
        return DRIVERS[name](key, self.history.append)

    def reply(self, request: int | None, what: str) -> None:
        assert request is not None and request not in self.answers, f"{request} is answered again: {what}"
        self.answers[request] = what

    # --- firing ---

    def fire(self, machine: AnyMachine, event: str, session: Session | None = None) -> None:
        source = machine.state
        target = machine.fire(event)
        if session is not None and machine is session.turn:
            self._answer(session, source, event)
        if source == target:
            return
        for child, told in children(machine.machine, target):
            for other, of in self._children(machine, child, session):
                if other.can(told) and reaches(machine.machine, target, child, other.state):
                    self.fire(other, told, of)

    def _children(
        self, parent: AnyMachine, child: str, session: Session | None
    ) -> list[tuple[AnyMachine, Session | None]]:
        if session is None:
            return [(other.machine, other) for other in self.sessions.values()]
        found = {
            "mcp": session.servers,
            "turn": [session.turn] if session.turn else [],
            "background": [task.machine for task in session.tasks],
            "tool": [call.machine for call in session.calls if call.owner is parent],
            "terminal": [terminal.machine for terminal in session.terminals if terminal.owner is parent],
        }[child]
        return [(machine, session) for machine in found]

    def _answer(self, session: Session, source: str, event: str) -> None:
        told = answer(source, event, session.holder_method or PROMPT)
        if told.queued in ("cancelled", "refused"):
            self.reply(session.queued, told.queued)
            session.queued = None
        if told.holder is not None:
            self.reply(session.holder, told.holder)
            session.holder, session.holder_method = None, ""
        if told.queued == "promoted":
            session.holder, session.holder_method, session.work = session.queued, PROMPT, True
            session.queued = None

    # --- requests ---

    def view(self, method: str, session: Session | None) -> View:
        states = {name: other.machine.state for name, other in self.sessions.items()}
        if session is None:
            others = tuple(states.values()) if method == "authenticate" else ()
            return View(self.connection.state, self.barrier.state, others=others)
        return View(
            self.connection.state,
            self.barrier.state,
            session.machine.state,
            session.turn.state if session.turn else None,
            tuple(task.machine.state for task in session.tasks),
            tuple(state for name, state in states.items() if name != session.name),
        )

    def read(self, method: str, session: Session | None = None) -> tuple[int, Decision]:
        """A request or notification is read; returns its number and what was decided."""
        self.methods.append(method)
        request = len(self.methods) - 1
        return request, self._decide(request, method, session)

    def _decide(self, request: int, method: str, session: Session | None) -> Decision:
        decision = admit(method, self.view(method, session))
        if decision.verdict == "held":
            self.held.append((request, method, session))
        elif decision.verdict == "join":
            self._join(request, method, session)
        elif decision.verdict == "admitted":
            self._admitted(request, method, session, decision)
        else:
            self.reply(request, decision.refusal.reason if decision.refusal else "ok")
        return decision

    def _join(self, request: int, method: str, session: Session | None) -> None:
        if method == "initialize":
            self.reply(request, "joined")
        elif session is None:
            self.logging_out.append(request)
        else:
            (session.deleting if method == "session/delete" else session.waiting).append(request)

    def _admitted(self, request: int, method: str, session: Session | None, decision: Decision) -> None:
        if session is None:
            self._on_connection(request, method)
            return
        if method == "session/cancel":
            self.reply(request, "silent")
        elif method == "session/close":
            session.waiting.append(request)
        elif method == "session/delete":
            session.deleting.append(request)
            self.deleter = session
        for name in decision.fire:
            machine = {"session": session.machine, "turn": session.turn, "deletion": self.barrier}[name]
            assert machine is not None
            source = machine.state
            self.fire(machine, method, None if name == "deletion" else session)
            if name == "session" and machine.state == "constructing":
                session.constructor, session.constructing = request, True
            elif name == "turn" and method == PROMPT and source == "draining":
                session.queued = request
            elif name == "turn" and method != "session/cancel":
                session.holder, session.holder_method, session.work = request, method, True

    def _on_connection(self, request: int, method: str) -> None:
        if method == "initialize":
            self.initialize_request, self.initializing = request, True
        elif method == "authenticate":
            self.authenticate_request, self.authenticating = request, True
        elif method == "logout":
            self.logging_out.append(request)
        elif method in ("end_of_input", AT_THE_DEADLINE):
            self.reply(request, "silent")
            held, self.held = self.held, []
            for waiting, what, _ in held:
                self.reply(waiting, "silent" if what == "end_of_input" else "shutting_down")
        self.fire(self.connection, "end_of_input" if method == AT_THE_DEADLINE else method)

    # --- completions ---

    def completions(self) -> Iterator[Completion]:
        """Everything that may arrive now, of the connection and of every session."""
        yield from self._of_connection()
        for session in self.sessions.values():
            yield from self._of_constructor(session)
            yield from self._of_holder(session)
            yield from self._of_calls(session)
            yield from self._of_tasks(session)
            yield from self._of_terminals(session)
            yield from self._of_servers(session)
            yield from self._of_session(session)

    def _of_connection(self) -> Iterator[Completion]:
        if self.initializing:
            for event in ("credentials_found", "credentials_missing", "initialize_failed"):
                yield Completion(event, True, partial(self._initialized, event))
        if self.authenticating:
            for event in ("authenticated", "authentication_failed"):
                yield Completion(event, True, partial(self._authenticated, event))
        if any(session.work and session.holder_method == PROMPT for session in self.sessions.values()):
            missing = partial(self.fire, self.connection, "credentials_missing")
            yield Completion("a model answers 401", False, missing)
        if self.connection.state in ("logging_out", "shutting_down"):
            seen = {
                "initialize": ["running"] if self.initializing else [],
                "authenticate": ["running"] if self.authenticating else [],
                "session": [session.machine.state for session in self.sessions.values()],
                "deletion": [self.barrier.state],
            }
            end = verdict("connection", seen)
            if end is not None:
                yield Completion(f"connection {end}", True, partial(self._connection_ends, end))
        if self.deleter is not None:
            end = verdict("deletion", {"deleting session": [self.deleter.machine.state]})
            if end is not None:
                yield Completion("barrier released", True, partial(self._release, end))

    def _initialized(self, event: str) -> None:
        self.initializing = False
        self.reply(self.initialize_request, event)
        before = self.connection.state
        self.fire(self.connection, event)
        if before == "initializing":
            held, self.held = self.held, []
            for request, method, session in held:
                self._decide(request, method, session)

    def _authenticated(self, event: str) -> None:
        self.authenticating = False
        self.reply(self.authenticate_request, event)
        self.fire(self.connection, event)

    def _connection_ends(self, event: str) -> None:
        self.fire(self.connection, event)
        waiting, self.logging_out = self.logging_out, []
        for request in waiting:
            self.reply(request, event)

    def _release(self, event: str) -> None:
        assert self.deleter is not None
        waiting, self.deleter.deleting = self.deleter.deleting, []
        state, self.deleter = self.deleter.machine.state, None
        self.fire(self.barrier, event)
        for request in waiting:
            self.reply(request, state)

    def _of_constructor(self, session: Session) -> Iterator[Completion]:
        if not session.constructing:
            return
        overtaken = session.machine.state != "constructing"
        # A session opens only when its servers have settled: one that fails later would find an open turn in a state
        # that does not expect it.
        settled = all(server.state in ("ready", "disconnected", "retired") for server in session.servers)
        events = ["setup_failed"]
        if settled or overtaken:
            events.append("constructed")
        if overtaken or not session.servers:
            events.append("not_found")
        for event in events:
            yield Completion(f"{session.name} {event}", True, partial(self._constructed, session, event))
        if overtaken:
            yield Completion(f"{session.name} constructor ended", True, lambda: self._constructed(session, "ended"))
        elif len(session.servers) < 2:
            server = self.machine("mcp", session.name)
            yield Completion(f"{session.name} connects", False, lambda: session.servers.append(server))

    def _constructed(self, session: Session, event: str) -> None:
        before = session.machine.state
        told = answer(before, event)
        session.constructing = False
        self.reply(session.constructor, str(told.holder))
        if event != "ended":
            self.fire(session.machine, event, session)
        if before == "constructing" and session.machine.state == "open":
            session.turn = self.machine("turn", session.name)

    def _of_holder(self, session: Session) -> Iterator[Completion]:
        turn = session.turn
        if turn is None or session.holder is None:
            return
        prompt = session.holder_method == PROMPT
        if session.work:
            mine = prompt and turn.state == "busy"
            yield Completion(f"{session.name} work over", not mine, lambda: self._work_over(session))
            if session.holder_method in ("session/load", "session/resume"):
                yield Completion(f"{session.name} replay failed", True, lambda: self._replay_failed(session))
        else:
            event = verdict(
                "turn",
                {
                    **self._own(session, turn),
                    "terminal": [terminal.machine.state for terminal in session.terminals],
                    "mcp": [server.state for server in session.servers],
                },
            )
            if event is not None:
                yield Completion(f"{session.name} turn {event}", True, lambda: self.fire(turn, str(event), session))
        if session.work and prompt:
            yield from self._new_work(session, turn, None)

    def _work_over(self, session: Session) -> None:
        assert session.turn is not None
        session.work = False
        if session.turn.state == "busy":
            self._settle(session, session.turn)

    def _settle(self, session: Session, owner: AnyMachine) -> None:
        for call in session.calls:
            for event in ("interrupted", "outcome_unknown"):
                if call.owner is owner and call.machine.can(event):
                    self.fire(call.machine, event, session)
        for terminal in session.terminals:
            if terminal.owner is owner and terminal.machine.can("stop"):
                self.fire(terminal.machine, "stop", session)

    def _replay_failed(self, session: Session) -> None:
        session.work, session.holder_method = False, "setup_failed"
        self.fire(session.machine, "setup_failed", session)

    def _own(self, session: Session, owner: AnyMachine) -> dict[str, list[str]]:
        return {
            "own tool": [call.machine.state for call in session.calls if call.owner is owner],
            "own terminal": [terminal.machine.state for terminal in session.terminals if terminal.owner is owner],
        }

    def _new_work(self, session: Session, owner: AnyMachine, task: str | None) -> Iterator[Completion]:
        view = self.view(PROMPT, session)._replace(owner=task)
        name = session.name
        if len(session.calls) < 6 and admit("tool call", view).verdict == "admitted":
            call = Owned(self.machine("tool", name), owner)
            yield Completion(f"{name} tool call", False, lambda: session.calls.append(call))
        if len(session.terminals) < 4 and admit("terminal/create", view).verdict == "admitted":
            terminal = Owned(self.machine("terminal", name), owner)
            yield Completion(f"{name} creates a terminal", False, lambda: session.terminals.append(terminal))
        if len(session.tasks) < 3 and admit("background start", view).verdict == "admitted":
            started = Task(self.machine("background", name))
            yield Completion(f"{name} background starts", False, lambda: session.tasks.append(started))

    def _of_calls(self, session: Session) -> Iterator[Completion]:
        working = [task.machine for task in session.tasks if task.work]
        for call in session.calls:
            machine = call.machine
            at_work = session.work if call.owner is session.turn else call.owner in working
            for event in ("ask", "start", "denied", "rejected", "result", "error") if at_work else ():
                if machine.can(event):
                    yield self._firing(session, machine, event, progress=False)
            if not at_work and machine.can("outcome_unknown"):
                yield self._firing(session, machine, "outcome_unknown", progress=True)

    def _firing(self, session: Session, machine: AnyMachine, event: str, *, progress: bool) -> Completion:
        label = f"{session.name} {machine.machine} {event}"
        return Completion(label, progress, lambda: self.fire(machine, event, session))

    def _of_tasks(self, session: Session) -> Iterator[Completion]:
        for task in session.tasks:
            machine = task.machine
            if task.work:
                ending = Completion("task", machine.state == "cancelling", partial(self._task_over, session, task))
                yield ending._replace(label=f"{session.name} task over")
                if session.turn is not None:
                    yield from self._new_work(session, machine, machine.state)
            elif machine.can("finished"):
                event = verdict("background", self._own(session, machine))
                if event is not None:
                    yield self._firing(session, machine, event, progress=True)

    def _task_over(self, session: Session, task: Task) -> None:
        task.work = False
        if task.machine.state == "running":
            self._settle(session, task.machine)

    def _of_terminals(self, session: Session) -> Iterator[Completion]:
        over = session.turn is None or session.turn.state == "closed"
        over = over and all(task.machine.state == "ended" for task in session.tasks) and not session.constructing
        for terminal in session.terminals:
            machine = terminal.machine
            certain = {
                "abandoned": ("create_lost",),
                "killing": ("collected",),
                "releasing": ("terminal/release", "release_error"),
                "last_attempt": ("terminal/release", "release_error"),
            }.get(machine.state, ())
            for event in certain:
                yield self._firing(session, machine, event, progress=True)
            for event in ("created", "create_refused", "create_lost", "exit", "stop", "collected"):
                if event not in certain and machine.can(event) and (machine.state, event) != ("creating", "stop"):
                    yield self._firing(session, machine, event, progress=False)
            if machine.can("try_again") and over and session.machine.state in ("closing", "deleting"):
                yield self._firing(session, machine, "try_again", progress=True)

    def _of_servers(self, session: Session) -> Iterator[Completion]:
        for server in session.servers:
            for event in ("listed", "lost", "stopped", "stop_failed"):
                if server.can(event):
                    yield self._firing(session, server, event, progress=event.startswith("stop"))

    def _of_session(self, session: Session) -> Iterator[Completion]:
        machine = session.machine
        if machine.can("withdrawn"):
            yield Completion(f"{session.name} withdrawn", False, lambda: self.fire(machine, "withdrawn", session))
        for event in ("removed", "not_removed"):
            if machine.can(event):
                yield self._firing(session, machine, event, progress=True)
        if machine.state in ("closing", "deleting"):
            for toolsets in ("stopped", "failed"):
                end = verdict("session", self.owned(session, toolsets))
                if end is not None:
                    label = f"{session.name} session {end}"
                    yield Completion(label, True, partial(self._session_ends, session, end))

    def owned(self, session: Session, toolsets: str) -> dict[str, list[str]]:
        """The children a session's verdict looks at."""
        return {
            "constructor": ["running"] if session.constructing else ["ended"],
            "turn": [session.turn.state] if session.turn else [],
            "background": [task.machine.state for task in session.tasks],
            "mcp": [server.state for server in session.servers],
            "terminal": [terminal.machine.state for terminal in session.terminals],
            "toolsets": [toolsets],
        }

    def _session_ends(self, session: Session, event: str) -> None:
        self.fire(session.machine, event, session)
        finals = {name: final_names(cls) for name, cls in DECLARED.items()}
        left = [session.turn, *session.servers, *(task.machine for task in session.tasks)]
        left += [owned.machine for owned in (*session.calls, *session.terminals)]
        assert all(machine is None or machine.state in finals[machine.machine] for machine in left)
        session.turn = None
        for owned in (session.servers, session.tasks, session.calls, session.terminals):
            owned.clear()
        waiting, session.waiting = session.waiting, []
        for request in waiting:
            self.reply(request, event)
