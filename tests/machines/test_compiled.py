"""The compiled driver does what the library does, and refuses to compile what it does not model."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statemachine import Event, State

from sluice.machines import (
    ALL,
    CompiledBackground,
    CompiledConnection,
    CompiledDeletion,
    CompiledMachine,
    CompiledToolCall,
    Machine,
    Refused,
    Transition,
    event_names,
    rows,
    state_names,
)
from sluice.machines.generate import FILE, NotCompilable, compile_table, source

PAIRS: list[tuple[type[Machine], type[CompiledMachine]]] = [
    (ALL[driver.machine], driver)
    for driver in (CompiledConnection, CompiledDeletion, CompiledToolCall, CompiledBackground)
]


def _run(machine: Machine | CompiledMachine, events: list[str]) -> list[object]:
    seen: list[object] = []
    for event in events:
        try:
            seen.append((machine.can(event), machine.fire(event), machine.state))
        except Refused as error:
            seen.append((type(error), str(error), error.refusal, machine.state))
    return seen


@pytest.mark.parametrize(("declared", "compiled"), PAIRS)
@given(data=st.data())
def test_any_sequence_of_events_gives_the_same_moves_refusals_and_record(
    declared: type[Machine], compiled: type[CompiledMachine], data: st.DataObject
) -> None:
    start = data.draw(st.sampled_from(state_names(declared)))
    events = data.draw(st.lists(st.sampled_from([*event_names(declared), "unknown", "session/new"]), max_size=8))
    by_library: list[Transition] = []
    by_table: list[Transition] = []
    assert _run(declared("k", by_library.append, start), events) == _run(
        compiled("k", by_table.append, start), events
    )
    assert by_library == by_table


@pytest.mark.parametrize("name", ALL)
def test_every_declared_machine_would_compile_to_its_rows(name: str) -> None:
    assert compile_table(ALL[name]) == {(row.source, row.event): row.target for row in rows(ALL[name])}


def test_a_compiled_machine_has_no_room_for_attributes_of_callers() -> None:
    call: Any = CompiledToolCall("c1")
    with pytest.raises(AttributeError):
        call.cancelled = True
    with pytest.raises(AttributeError):
        call.state = "completed"


def _guarded() -> type[Machine]:
    class Guarded(Machine):
        a = State("a", initial=True)
        b = State("b", final=True)
        go = Event(a.to(b, cond="allowed"), name="go")
        allowed = True

    return Guarded


def _validated() -> type[Machine]:
    class Validated(Machine):
        a = State("a", initial=True)
        b = State("b", final=True)
        go = Event(a.to(b, validators="check"), name="go")

        def check(self) -> None: ...

    return Validated


def _acting() -> type[Machine]:
    class Acting(Machine):
        a = State("a", initial=True)
        b = State("b", final=True)
        go = Event(a.to(b, on="act"), name="go")

        def act(self) -> None: ...

    return Acting


def _hooked() -> type[Machine]:
    class Hooked(Machine):
        a = State("a", initial=True)
        b = State("b", final=True)
        go = Event(a.to(b), name="go")

        def on_enter_b(self) -> None: ...

    return Hooked


def _ambiguous() -> type[Machine]:
    class Ambiguous(Machine):
        a = State("a", initial=True)
        b = State("b", final=True)
        c = State("c", final=True)
        go = Event(a.to(b) | a.to(c), name="go")

    return Ambiguous


def _nested() -> type[Machine]:
    class Nested(Machine):
        class a(State.Compound):
            inner = State("inner", initial=True)
            other = State("other", final=True)
            step = Event(inner.to(other), name="step")

        b = State("b", final=True)
        go = a.to(b)

    return Nested


@pytest.mark.parametrize(
    ("build", "why"),
    [
        (_guarded, "cond"),
        (_validated, "validators"),
        (_acting, "on"),
        (_hooked, "callbacks: on_enter_b"),
        (_ambiguous, "two rows for go in a"),
        (_nested, "not flat"),
    ],
)
def test_what_a_table_cannot_express_is_refused(build: Any, why: str) -> None:
    with pytest.raises(NotCompilable, match=why):
        compile_table(build())


def test_the_committed_rows_are_those_of_the_declarations() -> None:
    assert FILE.read_text(encoding="utf-8") == source()


def test_the_drivers_that_come_first_need_no_library() -> None:
    code = (
        "import sys; from sluice.machines import CompiledConnection, admit; CompiledConnection().fire('initialize');"
    )
    code += "print('statemachine' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"False\n"
