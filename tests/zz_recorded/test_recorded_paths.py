"""Last of the run: every row of every machine was taken by a server in a wire test, or has its reason here."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.machines import ALL, rows
from tests.support.wire import TAKEN

HANDLERS = Path(__file__).parent.parent / "handlers"

RACE = "a race inside one step of the loop; the search and the random histories of real machines take it"

NOT_TAKEN: dict[tuple[str, str, str, str], str] = {
    ("session", "constructed", "deleting", "deleting"): RACE,
    (
        "turn",
        "unresolved",
        "reconnecting",
        "blocked",
    ): "needs a server that cannot be killed, as root cannot make one",
    ("terminal", "exit", "releasing", "releasing"): RACE,
    ("mcp", "listed", "retiring", "retiring"): RACE,
    ("mcp", "lost", "retiring", "retiring"): RACE,
    ("mcp", "lost", "ready", "disconnected"): "taken by the server's own tests in tests/mcp, without a session",
    ("mcp", "retire", "connecting", "retiring"): "taken by the server's own tests in tests/mcp, without a session",
    ("mcp", "retire", "disconnected", "retiring"): "taken by the server's own tests in tests/mcp, without a session",
    ("mcp", "stop_failed", "retiring", "failed"): "needs a server that cannot be killed, as root cannot make one",
}


def every_row() -> set[tuple[str, str, str, str]]:
    return {(name, row.event, row.source, row.target) for name, cls in ALL.items() for row in rows(cls)}


def test_reasons_are_given_for_rows_that_exist() -> None:
    assert NOT_TAKEN.keys() <= every_row()


@pytest.mark.requirement("machines.tests.recorded-paths")
def test_every_row_was_taken_over_the_wire_or_has_its_reason(request: pytest.FixtureRequest) -> None:
    """Only a run of all wire tests can tell; a smaller one still shows that nothing else than rows was taken."""
    assert every_row() >= TAKEN
    collected = {item.path for item in request.session.items}
    if collected >= set(HANDLERS.glob("test_*.py")):
        assert every_row() - TAKEN - NOT_TAKEN.keys() == set()
