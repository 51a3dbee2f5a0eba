"""The terminal machine, pair by pair."""

from __future__ import annotations

import pytest

from sluice.machines import CompiledMachine, Machine, Terminal, final_names, initial_name, rows, state_names

from .table import Golden, complaints, driven, walk_every_pair

STATES = (
    "creating",
    "abandoned",
    "owned",
    "exited",
    "killing",
    "releasing",
    "release_failed",
    "last_attempt",
    "released",
    "refused",
    "unknown",
    "unreleased",
)
FINAL = ("released", "refused", "unknown", "unreleased")

GOLDEN: Golden = {
    "created": {"creating": "owned", "abandoned": "killing"},
    "create_refused": {"creating": "refused", "abandoned": "refused"},
    "create_lost": {"creating": "unknown", "abandoned": "unknown"},
    "exit": {"owned": "exited", "killing": "killing", "releasing": "releasing"},
    "stop": {"creating": "abandoned", "owned": "killing", "exited": "releasing"},
    "collected": {"exited": "releasing", "killing": "releasing"},
    "terminal/release": {"releasing": "released", "last_attempt": "released"},
    "release_error": {"releasing": "release_failed", "last_attempt": "unreleased"},
    "try_again": {"release_failed": "last_attempt"},
}


@pytest.mark.requirement(
    "machines.terminal.states", "machines.tests.exhaustive", "machines.table.refusal-keeps-state"
)
@pytest.mark.parametrize("cls", driven("terminal"))
def test_every_pair_moves_as_in_the_golden_table_or_is_refused_in_place(
    cls: type[Machine] | type[CompiledMachine],
) -> None:
    assert walk_every_pair(cls, STATES, GOLDEN) == 89


@pytest.mark.requirement("machines.terminal.states")
def test_the_declaration_holds_exactly_these_states_and_rows() -> None:
    assert state_names(Terminal) == STATES
    assert final_names(Terminal) == FINAL
    assert initial_name(Terminal) == STATES[0]
    assert complaints(rows(Terminal), GOLDEN) == []
