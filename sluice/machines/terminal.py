"""The terminal machine: who must still release a client's terminal?

One per `terminal/create` (ACP page "Terminals"). A terminal belongs to exactly one turn or background task.
"""

from __future__ import annotations

from typing import ClassVar

from statemachine import Event, State

from sluice.machines.base import Machine, stays

__all__ = ["Terminal"]


class Terminal(Machine):
    """A terminal at the client, from the request that may create it to the knowledge that it is gone.

    `abandoned` is a create whose caller left: the id is still awaited, so that it can be released. `unknown` is a
    create whose answer was lost, `unreleased` a release that failed twice; both make the session's cleanup fail.
    """

    machine: ClassVar[str] = "terminal"

    creating = State("creating", initial=True)
    abandoned = State("abandoned")
    owned = State("owned")
    exited = State("exited")
    killing = State("killing")
    releasing = State("releasing")
    release_failed = State("release_failed")
    last_attempt = State("last_attempt")
    released = State("released", final=True)
    refused = State("refused", final=True)
    unknown = State("unknown", final=True)
    unreleased = State("unreleased", final=True)

    created = Event(creating.to(owned) | abandoned.to(killing), name="created")
    create_refused = Event(refused.from_(creating, abandoned), name="create_refused")
    create_lost = Event(unknown.from_(creating, abandoned), name="create_lost")
    exit = Event(owned.to(exited) | stays(killing, releasing), name="exit")
    stop = Event(creating.to(abandoned) | owned.to(killing) | exited.to(releasing), name="stop")
    collected = Event(releasing.from_(exited, killing), name="collected")  # the last output has been read
    terminal_release = Event(released.from_(releasing, last_attempt), name="terminal/release")
    release_error = Event(releasing.to(release_failed) | last_attempt.to(unreleased), name="release_error")
    # Fired by the session's closing, after the turn and the background tasks have ended: once, and then it counts.
    try_again = Event(release_failed.to(last_attempt), name="try_again")
