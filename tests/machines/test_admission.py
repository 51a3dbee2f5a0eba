"""Admission: the three matrices cell by cell, and every check that no matrix shows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import pytest

from sluice.machines import ADMISSION, ALL, Decision, Refusal, View, admission, admit, rows, state_names
from sluice.machines.admission import AT_THE_DEADLINE, TWINS, Check
from sluice.machines.matrix import matrices
from sluice.machines.refusals import CODES, DEFAULTS, WIRE_METHODS

TURN_COLUMNS = [
    "idle",
    "reconnecting",
    "configuring",
    "busy",
    "draining",
    "queued",
    "blocked",
    "idle, background live",
    "idle, other delete",
]
BY_TURN = """
session/prompt            | → busy | busy | busy | busy | → queued | busy | cleanup_failed | → busy | → busy
session/cancel            | . | . | . | → draining | . | → draining | . | . | .
session/load              | → reconnecting | busy | busy | busy | busy | busy | cleanup_failed | → reconnecting | busy
session/set_mode          | → configuring | busy | busy | busy | busy | busy | cleanup_failed | busy | → configuring
session/close             | → closing | → closing | → closing | → closing | → closing | → closing | → closing \
| → closing | → closing
session/delete            | → deleting | → deleting | → deleting | → deleting | → deleting | → deleting | → deleting \
| → deleting | busy
"""

SESSION_COLUMNS = [
    "absent",
    "constructing",
    "closing",
    "deleting",
    "removing",
    "closed",
    "deleted",
    "cleanup_failed",
    "closed, other delete",
]
BY_SESSION = """
session/new    | → constructing | busy | busy | busy | busy | not_found | not_found | cleanup_failed | busy
session/prompt | not_found | busy | busy | busy | busy | not_found | not_found | cleanup_failed | not_found
session/cancel | . | . | . | . | . | . | . | . | .
session/load   | → constructing | busy | busy | busy | busy | → constructing | not_found | cleanup_failed | busy
session/set_mode | not_found | busy | busy | busy | busy | not_found | not_found | cleanup_failed | not_found
session/close  | not_found | → closing | join | join | ok | ok | ok | cleanup_failed | ok
session/delete | → removing | → deleting | → deleting | join | join | → removing | ok | cleanup_failed | busy
"""

CONNECTION_COLUMNS = [
    "opened",
    "initializing",
    "ready",
    "auth_required",
    "authenticating",
    "reauthenticating",
    "logging_out",
    "logged_out",
    "logout_failed",
    "shutting_down",
    "closed",
    "shutdown_failed",
]
# `auth` stands for auth_required; what follows logout_failed is the same for all three last states.
BY_CONNECTION = """
initialize   | → initializing | join | ok | ok | ok | ok | ok | ok | ok
authenticate | not_initialized | held | ok | → authenticating | authenticating | authenticating | authenticating \
| → reauthenticating | cleanup_failed
logout       | not_initialized | held | → logging_out | → logging_out | → logging_out | → logging_out | join | ok \
| cleanup_failed
session/new  | not_initialized | held | → constructing | auth | auth | auth | auth | auth | auth
session/load | not_initialized | held | → reconnecting | auth | auth | auth | auth | auth | auth
session/list | not_initialized | held | ok | ok | ok | auth | auth | auth | auth
session/prompt | not_initialized | held | → busy | → busy | auth | auth | auth | auth | auth
session/set_mode | not_initialized | held | → configuring | → configuring | auth | auth | auth | auth | auth
session/cancel | . | . | → draining | → draining | → draining | → draining | → draining | → draining | → draining
session/close | not_initialized | held | → closing | → closing | → closing | → closing | → closing | → closing \
| → closing
session/delete | not_initialized | held | → deleting | → deleting | → deleting | auth | auth | auth | auth
"""


def _parse(text: str) -> dict[str, list[str]]:
    words = {"auth": "auth_required", ".": "silent"}
    table: dict[str, list[str]] = {}
    for line in text.strip().splitlines():
        method, *cells = (part.strip() for part in line.split("|"))
        table[method] = [words.get(cell, cell) for cell in cells]
    return table


TARGETS = {(name, row.source, row.event): row.target for name, cls in ALL.items() for row in rows(cls)}


def _shown(decision: Decision, method: str, view: View) -> str:
    """A decision in the notation of the tables above."""
    if decision.verdict == "admitted":
        if not decision.fire:
            return "admitted without a machine"
        machine = decision.fire[0]
        state: str = getattr(view, machine)
        return f"→ {TARGETS[machine, state, method]}"
    return decision.refusal.reason if decision.refusal is not None else decision.verdict


@dataclass(frozen=True)
class Cell:
    """One question and the whole answer expected."""

    method: str
    view: View
    shown: str
    fire: tuple[str, ...] | None = None


def _turn_cells() -> list[Cell]:
    views = {state: View("ready", session="open", turn=state) for state in TURN_COLUMNS[:7]}
    views["idle, background live"] = views["idle"]._replace(background=("ended", "running"))
    views["idle, other delete"] = views["idle"]._replace(deletion="held", others=("removing",))
    return [
        Cell(method, views[column], shown)
        for method, row in _parse(BY_TURN).items()
        for column, shown in zip(TURN_COLUMNS, row, strict=True)
    ]


def _session_cells() -> list[Cell]:
    views = {state: View("ready", session=state) for state in SESSION_COLUMNS[:8]}
    for state in ("deleting", "removing"):
        views[state] = views[state]._replace(deletion="held")
    views["closed, other delete"] = View("ready", "held", "closed", others=("deleting",))
    return [
        Cell(method, views[column], shown)
        for method, row in _parse(BY_SESSION).items()
        for column, shown in zip(SESSION_COLUMNS, row, strict=True)
    ]


def _connection_cells() -> list[Cell]:
    cells = []
    for method, row in _parse(BY_CONNECTION).items():
        ending = "silent" if method == "session/cancel" else "shutting_down"
        for column, shown in zip(CONNECTION_COLUMNS, [*row, ending, ending, ending], strict=True):
            view = View(column, session="open", turn="idle")
            if method == "session/new":
                view = View(column)
            elif method == "session/cancel":
                view = view._replace(turn="busy")
            cells.append(Cell(method, view, shown))
    return cells


def _further_cells() -> list[Cell]:
    """What the matrices do not show: other sessions, sessions without a connection in the way, internal work."""
    ready = View("ready", session="open", turn="idle")
    cells = [
        Cell("session/delete", ready._replace(others=(state,)), "busy" if state == "constructing" else "→ deleting")
        for state in state_names(ALL["session"])
    ]
    for state in state_names(ALL["session"]):
        free = state in ("absent", "closed", "deleted")
        shown = "→ authenticating" if free else "live_sessions"
        cells.append(Cell("authenticate", View("auth_required", others=("closed", state)), shown))
        again = "→ reauthenticating" if free else "live_sessions"
        cells.append(Cell("authenticate", View("logged_out", others=(state,)), again))
    cells += [
        Cell("session/set_mode", ready._replace(background=(state,)), "→ configuring" if state == "ended" else "busy")
        for state in state_names(ALL["background"])
    ]
    cells += [
        # A withdrawn delete still holds the barrier: deleting again has to wait for it.
        Cell("session/delete", View("ready", "held", "closing"), "busy"),
        Cell("session/delete", View("ready", "clear", "closing"), "→ deleting"),
        Cell("session/load", View("ready", session="absent", turn=None), "→ constructing", ("session",)),
        Cell("session/load", ready, "→ reconnecting", ("turn",)),
        Cell("session/delete", ready, "→ deleting", ("session", "deletion")),
        Cell("session/delete", View("ready", session="absent"), "→ removing", ("session", "deletion")),
        Cell("session/prompt", ready._replace(turn="draining"), "→ queued", ("turn",)),
        Cell("session/new", View("ready", deletion="held"), "busy"),
        Cell("session/new", View("auth_required", deletion="held"), "auth_required"),
    ]
    cells += [
        Cell("session/close", View(state, session=session, turn="idle"), shown)
        for state in CONNECTION_COLUMNS[2:9]
        for session, shown in [("open", "→ closing"), ("constructing", "→ closing"), ("closed", "ok")]
    ]
    return cells


CELLS = [*_turn_cells(), *_session_cells(), *_connection_cells(), *_further_cells()]
TWINS_OF = {"session/load": "session/resume", "session/set_mode": "session/set_config_option"}


def _internal_mismatches() -> list[object]:
    """The entries that are no methods of the wire, state by state of the owner, the session and the turn."""
    wrong: list[object] = []
    for turn, task in product(state_names(ALL["turn"]), (None, *state_names(ALL["background"]))):
        live = task == "running" if task is not None else turn == "busy"
        view = View("ready", session="open", turn=turn, owner=task)
        wanted = {"tool call": live, "background start": live, "terminal/create": live and turn not in BLOCKED}
        for method, admitted in wanted.items():
            decision = admit(method, view)
            if (decision.verdict == "admitted") is not admitted or decision.fire:
                wrong.append((method, view))
    for session in state_names(ALL["session"]):
        view = View("ready", session=session, turn="busy")
        for method in ("background start", "terminal/create"):
            if (admit(method, view).verdict == "admitted") is not (session == "open"):
                wrong.append((method, view))
    return wrong


BLOCKED = ("blocked", "closed")
ENDED = ("shutting_down", "closed", "shutdown_failed")


def _end_of_input_mismatches() -> list[object]:
    wrong: list[object] = []
    for state in CONNECTION_COLUMNS:
        wanted = "silent" if state in ENDED else "held" if state == "initializing" else "admitted"
        late = "silent" if state in ENDED else "admitted"
        for method, verdict in (("end_of_input", wanted), (AT_THE_DEADLINE, late)):
            decision = admit(method, View(state))
            if decision.verdict != verdict or decision.fire != (("connection",) if verdict == "admitted" else ()):
                wrong.append((method, state))
    return wrong


def _mismatches() -> list[object]:
    wrong: list[object] = []
    for cell in CELLS:
        for method in (cell.method, TWINS_OF.get(cell.method)):
            if method is None:
                continue
            try:
                decision = admit(method, cell.view)
            except KeyError:
                wrong.append(cell)
                continue
            if _shown(decision, method, cell.view) != cell.shown:
                wrong.append(cell)
            if cell.fire is not None and decision.fire != cell.fire:
                wrong.append(cell)
    return wrong + _internal_mismatches() + _end_of_input_mismatches()


@pytest.mark.requirement("machines.admission.table", "turn-admission.busy.second-prompt", "session.delete.barrier")
def test_every_cell_of_the_three_matrices_and_every_further_check_is_as_written_here() -> None:
    assert _mismatches() == []


@pytest.mark.requirement("machines.admission.table")
def test_deleting_any_check_or_any_state_of_a_check_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    unnoticed = []
    for method, checks in ADMISSION.items():
        for index, check in enumerate(checks):
            before, after = checks[:index], checks[index + 1 :]
            mutants: dict[str, tuple[Check, ...]] = {"whole check": (*before, *after)}
            for state in check.states:
                fewer = {key: outcome for key, outcome in check.states.items() if key != state}
                mutants[state] = (*before, check._replace(states=fewer), *after)
            for name, mutant in mutants.items():
                monkeypatch.setattr(admission, "ADMISSION", {**ADMISSION, method: mutant})
                if not _mismatches():
                    unnoticed.append((method, check.machine, name))
    assert unnoticed == []


@pytest.mark.requirement("machines.admission.table", "machines.table.total")
def test_every_method_is_decided_for_every_combination_of_states() -> None:
    reasons = set(CODES) - {"bug"}
    turns = (*state_names(ALL["turn"]),)
    for connection, deletion, session, turn in product(
        state_names(ALL["connection"]), state_names(ALL["deletion"]), state_names(ALL["session"]), turns
    ):
        view = View(connection, deletion, session, turn, ("running",), ("open",))
        for method in (*WIRE_METHODS, "end_of_input"):
            decision = admit(method, view)
            machines = {row.event: None for name in decision.fire for row in rows(ALL[name])}
            assert (decision.refusal is not None) is (decision.verdict in ("refused", "silent"))
            assert (decision.joins is not None) is (decision.verdict == "join")
            assert bool(decision.fire) is (decision.verdict == "admitted")
            assert decision.refusal is None or decision.refusal.reason in reasons
            assert decision.verdict != "admitted" or method in machines


def test_whatever_is_admitted_has_a_row_in_every_machine_that_is_fired() -> None:
    for connection, deletion, session, turn in product(*map(state_names, _FOUR)):
        view = View(connection, deletion, session, turn)
        for method in (*WIRE_METHODS, "end_of_input"):
            for name in admit(method, view).fire:
                assert (name, getattr(view, name), method) in TARGETS, (method, view)


_FOUR = (ALL["connection"], ALL["deletion"], ALL["session"], ALL["turn"])


def test_a_refusal_says_which_machine_decided() -> None:
    busy = admit("session/prompt", View("ready", session="open", turn="busy"))
    assert busy == Decision("refused", (), None, Refusal("busy", -32600), "turn")
    assert admit("session/prompt", View("ready", session="closing")).at == "session"
    assert admit("session/new", View("ready", deletion="held")).at == "deletion"
    assert admit("session/prompt", View("logged_out", session="open", turn="idle")).at == "connection"
    live = admit("session/set_mode", View("ready", session="open", turn="idle", background=("running",)))
    assert live.at == "background"
    join = admit("session/close", View("ready", session="closing"))
    assert join == Decision("join", (), "session", None, "session")


@pytest.mark.requirement("initialize.order.pipelined")
def test_only_initializing_holds_and_it_holds_every_request_but_initialize() -> None:
    for method, state in product(WIRE_METHODS, CONNECTION_COLUMNS):
        held = admit(method, View(state, session="open", turn="idle")).verdict == "held"
        assert held is (state == "initializing" and method not in ("initialize", "session/cancel"))


def test_twins_are_admitted_alike() -> None:
    for twin, method in TWINS.items():
        assert ADMISSION[twin] is ADMISSION[method]


def test_every_check_names_states_of_its_machine_and_every_method_has_an_entry() -> None:
    assert set(WIRE_METHODS) <= set(ADMISSION)
    for checks in ADMISSION.values():
        for check in checks:
            owners = state_names(ALL["background"]) if check.whose == "owner" else ()
            assert set(check.states) <= {*state_names(ALL[check.machine]), *owners}
            assert check.machine in DEFAULTS


def test_a_view_without_a_turn_where_one_is_needed_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(KeyError, match="no turn"):
        admit("session/prompt", View("ready", session="open"))
    with pytest.raises(KeyError):
        admit("session/fork", View("ready"))
    with pytest.raises(KeyError):
        admit("session/prompt", View("redy", session="open", turn="idle"))


def test_the_rendered_matrices_merge_equal_columns_and_collapse_twins() -> None:
    by_turn, by_session, by_connection = matrices()
    assert "busy, queued" in by_turn.columns and "reconnecting, configuring" in by_turn.columns
    assert "shutting_down, closed, shutdown_failed" in by_connection.columns
    assert len(by_session.columns) == 9
    for matrix in (by_turn, by_session, by_connection):
        assert "session/load, resume" in matrix.methods
        assert "session/set_mode, set_config_option" in matrix.methods
        columns = list(zip(*matrix.cells, strict=True))
        assert len(set(columns)) == len(columns)
