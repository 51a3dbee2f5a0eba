"""Answers as data: what the request that held a slot is told, from the state in which its holder ended.

Because the state says whether the holder was cancelled, nobody keeps a flag for it. Look up with the state the
machine was in *when the event fired*, not with the one it went to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

__all__ = ["ANSWERS", "BY_HOLDER", "RESERVATIONS", "Answer", "HolderAnswer", "QueuedAnswer", "answer"]

HolderAnswer = Literal["outcome", "cancelled", "result", "request_cancelled", "setup_error"]
"""What the holder gets.

* outcome: the turn's own stop reason or error.
* cancelled: the stop reason "cancelled", also if the work had finished meanwhile.
* result: the result or error of a load, a resume, a configuration change or a constructor.
* request_cancelled: the JSON-RPC error -32800.
* setup_error: the error that made the setup fail.
"""

QueuedAnswer = Literal["promoted", "cancelled", "refused"]
"""What the queued prompt gets: it becomes the holder, the stop reason "cancelled", or the refusal cleanup_failed."""


class Answer(NamedTuple):
    """What to answer in the step in which an event fired; None means nobody is answered now."""

    holder: HolderAnswer | None
    queued: QueuedAnswer | None


RESERVATIONS: Final = (
    "session/load",
    "session/resume",
    "session/set_mode",
    "session/set_config_option",
)
"""The requests other than prompts that hold the slot of a turn."""

_LATER = Answer(None, None)
_RESULT = Answer("result", None)
_CANCELLED = Answer("cancelled", None)
_REQUEST_CANCELLED = Answer("request_cancelled", None)
_SETUP_ERROR = Answer("setup_error", None)

ANSWERS: Final[Mapping[tuple[str, str], Answer]] = {
    # Admissions and cancellations answer nobody, except a prompt that was still waiting.
    ("idle", "session/prompt"): _LATER,
    ("draining", "session/prompt"): _LATER,
    ("busy", "session/cancel"): _LATER,
    ("queued", "session/cancel"): Answer(None, "cancelled"),
    ("idle", "session/load"): _LATER,
    ("idle", "session/resume"): _LATER,
    ("idle", "session/set_mode"): _LATER,
    ("idle", "session/set_config_option"): _LATER,
    ("idle", "unresolved"): _LATER,
    ("idle", "close"): _LATER,
    ("blocked", "close"): _LATER,
    ("reconnecting", "close"): _LATER,
    ("configuring", "close"): _LATER,
    ("busy", "close"): _LATER,
    ("draining", "close"): _LATER,
    ("queued", "close"): Answer(None, "cancelled"),
    # The end of a holder.
    ("reconnecting", "drained"): _RESULT,
    ("reconnecting", "unresolved"): _RESULT,
    ("configuring", "drained"): _RESULT,
    ("busy", "drained"): Answer("outcome", None),
    ("busy", "unresolved"): Answer("outcome", None),
    ("draining", "drained"): _CANCELLED,
    ("draining", "unresolved"): _CANCELLED,
    ("queued", "drained"): Answer("cancelled", "promoted"),
    ("queued", "unresolved"): Answer("cancelled", "refused"),
    ("closing", "drained"): _CANCELLED,
    ("closing", "unresolved"): _CANCELLED,
    # The end of a constructor, by the state of the *session*: there is no turn yet.
    ("constructing", "constructed"): _RESULT,
    ("constructing", "setup_failed"): _SETUP_ERROR,
    ("constructing", "not_found"): _SETUP_ERROR,
    ("closing", "constructed"): _REQUEST_CANCELLED,
    ("closing", "setup_failed"): _REQUEST_CANCELLED,
    ("closing", "not_found"): _REQUEST_CANCELLED,
    ("closing", "ended"): _REQUEST_CANCELLED,
    ("deleting", "constructed"): _REQUEST_CANCELLED,
    ("deleting", "setup_failed"): _REQUEST_CANCELLED,
    ("deleting", "not_found"): _REQUEST_CANCELLED,
    ("deleting", "ended"): _REQUEST_CANCELLED,
}
"""(state when the event fired, event) -> answers. A constructor that ends without an event is looked up by
"ended"."""

BY_HOLDER: Final[Mapping[tuple[str, str, str], Answer]] = {
    ("closing", event, holder): answer
    for event in ("drained", "unresolved")
    for holder, answer in (
        *((method, _REQUEST_CANCELLED) for method in RESERVATIONS),
        ("setup_failed", _SETUP_ERROR),
    )
}
"""(state, event, holder) -> answers, where a holder that is no prompt is answered differently. The holder
"setup_failed" is a load or resume whose own failure closed the session: it is told that, not that it was
cancelled."""


def answer(state: str, event: str, holder: str = "session/prompt") -> Answer:
    """Who is answered what, now that `event` was fired in `state`.

    Args:
        state: the turn's state when the event fired (for the end of a constructor: the session's).
        event: the wire name of the event; "ended" for a constructor that ended without one.
        holder: the method of the request that held the slot, or "setup_failed" for a load or resume that itself
            fired that event at the session.

    Raises:
        KeyError: the pair is no row.
    """
    special = BY_HOLDER.get((state, event, holder))
    return ANSWERS[state, event] if special is None else special
