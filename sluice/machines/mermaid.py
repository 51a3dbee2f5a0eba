"""Draws a machine as a Mermaid state diagram, from the compiled rows.

The library's own drawing leaves out rows that stay and cannot draw a part of a machine; this one draws every row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sluice.machines.base import Machine, Row, final_names, initial_name, rows, state_names

__all__ = ["ANY_STATE", "VIEWS", "draw", "views"]

ANY_STATE: Final[frozenset[tuple[str, str]]] = frozenset({("connection", "end_of_input"), ("turn", "close")})
"""(machine, event) whose many arrows are drawn as one, from a box with a note that lists the sources."""

VIEWS: Final[dict[str, tuple[tuple[str, tuple[str, ...]], ...]]] = {
    "turn": (
        ("The path of prompts", ("idle", "busy", "draining", "queued", "blocked")),
        ("Reservations and closing", ("idle", "reconnecting", "configuring", "blocked", "closing", "closed")),
    ),
}
"""Machines that are drawn in parts, because one picture of them is a tangle: title -> the states shown."""


def views(cls: type[Machine]) -> list[tuple[str, str]]:
    """The pictures of a machine, as (title, Mermaid source); the title is empty when there is one picture only."""
    parts = VIEWS.get(cls.machine, (("", state_names(cls)),))
    drawn = [(title, draw(cls, shown)) for title, shown in parts]
    missing = _undrawn(cls, [shown for _, shown in parts])
    if missing:
        raise ValueError(f"no picture of {cls.machine} shows {missing}")
    return drawn


def draw(cls: type[Machine], shown: Sequence[str]) -> str:
    """The Mermaid source of the rows between the states `shown`, one line per arrow, without a trailing newline."""
    collapsed = _collapsed(cls)
    lines = ["stateDiagram-v2"]
    if initial_name(cls) in shown:
        lines.append(f"    [*] --> {initial_name(cls)}")
    arrows: dict[tuple[str, str], list[str]] = {}
    for row in rows(cls):
        if row.source in shown and row.target in shown and (row.event, row.target) not in collapsed:
            arrows.setdefault((row.source, row.target), []).append(row.event)
    for (source, target), events in arrows.items():
        suffix = " (stays)" if source == target else ""
        lines.append(f"    {source} --> {target}: {', '.join(events)}{suffix}")
    for (event, target), sources in collapsed.items():
        if target in shown:
            box = f"any_{event}"
            lines += [
                f'    state "any state" as {box}',
                f"    {box} --> {target}: {event}",
                f"    note left of {box}: {', '.join(sources)}",
            ]
    lines += [f"    {state} --> [*]" for state in final_names(cls) if state in shown]
    return "\n".join(lines)


def _collapsed(cls: type[Machine]) -> dict[tuple[str, str], list[str]]:
    """(event, target) -> sources, for what is drawn as one arrow; two arrows are still two arrows."""
    groups: dict[tuple[str, str], list[str]] = {}
    for row in rows(cls):
        if (cls.machine, row.event) in ANY_STATE:
            groups.setdefault((row.event, row.target), []).append(row.source)
    return {key: sources for key, sources in groups.items() if len(sources) > 2}


def _undrawn(cls: type[Machine], parts: list[tuple[str, ...]]) -> list[Row]:
    """Rows that no part of the drawing shows: a new state must not vanish from the pictures unnoticed."""
    collapsed = _collapsed(cls)
    return [
        row
        for row in rows(cls)
        if (row.event, row.target) not in collapsed
        and not any(row.source in shown and row.target in shown for shown in parts)
    ]
