"""The composed machines of a connection with two sessions: which step may come next, and what each step leads to.

States are triples of numbers (connection, session A, session B); the numbers stand for interned tuples, and what a
session can do next is worked out once per state of that session. That is what makes the search affordable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

from sluice.machines import Decision, View, admit, children, verdict
from sluice.machines.admission import AT_THE_DEADLINE

from .model import Bounds, Rows, Session, Step, Violation, deliver, moves, real_rows

Key = tuple[int, int, int]
Seen = tuple[str, "str | None", "str | None"]
"""What a decision looks at in a session: the states of the session, its turn and its background task."""
Outcome = tuple[str, bool, "Key | Violation"]
"""(label, whether it is progress, the next state or the broken sentence)."""

ON_SESSIONS = (
    "session/new",
    "session/load",
    "session/prompt",
    "session/cancel",
    "session/set_mode",
    "session/close",
    "session/delete",
)
ON_CONNECTION = ("initialize", "authenticate", "logout", "session/list", "end_of_input", AT_THE_DEADLINE)
AFTER_LOGOUT = ("authenticate", "logout", "session/close", "session/cancel", "initialize")
INPUT_ENDS = ("end_of_input", AT_THE_DEADLINE)
ENDED = ("shutting_down", "closed", "shutdown_failed")
HOLDABLE = (
    ("session/new", 0),
    ("session/load", 0),
    ("session/load", 1),
    ("session/prompt", 0),
    ("session/close", 0),
    ("session/delete", 0),
    ("session/delete", 1),
    ("authenticate", -1),
    ("logout", -1),
)


class Connection(NamedTuple):
    """The states of the connection, of the barrier, and the work that belongs to neither session."""

    state: str = "opened"
    deletion: str = "clear"
    deleter: int = -1  # which session holds the barrier
    initializing: bool = False  # the work of initialize is in flight
    authenticating: bool = False  # the work of authenticate is in flight
    logged_out: bool = False  # since logout, until an authenticate succeeds
    held: tuple[tuple[str, int], ...] = ()
    input_ended: bool = False  # read while initializing: the last entry of the held queue


class Limits(NamedTuple):
    """The bounds of a search: what each session may own, whether the second one is used, how much may be held."""

    first: Bounds = Bounds()
    second: Bounds | None = Bounds(work=False)
    held: int = 3


class Composition:
    """What may come next, on top of the real tables (or of rows with a planted fault)."""

    def __init__(self, limits: Limits | None = None, rows: Rows | None = None) -> None:
        self.limits = limits or Limits()
        self.rows = real_rows() if rows is None else rows
        self.taken: set[tuple[str, str, str]] = set()
        self._sessions: list[Session] = []
        self._session_ids: dict[Session, int] = {}
        self._connections: list[Connection] = []
        self._connection_ids: dict[Connection, int] = {}
        self._views: list[Seen] = []
        self._working: list[bool] = []  # whether a model may be at work in that session
        self._local = cache(self._work_out)
        self._delivered = cache(self._deliver)
        self._requests = cache(self._decide_all)
        self._moved = cache(self._move)
        self._children = cache(children)
        self._own = cache(self._connection_moves)

    # --- names for numbers ---

    def number(self, session: Session) -> int:
        found = self._session_ids.get(session)
        if found is None:
            found = self._session_ids[session] = len(self._sessions)
            self._sessions.append(session)
            self._views.append((session.state, session.turn, session.task))
            self._working.append(session.task_work or (session.work and session.holder == "session/prompt"))
        return found

    def connection_number(self, connection: Connection) -> int:
        found = self._connection_ids.get(connection)
        if found is None:
            found = self._connection_ids[connection] = len(self._connections)
            self._connections.append(connection)
        return found

    def initial(self) -> Key:
        return self.connection_number(Connection()), self.number(Session()), self.number(Session())

    def connection(self, key: Key) -> Connection:
        return self._connections[key[0]]

    def sessions(self, key: Key) -> tuple[Session, Session]:
        return self._sessions[key[1]], self._sessions[key[2]]

    @property
    def local_states(self) -> int:
        return len(self._sessions)

    # --- successors ---

    def successors(self, key: Key) -> Iterator[Outcome]:
        """Everything that may happen in a state; some of it may change nothing."""
        c, a, b = key
        for label, progress, target in self._local(a, 0):
            yield label, progress, (c, target, b) if isinstance(target, int) else target
        if self.limits.second is not None:
            for label, progress, target in self._local(b, 1):
                yield label, progress, (c, a, target) if isinstance(target, int) else target
        for label, request in self._requests(c, self._views[a], self._views[b]):
            yield label, False, self._attempt(key, request)
        for label, progress, own in self._own(
            c, self._views[a], self._views[b], self._working[a] or self._working[b]
        ):
            yield label, progress, self._attempt(key, own)

    def _attempt(self, key: Key, act: Violation | Callable[[Key], Key]) -> Key | Violation:
        if isinstance(act, Violation):
            return act
        try:
            return act(key)
        except Violation as violation:
            return violation

    def broken(self, key: Key) -> Violation | None:
        """Which sentence about composed states this one breaks."""
        return check(self.connection(key), *(session.state for session in self.sessions(key)))

    # --- what a session does by itself ---

    def _work_out(self, number: int, which: int) -> list[tuple[str, bool, int | Violation]]:
        session = self._sessions[number]
        bounds = self.limits.first if which == 0 else self.limits.second
        found: list[tuple[str, bool, int | Violation]] = []
        for move in moves(session, bounds or Bounds(work=False)):
            step = Step(self.rows, session, self.taken)
            label = f"{'AB'[which]} {move.label}"
            try:
                move.act(step)
                target = step.done()
            except Violation as violation:
                found.append((label, move.progress, violation))
            else:
                found.append((label, move.progress, self.number(target)))
        return found

    def _deliver(self, number: int, method: str, fire: tuple[str, ...]) -> int | Violation:
        step = Step(self.rows, self._sessions[number], self.taken)
        try:
            deliver(step, method, fire)
            return self.number(step.done())
        except Violation as violation:
            return violation

    # --- requests ---

    def _view(self, c: int, seen: tuple[Seen, Seen], method: str, which: int) -> View:
        connection = self._connections[c]
        if which < 0:
            others = tuple(state for state, _, _ in seen) if method == "authenticate" else ()
            return View(connection.state, connection.deletion, others=others)
        state, turn, task = seen[which]
        tasks = () if task is None else (task,)
        return View(connection.state, connection.deletion, state, turn, tasks, (seen[1 - which][0],))

    def _decide_all(self, c: int, first: Seen, second: Seen) -> list[tuple[str, Violation | Callable[[Key], Key]]]:
        """Every request that can be read here: those that change something, and those that should not be admitted."""
        connection = self._connections[c]
        asked = []
        for which in (0, 1) if self.limits.second is not None else (0,):
            # The second session was stored by an earlier process; a new session never gets its id.
            asked += [(method, which) for method in ON_SESSIONS if which == 0 or method != "session/new"]
        asked += [(method, -1) for method in ON_CONNECTION]
        found: list[tuple[str, Violation | Callable[[Key], Key]]] = []
        for method, which in asked:
            if connection.input_ended and method != AT_THE_DEADLINE:
                continue
            label = method if which < 0 else f"{'AB'[which]} {method}"
            decision = admit(method, self._view(c, (first, second), method, which))
            broken = _must_not(connection, (first, second), method, which, decision)
            if broken is not None:
                found.append((label, broken))
            elif decision.verdict in ("admitted", "held"):
                found.append((label, self._acting(method, which, decision)))
        for index in range(len(connection.held)):
            found.append((f"cancel_request of held {index}", self._withdraw_held(index)))
        return found

    def _acting(self, method: str, which: int, decision: Decision) -> Callable[[Key], Key]:
        if decision.verdict == "held":
            return lambda key: self._hold(key, method, which)
        if which < 0:
            event = "end_of_input" if method in INPUT_ENDS else method
            return lambda key: self._on_connection(key, event)
        own = tuple(machine for machine in decision.fire if machine != "deletion")
        barrier = "deletion" in decision.fire
        return lambda key: self._on_session(key, method, which, own, barrier=barrier)

    def _hold(self, key: Key, method: str, which: int) -> Key:
        connection = self.connection(key)
        if method == "end_of_input":
            return self._with(key, connection._replace(input_ended=True))
        if len(connection.held) >= self.limits.held or (method, which) not in HOLDABLE:
            return key  # beyond the bound it is refused
        return self._with(key, connection._replace(held=(*connection.held, (method, which))))

    def _withdraw_held(self, index: int) -> Callable[[Key], Key]:
        def act(key: Key) -> Key:
            connection = self.connection(key)
            held = (*connection.held[:index], *connection.held[index + 1 :])
            return self._with(key, connection._replace(held=held))

        return act

    def _on_session(self, key: Key, method: str, which: int, own: tuple[str, ...], *, barrier: bool) -> Key:
        number = self._delivered(key[1 + which], method, own)
        if isinstance(number, Violation):
            raise number
        c = self._moved(key[0], method, which) if barrier else key[0]
        if self._views[number][0] == "constructing" and self._connections[c].deletion == "held":
            raise Violation(7, f"{method} begins to construct while the barrier is held")
        return (c, number, key[2]) if which == 0 else (c, key[1], number)

    def _on_connection(self, key: Key, event: str) -> Key:
        before = self._connections[key[0]].state
        return self._couple((self._moved(key[0], event, -1), key[1], key[2]), before)

    def _move(self, c: int, event: str, which: int) -> int:
        """The connection, or for a delete (`which` is the session) the barrier, hears an event."""
        connection = self._connections[c]
        if which >= 0:
            barrier = self._row("deletion", connection.deletion, event)
            return self.connection_number(connection._replace(deletion=barrier, deleter=which))
        moved = connection._replace(state=self._row("connection", connection.state, event))
        if event == "initialize":
            moved = moved._replace(initializing=True)
        elif event == "authenticate":
            moved = moved._replace(authenticating=True)
        elif event == "logout":
            moved = moved._replace(logged_out=True)
        elif event == "end_of_input":
            # Whatever is held is refused: shutting_down. From here on sentence 9 says more than sentence 8.
            moved = moved._replace(held=(), input_ended=False, logged_out=False)
        return self.connection_number(moved)

    def _couple(self, key: Key, before: str) -> Key:
        """The connection entered a state, and its sessions hear of it in the same step."""
        entered = self._connections[key[0]].state
        if entered == before:
            return key
        c, *numbers = key
        for _, event in self._children("connection", entered):
            for index, number in enumerate(numbers):
                if (self._views[number][0], event) in self.rows["session"]:
                    changed = self._delivered(number, event, ("session",))
                    if isinstance(changed, Violation):
                        raise changed
                    numbers[index] = changed
        return c, numbers[0], numbers[1]

    def _row(self, machine: str, source: str, event: str) -> str:
        target = self.rows[machine].get((source, event))
        if target is None:
            raise Violation(7 if machine == "deletion" else 10, f"{machine} in {source} has no row for {event}")
        self.taken.add((machine, source, event))
        return target

    def _with(self, key: Key, connection: Connection) -> Key:
        return (self.connection_number(connection), *key[1:])

    # --- what the connection does by itself ---

    def _connection_moves(
        self, c: int, first: Seen, second: Seen, working: bool
    ) -> list[tuple[str, bool, Callable[[Key], Key]]]:
        connection = self._connections[c]
        found: list[tuple[str, bool, Callable[[Key], Key]]] = []
        if connection.initializing:
            for event in ("credentials_found", "credentials_missing", "initialize_failed"):
                found.append((event, True, self._completing(event, "initializing")))
            if connection.state in ENDED:
                found.append(("initialize ended", True, self._completing(None, "initializing")))
        if connection.authenticating:
            for event in ("authenticated", "authentication_failed"):
                found.append((event, True, self._completing(event, "authenticating")))
            if connection.state not in ("authenticating", "reauthenticating"):
                found.append(("authenticate ended", True, self._completing(None, "authenticating")))
        if working:  # a model answers 401
            found.append(("credentials_missing", False, self._completing("credentials_missing", None)))
        if connection.state in ("logging_out", "shutting_down"):
            for event in dict.fromkeys(self._verdicts(connection, first[0], second[0])):
                found.append((f"connection {event}", True, self._firing(event)))
        if connection.deleter >= 0:
            end = verdict("deletion", {"deleting session": [(first, second)[connection.deleter][0]]})
            if end is not None:
                found.append(("barrier released", True, self._release(end)))
        return found

    def _verdicts(self, connection: Connection, first: str, second: str) -> Iterator[str]:
        for validation in ("stopped", "failed"):
            event = verdict(
                "connection",
                {
                    "initialize": ["running" if connection.initializing else "ended"],
                    "authenticate": ["running" if connection.authenticating else "ended"],
                    "session": [first, second],
                    "deletion": [connection.deletion],
                    "validation": [validation],
                },
            )
            if event is not None:
                yield event

    def _firing(self, event: str) -> Callable[[Key], Key]:
        return lambda key: self._on_connection(key, event)

    def _release(self, event: str) -> Callable[[Key], Key]:
        def act(key: Key) -> Key:
            connection = self.connection(key)
            barrier = self._row("deletion", connection.deletion, event)
            return self._with(key, connection._replace(deletion=barrier, deleter=-1))

        return act

    def _completing(self, event: str | None, work: str | None) -> Callable[[Key], Key]:
        """Work of the connection ends, with its event or (event None) without one."""

        def act(key: Key) -> Key:
            connection = self.connection(key)
            before = connection.state
            if work == "initializing":
                connection = connection._replace(initializing=False)
            elif work == "authenticating":
                connection = connection._replace(authenticating=False)
            if event is not None:
                connection = connection._replace(state=self._row("connection", before, event))
            if event == "authenticated" and connection.state == "ready":
                connection = connection._replace(logged_out=False)
            key = self._couple(self._with(key, connection), before)
            if before != "initializing":
                return key
            key, dealt_with = self.let_in(key)
            if dealt_with != len(connection.held):
                raise Violation(2, f"{len(connection.held)} were held, {dealt_with} of them answered or admitted")
            return key

        return act

    def let_in(self, key: Key) -> tuple[Key, int]:
        """`initializing` was left: what is held is admitted as if just read, and then input ends, in one step.

        Returns the next state and how many requests were admitted, refused, joined or answered.
        """
        connection = self.connection(key)
        key = self._with(key, connection._replace(held=(), input_ended=False))
        for method, which in connection.held:
            seen = (self._views[key[1]], self._views[key[2]])
            decision = admit(method, self._view(key[0], seen, method, which))
            broken = _must_not(self.connection(key), seen, method, which, decision)
            if broken is not None:
                raise broken
            if decision.verdict == "held":
                raise Violation(14, f"{method} is held again in {self.connection(key).state}")
            if decision.verdict == "admitted":
                key = self._acting(method, which, decision)(key)
        return self._on_connection(key, "end_of_input") if connection.input_ended else key, len(connection.held)


def _must_not(
    connection: Connection,
    seen: tuple[Seen, Seen],
    method: str,
    which: int,
    decision: Decision,
) -> Violation | None:
    """The sentences about what may be admitted: 6, 8, 9 and 14."""
    positive = decision.verdict in ("admitted", "ok", "join")
    if positive and connection.state in ENDED:
        return Violation(9, f"{method} in {connection.state}")
    if positive and connection.logged_out and method not in (*AFTER_LOGOUT, *INPUT_ENDS):
        return Violation(8, f"{method} in {connection.state}")
    if positive and which >= 0 and seen[which][0] == "cleanup_failed":
        return Violation(6, f"{method} is answered {decision.verdict}")
    if decision.verdict == "held" and connection.state != "initializing":
        return Violation(14, f"{method} is held in {connection.state}")
    return None


def check(connection: Connection, first: str, second: str) -> Violation | None:
    """The sentences about a composed state: 7, 9 and 14. Those about one session are `model.check_session`."""
    deleting = [state for state in (first, second) if state in ("deleting", "removing")]
    if len(deleting) > 1 or (deleting and connection.deletion != "held"):
        return Violation(7, f"{first}, {second}, barrier {connection.deletion}")
    if connection.state in ("logged_out", "closed"):
        live = [state for state in (first, second) if state not in ("absent", "closed", "deleted")]
        if live or connection.initializing or connection.authenticating or connection.deletion != "clear":
            return Violation(9, f"{connection.state}, sessions {first}, {second}, barrier {connection.deletion}")
    if (connection.held or connection.input_ended) and connection.state != "initializing":
        return Violation(14, f"{len(connection.held)} held in {connection.state}")
    return None
