"""What a chat may do unasked, as tables: runtime modes, automatic answers, ends of turns.

Each rule is a row. Nothing here talks to an agent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

__all__ = [
    "ALLOWED_UNASKED",
    "EVERYTHING",
    "RUNTIME_MODES",
    "TURN_ENDS",
    "ModeMap",
    "RuntimeMode",
    "TooWide",
    "TurnRule",
    "allowed_unasked",
    "mode_for",
    "runtime_mode_of",
    "stricter",
    "too_wide",
    "turn_rule",
]

RuntimeMode: TypeAlias = Literal["supervised", "auto-accept-edits", "auto", "full-access"]
"""How much the person lets the agent do unasked."""

ModeMap: TypeAlias = Mapping[RuntimeMode, Sequence[str]]
"""Runtime mode -> the agent's own mode ids for it, best first."""

RUNTIME_MODES: tuple[RuntimeMode, ...] = ("supervised", "auto-accept-edits", "auto", "full-access")
"""The runtime modes, strictest first."""

_EDITS = frozenset({"read", "search", "think", "edit", "move"})

EVERYTHING = None
"""In place of a set of tool kinds: all of them, those we have never heard of included."""

ALLOWED_UNASKED: Mapping[RuntimeMode, frozenset[str] | None] = {
    "supervised": frozenset(),
    "auto-accept-edits": _EDITS,
    "auto": _EDITS | {"fetch"},
    "full-access": EVERYTHING,
}
"""Runtime mode -> the tool kinds that are answered with "allow once" without asking anybody."""


def allowed_unasked(mode: RuntimeMode, kind: str | None) -> bool:
    """Whether a call of this kind is allowed without asking; None is a kind the agent did not name."""
    kinds = ALLOWED_UNASKED[mode]
    return kinds is EVERYTHING or kind in kinds


def stricter(one: RuntimeMode, other: RuntimeMode) -> RuntimeMode:
    """The stricter of two runtime modes."""
    return min(one, other, key=RUNTIME_MODES.index)


class TooWide(Exception):
    """The agent runs in a mode above the runtime mode and offers none at or below it."""


def mode_for(wanted: RuntimeMode, modes: ModeMap, offered: Sequence[str], current: str | None) -> str | None:
    """Pick the agent's mode for a runtime mode: its own first, else the next stricter one's, never a looser one.

    Args:
        wanted: the runtime mode.
        modes: the map of the agent.
        offered: the mode ids the session offers.
        current: the mode it is in, or None when it does not say.

    Returns:
        The id to be in; None to leave the agent as it is.

    Raises:
        TooWide: the current mode is mapped above `wanted`, and nothing at or below it is on offer.
    """
    within = RUNTIME_MODES[: RUNTIME_MODES.index(wanted) + 1]
    for runtime_mode in reversed(within):
        for mode_id in modes.get(runtime_mode, ()):
            if mode_id in offered:
                return mode_id
    if current is not None and too_wide(wanted, modes, current):
        raise TooWide
    return None


def too_wide(wanted: RuntimeMode, modes: ModeMap, current: str) -> bool:
    """Whether an agent's mode is mapped above a runtime mode and not also at or below it."""
    mapped = [RUNTIME_MODES.index(mode) for mode, ids in modes.items() if current in ids]
    return bool(mapped) and min(mapped) > RUNTIME_MODES.index(wanted)


def runtime_mode_of(mode_id: str, modes: ModeMap, present: RuntimeMode) -> RuntimeMode | None:
    """The runtime mode an agent's mode is mapped under; None when it is mapped under none.

    Where it is mapped under several, `present` is preferred, then the strictest.
    """
    mapped = [mode for mode in RUNTIME_MODES if mode_id in modes.get(mode, ())]
    return present if present in mapped else next(iter(mapped), None)


class TurnRule(NamedTuple):
    """What a stop reason makes of a turn.

    Attributes:
        outcome: done, aborted or failed.
        words: the warning note beside it, or the error; None for neither.
    """

    outcome: Literal["done", "aborted", "failed"]
    words: str | None = None


TURN_ENDS: Mapping[str, TurnRule] = {
    "end_turn": TurnRule("done"),
    "cancelled": TurnRule("aborted"),
    "max_tokens": TurnRule("done", "stopped because the model's output limit was reached"),
    "max_turn_requests": TurnRule("done", "stopped because the limit of model requests in one turn was reached"),
    "refusal": TurnRule("failed", "refused to go on"),
}
"""Stop reason -> how the turn ended."""


def turn_rule(stop_reason: str) -> TurnRule:
    """The rule for a stop reason; one that ACP version 1 does not know is done, with a warning."""
    known = TURN_ENDS.get(stop_reason)
    if known is not None:
        return known
    said = f"for a reason this program does not know: {stop_reason[:100]!r}" if stop_reason else "without a reason"
    return TurnRule("done", f"stopped {said}")
