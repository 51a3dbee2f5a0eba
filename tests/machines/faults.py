"""Planted faults: copies of the tables with one thing wrong, each of which the search must find and name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple
from unittest import mock

from sluice.machines import (
    ADMISSION,
    ANSWERS,
    COUPLING,
    VERDICTS,
    Terminal,
    ToolCall,
    admission,
    answers,
    coupling,
    state_names,
    verdicts,
)
from sluice.machines.answers import Answer

from .composition import Limits
from .model import Bounds, real_rows

MachineRows = dict[str, dict[tuple[str, str], str]]


class Tables:
    """A copy of every table, to be spoilt; `installed` puts it in the place of the real ones."""

    def __init__(self) -> None:
        self.rows: MachineRows = real_rows()
        self.admission = dict(ADMISSION)
        self.coupling = dict(COUPLING)
        self.verdicts = dict(VERDICTS)
        self.answers = dict(ANSWERS)

    @contextmanager
    def installed(self) -> Iterator[MachineRows]:
        with (
            mock.patch.object(admission, "ADMISSION", self.admission),
            mock.patch.object(coupling, "COUPLING", self.coupling),
            mock.patch.object(verdicts, "VERDICTS", self.verdicts),
            mock.patch.object(answers, "ANSWERS", self.answers),
        ):
            yield self.rows


class Fault(NamedTuple):
    """A spoilt table, the sentence it breaks and the labels of a shortest path to where that shows."""

    spoil: Callable[[Tables], None]
    sentence: int
    path: tuple[str, ...]
    limits: Limits = Limits(second=None, held=0)
    """The smallest bounds that show it."""


def _load_ignores_the_barrier(tables: Tables) -> None:
    for method in ("session/load", "session/resume"):
        tables.admission[method] = tuple(check for check in ADMISSION[method] if check.machine != "deletion")


def _close_from_queued_goes_straight_to_closed(tables: Tables) -> None:
    tables.rows["turn"]["queued", "close"] = "closed"


def _close_forgets_the_queued_prompt(tables: Tables) -> None:
    tables.answers["queued", "close"] = Answer(None, None)


def _one_authenticating_state_for_both_origins(tables: Tables) -> None:
    tables.rows["connection"]["logged_out", "authenticate"] = "authenticating"


def _no_late_row_for_a_constructor(tables: Tables) -> None:
    del tables.rows["session"]["closing", "constructed"]


def _no_upward_rule_from_a_failed_release(tables: Tables) -> None:
    del tables.coupling["terminal", "release_failed"]


def _session_verdict_ignores_live_terminals(tables: Tables) -> None:
    row = VERDICTS["session"]
    left = frozenset(state_names(Terminal)) - {"released", "refused"}
    tables.verdicts["session"] = row._replace(
        rest={child: states for child, states in row.rest.items() if child != "terminal"},
        failed={**row.failed, "terminal": left},
    )


def _closing_turn_does_not_stop_its_terminal(tables: Tables) -> None:
    rules = COUPLING["turn", "closing"]
    tables.coupling["turn", "closing"] = tuple(rule for rule in rules if rule.child != "terminal")


# --- further ones, of the same kinds ---


def _finished_ignores_own_calls(tables: Tables) -> None:
    row = VERDICTS["background"]
    tables.verdicts["background"] = row._replace(rest={**row.rest, "own tool": frozenset(state_names(ToolCall))})


def _cancelling_task_interrupts_no_call(tables: Tables) -> None:
    rules = COUPLING["background", "cancelling"]
    tables.coupling["background", "cancelling"] = tuple(rule for rule in rules if rule.child != "tool")


def _no_outcome_unknown(tables: Tables) -> None:
    del tables.rows["tool"]["in_progress", "outcome_unknown"]


def _connection_verdict_ignores_initialize(tables: Tables) -> None:
    row = VERDICTS["connection"]
    tables.verdicts["connection"] = row._replace(
        rest={**row.rest, "initialize": frozenset({"running", "ended"})},
    )


def _list_is_answered_after_the_input_has_ended(tables: Tables) -> None:
    first, *others = ADMISSION["session/list"]
    states = {**first.states, "shutting_down": "ok"}
    tables.admission["session/list"] = (first._replace(states=states), *others)


def _session_verdict_does_not_see_failed_terminals(tables: Tables) -> None:
    row = VERDICTS["session"]
    failed = {child: states for child, states in row.failed.items() if child != "terminal"}
    tables.verdicts["session"] = row._replace(failed=failed)


def _close_forgets_a_failed_cleanup(tables: Tables) -> None:
    checks = list(ADMISSION["session/close"])
    checks[1] = checks[1]._replace(states={**checks[1].states, "cleanup_failed": "ok"})
    tables.admission["session/close"] = tuple(checks)


READY = ("initialize", "credentials_found")
OPEN = (*READY, "A session/new", "A constructed")

FAULTS: dict[str, Fault] = {
    "load does not look at the barrier": Fault(
        _load_ignores_the_barrier,
        7,
        (*READY, "A session/delete", "B session/load"),
        Limits(second=Bounds(work=False), held=0),
    ),
    "close from queued goes straight to closed": Fault(
        _close_from_queued_goes_straight_to_closed,
        2,
        (*OPEN, "A session/prompt", "A session/cancel", "A session/prompt", "A session/close"),
    ),
    "close forgets the queued prompt's answer": Fault(
        _close_forgets_the_queued_prompt,
        1,
        (*OPEN, "A session/prompt", "A session/cancel", "A session/prompt", "A session/close"),
    ),
    "one authenticating state for both origins": Fault(
        _one_authenticating_state_for_both_origins,
        8,
        (*READY, "logout", "connection drained", "authenticate", "A session/delete"),
    ),
    "no late row for a constructor": Fault(
        _no_late_row_for_a_constructor,
        10,
        (*READY, "A session/new", "A cancel_request of the constructor", "A constructed"),
    ),
    "no upward rule from a failed release": Fault(
        _no_upward_rule_from_a_failed_release,
        3,
        (
            *OPEN,
            "A session/prompt",
            "A background starts",
            "A turn ended",
            "A turn drained",
            "A background creates a terminal",
            "A background ended",
            "A terminal created",
            "A terminal collected",
            "A terminal release_error",
        ),
    ),
    "the session's verdict ignores live terminals": Fault(
        _session_verdict_ignores_live_terminals,
        6,
        (
            *OPEN,
            "A session/prompt",
            "A tool call",
            "A call start",
            "A turn creates a terminal",
            "A turn ended",
            "A terminal created",
            "A terminal collected",
            "A terminal release_error",
            "A turn unresolved",
            "A session/close",
            "A session unresolved",
        ),
    ),
    "a closing turn does not stop its terminal": Fault(
        _closing_turn_does_not_stop_its_terminal,
        12,
        (*OPEN, "A session/prompt", "A tool call", "A call start", "A turn creates a terminal", "A session/close"),
    ),
    "a finished task's own calls are ignored": Fault(
        _finished_ignores_own_calls,
        13,
        (
            *OPEN,
            "A session/prompt",
            "A background starts",
            "A background call",
            "A task_call start",
            "A session/close",
            "A background cancelled",
            "A background finished",
        ),
    ),
    "a cancelling task interrupts no call": Fault(
        _cancelling_task_interrupts_no_call,
        12,
        (*OPEN, "A session/prompt", "A background starts", "A background call", "A session/close"),
    ),
    "a running call has no outcome_unknown": Fault(
        _no_outcome_unknown, 10, (*OPEN, "A session/prompt", "A tool call", "A call start", "A turn ended")
    ),
    "the connection's verdict ignores initialize": Fault(
        _connection_verdict_ignores_initialize, 9, ("initialize", "end_of_input (deadline)", "connection drained")
    ),
    "something is admitted after shutting_down": Fault(
        _list_is_answered_after_the_input_has_ended, 9, ("end_of_input", "session/list")
    ),
    "history goes although a terminal is unreleased": Fault(
        _session_verdict_does_not_see_failed_terminals,
        5,
        (
            *OPEN,
            "A session/prompt",
            "A tool call",
            "A call start",
            "A turn creates a terminal",
            "A turn ended",
            "A terminal create_lost",
            "A turn unresolved",
            "A session/delete",
            "A session drained",
        ),
    ),
    "close answers success after a failed cleanup": Fault(
        _close_forgets_a_failed_cleanup,
        6,
        (*READY, "A session/new", "A setup_failed", "A session unresolved", "A session/close"),
    ),
}
