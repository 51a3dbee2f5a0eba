"""Verdicts as data: when a parent may end, and by which of its two events.

A parent ends when everything it waits for has come to rest, and it ends by exactly one event: the good one, or its
failure twin when something it looked at could not be cleaned up. Nobody decides that in code.

What a caller passes as `children` is {child key: states}. The keys of each parent are the keys of its row below. A
missing key means "there is none", which never holds a parent back. Children that are work rather than machines have
two-word lives: "running" and "ended", or "running", "stopped" and "failed" for teams and toolsets that are stopped.

* "own tool", "own terminal": started by that turn or that background task.
* "terminal", "mcp", "background", "turn": all of the session (no turn: leave the key out).
* "constructor": the work of session/new, load or resume on a session that was not open.
* "toolsets": the built-in toolsets of the session's team.
* "initialize", "authenticate": the work of those two requests. "validation": the team that initialize built.
* "deleting session": the session whose delete holds the barrier. "deletion": the barrier.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

__all__ = ["VERDICTS", "Verdict", "verdict"]


class Verdict(NamedTuple):
    """How one parent ends.

    Attributes:
        event: fired when nothing failed.
        twin: fired instead when something did, or None when failure is seen by somebody else.
        rest: child key -> the states in which that child no longer holds the parent back.
        failed: child key -> the states that call for the twin.
    """

    event: str
    twin: str | None
    rest: Mapping[str, frozenset[str]]
    failed: Mapping[str, frozenset[str]]


def _in(*states: str) -> frozenset[str]:
    return frozenset(states)


_TOOL_ENDED = _in("completed", "failed")
# A terminal whose release failed is at rest here: the session's closing makes the last attempt.
_TERMINAL_LEFT = _in("released", "refused", "release_failed", "unknown")
_ENDED = _in("ended")
_STOPPED = _in("stopped", "failed")

VERDICTS: Final[Mapping[str, Verdict]] = {
    "turn": Verdict(
        "drained",
        "unresolved",
        rest={"own tool": _TOOL_ENDED, "own terminal": _TERMINAL_LEFT},
        # Of the whole session: a background task's terminal blocks the slot as well as the turn's own.
        failed={"terminal": _in("release_failed", "unknown"), "mcp": _in("failed")},
    ),
    "session": Verdict(
        "drained",
        "unresolved",
        rest={
            "constructor": _ENDED,
            "turn": _in("closed"),
            "background": _ENDED,
            "mcp": _in("retired", "failed"),
            "terminal": _in("released", "refused", "unknown", "unreleased"),
            "toolsets": _STOPPED,
        },
        failed={"terminal": _in("unknown", "unreleased"), "mcp": _in("failed"), "toolsets": _in("failed")},
    ),
    "connection": Verdict(
        "drained",
        "cleanup_failed",
        rest={
            "initialize": _ENDED,
            "authenticate": _ENDED,
            "session": _in("absent", "closed", "deleted", "cleanup_failed"),
            "deletion": _in("clear"),
            "validation": _STOPPED,
        },
        failed={"session": _in("cleanup_failed"), "validation": _in("failed")},
    ),
    # No twin: the verdicts of the turn and of the session see its terminals.
    "background": Verdict(
        "finished",
        None,
        rest={"own tool": _TOOL_ENDED, "own terminal": _TERMINAL_LEFT},
        failed={},
    ),
    "deletion": Verdict(
        "released",
        None,
        rest={"deleting session": _in("closed", "deleted", "cleanup_failed")},
        failed={},
    ),
}
"""parent -> how it ends."""


def verdict(parent: str, children: Mapping[str, Iterable[str]]) -> str | None:
    """The event with which a parent ends now, or None while it must wait.

    Args:
        parent: "turn", "session", "connection", "background" or "deletion".
        children: {child key: the state of each}, keys as in the module docstring; a missing key means none.

    Returns:
        The wire name of the event to fire at the parent, or None.

    Raises:
        KeyError: a parent without a verdict, or a child key this parent does not look at (a misspelt key would
            otherwise end the parent too early).
    """
    row = VERDICTS[parent]
    failed = False
    for child, states in children.items():
        rest, bad = row.rest.get(child), row.failed.get(child)
        if rest is None and bad is None:
            raise KeyError(f"{parent} does not look at {child!r}")
        for state in states:
            if rest is not None and state not in rest:
                return None
            failed = failed or (bad is not None and state in bad)
    return row.twin if failed and row.twin is not None else row.event
