"""The session machine, pair by pair."""

from __future__ import annotations

import pytest

from sluice.machines import CompiledMachine, Machine, Session, final_names, initial_name, rows, state_names

from .table import Golden, complaints, driven, walk_every_pair

STATES = ("absent", "constructing", "open", "closing", "deleting", "closed", "removing", "deleted", "cleanup_failed")
FINAL = ("deleted", "cleanup_failed")

GOLDEN: Golden = {
    "session/new": {"absent": "constructing"},
    "session/load": {"absent": "constructing", "closed": "constructing"},
    "session/resume": {"absent": "constructing", "closed": "constructing"},
    "constructed": {"constructing": "open", "closing": "closing", "deleting": "deleting"},
    "not_found": {"constructing": "absent", "closing": "closing", "deleting": "deleting"},
    "setup_failed": {"constructing": "closing", "open": "closing", "closing": "closing", "deleting": "deleting"},
    "session/close": {"constructing": "closing", "open": "closing"},
    "session/delete": {
        "absent": "removing",
        "closed": "removing",
        "constructing": "deleting",
        "open": "deleting",
        "closing": "deleting",
    },
    "withdrawn": {"deleting": "closing"},
    "drained": {"closing": "closed", "deleting": "removing"},
    "unresolved": {"closing": "cleanup_failed", "deleting": "cleanup_failed"},
    "removed": {"removing": "deleted"},
    "not_removed": {"removing": "closed"},
}


@pytest.mark.requirement("machines.session.states", "machines.tests.exhaustive", "machines.table.refusal-keeps-state")
@pytest.mark.parametrize("cls", driven("session"))
def test_every_pair_moves_as_in_the_golden_table_or_is_refused_in_place(
    cls: type[Machine] | type[CompiledMachine],
) -> None:
    assert walk_every_pair(cls, STATES, GOLDEN) == 88


@pytest.mark.requirement("machines.session.states")
def test_the_declaration_holds_exactly_these_states_and_rows() -> None:
    assert state_names(Session) == STATES
    assert final_names(Session) == FINAL
    assert initial_name(Session) == STATES[0]
    assert complaints(rows(Session), GOLDEN) == []
