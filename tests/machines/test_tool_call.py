"""The tool call machine, pair by pair, declared and compiled."""

from __future__ import annotations

import pytest

from sluice.machines import CompiledMachine, Machine, ToolCall, final_names, initial_name, rows, state_names

from .table import Golden, complaints, driven, walk_every_pair

STATES = ("pending", "awaiting_permission", "in_progress", "completed", "failed")
FINAL = ("completed", "failed")

GOLDEN: Golden = {
    "ask": {"pending": "awaiting_permission"},
    "start": {"pending": "in_progress", "awaiting_permission": "in_progress"},
    "denied": {"pending": "failed"},
    "rejected": {"awaiting_permission": "failed"},
    "interrupted": {"pending": "failed", "awaiting_permission": "failed"},
    "result": {"in_progress": "completed"},
    "error": {"in_progress": "failed"},
    "outcome_unknown": {"in_progress": "failed"},
}


@pytest.mark.requirement(
    "machines.tool-call.states", "machines.tests.exhaustive", "machines.table.refusal-keeps-state"
)
@pytest.mark.parametrize("cls", driven("tool"))
def test_every_pair_moves_as_in_the_golden_table_or_is_refused_in_place(
    cls: type[Machine] | type[CompiledMachine],
) -> None:
    assert walk_every_pair(cls, STATES, GOLDEN) == 30


@pytest.mark.requirement("machines.tool-call.states")
def test_the_declaration_holds_exactly_these_states_and_rows() -> None:
    assert state_names(ToolCall) == STATES
    assert final_names(ToolCall) == FINAL
    assert initial_name(ToolCall) == STATES[0]
    assert complaints(rows(ToolCall), GOLDEN) == []
