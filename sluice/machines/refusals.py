"""Refusals as data: what a caller is told when a machine has no row for its event.

The table is total. A wire method without a row is refused by the reason of the (machine, state) it met; a few pairs
have a reason of their own; every other pair is an event of our own making, and meeting it is a bug.

Source: session-setup, prompt-turn and initialization pages of ACP v1 for the methods; JSON-RPC 2.0 section 5.1 for
the codes. -32000 is only ever authentication and -32002 only ever "no such session".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

__all__ = ["BUG", "CODES", "DEFAULTS", "EXCEPTIONS", "SILENT", "WIRE_METHODS", "Refusal", "refusal"]


class Refusal(NamedTuple):
    """Why not, and how it is answered. `code` is the JSON-RPC error code; None means that nothing is answered."""

    reason: str
    code: int | None


CODES: Final[Mapping[str, int | None]] = {
    "busy": -32600,
    "auth_required": -32000,
    "not_found": -32002,
    "cleanup_failed": -32603,
    "not_initialized": -32600,
    "authenticating": -32600,
    "live_sessions": -32600,
    "shutting_down": -32600,
    "silent": None,
    "bug": -32603,
}
"""Every reason there is, with its code."""

WIRE_METHODS: Final[tuple[str, ...]] = (
    "initialize",
    "authenticate",
    "logout",
    "session/new",
    "session/load",
    "session/resume",
    "session/list",
    "session/prompt",
    "session/cancel",
    "session/set_mode",
    "session/set_config_option",
    "session/close",
    "session/delete",
)
"""The methods a client can call. Everything else a machine hears is our own event."""

DEFAULTS: Final[Mapping[str, Mapping[str, str]]] = {
    "connection": {
        "opened": "not_initialized",
        "initializing": "not_initialized",
        "ready": "auth_required",
        "auth_required": "auth_required",
        "authenticating": "auth_required",
        "reauthenticating": "auth_required",
        "logging_out": "auth_required",
        "logged_out": "auth_required",
        "logout_failed": "auth_required",
        "shutting_down": "shutting_down",
        "closed": "shutting_down",
        "shutdown_failed": "shutting_down",
    },
    # The barrier in `clear` refuses nothing a client may ask; only an event of ours could meet it there.
    "deletion": {"clear": "bug", "held": "busy"},
    "session": {
        "absent": "not_found",
        "constructing": "busy",
        "open": "busy",
        "closing": "busy",
        "deleting": "busy",
        "closed": "not_found",
        "removing": "busy",
        "deleted": "not_found",
        "cleanup_failed": "cleanup_failed",
    },
    "turn": {
        "idle": "busy",
        "reconnecting": "busy",
        "configuring": "busy",
        "busy": "busy",
        "draining": "busy",
        "queued": "busy",
        "blocked": "cleanup_failed",
        "closing": "busy",
        "closed": "not_found",
    },
    "background": {"running": "busy", "cancelling": "busy", "ended": "busy"},
}
"""machine -> state -> the reason a wire method without a row (or without a listed state in ADMISSION) meets there.

Machines that no wire method ever reaches (tool, terminal, mcp, elicitation) are not listed: whatever they refuse is a
bug."""

EXCEPTIONS: Final[Mapping[tuple[str, str, str], str]] = {
    ("connection", "authenticating", "authenticate"): "authenticating",
    ("connection", "reauthenticating", "authenticate"): "authenticating",
    ("connection", "logging_out", "authenticate"): "authenticating",
    # The cleanup that made logout fail is retained: neither way out of it may pretend that it is over.
    ("connection", "logout_failed", "authenticate"): "cleanup_failed",
    ("connection", "logout_failed", "logout"): "cleanup_failed",
    # Input ends once; noticing it again while shutting down is not worth a word.
    ("connection", "shutting_down", "end_of_input"): "silent",
    ("connection", "closed", "end_of_input"): "silent",
    ("connection", "shutdown_failed", "end_of_input"): "silent",
}
"""(machine, state, event) -> reason, where it differs from the default."""

SILENT: Final[frozenset[str]] = frozenset({"session/cancel"})
"""Notifications: JSON-RPC 2.0 section 4.1 forbids an answer, so a refusal of one is never heard."""

BUG: Final = Refusal("bug", CODES["bug"])


def refusal(machine: str, state: str, event: str) -> Refusal:
    """Why `event` is refused by `machine` in `state`.

    Args:
        machine: a name of `machines.ALL`.
        state: a state of that machine.
        event: a wire method or the name of an internal event, without a row in that state.

    Returns:
        The reason and its code; reason "bug" for an internal event.

    Raises:
        KeyError: a state the machine does not have (asked about a wire method).
    """
    if event in SILENT:
        return Refusal("silent", None)
    reason = EXCEPTIONS.get((machine, state, event))
    if reason is None:
        if event not in WIRE_METHODS or machine not in DEFAULTS:
            return BUG
        reason = DEFAULTS[machine][state]
    return Refusal(reason, CODES[reason])
