"""The connection machine, pair by pair."""

from __future__ import annotations

import pytest

from sluice.machines import CompiledMachine, Connection, Machine, final_names, initial_name, rows, state_names

from .table import Golden, complaints, driven, walk_every_pair

STATES = (
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
)
FINAL = ("closed", "shutdown_failed")

GOLDEN: Golden = {
    "initialize": {"opened": "initializing"},
    "credentials_found": {"initializing": "ready", "shutting_down": "shutting_down"},
    "initialize_failed": {"initializing": "opened", "shutting_down": "shutting_down"},
    "credentials_missing": {
        "initializing": "auth_required",
        "ready": "auth_required",
        "auth_required": "auth_required",
        "logging_out": "logging_out",
        "shutting_down": "shutting_down",
    },
    "authenticate": {"auth_required": "authenticating", "logged_out": "reauthenticating"},
    "authenticated": {
        "authenticating": "ready",
        "reauthenticating": "ready",
        "logging_out": "logging_out",
        "shutting_down": "shutting_down",
    },
    "authentication_failed": {
        "authenticating": "auth_required",
        "reauthenticating": "logged_out",
        "logging_out": "logging_out",
        "shutting_down": "shutting_down",
    },
    "logout": {
        "ready": "logging_out",
        "auth_required": "logging_out",
        "authenticating": "logging_out",
        "reauthenticating": "logging_out",
    },
    "drained": {"logging_out": "logged_out", "shutting_down": "closed"},
    "cleanup_failed": {"logging_out": "logout_failed", "shutting_down": "shutdown_failed"},
    "end_of_input": {
        "opened": "shutting_down",
        "initializing": "shutting_down",
        "ready": "shutting_down",
        "auth_required": "shutting_down",
        "authenticating": "shutting_down",
        "reauthenticating": "shutting_down",
        "logging_out": "shutting_down",
        "logged_out": "shutting_down",
        "logout_failed": "shutting_down",
    },
}


@pytest.mark.requirement(
    "machines.connection.states", "machines.tests.exhaustive", "machines.table.refusal-keeps-state"
)
@pytest.mark.parametrize("cls", driven("connection"))
def test_every_pair_moves_as_in_the_golden_table_or_is_refused_in_place(
    cls: type[Machine] | type[CompiledMachine],
) -> None:
    assert walk_every_pair(cls, STATES, GOLDEN) == 95


@pytest.mark.requirement("machines.connection.states")
def test_the_declaration_holds_exactly_these_states_and_rows() -> None:
    assert state_names(Connection) == STATES
    assert final_names(Connection) == FINAL
    assert initial_name(Connection) == STATES[0]
    assert complaints(rows(Connection), GOLDEN) == []
