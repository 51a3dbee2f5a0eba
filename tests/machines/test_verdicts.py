"""Verdicts: when a parent may end, and by which of its two events."""

from __future__ import annotations

import pytest

from sluice.machines import ALL, VERDICTS, state_names, verdict, verdicts

WORK = ("running", "ended")
STOPPING = ("running", "stopped", "failed")

# parent -> child key -> state -> what the parent does when this is its only child: the event, or None for waiting.
SINGLE: dict[str, dict[str, dict[str, str | None]]] = {
    "turn": {
        "own tool": {
            "pending": None,
            "awaiting_permission": None,
            "in_progress": None,
            "completed": "drained",
            "failed": "drained",
        },
        "own terminal": {
            "creating": None,
            "abandoned": None,
            "owned": None,
            "exited": None,
            "killing": None,
            "releasing": None,
            "release_failed": "drained",  # seen through "terminal", which names all of the session
            "last_attempt": None,
            "released": "drained",
            "refused": "drained",
            "unknown": "drained",
            "unreleased": None,
        },
        "terminal": {
            "creating": "drained",
            "abandoned": "drained",
            "owned": "drained",
            "exited": "drained",
            "killing": "drained",
            "releasing": "drained",
            "release_failed": "unresolved",
            "last_attempt": "drained",
            "released": "drained",
            "refused": "drained",
            "unknown": "unresolved",
            "unreleased": "drained",
        },
        "mcp": {
            "connecting": "drained",
            "ready": "drained",
            "disconnected": "drained",
            "retiring": "drained",
            "retired": "drained",
            "failed": "unresolved",
        },
    },
    "session": {
        "constructor": {"running": None, "ended": "drained"},
        "turn": {
            "idle": None,
            "reconnecting": None,
            "configuring": None,
            "busy": None,
            "draining": None,
            "queued": None,
            "blocked": None,
            "closing": None,
            "closed": "drained",
        },
        "background": {"running": None, "cancelling": None, "ended": "drained"},
        "mcp": {
            "connecting": None,
            "ready": None,
            "disconnected": None,
            "retiring": None,
            "retired": "drained",
            "failed": "unresolved",
        },
        "terminal": {
            "creating": None,
            "abandoned": None,
            "owned": None,
            "exited": None,
            "killing": None,
            "releasing": None,
            "release_failed": None,
            "last_attempt": None,
            "released": "drained",
            "refused": "drained",
            "unknown": "unresolved",
            "unreleased": "unresolved",
        },
        "toolsets": {"running": None, "stopped": "drained", "failed": "unresolved"},
    },
    "connection": {
        "initialize": {"running": None, "ended": "drained"},
        "authenticate": {"running": None, "ended": "drained"},
        "session": {
            "absent": "drained",
            "constructing": None,
            "open": None,
            "closing": None,
            "deleting": None,
            "closed": "drained",
            "removing": None,
            "deleted": "drained",
            "cleanup_failed": "cleanup_failed",
        },
        "deletion": {"clear": "drained", "held": None},
        "validation": {"running": None, "stopped": "drained", "failed": "cleanup_failed"},
    },
    "background": {
        "own tool": {
            "pending": None,
            "awaiting_permission": None,
            "in_progress": None,
            "completed": "finished",
            "failed": "finished",
        },
        "own terminal": {
            "creating": None,
            "abandoned": None,
            "owned": None,
            "exited": None,
            "killing": None,
            "releasing": None,
            "release_failed": "finished",
            "last_attempt": None,
            "released": "finished",
            "refused": "finished",
            "unknown": "finished",
            "unreleased": None,
        },
    },
    "deletion": {
        "deleting session": {
            "absent": None,
            "constructing": None,
            "open": None,
            "closing": None,
            "deleting": None,
            "closed": "released",
            "removing": None,
            "deleted": "released",
            "cleanup_failed": "released",
        },
    },
}

CELLS = [
    (parent, child, state, event)
    for parent, kinds in SINGLE.items()
    for child, cells in kinds.items()
    for state, event in cells.items()
]


def _mismatches() -> list[tuple[str, str, str]]:
    wrong = []
    for parent, child, state, event in CELLS:
        try:
            found = verdict(parent, {child: [state]})
        except KeyError:
            found = "nothing known of it"
        if found != event:
            wrong.append((parent, child, state))
    return wrong


@pytest.mark.requirement("machines.verdicts-answers.tables")
def test_each_child_alone_holds_its_parent_back_or_lets_it_end_by_the_right_event() -> None:
    assert _mismatches() == []


def test_the_cells_cover_every_state_of_every_child_a_verdict_looks_at() -> None:
    words = {
        "constructor": WORK,
        "initialize": WORK,
        "authenticate": WORK,
        "toolsets": STOPPING,
        "validation": STOPPING,
    }
    assert {parent: set(row.rest) | set(row.failed) for parent, row in VERDICTS.items()} == {
        parent: set(kinds) for parent, kinds in SINGLE.items()
    }
    for kinds in SINGLE.values():
        for child, cells in kinds.items():
            machine = child.removeprefix("own ").removeprefix("deleting ")
            assert tuple(cells) == (words.get(child) or state_names(ALL[machine]))


@pytest.mark.requirement("machines.verdicts-answers.tables")
def test_deleting_any_state_of_any_verdict_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    for parent, row in VERDICTS.items():
        for column in ("rest", "failed"):
            table: dict[str, frozenset[str]] = getattr(row, column)
            for child, states in table.items():
                mutants = [{**table, child: states - {state}} for state in states]
                mutants.append({key: value for key, value in table.items() if key != child})
                for mutant in mutants:
                    changed = row._replace(rest=mutant) if column == "rest" else row._replace(failed=mutant)
                    monkeypatch.setattr(verdicts, "VERDICTS", {**VERDICTS, parent: changed})
                    assert _mismatches(), (parent, column, child)


@pytest.mark.parametrize(
    ("parent", "event"),
    [
        ("turn", "drained"),
        ("session", "drained"),
        ("connection", "drained"),
        ("background", "finished"),
        ("deletion", "released"),
    ],
)
def test_a_parent_without_children_ends_well(parent: str, event: str) -> None:
    assert verdict(parent, {}) == event
    assert verdict(parent, dict.fromkeys(SINGLE[parent], ())) == event


def test_one_live_child_outweighs_any_failure() -> None:
    assert verdict("session", {"terminal": ["unreleased"], "mcp": ["failed", "retiring"]}) is None
    assert verdict("session", {"mcp": ["retired", "failed"], "terminal": ["released"]}) == "unresolved"
    assert verdict("connection", {"session": ["cleanup_failed", "closing"]}) is None


@pytest.mark.requirement("turn-admission.block.all-gates")
def test_a_terminal_of_a_background_task_blocks_the_slot_as_well_as_the_turns_own() -> None:
    seen = {"own tool": ["completed"], "own terminal": [], "terminal": ["release_failed"]}
    assert verdict("turn", seen) == "unresolved"


def test_a_misspelt_child_or_parent_raises_instead_of_ending_the_parent_early() -> None:
    with pytest.raises(KeyError, match="does not look at 'own tools'"):
        verdict("turn", {"own tools": ["in_progress"]})
    with pytest.raises(KeyError):
        verdict("tool", {})
