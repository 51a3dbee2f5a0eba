"""Random histories of real machines against a plain model, in the sentences a user of the protocol would say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sluice.machines import ALL, rows
from sluice.machines.admission import AT_THE_DEADLINE

from .server import PROMPT, Completion, Server, Session

NAMES = "ABC"
RESERVATIONS = ("session/load", "session/resume", "session/set_mode", "session/set_config_option")
ENDED = ("shutting_down", "closed", "shutdown_failed")
LIVE_TERMINAL = ("creating", "abandoned", "owned", "exited", "killing", "releasing", "last_attempt")

one_of_the_sessions = st.sampled_from("AAAABBC")  # mostly one, so that its turn gets into every state


class Composed(RuleBasedStateMachine):
    """The server of `server.py`, and beside it a dictionary a session of who should hold its slot."""

    def __init__(self) -> None:
        super().__init__()
        self.server = Server(NAMES)
        # name -> {"holder": request, "method": ..., "cancelled": was it cancelled, "queued": request}
        self.slots: dict[str, dict[str, Any]] = {}
        self.expected: dict[int, str] = {}

    def session(self, name: str) -> Session:
        return self.server.sessions[name]

    # --- the client ---

    @initialize(opened=st.sampled_from(("AB", "A", "")), credentials=st.sampled_from(("found", "found", "missing")))
    def most_histories_begin_with_open_sessions(self, opened: str, credentials: str) -> None:
        if opened or credentials == "missing":
            self.server.read("initialize")
            self.complete(f"credentials_{credentials}")
        for name in opened if credentials == "found" else "":
            self.construct(name, "session/new")
            self.complete(f"{name} connects")
            self.complete(f"{name} mcp listed")
            self.complete(f"{name} constructed")

    def complete(self, label: str) -> None:
        self.take(next(completion for completion in self.server.completions() if completion.label == label))

    @rule()
    def asks_to_initialize(self) -> None:
        self.server.read("initialize")

    @rule(name=one_of_the_sessions, method=st.sampled_from(("session/new", "session/load", "session/resume")))
    def construct(self, name: str, method: str) -> None:
        slot = self.slots.get(name)
        request, decision = self.server.read(method, self.session(name))
        if decision.fire == ("turn",):
            assert slot is not None and slot["holder"] is None and self.server.barrier.state == "clear"
            slot.update(holder=request, method=method, cancelled=False)
        if decision.fire == ("session",):
            assert slot is None and self.server.barrier.state == "clear"

    @rule(name=one_of_the_sessions, method=st.sampled_from(RESERVATIONS[2:]))
    def configure(self, name: str, method: str) -> None:
        slot = self.slots.get(name)
        request, decision = self.server.read(method, self.session(name))
        if decision.verdict == "admitted":
            assert slot is not None and slot["holder"] is None
            assert all(task.machine.state == "ended" for task in self.session(name).tasks)
            slot.update(holder=request, method=method, cancelled=False)

    @rule(name=one_of_the_sessions)
    def prompt(self, name: str) -> None:
        slot, connection = self.slots.get(name), self.server.connection.state
        session = self.session(name)
        blocked = session.turn is not None and session.turn.state == "blocked"
        request, decision = self.server.read(PROMPT, session)
        free = slot is not None and session.machine.state == "open" and not blocked
        may_start = free and slot is not None and slot["holder"] is None
        may_wait = free and slot is not None and slot["method"] == PROMPT and slot["cancelled"] and not slot["queued"]
        admitted = bool(connection in ("ready", "auth_required") and (may_start or may_wait))
        assert (decision.verdict == "admitted") is admitted
        if slot is not None and admitted:
            if may_start:
                slot.update(holder=request, method=PROMPT, cancelled=False)
            else:
                slot["queued"] = [request]

    @rule(name=one_of_the_sessions)
    def cancel(self, name: str) -> None:
        slot = self.slots.get(name)
        _, decision = self.server.read("session/cancel", self.session(name))
        assert decision.verdict in ("admitted", "silent")
        if decision.verdict == "admitted":
            assert slot is not None and slot["method"] == PROMPT
            if slot["queued"]:
                self.expected[slot["queued"].pop()] = "cancelled"
            slot["cancelled"] = True

    @rule(name=one_of_the_sessions, again=st.booleans())
    def stops_and_types_on(self, name: str, again: bool) -> None:
        """Three messages in one read, and perhaps a second thought."""
        self.prompt(name)
        self.cancel(name)
        self.prompt(name)
        if again:
            self.cancel(name)

    @precondition(lambda self: len(self.server.methods) > 10)
    @rule(name=one_of_the_sessions, method=st.sampled_from(("session/close", "session/delete")))
    def close_or_delete(self, name: str, method: str) -> None:
        held = self.server.barrier.state == "held"
        _, decision = self.server.read(method, self.session(name))
        if decision.verdict == "admitted" and method == "session/delete":
            assert not held
        self.closings()

    @precondition(lambda self: len(self.server.methods) > 14)
    @rule()
    def logout(self) -> None:
        self.server.read("logout")
        self.closings()

    @rule()
    def authenticate(self) -> None:
        self.server.read("authenticate")

    @precondition(lambda self: len(self.server.methods) > 20)
    @rule(method=st.sampled_from(("end_of_input", AT_THE_DEADLINE)))
    def input_ends(self, method: str) -> None:
        self.server.read(method)
        self.closings()

    # --- everybody else ---

    @rule(choices=st.lists(st.integers(0, 10_000), min_size=1, max_size=8))
    def something_completes(self, choices: list[int]) -> None:
        self.some_of(choices, only_progress=False)

    @rule(choices=st.lists(st.integers(0, 10_000), min_size=1, max_size=4))
    def what_must_complete_completes(self, choices: list[int]) -> None:
        self.some_of(choices, only_progress=True)

    def some_of(self, choices: list[int], *, only_progress: bool) -> None:
        for choice in choices:
            possible = [c for c in self.server.completions() if c.progress or not only_progress]
            if possible:
                self.take(possible[choice % len(possible)])

    def take(self, completion: Completion) -> None:
        failed_before = {name: self.session(name).holder_method for name in self.slots}
        completion.act()
        for name, slot in self.slots.items():
            if failed_before[name] != "setup_failed" and self.session(name).holder_method == "setup_failed":
                slot["method"] = "setup_failed"
        self.closings()
        self.endings()
        if completion.label in ("credentials_found", "credentials_missing"):
            self.adopt_what_was_held()

    def closings(self) -> None:
        """A session that is being closed takes its holder and its queued prompt with it."""
        for name, slot in self.slots.items():
            turn = self.session(name).turn
            if turn is None or turn.state in ("closing", "closed"):
                if slot["queued"]:
                    self.expected[slot["queued"].pop()] = "cancelled"
                slot["closing"] = True

    def endings(self) -> None:
        """Whoever held a slot and no longer does has been told what a plain reading of its story says."""
        for name, slot in self.slots.items():
            holder = slot["holder"]
            if holder is not None and holder in self.server.answers:
                self.expected[holder] = self.story(slot)
                slot.update(holder=None, cancelled=False, method="")
                if slot["queued"]:
                    waiting = slot["queued"].pop()
                    if self.session(name).holder == waiting:
                        slot.update(holder=waiting, method=PROMPT)
                    else:
                        self.expected[waiting] = "refused"
        for name in NAMES:
            session = self.session(name)
            if session.turn is None:
                self.slots.pop(name, None)
            elif name not in self.slots:
                self.slots[name] = {"holder": None, "method": "", "cancelled": False, "queued": [], "closing": False}

    @staticmethod
    def story(slot: dict[str, Any]) -> str:
        if slot["method"] == PROMPT:
            return "cancelled" if slot["cancelled"] or slot["closing"] else "outcome"
        if slot["method"] == "setup_failed":
            return "setup_error"
        return "request_cancelled" if slot["closing"] else "result"

    def adopt_what_was_held(self) -> None:
        """Held requests cannot take a slot: there was no session to take it in."""
        assert all(session.turn is None for session in self.server.sessions.values())

    # --- sentences ---

    @invariant()
    def every_answer_is_the_one_the_story_calls_for(self) -> None:
        for request, what in self.expected.items():
            assert self.server.answers.get(request) == what, (request, self.server.methods[request])

    @invariant()
    def at_most_one_request_holds_each_slot_and_it_is_the_one_admitted(self) -> None:
        for name, slot in self.slots.items():
            session = self.session(name)
            assert session.holder == slot["holder"]
            assert session.queued == (slot["queued"][0] if slot["queued"] else None)
            assert (session.turn is not None and session.turn.state == "queued") is bool(slot["queued"])

    @invariant()
    def a_session_at_rest_owns_nothing(self) -> None:
        for session in self.server.sessions.values():
            if session.machine.state in ("absent", "closed", "deleted", "removing", "cleanup_failed"):
                assert session.turn is None and not session.constructing
                assert not (session.calls or session.terminals or session.tasks or session.servers)

    @invariant()
    def a_free_slot_has_nothing_open_of_its_own(self) -> None:
        for session in self.server.sessions.values():
            turn = session.turn
            if turn is not None and turn.state in ("idle", "blocked"):
                assert all(call.machine.can("stay") is False for call in session.calls)
                mine = [call.machine for call in session.calls if call.owner is turn]
                assert all(machine.state in ("completed", "failed") for machine in mine)
                terminals = [terminal.machine.state for terminal in session.terminals if terminal.owner is turn]
                assert not set(terminals) & set(LIVE_TERMINAL)
            if turn is not None and turn.state == "idle":
                states = {terminal.machine.state for terminal in session.terminals}
                assert not states & {"release_failed", "unknown"}

    @invariant()
    def one_delete_at_a_time(self) -> None:
        deleting = [s for s in self.server.sessions.values() if s.machine.state in ("deleting", "removing")]
        assert len(deleting) <= 1
        assert not deleting or self.server.barrier.state == "held"

    @invariant()
    def requests_are_held_only_while_initializing(self) -> None:
        assert not self.server.held or self.server.connection.state == "initializing"

    @invariant()
    def nothing_is_admitted_once_the_input_has_ended(self) -> None:
        if self.server.connection.state in ENDED:
            for name in NAMES:
                request, decision = self.server.read(PROMPT, self.session(name))
                assert self.server.answers[request] == "shutting_down" and decision.at == "connection"

    def teardown(self) -> None:
        """The client is gone: completions alone must bring everything to its end, and answer everybody."""
        if self.server.connection.state not in ENDED:
            self.server.read(AT_THE_DEADLINE)
            self.closings()
        for _ in range(500):
            possible = [completion for completion in self.server.completions() if completion.progress]
            if not possible:
                break
            self.take(possible[0])
        assert self.server.connection.state in ("closed", "shutdown_failed")
        self.every_answer_is_the_one_the_story_calls_for()
        silent = [n for n, method in enumerate(self.server.methods) if n not in self.server.answers]
        assert not silent, [(n, self.server.methods[n]) for n in silent]
        declared = {(name, row.event, row.source, row.target) for name, cls in ALL.items() for row in rows(cls)}
        assert all((t.machine, t.event, t.source, t.target) in declared for t in self.server.history)


TestComposed = pytest.mark.requirement("machines.tests.property")(Composed.TestCase)
TestComposed.settings = settings(
    max_examples=100, stateful_step_count=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
