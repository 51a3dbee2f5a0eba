"""Refusals: total over every pair without a row, and the same reason and code everywhere."""

from __future__ import annotations

from itertools import product

import pytest

from sluice.machines import ALL, Refusal, event_names, refusal, refusals, rows, state_names
from sluice.machines.refusals import CODES, DEFAULTS, EXCEPTIONS, WIRE_METHODS

REASONS = {
    "busy": -32600,
    "auth_required": -32000,
    "not_found": -32002,
    "cleanup_failed": -32603,
    "not_initialized": -32600,
    "authenticating": -32600,
    "live_sessions": -32600,
    "shutting_down": -32600,
    "silent": None,
    "bug": -32603,
}

# What a wire method without a row is told: machine -> reason -> states.
WIRE = {
    "connection": {
        "not_initialized": ["opened", "initializing"],
        "auth_required": [
            "ready",
            "auth_required",
            "authenticating",
            "reauthenticating",
            "logging_out",
            "logged_out",
            "logout_failed",
        ],
        "shutting_down": ["shutting_down", "closed", "shutdown_failed"],
    },
    "deletion": {"busy": ["held"]},
    "session": {
        "not_found": ["absent", "closed", "deleted"],
        "busy": ["constructing", "open", "closing", "deleting", "removing"],
        "cleanup_failed": ["cleanup_failed"],
    },
    "turn": {
        "busy": ["idle", "reconnecting", "configuring", "busy", "draining", "queued", "closing"],
        "cleanup_failed": ["blocked"],
        "not_found": ["closed"],
    },
    "background": {"busy": ["running", "cancelling", "ended"]},
}

SPECIAL = {
    ("connection", "authenticating", "authenticate"): "authenticating",
    ("connection", "reauthenticating", "authenticate"): "authenticating",
    ("connection", "logging_out", "authenticate"): "authenticating",
    ("connection", "logout_failed", "authenticate"): "cleanup_failed",
    ("connection", "logout_failed", "logout"): "cleanup_failed",
    ("connection", "shutting_down", "end_of_input"): "silent",
    ("connection", "closed", "end_of_input"): "silent",
    ("connection", "shutdown_failed", "end_of_input"): "silent",
}


def _expected(machine: str, state: str, event: str) -> str:
    if event == "session/cancel":
        return "silent"
    if (machine, state, event) in SPECIAL:
        return SPECIAL[machine, state, event]
    if event in WIRE_METHODS:
        return next((reason for reason, states in WIRE.get(machine, {}).items() if state in states), "bug")
    return "bug"


def _pairs_without_a_row() -> list[tuple[str, str, str]]:
    return [
        (name, state, event)
        for name, cls in ALL.items()
        for state, event in product(state_names(cls), event_names(cls))
        if (state, event) not in {(row.source, row.event) for row in rows(cls)}
    ]


def _mismatches() -> list[tuple[str, str, str]]:
    asked = _pairs_without_a_row()
    asked += [(name, state, method) for name in WIRE for state in state_names(ALL[name]) for method in WIRE_METHODS]
    wrong = []
    for machine, state, event in asked:
        try:
            why = refusal(machine, state, event)
        except KeyError:
            wrong.append((machine, state, event))
            continue
        reason = _expected(machine, state, event)
        if why != Refusal(reason, REASONS[reason]):
            wrong.append((machine, state, event))
    return wrong


@pytest.mark.requirement("machines.table.total")
def test_every_pair_without_a_row_and_every_wire_method_anywhere_has_its_reason_and_code() -> None:
    assert len(_pairs_without_a_row()) == 397
    assert CODES == REASONS
    assert _mismatches() == []


@pytest.mark.requirement("machines.table.total")
def test_deleting_any_entry_of_the_table_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in EXCEPTIONS:
        with monkeypatch.context() as patch:
            patch.setattr(refusals, "EXCEPTIONS", {k: v for k, v in EXCEPTIONS.items() if k != key})
            assert _mismatches(), key
    for machine, states in DEFAULTS.items():
        for state in states:
            short = {**DEFAULTS, machine: {k: v for k, v in states.items() if k != state}}
            with monkeypatch.context() as patch:
                patch.setattr(refusals, "DEFAULTS", short)
                assert _mismatches(), (machine, state)
    with monkeypatch.context() as patch:
        patch.setattr(refusals, "SILENT", frozenset())
        assert _mismatches()


@pytest.mark.requirement("auth.required.only-for-auth")
def test_only_authentication_is_answered_with_its_code_and_only_a_missing_session_with_that_of_not_found() -> None:
    assert [reason for reason, code in CODES.items() if code == -32000] == ["auth_required"]
    assert [reason for reason, code in CODES.items() if code == -32002] == ["not_found"]


def test_a_state_that_does_not_exist_is_not_answered_with_a_guess() -> None:
    with pytest.raises(KeyError):
        refusal("session", "opne", "session/prompt")
