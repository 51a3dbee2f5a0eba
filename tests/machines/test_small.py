"""The small machines, pair by pair: deletion barrier, background task, MCP server, elicitation."""

from __future__ import annotations

import pytest

from sluice.machines import ALL, final_names, initial_name, rows, state_names

from .table import Golden, complaints, driven, walk_every_pair

DELETION_STATES = ("clear", "held")
DELETION_FINAL = ()

DELETION_GOLDEN: Golden = {
    "session/delete": {"clear": "held"},
    "released": {"held": "clear"},
}

BACKGROUND_STATES = ("running", "cancelling", "ended")
BACKGROUND_FINAL = ("ended",)

BACKGROUND_GOLDEN: Golden = {
    "cancel": {"running": "cancelling"},
    "finished": {"running": "ended", "cancelling": "ended"},
}

MCP_STATES = ("connecting", "ready", "disconnected", "retiring", "retired", "failed")
MCP_FINAL = ("retired", "failed")

MCP_GOLDEN: Golden = {
    "listed": {"connecting": "ready", "retiring": "retiring"},
    "lost": {"connecting": "retiring", "ready": "disconnected", "retiring": "retiring"},
    "retire": {"connecting": "retiring", "ready": "retiring", "disconnected": "retiring"},
    "stopped": {"retiring": "retired"},
    "stop_failed": {"retiring": "failed"},
}

ELICITATION_STATES = ("open", "accepted", "declined", "cancelled", "withdrawn")
ELICITATION_FINAL = ("accepted", "declined", "cancelled", "withdrawn")

ELICITATION_GOLDEN: Golden = {
    "accept": {"open": "accepted"},
    "decline": {"open": "declined"},
    "cancel": {"open": "cancelled"},
    "withdraw": {"open": "withdrawn"},
}

TABLES: dict[str, tuple[tuple[str, ...], tuple[str, ...], Golden, int]] = {
    "deletion": (DELETION_STATES, DELETION_FINAL, DELETION_GOLDEN, 2),
    "background": (BACKGROUND_STATES, BACKGROUND_FINAL, BACKGROUND_GOLDEN, 3),
    "mcp": (MCP_STATES, MCP_FINAL, MCP_GOLDEN, 20),
    "elicitation": (ELICITATION_STATES, ELICITATION_FINAL, ELICITATION_GOLDEN, 16),
}


@pytest.mark.requirement("machines.five.declared", "machines.tests.exhaustive", "machines.table.refusal-keeps-state")
@pytest.mark.parametrize("name", TABLES)
def test_every_pair_moves_as_in_the_golden_table_or_is_refused_in_place(name: str) -> None:
    states, _, golden, refused = TABLES[name]
    for cls in driven(name):
        assert walk_every_pair(cls, states, golden) == refused


@pytest.mark.parametrize("name", TABLES)
def test_the_declaration_holds_exactly_these_states_and_rows(name: str) -> None:
    states, final, golden, _ = TABLES[name]
    assert state_names(ALL[name]) == states
    assert final_names(ALL[name]) == final
    assert initial_name(ALL[name]) == states[0]
    assert complaints(rows(ALL[name]), golden) == []
