"""Coupling: which children hear what when a parent enters a state."""

from __future__ import annotations

import pytest

from sluice.machines import ALL, COUPLING, children, coupling, event_names, reaches, state_names

EXPECTED = {
    ("connection", "logging_out"): [("session", "session/close")],
    ("connection", "shutting_down"): [("session", "session/close")],
    ("session", "closing"): [("mcp", "retire"), ("turn", "close"), ("background", "cancel")],
    ("session", "deleting"): [("mcp", "retire"), ("turn", "close"), ("background", "cancel")],
    ("turn", "draining"): [("tool", "interrupted"), ("terminal", "stop")],
    ("turn", "closing"): [("tool", "interrupted"), ("terminal", "stop")],
    ("background", "cancelling"): [("tool", "interrupted"), ("terminal", "stop")],
    ("terminal", "release_failed"): [("turn", "unresolved")],
    ("terminal", "unknown"): [("turn", "unresolved")],
    ("mcp", "failed"): [("turn", "unresolved")],
}
ONLY_IDLE = [("terminal", "release_failed"), ("terminal", "unknown"), ("mcp", "failed")]


def _mismatches() -> list[tuple[str, str]]:
    wrong = []
    for name, cls in ALL.items():
        for state in state_names(cls):
            if list(children(name, state)) != EXPECTED.get((name, state), []):
                wrong.append((name, state))
            for child, _ in EXPECTED.get((name, state), []):
                for child_state in state_names(ALL[child]):
                    wanted = child_state == "idle" or (name, state) not in ONLY_IDLE
                    if reaches(name, state, child, child_state) is not wanted:
                        wrong.append((name, state))
    return wrong


@pytest.mark.requirement("machines.coupling.table", "session.close.mcp-first")
def test_every_state_of_every_machine_fires_exactly_these_events_in_this_order() -> None:
    assert _mismatches() == []


def test_every_rule_names_a_child_that_has_rows_for_its_event_in_the_states_it_is_limited_to() -> None:
    for (parent, state), rules in COUPLING.items():
        assert state in state_names(ALL[parent])
        for rule in rules:
            assert rule.event in event_names(ALL[rule.child])
            for child_state in rule.only_in or ():
                assert ALL[rule.child](start_value=child_state).can(rule.event)


@pytest.mark.requirement("machines.coupling.table")
def test_deleting_any_rule_or_its_limit_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    for key, rules in COUPLING.items():
        for index, rule in enumerate(rules):
            shorter = (*rules[:index], *rules[index + 1 :])
            monkeypatch.setattr(coupling, "COUPLING", {**COUPLING, key: shorter})
            assert key in _mismatches()
            if rule.only_in:
                wider = (*rules[:index], rule._replace(only_in=None), *rules[index + 1 :])
                monkeypatch.setattr(coupling, "COUPLING", {**COUPLING, key: wider})
                assert key in _mismatches()


def test_nothing_is_coupled_to_what_no_rule_names() -> None:
    assert children("session", "open") == ()
    assert not reaches("session", "open", "turn", "idle")
    assert not reaches("session", "closing", "terminal", "owned")
