"""The connection machine: may any work enter at all?

One per connection. It carries initialization, authentication and shutdown (ACP pages "Initialization" and
"Authentication").
"""

from __future__ import annotations

from typing import ClassVar

from statemachine import Event, State

from sluice.machines.base import Machine, stays

__all__ = ["Connection"]


class Connection(Machine):
    """From the first byte to the exit status.

    `authenticating` and `reauthenticating` differ in where a failure leads: after a logout only another authenticate
    may follow, while a connection that merely lacks credentials keeps its sessions working. `closed` and
    `shutdown_failed` are the two exit statuses.
    """

    machine: ClassVar[str] = "connection"

    opened = State("opened", initial=True)
    initializing = State("initializing")
    ready = State("ready")
    auth_required = State("auth_required")
    authenticating = State("authenticating")
    reauthenticating = State("reauthenticating")
    logging_out = State("logging_out")
    logged_out = State("logged_out")
    logout_failed = State("logout_failed")
    shutting_down = State("shutting_down")
    closed = State("closed", final=True)
    shutdown_failed = State("shutdown_failed", final=True)

    initialize = Event(opened.to(initializing), name="initialize")
    # The next three answer "what do the credentials say", and shutdown may overtake each of them.
    credentials_found = Event(initializing.to(ready) | stays(shutting_down), name="credentials_found")
    # A broken agent file: its error is answered, and a later initialize tries again.
    initialize_failed = Event(initializing.to(opened) | stays(shutting_down), name="initialize_failed")
    # A model's 401 reports this from `ready` too, and from turns that are still draining after a logout.
    credentials_missing = Event(
        auth_required.from_(initializing, ready) | stays(auth_required, logging_out, shutting_down),
        name="credentials_missing",
    )
    authenticate = Event(
        auth_required.to(authenticating) | logged_out.to(reauthenticating),
        name="authenticate",
    )
    authenticated = Event(
        ready.from_(authenticating, reauthenticating) | stays(logging_out, shutting_down),
        name="authenticated",
    )
    authentication_failed = Event(
        authenticating.to(auth_required) | reauthenticating.to(logged_out) | stays(logging_out, shutting_down),
        name="authentication_failed",
    )
    logout = Event(
        logging_out.from_(ready, auth_required, authenticating, reauthenticating),
        name="logout",
    )
    drained = Event(logging_out.to(logged_out) | shutting_down.to(closed), name="drained")
    cleanup_failed = Event(
        logging_out.to(logout_failed) | shutting_down.to(shutdown_failed),
        name="cleanup_failed",
    )
    end_of_input = Event(
        shutting_down.from_(
            opened,
            initializing,
            ready,
            auth_required,
            authenticating,
            reauthenticating,
            logging_out,
            logged_out,
            logout_failed,
        ),
        name="end_of_input",
    )
