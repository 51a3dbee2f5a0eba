"""The admission matrix: what a caller gets, for every method in every situation that makes a difference.

Three tables, each asked of `admission.admit` cell by cell, so that a page that is read in review cannot say anything
else than what the server does. Columns that are equal in every row become one, and twin methods one row.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from sluice.machines.admission import TWINS, View, admit
from sluice.machines.base import Machine, rows, state_names
from sluice.machines.connection import Connection
from sluice.machines.session import Session
from sluice.machines.small import Deletion
from sluice.machines.turn import Turn

__all__ = ["SILENT_CELL", "Matrix", "cell", "matrices"]

SILENT_CELL: Final = "·"


class Matrix(NamedTuple):
    """One table: `columns` are the situations as shown, `cells` one list per row of `methods`."""

    title: str
    corner: str
    columns: list[str]
    methods: list[str]
    cells: list[list[str]]


_CLASSES: Final[dict[str, type[Machine]]] = {cls.machine: cls for cls in (Connection, Deletion, Session, Turn)}

_OF_A_SESSION: Final = (
    "session/prompt",
    "session/cancel",
    "session/load",
    "session/resume",
    "session/set_mode",
    "session/set_config_option",
    "session/close",
    "session/delete",
)
_OF_A_CONNECTION: Final = (
    "initialize",
    "authenticate",
    "logout",
    "session/new",
    "session/load",
    "session/resume",
    "session/list",
    "session/prompt",
    "session/set_mode",
    "session/set_config_option",
    "session/cancel",
    "session/close",
    "session/delete",
)


def cell(method: str, view: View) -> str:
    """What a caller of `method` gets: an arrow and the state entered, a bare word, or a dot for silence.

    The arrow is there so that `busy` never means both "goes to busy" and "refused: busy".
    """
    decision = admit(method, view)
    if decision.verdict == "admitted":
        machine = decision.fire[0]
        source = getattr(view, machine)
        target = next((row.target for row in rows(_CLASSES[machine]) if row[:2] == (method, source)), None)
        if target is None:
            raise ValueError(
                f"ADMISSION fires {method} at a {machine} in {source}, where the machine has no row for it"
            )
        return f"**→ {target}**"
    if decision.verdict == "silent":
        return SILENT_CELL
    if decision.refusal is not None:
        return decision.refusal.reason
    return decision.verdict


def matrices() -> list[Matrix]:
    """The three tables, in reading order: by turn, by session, by connection."""
    return [_by_turn(), _by_session(), _by_connection()]


def _by_turn() -> Matrix:
    situations = {
        state: View("ready", session="open", turn=state)
        for state in state_names(Turn)
        if state not in ("closing", "closed")  # a session that is open has no such turn
    }
    idle = situations["idle"]
    situations["idle, background live"] = idle._replace(background=("running",))
    situations["idle, other delete"] = idle._replace(deletion="held", others=("deleting",))
    return _matrix("By turn", "connection ready, session open, turn:", situations, _OF_A_SESSION)


def _by_session() -> Matrix:
    situations = {
        state: View("ready", deletion="held" if state in ("deleting", "removing") else "clear", session=state)
        for state in state_names(Session)
        if state != "open"
    }
    situations["closed, other delete"] = View("ready", deletion="held", session="closed", others=("deleting",))
    methods = ("session/new", *_OF_A_SESSION)
    return _matrix("By session", "connection ready, session:", situations, methods)


def _by_connection() -> Matrix:
    """Each method for the session it is meant for, so that only the connection can refuse it."""
    situations = {state: View(state, session="open", turn="idle") for state in state_names(Connection)}
    changed = {
        "session/new": {state: View(state) for state in situations},
        "session/cancel": {state: view._replace(turn="busy") for state, view in situations.items()},
    }
    return _matrix("By connection", "connection:", situations, _OF_A_CONNECTION, changed)


def _matrix(
    title: str,
    corner: str,
    situations: dict[str, View],
    methods: tuple[str, ...],
    changed: dict[str, dict[str, View]] | None = None,
) -> Matrix:
    table: dict[str, list[str]] = {}
    for method in methods:
        cells = [cell(method, view) for view in (changed or {}).get(method, situations).values()]
        twin = TWINS.get(method)
        label = method
        if twin in table and table[twin] == cells:
            label = f"{twin}, {method.removeprefix('session/')}"
            del table[twin]
        table[label] = cells
    columns = _merge(list(situations), list(table.values()))
    return Matrix(
        title,
        corner,
        [", ".join(names) for names, _ in columns],
        list(table),
        [list(row) for row in zip(*(cells for _, cells in columns), strict=True)],
    )


def _merge(names: list[str], cells: list[list[str]]) -> list[tuple[list[str], tuple[str, ...]]]:
    """Columns with equal cells become one, at the place of the first."""
    merged: dict[tuple[str, ...], list[str]] = {}
    for index, name in enumerate(names):
        merged.setdefault(tuple(row[index] for row in cells), []).append(name)
    return [(together, column) for column, together in merged.items()]
