"""Answers: what the holder and the queued prompt are told, from the state that was left."""

from __future__ import annotations

import pytest

from sluice.machines import ANSWERS, Answer, Turn, answer, answers, rows
from sluice.machines.answers import BY_HOLDER

LATER = Answer(None, None)

# Every row of the turn machine, and what its firing answers.
EXPECTED = {
    ("idle", "session/prompt"): LATER,
    ("draining", "session/prompt"): LATER,
    ("busy", "session/cancel"): LATER,
    ("queued", "session/cancel"): Answer(None, "cancelled"),
    ("idle", "session/load"): LATER,
    ("idle", "session/resume"): LATER,
    ("idle", "session/set_mode"): LATER,
    ("idle", "session/set_config_option"): LATER,
    ("reconnecting", "drained"): Answer("result", None),
    ("configuring", "drained"): Answer("result", None),
    ("busy", "drained"): Answer("outcome", None),
    ("draining", "drained"): Answer("cancelled", None),
    ("queued", "drained"): Answer("cancelled", "promoted"),
    ("closing", "drained"): Answer("cancelled", None),
    ("idle", "unresolved"): LATER,
    ("reconnecting", "unresolved"): Answer("result", None),
    ("busy", "unresolved"): Answer("outcome", None),
    ("draining", "unresolved"): Answer("cancelled", None),
    ("queued", "unresolved"): Answer("cancelled", "refused"),
    ("closing", "unresolved"): Answer("cancelled", None),
    ("idle", "close"): LATER,
    ("blocked", "close"): LATER,
    ("reconnecting", "close"): LATER,
    ("configuring", "close"): LATER,
    ("busy", "close"): LATER,
    ("draining", "close"): LATER,
    ("queued", "close"): Answer(None, "cancelled"),
}

# The ends of a constructor, by the session's state.
CONSTRUCTOR = {
    ("constructing", "constructed"): Answer("result", None),
    ("constructing", "setup_failed"): Answer("setup_error", None),
    ("constructing", "not_found"): Answer("setup_error", None),
    **{
        (state, event): Answer("request_cancelled", None)
        for state in ("closing", "deleting")
        for event in ("constructed", "setup_failed", "not_found", "ended")
    },
}

RESERVATIONS = ("session/load", "session/resume", "session/set_mode", "session/set_config_option")


def _mismatches() -> list[object]:
    asked: list[tuple[tuple[str, str], str, Answer]] = [
        (key, "session/prompt", wanted) for key, wanted in {**EXPECTED, **CONSTRUCTOR}.items()
    ]
    for event in ("drained", "unresolved"):
        asked += [(("closing", event), method, Answer("request_cancelled", None)) for method in RESERVATIONS]
        asked.append((("closing", event), "setup_failed", Answer("setup_error", None)))
    wrong: list[object] = []
    for (state, event), holder, wanted in asked:
        try:
            found = answer(state, event, holder)
        except KeyError:
            found = LATER._replace(holder="outcome", queued="refused")
        if found != wanted:
            wrong.append((state, event, holder))
    return wrong


@pytest.mark.requirement("machines.verdicts-answers.tables", "turn-admission.queued.while-draining")
def test_every_row_of_a_turn_and_every_end_of_a_constructor_answers_exactly_this() -> None:
    assert _mismatches() == []


def test_the_table_has_an_entry_for_every_row_of_the_turn_and_no_other() -> None:
    of_turn = {(row.source, row.event) for row in rows(Turn)}
    assert of_turn == set(EXPECTED)
    assert set(ANSWERS) == of_turn | set(CONSTRUCTOR)


@pytest.mark.requirement("machines.verdicts-answers.tables")
def test_deleting_any_entry_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ANSWERS:
        monkeypatch.setattr(answers, "ANSWERS", {k: v for k, v in ANSWERS.items() if k != key})
        assert _mismatches(), key
    monkeypatch.setattr(answers, "ANSWERS", ANSWERS)
    for special in BY_HOLDER:
        monkeypatch.setattr(answers, "BY_HOLDER", {k: v for k, v in BY_HOLDER.items() if k != special})
        assert _mismatches(), special


def test_a_pair_that_is_no_row_has_no_answer() -> None:
    with pytest.raises(KeyError):
        answer("idle", "drained")
    with pytest.raises(KeyError):
        answer("configuring", "unresolved")
