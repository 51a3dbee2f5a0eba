"""What every machine does: one door, one recorder, typed refusals, no hidden behaviour."""

from __future__ import annotations

import ast
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
from statemachine import Event, State

import sluice.machines
from sluice.machines import (
    ALL,
    DRIVERS,
    AnyMachine,
    Bug,
    Connection,
    Machine,
    Refused,
    Session,
    Transition,
    Turn,
    event_names,
    final_names,
    refusal,
    rows,
    state_names,
)

from . import test_connection, test_session, test_small, test_terminal, test_tool_call, test_turn
from .table import Golden, complaints

GOLDEN: dict[str, Golden] = {
    "connection": test_connection.GOLDEN,
    "deletion": test_small.DELETION_GOLDEN,
    "session": test_session.GOLDEN,
    "turn": test_turn.GOLDEN,
    "tool": test_tool_call.GOLDEN,
    "terminal": test_terminal.GOLDEN,
    "background": test_small.BACKGROUND_GOLDEN,
    "mcp": test_small.MCP_GOLDEN,
    "elicitation": test_small.ELICITATION_GOLDEN,
}

NAMES = ["connection", "deletion", "session", "turn", "tool", "terminal", "background", "mcp", "elicitation"]


@pytest.mark.requirement("machines.five.declared")
def test_the_nine_machines_are_listed_under_the_names_the_tables_use() -> None:
    assert list(ALL) == NAMES
    assert list(DRIVERS) == NAMES
    assert all(name == cls.machine for name, cls in ALL.items())
    essay = sluice.machines.__doc__ or ""
    assert all(f"\n    {name} " in essay for name in NAMES)


@pytest.mark.requirement("machines.table.total")
def test_there_are_141_rows_and_397_pairs_without_a_row() -> None:
    assert sum(len(rows(cls)) for cls in ALL.values()) == 141
    assert sum(len(state_names(cls)) * len(event_names(cls)) - len(rows(cls)) for cls in ALL.values()) == 397


@pytest.mark.requirement("machines.tests.exhaustive")
@pytest.mark.parametrize("name", NAMES)
def test_deleting_or_redirecting_any_single_row_is_noticed_by_the_golden_table(name: str) -> None:
    declared = rows(ALL[name])
    for row in declared:
        assert complaints([other for other in declared if other != row], GOLDEN[name])
        for target in state_names(ALL[name]):
            if target != row.target:
                redirected = [row._replace(target=target) if other == row else other for other in declared]
                assert complaints(redirected, GOLDEN[name])


@pytest.mark.requirement("machines.table.final-states")
@pytest.mark.parametrize("name", NAMES)
def test_nothing_leaves_a_final_state_and_every_event_there_raises(name: str) -> None:
    for state, event in product(final_names(ALL[name]), (*event_names(ALL[name]), "never heard of")):
        machine = DRIVERS[name](start_value=state)
        with pytest.raises(Refused):
            machine.fire(event)
        assert machine.state == state


@pytest.mark.requirement("machines.table.final-states")
@pytest.mark.parametrize("name", NAMES)
def test_an_event_nobody_declared_is_a_bug_in_every_state(name: str) -> None:
    for state in state_names(ALL[name]):
        machine = DRIVERS[name](start_value=state)
        assert not machine.can("send")
        for event in ("send", "session_prompt", "session/list", ""):
            with pytest.raises(Bug) as caught:
                machine.fire(event)
            assert caught.value.refusal == ("bug", -32603)


def test_a_refused_wire_method_is_not_a_bug() -> None:
    turn = Turn("s1", start_value="busy")
    with pytest.raises(Refused) as caught:
        turn.fire("session/prompt")
    assert not isinstance(caught.value, Bug)
    assert caught.value.refusal == ("busy", -32600)
    assert str(caught.value) == "turn 's1' in busy: no row for session/prompt (busy)"


@pytest.mark.requirement("machines.record.one-choke-point")
def test_every_move_is_recorded_rows_that_stay_included_and_refusals_not() -> None:
    record: list[Transition] = []
    session = Session("s1", record.append)
    session.fire("session/new")
    session.fire("session/close")
    session.fire("constructed")
    with pytest.raises(Refused):
        session.fire("session/load")
    session.fire("drained")
    assert record == [
        ("session", "s1", "session/new", "absent", "constructing"),
        ("session", "s1", "session/close", "constructing", "closing"),
        ("session", "s1", "constructed", "closing", "closing"),
        ("session", "s1", "drained", "closing", "closed"),
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_start_value_that_is_no_state_is_refused_at_once(name: str) -> None:
    with pytest.raises(ValueError, match="no state 'nowhere'"):
        DRIVERS[name](start_value="nowhere")


@pytest.mark.parametrize("name", NAMES)
def test_each_driver_offers_the_common_interface(name: str) -> None:
    machine: AnyMachine = DRIVERS[name]("k")
    assert (machine.machine, machine.key, machine.state) == (name, "k", state_names(ALL[name])[0])
    assert [event for event in GOLDEN[name] if machine.can(event)] == [
        event for event, moves in GOLDEN[name].items() if machine.state in moves
    ]


def test_two_instances_share_nothing() -> None:
    first, second = Turn("a"), Turn("b")
    first.fire("session/prompt")
    assert (first.state, second.state) == ("busy", "idle")


def test_the_librarys_switches_are_those_that_never_swallow() -> None:
    for cls in ALL.values():
        assert cls.allow_event_without_transition is False
        assert cls.catch_errors_as_events is False
        assert cls.atomic_configuration_update is True
        assert cls.enable_self_transition_entries is False


def test_state_names_and_ids_are_the_same_word_and_every_event_is_named() -> None:
    for cls in ALL.values():
        for state in cls.states:
            assert state.name == state.id == state.value
        for event in cls._events:
            assert event.name.replace("/", "_") == event.id


def test_no_transition_carries_a_guard_or_a_callback() -> None:
    for cls in ALL.values():
        for state in cls.states:
            for transition in state.transitions:
                specs = [*transition.cond, *transition.validators, *transition.before, *transition.on]
                assert not [spec for spec in (*specs, *transition.after) if not spec.is_convention]
                assert transition.internal is (transition.source is transition.target)


def test_a_machine_of_its_own_can_be_declared_without_touching_the_others() -> None:
    class Lamp(Machine):
        machine = "lamp"
        off = State("off", initial=True)
        on = State("on")
        press = Event(off.to(on) | on.to(off), name="press")

    lamp = Lamp()
    assert [lamp.fire("press"), lamp.fire("press")] == ["on", "off"]
    assert refusal("lamp", "off", "press").reason == "bug"
    assert Connection().can("initialize") and not Connection().can("press")


# --- the rules of the package, read from its source ----------------------------------------------------------------

PACKAGE = Path(sluice.machines.__file__).parent
MODULES = sorted(PACKAGE.glob("*.py"))
ALLOWED = {"__future__", "collections", "dataclasses", "functools", "inspect", "itertools", "textwrap", "typing"}
FORBIDDEN_PREFIXES = ("on_", "before_", "after_", "prepare_", "validate_")


def _imported(tree: ast.Module) -> set[str]:
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    return names | {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}


@pytest.mark.requirement("machines.five.only-state")
@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_here_is_synchronous_pure_and_has_no_callbacks(path: Path) -> None:
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        assert not isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncWith | ast.AsyncFor)
        if isinstance(node, ast.FunctionDef):
            assert not node.name.startswith(FORBIDDEN_PREFIXES), node.name
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("open", "print", "input", "exec", "eval"), node.func.id
    extra = {"pathlib"} if path.stem in ("render", "generate") else set()  # these name the files that are generated
    for module in _imported(tree):
        top = module.partition(".")[0]
        assert top in ALLOWED | extra | {"statemachine"} or module.startswith(("sluice.machines", "sluice.lazy")), (
            module
        )


def test_the_machines_load_the_state_machine_library_when_one_is_made_and_nothing_heavy() -> None:
    code = "import sys, sluice.machines; sluice.machines.Turn();"
    code += "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "statemachine" in loaded
    assert not loaded & {"anyio", "msgspec", "httpx", "mcp", "opentelemetry", "sqlite_utils", "yaml", "pydot"}
