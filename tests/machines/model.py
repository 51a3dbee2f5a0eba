"""One session as the search sees it: what may happen inside it next, on top of the real tables.

The machines, their coupling, the verdicts and the answers are read from `sluice.machines`; what this file adds is the
behaviour of handlers: which completion can arrive when, and who is answered. A step is everything that happens in one
synchronous stretch of code, so the search interleaves sessions only where tasks could be interleaved.

Every request that is owed an answer is a field here (`holder`, `queued`, `asked`), and a step counts what it reads
and what it answers; a request that is forgotten or answered twice therefore breaks the count of the step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from sluice.machines import ALL, View, admit, answer, children, reaches, rows, verdict

SENTENCES = {
    1: "At most one prompt holds a session's slot, and at most one is queued, exactly while the turn is queued.",
    2: "Every admitted or held request is answered exactly once, at the latest when its turn is closed.",
    3: "A free slot has no open call and no live terminal of its own; an idle turn has nothing unresolved.",
    4: "A session that is closed, deleted, absent or removing owns nothing.",
    5: "History is removed only from removing, entered only from closed, absent or a deleting session that drained.",
    6: "A session in cleanup_failed has no live work, never leaves that state and is answered by refusals only.",
    7: "The barrier is held while a delete is admitted, by one session; no session starts constructing meanwhile.",
    8: "From logout until the next successful authenticate only authenticate, close, cancel and logout are admitted.",
    9: "Nothing is admitted after shutting_down; logged_out and closed mean that everything has ended well.",
    10: "A completion event is never refused.",
    11: "From every state, closed or shutdown_failed is reachable.",
    12: "From every state, completions alone lead to rest.",
    13: "A background task that has ended has no open call and no live terminal of its own.",
    14: "Requests are held only while initializing.",
}


class Violation(Exception):
    """An invariant does not hold. `number` is the sentence's."""

    def __init__(self, number: int, detail: str) -> None:
        super().__init__(f"{number}. {SENTENCES[number]} ({detail})")
        self.number = number
        self.detail = detail


Rows = Mapping[str, Mapping[tuple[str, str], str]]
"""machine -> (state, event) -> state."""


def real_rows() -> dict[str, dict[tuple[str, str], str]]:
    """The rows of the package, in a form that a planted fault can change."""
    return {name: {(row.source, row.event): row.target for row in rows(cls)} for name, cls in ALL.items()}


class Session(NamedTuple):
    """The states of one session and of what it owns; None or "" where there is nothing.

    Children in a final state that no verdict asks about are dropped at once, which keeps the space small.
    """

    state: str = "absent"
    constructor: bool = False  # its work is in flight
    asked: str = ""  # the method of the constructor's unanswered request
    turn: str | None = None
    holder: str = ""  # the method of the unanswered request that holds the slot, or "setup_failed"
    work: bool = False  # the holder's work is in flight
    queued: bool = False
    call: str | None = None  # of the turn
    task: str | None = None  # the background task
    task_work: bool = False
    task_call: str | None = None
    terminal: str | None = None
    owner: str = ""  # of the terminal: "turn" or "background"
    mcp: str | None = None

    @property
    def owed(self) -> int:
        """How many requests are waiting for an answer."""
        return bool(self.asked) + bool(self.holder) + self.queued

    def view(self, connection: str = "ready", deletion: str = "clear", owner: str | None = None) -> View:
        tasks = () if self.task is None else (self.task,)
        return View(connection, deletion, self.state, self.turn, tasks, (), owner)


MACHINE_OF = {
    "state": "session",
    "turn": "turn",
    "call": "tool",
    "task": "background",
    "task_call": "tool",
    "terminal": "terminal",
    "mcp": "mcp",
}
RESTING = ("absent", "closed", "removing", "deleted", "cleanup_failed")
TERMINAL_LIVE = ("creating", "abandoned", "owned", "exited", "killing", "releasing", "last_attempt")
DRAINS = ("draining", "queued", "closing")


class Bounds(NamedTuple):
    """What a session of the search may own."""

    work: bool = True  # calls, a terminal, a background task
    mcp: bool = False


class Step:
    """One synchronous stretch: fires machines, applies coupling and answers, keeps count."""

    def __init__(self, table: Rows, session: Session, taken: set[tuple[str, str, str]] | None = None) -> None:
        self.rows = table
        self.taken = set() if taken is None else taken
        self.before = session
        self.now = session
        self.read = 0
        self.answered = 0

    def set(self, **fields: object) -> None:
        self.now = self.now._replace(**fields)  # type: ignore[arg-type]  # the fields' names are the model's own

    def has(self, field: str, event: str) -> bool:
        return (getattr(self.now, field), event) in self.rows[MACHINE_OF[field]]

    def fire(self, field: str, event: str) -> None:
        machine, source = MACHINE_OF[field], getattr(self.now, field)
        target = self.rows[machine].get((source, event))
        if target is None:
            raise Violation(10, f"{machine} in {source} refuses {event}")
        if target == "removing" and (source, event) not in REMOVING_FROM:
            raise Violation(5, f"removing entered from {source} by {event}")
        if event == "removed" and source != "removing":
            raise Violation(5, f"removed in {source}")
        if source == "cleanup_failed":
            raise Violation(6, f"{event} moves it")
        self.taken.add((machine, source, event))
        self.set(**{field: target})
        if machine == "turn":
            self._answer(source, event)
        if source != target:
            self._couple(machine, field, target)
            self._drop_finals(field, target)

    def _answer(self, source: str, event: str) -> None:
        told = answer(source, event, self.now.holder or "session/prompt")
        if told.queued in ("cancelled", "refused"):
            if not self.now.queued:
                raise Violation(1, f"{event} answers a queued prompt, and there is none")
            self.set(queued=False)
            self.answered += 1
        if told.holder is not None:
            if not self.now.holder:
                raise Violation(2, f"{event} answers a holder, and there is none")
            self.set(holder="")
            self.answered += 1
        if told.queued == "promoted":
            if not self.now.queued:
                raise Violation(1, "a queued prompt is promoted, and there is none")
            self.set(holder="session/prompt", work=True, queued=False)

    def _couple(self, machine: str, field: str, target: str) -> None:
        for child, event in children(machine, target):
            for other in self._children(machine, child):
                state = getattr(self.now, other)
                if state is not None and self.has(other, event) and reaches(machine, target, child, state):
                    self.fire(other, event)

    def _children(self, machine: str, child: str) -> list[str]:
        if machine == "session":
            return [{"mcp": "mcp", "turn": "turn", "background": "task"}[child]]
        if child == "tool":
            return ["call" if machine == "turn" else "task_call"]
        if child == "terminal":
            return ["terminal"] if self.now.owner == machine else []
        return ["turn"]  # upwards

    def _drop_finals(self, field: str, target: str) -> None:
        if MACHINE_OF[field] == "tool" and target in ("completed", "failed"):
            self.set(**{field: None})
        if field == "terminal" and target in ("released", "refused"):
            self.set(terminal=None, owner="")
        if field == "terminal" and target in ("release_failed", "unknown"):
            self.set(owner="")  # from here on its owner may end, and nothing depends on who it was
        if field == "task" and target == "ended":
            self.set(task=None)
        if field == "state" and target in RESTING:
            if self.now.turn == "closed":
                self.set(turn=None)
            if self.now.terminal in ("unknown", "unreleased"):
                self.set(terminal=None, owner="")
            if self.now.mcp in ("retired", "failed"):
                self.set(mcp=None)

    def done(self) -> Session:
        """The session after the step, if every request is accounted for and the local sentences hold."""
        if self.before.owed + self.read - self.answered != self.now.owed:
            owed = f"owed {self.before.owed}, read {self.read}, answered {self.answered}, still owed {self.now.owed}"
            raise Violation(2, owed)
        check_session(self.now)
        return self.now


REMOVING_FROM = {("closed", "session/delete"), ("absent", "session/delete"), ("deleting", "drained")}
HELD_SLOT = ("reconnecting", "configuring", "busy", "draining", "queued", "closing")


def check_session(s: Session) -> None:
    """The sentences that one session can break by itself: 1, 2, 3, 4, 6, 13."""
    if s.queued != (s.turn == "queued"):
        raise Violation(1, f"queued prompt {s.queued}, turn {s.turn}")
    if bool(s.holder) != (s.turn in HELD_SLOT):
        raise Violation(2, f"holder {s.holder or 'none'}, turn {s.turn}")
    if bool(s.asked) != s.constructor:
        raise Violation(2, f"constructor's request {s.asked or 'none'}, constructor at work: {s.constructor}")
    live = s.terminal in TERMINAL_LIVE
    if s.turn in ("idle", "blocked") and (s.call or (live and s.owner == "turn")):
        raise Violation(3, f"turn {s.turn}, call {s.call}, terminal {s.terminal}")
    if s.turn == "idle" and (s.terminal in ("release_failed", "unknown") or s.mcp == "failed"):
        raise Violation(3, f"turn idle, terminal {s.terminal}, server {s.mcp}")
    owns = [x for x in (s.turn, s.call, s.task, s.task_call, s.terminal, s.mcp, s.constructor or None) if x]
    if s.state in ("closed", "deleted", "absent", "removing") and owns:
        raise Violation(4, f"{s.state} owns {owns}")
    if s.state == "cleanup_failed" and owns:
        raise Violation(6, f"cleanup_failed owns {owns}")
    if s.task is None and (s.task_call or (live and s.terminal != "last_attempt" and s.owner == "background")):
        raise Violation(13, f"call {s.task_call}, terminal {s.terminal}")


class Move(NamedTuple):
    """What may happen next in a session. `progress`: it will, without the good will of client, model or command."""

    label: str
    progress: bool
    act: Callable[[Step], None]


def moves(s: Session, bounds: Bounds) -> Iterator[Move]:
    """Everything that can happen in a session next, other than requests."""
    if s.constructor:
        yield from _constructor(s, bounds)
    if s.turn is not None and s.holder:
        yield from _holder(s)
    if bounds.work:
        yield from _new_work(s)
        yield from _calls(s)
        yield from _task(s)
    if s.terminal is not None:
        yield from _terminal(s)
    if s.mcp is not None:
        yield from _mcp(s)
    yield from _session(s)


def firing(field: str, event: str) -> Callable[[Step], None]:
    return lambda step: step.fire(field, event)


def _setting(**fields: object) -> Callable[[Step], None]:
    return lambda step: step.set(**fields)


# --- the constructor ---------------------------------------------------------------------------------------------


def _constructor(s: Session, bounds: Bounds) -> Iterator[Move]:
    overtaken = s.state != "constructing"
    if bounds.mcp and s.mcp is None and not overtaken:
        yield Move("server connects", True, _setting(mcp="connecting"))
    if s.mcp in (None, "ready", "disconnected") or overtaken:
        yield Move("constructed", True, _ending("constructed"))
    yield Move("setup_failed", True, _ending("setup_failed"))
    if (s.mcp is None and s.asked == "session/load") or overtaken:
        yield Move("not_found", True, _ending("not_found"))
    if overtaken:
        yield Move("constructor ended", True, _ending("ended"))


def _ending(event: str) -> Callable[[Step], None]:
    def act(step: Step) -> None:
        state = step.now.state
        told = answer(state, event)
        step.set(constructor=False)
        if told.holder is not None:
            step.set(asked="")
            step.answered += 1
        if event != "ended":
            step.fire("state", event)
        if state == "constructing" and step.now.state == "open":
            step.set(turn="idle")

    return act


# --- the holder of the slot --------------------------------------------------------------------------------------


def _holder(s: Session) -> Iterator[Move]:
    prompt = s.holder == "session/prompt"
    if s.work and prompt and s.turn == "busy":
        yield Move("turn ended", False, _ended_by_itself("work", "call", "turn"))
    elif s.work:
        yield Move("work cancelled" if s.turn in DRAINS else "work done", True, _work_over)
    if s.work and s.holder == "session/load" and s.state in ("open", "closing", "deleting"):
        yield Move("replay failed", True, _replay_failed)
    if not s.work:
        event = verdict("turn", _owned(s, s.call, "turn", whole=True))
        if event is not None:
            yield Move(f"turn {event}", True, firing("turn", event))


def _work_over(step: Step) -> None:
    """The holder's work is over; where nothing of its own is left the slot is freed at once.

    To leave a pause in between would double the states and show nothing: what could come into it, a close or a next
    prompt, can come just before as well and then meets the same rows.
    """
    step.set(work=False)
    _turn_ends(step)


def _replay_failed(step: Step) -> None:
    step.set(holder="setup_failed", work=False)
    step.fire("state", "setup_failed")
    _turn_ends(step)


def _turn_ends(step: Step) -> None:
    s = step.now
    event = verdict("turn", _owned(s, s.call, "turn", whole=True))
    if event is not None:
        step.fire("turn", event)


def _ended_by_itself(work: str, call: str, owner: str) -> Callable[[Step], None]:
    """A turn or task that comes to its end settles what it leaves open, before its last event."""

    def act(step: Step) -> None:
        step.set(**{work: False})
        state = getattr(step.now, call)
        if state is not None:
            step.fire(call, "outcome_unknown" if state == "in_progress" else "interrupted")
        if step.now.owner == owner and step.has("terminal", "stop"):
            step.fire("terminal", "stop")

    return act


def _owned(s: Session, call: str | None, owner: str, *, whole: bool = False) -> dict[str, list[str]]:
    seen = {
        "own tool": [call] if call else [],
        "own terminal": [s.terminal] if s.terminal and s.owner == owner else [],
    }
    if whole:
        seen |= {"terminal": [s.terminal] if s.terminal else [], "mcp": [s.mcp] if s.mcp else []}
    return seen


# --- calls, terminals, background tasks, servers -------------------------------------------------------------------


def _new_work(s: Session) -> Iterator[Move]:
    prompting = s.turn is not None and s.holder == "session/prompt" and s.work
    if prompting and s.call is None and admit("tool call", s.view()).verdict == "admitted":
        yield Move("tool call", False, _setting(call="pending"))
    if prompting and s.task is None and admit("background start", s.view()).verdict == "admitted":
        yield Move("background starts", False, _setting(task="running", task_work=True))
    at_work = s.task is not None and s.task_work
    if at_work and s.task_call is None and admit("tool call", s.view(owner=s.task)).verdict == "admitted":
        yield Move("background call", False, _setting(task_call="pending"))
    if s.terminal is None and s.turn is not None:
        for owner, able, state in (
            ("turn", prompting and s.call == "in_progress", None),
            ("background", at_work, s.task),
        ):
            if able and admit("terminal/create", s.view(owner=state)).verdict == "admitted":
                yield Move(f"{owner} creates a terminal", False, _setting(terminal="creating", owner=owner))


def _calls(s: Session) -> Iterator[Move]:
    ended = s.turn in DRAINS
    for field, state, work, draining in (
        ("call", s.call, s.work, ended),
        ("task_call", s.task_call, s.task_work, s.task == "cancelling"),
    ):
        events = {"pending": ("ask", "start", "denied"), "awaiting_permission": ("start", "rejected")}.get(
            state or "", ()
        )
        if state == "in_progress":
            events = ("result", "error")
        if work:
            for event in events:
                yield Move(f"{field} {event}", False, firing(field, event))
        elif state == "in_progress" and draining:
            yield Move(f"{field} outcome_unknown", True, firing(field, "outcome_unknown"))


def _task(s: Session) -> Iterator[Move]:
    if s.task is None:
        return
    if s.task_work and s.task == "running":
        yield Move("background ended", False, _ended_by_itself("task_work", "task_call", "background"))
    elif s.task_work:
        yield Move("background cancelled", True, _setting(task_work=False))
    else:
        event = verdict("background", _owned(s, s.task_call, "background"))
        if event is not None:
            yield Move(f"background {event}", True, firing("task", event))


TERMINAL_MOVES = {
    # state -> (event, progress): what a client or a command may never do is no progress
    "creating": (("created", False), ("create_refused", False), ("create_lost", False)),
    "abandoned": (("created", False), ("create_refused", False), ("create_lost", True)),
    "owned": (("exit", False), ("stop", False)),
    "exited": (("collected", False),),
    "killing": (("collected", True), ("exit", False)),
    "releasing": (("terminal/release", True), ("release_error", True), ("exit", False)),
    "last_attempt": (("terminal/release", True), ("release_error", True)),
}


def _terminal(s: Session) -> Iterator[Move]:
    for event, progress in TERMINAL_MOVES.get(s.terminal or "", ()):
        yield Move(f"terminal {event}", progress, firing("terminal", event))
    over = s.turn in (None, "closed") and s.task is None and not s.constructor
    if s.terminal == "release_failed" and s.state in ("closing", "deleting") and over:
        yield Move("terminal try_again", True, firing("terminal", "try_again"))


def _mcp(s: Session) -> Iterator[Move]:
    events = {
        "connecting": (("listed", True), ("lost", True)),
        "ready": (("lost", False),),
        "retiring": (("stopped", True), ("stop_failed", True), ("listed", False), ("lost", False)),
    }
    for event, progress in events.get(s.mcp or "", ()):
        yield Move(f"server {event}", progress, firing("mcp", event))


# --- the session -------------------------------------------------------------------------------------------------


def _session(s: Session) -> Iterator[Move]:
    if s.state == "constructing" and s.asked:
        yield Move("cancel_request of the constructor", False, firing("state", "session/close"))
    if s.state == "deleting":
        yield Move("cancel_request of the delete", False, firing("state", "withdrawn"))
    if s.state in ("closing", "deleting"):
        for toolsets in ("stopped", "failed"):
            event = verdict("session", {**_all_of(s), "toolsets": [toolsets]})
            if event is not None:
                yield Move(f"session {event}", True, _session_ends(event))
    if s.state == "removing":
        yield Move("removed", True, firing("state", "removed"))
        yield Move("not_removed", True, firing("state", "not_removed"))


def _all_of(s: Session) -> dict[str, list[str]]:
    return {
        "constructor": ["running"] if s.constructor else ["ended"],
        "turn": [s.turn] if s.turn else [],
        "background": [s.task] if s.task else [],
        "mcp": [s.mcp] if s.mcp else [],
        "terminal": [s.terminal] if s.terminal else [],
    }


def _session_ends(event: str) -> Callable[[Step], None]:
    def act(step: Step) -> None:
        unclean = step.now.terminal in ("unknown", "unreleased", "release_failed") or step.now.mcp == "failed"
        if event == "drained" and step.now.state == "deleting" and unclean:
            raise Violation(5, f"history goes although terminal {step.now.terminal}, server {step.now.mcp}")
        step.fire("state", event)

    return act


# --- requests ----------------------------------------------------------------------------------------------------

OWED = ("session/new", "session/load", "session/prompt", "session/set_mode")
"""The methods that are answered later than in the step that admits them, and that sentence 2 counts."""


def deliver(step: Step, method: str, fire: tuple[str, ...]) -> None:
    """An admitted request reaches a session: its machines are fired, its work begins."""
    step.read += method in OWED
    for machine in fire:
        if machine == "session":
            step.fire("state", method)
            if step.now.state == "constructing":
                step.set(constructor=True, asked=method)
        elif machine == "turn":
            source = step.now.turn
            step.fire("turn", method)
            if method == "session/prompt" and source != "idle":
                step.set(queued=True)
            elif method in OWED:
                step.set(holder=method, work=True)
