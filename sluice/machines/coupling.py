"""Joint rules as data: a parent entered a state, so an event is fired at each of its children.

Whoever fires a machine looks here with the state it is now in and fires what it finds, in order, in the same
synchronous step. A child without a row for the event is left alone; that is not a refusal. Rules downwards end what a
parent owns; the two upwards close the foreground slot when a cleanup cannot be resolved.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

__all__ = ["COUPLING", "Rule", "children", "reaches"]


class Rule(NamedTuple):
    """One joint rule.

    Attributes:
        child: the name of the child machine. Under `turn` and `background`, "tool" and "terminal" mean the ones that
            this turn or this task started; under `terminal` and `mcp`, "turn" is the turn of the same session.
        event: what is fired at each of them.
        only_in: the states of the child the rule is limited to, or None for every state that has a row.
    """

    child: str
    event: str
    only_in: tuple[str, ...] | None = None


_CLOSE_SESSIONS = (Rule("session", "session/close"),)
# Servers first, so that no new call reaches them; the turn before its background tasks, because the turn may be
# waiting for one of them.
_END_SESSION = (Rule("mcp", "retire"), Rule("turn", "close"), Rule("background", "cancel"))
# A call in progress gets no event: its scope is cancelled, and if a real result is there, it counts.
_END_OWNED = (Rule("tool", "interrupted"), Rule("terminal", "stop"))
# Only idle: every other state of the turn will be asked by VERDICTS when it ends.
_BLOCK_SLOT = (Rule("turn", "unresolved", only_in=("idle",)),)

COUPLING: Final[Mapping[tuple[str, str], tuple[Rule, ...]]] = {
    ("connection", "logging_out"): _CLOSE_SESSIONS,
    ("connection", "shutting_down"): _CLOSE_SESSIONS,
    ("session", "closing"): _END_SESSION,
    ("session", "deleting"): _END_SESSION,
    ("turn", "draining"): _END_OWNED,
    ("turn", "closing"): _END_OWNED,
    ("background", "cancelling"): _END_OWNED,
    ("terminal", "release_failed"): _BLOCK_SLOT,
    ("terminal", "unknown"): _BLOCK_SLOT,
    ("mcp", "failed"): _BLOCK_SLOT,
}
"""(machine, entered state) -> rules, in firing order."""


def children(parent: str, state: str) -> tuple[tuple[str, str], ...]:
    """What to fire after `parent` entered `state`: (child machine, event) in firing order, () for nothing.

    Fire it at a child only when `reaches` says so: one rule is limited to a state of the child.
    """
    return tuple((rule.child, rule.event) for rule in COUPLING.get((parent, state), ()))


def reaches(parent: str, state: str, child: str, child_state: str) -> bool:
    """Whether the rule from (parent, state) to this kind of child covers a child in `child_state`.

    It says nothing about rows; a caller asks `machine.can(event)` as well.
    """
    return any(
        rule.child == child and (rule.only_in is None or child_state in rule.only_in)
        for rule in COUPLING.get((parent, state), ())
    )
