"""The turn machine, pair by pair."""

from __future__ import annotations

import pytest

from sluice.machines import CompiledMachine, Machine, Turn, final_names, initial_name, rows, state_names

from .table import Golden, complaints, driven, walk_every_pair

STATES = ("idle", "reconnecting", "configuring", "busy", "draining", "queued", "blocked", "closing", "closed")
FINAL = ("closed",)

GOLDEN: Golden = {
    "session/prompt": {"idle": "busy", "draining": "queued"},
    "session/cancel": {"busy": "draining", "queued": "draining"},
    "session/load": {"idle": "reconnecting"},
    "session/resume": {"idle": "reconnecting"},
    "session/set_mode": {"idle": "configuring"},
    "session/set_config_option": {"idle": "configuring"},
    "drained": {
        "reconnecting": "idle",
        "configuring": "idle",
        "busy": "idle",
        "draining": "idle",
        "queued": "busy",
        "closing": "closed",
    },
    "unresolved": {
        "idle": "blocked",
        "reconnecting": "blocked",
        "busy": "blocked",
        "draining": "blocked",
        "queued": "blocked",
        "closing": "closed",
    },
    "close": {
        "idle": "closed",
        "blocked": "closed",
        "reconnecting": "closing",
        "configuring": "closing",
        "busy": "closing",
        "draining": "closing",
        "queued": "closing",
    },
}


@pytest.mark.requirement("machines.turn.states", "machines.tests.exhaustive", "machines.table.refusal-keeps-state")
@pytest.mark.parametrize("cls", driven("turn"))
def test_every_pair_moves_as_in_the_golden_table_or_is_refused_in_place(
    cls: type[Machine] | type[CompiledMachine],
) -> None:
    assert walk_every_pair(cls, STATES, GOLDEN) == 54


@pytest.mark.requirement("machines.turn.states")
def test_the_declaration_holds_exactly_these_states_and_rows() -> None:
    assert state_names(Turn) == STATES
    assert final_names(Turn) == FINAL
    assert initial_name(Turn) == STATES[0]
    assert complaints(rows(Turn), GOLDEN) == []
