"""Admission as data: for each method, the checks it must pass and the machines it then fires.

This is the heart of the protocol, and the only place that answers "may this happen now". `admit` looks, decides and
returns; the caller fires in the same synchronous step, with nothing awaited between look-up and fire, so the decision
still holds when the machines move.

A check names one machine and says what each of its states means for the method. A state that is not listed refuses,
by `refusals.refusal`. Checks run in order and the first that does not pass decides.

Source: ACP v1 pages "Initialization", "Authentication", "Session Setup", "Prompt Turn", "Session Modes".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from sluice.machines.refusals import CODES, Refusal, refusal

__all__ = ["ADMISSION", "AT_THE_DEADLINE", "TWINS", "Check", "Decision", "Outcome", "View", "admit"]

Outcome = Literal["pass", "fire", "done", "join", "ok", "held"]
"""What a listed state means.

* pass: nothing against it here.
* fire: this machine is fired when all checks have passed.
* done: the same, and the remaining checks are skipped.
* join: attach to the joint work that is already running.
* ok: answer success, fire nothing.
* held: keep the request, in read order, until `initializing` is left. The bound on held requests is the caller's.
"""


class View(NamedTuple):
    """The states a decision looks at.

    Attributes:
        connection: the connection's state.
        deletion: the barrier's state.
        session: the state of the session the request names ("absent" for an unknown id and for session/new).
        turn: the state of that session's turn, or None when it has none.
        background: the states of that session's background tasks.
        others: the states of every *other* session of the connection; for authenticate, of every session.
        owner: for the internal entries, the state of the background task that owns the new work; None when the turn
            owns it.
    """

    connection: str
    deletion: str = "clear"
    session: str = "absent"
    turn: str | None = None
    background: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    owner: str | None = None


class Decision(NamedTuple):
    """What happens to a request.

    Attributes:
        verdict: "admitted" (fire `fire` now), "ok" (answer success), "join" (attach to the joint work of `joins`),
            "held", "silent" (a notification or event that is ignored) or "refused" (answer `refusal`).
        fire: machine names in firing order, empty unless admitted. The event is the method's own name; the barrier
            and the session hear the same one. `AT_THE_DEADLINE` fires end_of_input.
        joins: the machine whose joint work is joined, or None.
        refusal: why not, for "refused" and "silent"; else None.
        at: the machine that decided; when admitted, the first one fired, or the last one looked at.
    """

    verdict: Literal["admitted", "ok", "join", "held", "silent", "refused"]
    fire: tuple[str, ...]
    joins: str | None
    refusal: Refusal | None
    at: str


class Check(NamedTuple):
    """One look at one machine.

    Attributes:
        machine: the machine looked at.
        states: state -> what it means. Unlisted states refuse.
        whose: "one" (of the request, session or connection), "each" (every other session, every background task)
            or "owner" (the turn or background task that owns new internal work).
        reason: the reason of a refusal here, or None for the one in the refusal table.
    """

    machine: str
    states: Mapping[str, Outcome]
    whose: Literal["one", "each", "owner"] = "one"
    reason: str | None = None


def _all(outcome: Outcome, *states: str) -> dict[str, Outcome]:
    return dict.fromkeys(states, outcome)


def _connection(*passing: str) -> Check:
    """Lets a request pass in these states and holds it in `initializing`: clients may pipeline."""
    return Check("connection", {"initializing": "held", **_all("pass", *passing)})


_AFTER_INITIALIZE: Final = (
    "ready",
    "auth_required",
    "authenticating",
    "reauthenticating",
    "logging_out",
    "logged_out",
    "logout_failed",
)

# Losing the credentials stops new sessions, not the ones that are open.
_SIGNED_IN = _connection("ready")
_KNOWN = _connection("ready", "auth_required")
_NO_DELETE = Check("deletion", {"clear": "pass"})
_OPEN = Check("session", {"open": "pass"})
_OWNER_LIVE = Check("turn", _all("pass", "busy", "running"), whose="owner")

_LOAD = (
    _SIGNED_IN,
    _NO_DELETE,
    Check("session", {"absent": "done", "closed": "done", "open": "pass"}),
    Check("turn", {"idle": "fire"}),
)
_CONFIGURE = (
    _KNOWN,
    _OPEN,
    Check("turn", {"idle": "fire"}),
    # A background agent runs with the options it was started with; they do not change under it.
    Check("background", {"ended": "pass"}, whose="each", reason="busy"),
)

AT_THE_DEADLINE: Final = "end_of_input (deadline)"
"""The entry for end of input that may not wait any longer: the shutdown deadline has passed, or a signal came."""

ADMISSION: Final[Mapping[str, tuple[Check, ...]]] = {
    "initialize": (
        Check("connection", {"opened": "fire", "initializing": "join", **_all("ok", *_AFTER_INITIALIZE)}),
    ),
    "authenticate": (
        Check(
            "connection",
            {"initializing": "held", "ready": "ok", "auth_required": "fire", "logged_out": "fire"},
        ),
        Check("session", _all("pass", "absent", "closed", "deleted"), whose="each", reason="live_sessions"),
    ),
    "logout": (
        Check(
            "connection",
            {
                "initializing": "held",
                **_all("fire", "ready", "auth_required", "authenticating", "reauthenticating"),
                "logging_out": "join",
                "logged_out": "ok",
            },
        ),
    ),
    "session/new": (_SIGNED_IN, _NO_DELETE, Check("session", {"absent": "fire"})),
    "session/load": _LOAD,
    "session/resume": _LOAD,
    "session/list": (
        Check("connection", {"initializing": "held", **_all("ok", "ready", "auth_required", "authenticating")}),
    ),
    "session/prompt": (_KNOWN, _OPEN, Check("turn", {"idle": "fire", "draining": "fire"})),
    # A notification: in `initializing` it is not held, because nothing it could name exists.
    "session/cancel": (
        Check("connection", _all("pass", *_AFTER_INITIALIZE)),
        _OPEN,
        Check("turn", {"busy": "fire", "queued": "fire"}),
    ),
    "session/set_mode": _CONFIGURE,
    "session/set_config_option": _CONFIGURE,
    "session/close": (
        _connection(*_AFTER_INITIALIZE),
        Check(
            "session",
            {
                **_all("fire", "constructing", "open"),
                **_all("join", "closing", "deleting"),
                # Nothing is left to close, and the removal is the delete's business.
                **_all("ok", "removing", "closed", "deleted"),
            },
        ),
    ),
    "session/delete": (
        _connection("ready", "auth_required", "authenticating"),
        Check(
            "session",
            {
                **_all("join", "deleting", "removing"),
                "deleted": "ok",
                **_all("fire", "absent", "closed", "constructing", "open", "closing"),
            },
        ),
        Check("deletion", {"clear": "fire"}),
        # A session under construction may turn out to descend from this one.
        Check(
            "session",
            _all("pass", "absent", "open", "closing", "deleting", "closed", "removing", "deleted", "cleanup_failed"),
            whose="each",
            reason="busy",
        ),
    ),
    "end_of_input": (
        Check("connection", {"opened": "fire", "initializing": "held", **_all("fire", *_AFTER_INITIALIZE)}),
    ),
    AT_THE_DEADLINE: (Check("connection", _all("fire", "opened", "initializing", *_AFTER_INITIALIZE)),),
    # Work of our own that may come too late: the owner was cancelled while the model or a tool was thinking.
    "tool call": (_OWNER_LIVE,),
    "background start": (_OPEN, _OWNER_LIVE),
    "terminal/create": (
        _OPEN,
        _OWNER_LIVE,
        Check("turn", _all("pass", "idle", "reconnecting", "configuring", "busy", "draining", "queued", "closing")),
    ),
}
"""method -> checks, in order."""

TWINS: Final[Mapping[str, str]] = {
    "session/resume": "session/load",
    "session/set_config_option": "session/set_mode",
}
"""Methods that are admitted exactly as another one is."""

_EVENTS: Final = {AT_THE_DEADLINE: "end_of_input"}
_INTERNAL: Final = frozenset({"tool call", "background start", "terminal/create"})


def admit(method: str, view: View) -> Decision:
    """Decides one request, notification or internal start. Nothing is changed.

    Args:
        method: a key of `ADMISSION`.
        view: the states to look at, read in this same synchronous step.

    Returns:
        The decision; it is void as soon as anything has been awaited.

    Raises:
        KeyError: no such method, or the view holds a state its machine does not have.
    """
    fire: list[str] = []
    machine = ""
    for check in ADMISSION[method]:
        machine, states = _look(check, view)
        for state in states:
            outcome = check.states.get(state)
            if outcome is None:
                return _refused(method, machine, state, check.reason)
            if outcome == "join":
                return Decision("join", (), machine, None, machine)
            if outcome == "ok" or outcome == "held":
                return Decision(outcome, (), None, None, machine)
            if outcome == "fire" or outcome == "done":
                fire.append(machine)
            if outcome == "done":
                return Decision("admitted", tuple(fire), None, None, fire[0])
    return Decision("admitted", tuple(fire), None, None, fire[0] if fire else machine)


def _look(check: Check, view: View) -> tuple[str, tuple[str, ...]]:
    """The machine a check really looks at, and the states it finds there."""
    if check.whose == "each":
        return check.machine, view.others if check.machine == "session" else view.background
    if check.whose == "owner" and view.owner is not None:
        return "background", (view.owner,)
    state: str | None = getattr(view, check.machine)
    if state is None:
        raise KeyError(f"the view has no {check.machine}")
    return check.machine, (state,)


def _refused(method: str, machine: str, state: str, reason: str | None) -> Decision:
    if reason is not None:
        why = Refusal(reason, CODES[reason])
    elif method in _INTERNAL:
        why = _internal(machine, state)
    else:
        why = refusal(machine, state, _EVENTS.get(method, method))
    return Decision("silent" if why.reason == "silent" else "refused", (), None, why, machine)


def _internal(machine: str, state: str) -> Refusal:
    """Late work of our own is refused as a client's would be: as a request that the state does not admit."""
    return refusal(machine, state, "session/prompt")
