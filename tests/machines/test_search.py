"""The search of the composed machines: nothing is violated, and every planted fault is named.

The wider bounds take minutes and are run by themselves: `python -m tests.machines.search --full`.
"""

from __future__ import annotations

import pytest

from sluice.machines import ALL, rows

from .composition import Composition, Key, Limits
from .faults import FAULTS, Fault, Tables
from .model import SENTENCES, Bounds
from .search import Report, search

# Rows that these bounds cannot take: twins of methods that are tried, and what no decision looks at.
OUT_OF_BOUNDS = {
    ("session", "absent", "session/resume"),
    ("session", "closed", "session/resume"),
    ("turn", "idle", "session/resume"),
    ("turn", "idle", "session/set_config_option"),
    *(("elicitation", row.source, row.event) for row in rows(ALL["elicitation"])),
}
OF_SERVERS = {("mcp", row.source, row.event) for row in rows(ALL["mcp"])}


@pytest.fixture(scope="module")
def report() -> Report:
    """Two sessions, the second with its lifecycle and its turn only; no MCP server."""
    return search(Composition(Limits(Bounds(), Bounds(work=False), held=3)))


@pytest.mark.requirement("machines.search.exhaustive")
def test_no_state_of_the_composition_breaks_a_sentence(report: Report) -> None:
    assert report.found is None, str(report.found)
    assert report.states > 90_000 and report.depth < 40


@pytest.mark.requirement("machines.search.exhaustive")
def test_every_row_within_the_bounds_is_taken(report: Report) -> None:
    assert set(report.never_taken) == OUT_OF_BOUNDS | OF_SERVERS


def test_one_session_with_a_server_takes_the_rows_of_servers_and_breaks_no_sentence() -> None:
    report = search(Composition(Limits(Bounds(work=False, mcp=True), None, held=0)))
    assert report.found is None, str(report.found)
    assert not set(report.never_taken) & OF_SERVERS


@pytest.mark.requirement("machines.search.exhaustive")
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_named_with_the_shortest_path_to_it(name: str) -> None:
    fault: Fault = FAULTS[name]
    tables = Tables()
    fault.spoil(tables)
    with tables.installed() as spoilt:
        found = search(Composition(fault.limits, spoilt)).found
    assert found is not None
    assert found.violation.number == fault.sentence, str(found)
    assert tuple(found.path) == fault.path
    assert SENTENCES[fault.sentence] in str(found)


class _DropsWhatIsHeldOnFailure(Composition):
    """Handlers that forget the held requests when initialize fails."""

    def let_in(self, key: Key) -> tuple[Key, int]:
        connection = self.connection(key)
        if connection.state != "opened":
            return super().let_in(key)
        return self._with(key, connection._replace(held=(), input_ended=False)), 0


def test_held_requests_that_are_dropped_are_missed() -> None:
    found = search(_DropsWhatIsHeldOnFailure(Limits(second=None, held=1))).found
    assert found is not None and found.violation.number == 2
    assert found.path == ["initialize", "A session/new", "initialize_failed"]


def test_without_any_single_row_of_a_completion_a_sentence_breaks() -> None:
    needed = {
        "connection": ("credentials_found", "initialize_failed", "credentials_missing", "authenticated", "drained"),
        "session": ("constructed", "not_found", "setup_failed", "drained", "unresolved", "removed", "withdrawn"),
        "turn": ("drained", "unresolved"),
        "tool": ("outcome_unknown", "result", "error", "interrupted"),
    }
    limits = Limits(Bounds(), None, held=0)
    for machine, events in needed.items():
        for row in rows(ALL[machine]):
            if row.event in events:
                tables = Tables()
                del tables.rows[machine][row.source, row.event]
                found = search(Composition(limits, tables.rows)).found
                assert found is not None, (machine, row)
