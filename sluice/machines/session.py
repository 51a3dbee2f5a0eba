"""The session machine: does this session exist, and can it be opened, reopened or removed?

One per session id, for as long as the id is known to the process (ACP page "Session Setup").
"""

from __future__ import annotations

from typing import ClassVar

from statemachine import Event, State

from sluice.machines.base import Machine, stays

__all__ = ["Session"]


class Session(Machine):
    """The life of a session id.

    `absent` has never been here (it may be stored), `closed` has been, and can be opened again. `deleting` is a
    closing that will end in removal; `removing` is the storage step, from which there is no way back but failure.
    """

    machine: ClassVar[str] = "session"

    absent = State("absent", initial=True)
    constructing = State("constructing")
    open = State("open")
    closing = State("closing")
    deleting = State("deleting")
    closed = State("closed")
    removing = State("removing")
    deleted = State("deleted", final=True)
    cleanup_failed = State("cleanup_failed", final=True)

    session_new = Event(absent.to(constructing), name="session/new")
    session_load = Event(constructing.from_(absent, closed), name="session/load")
    session_resume = Event(constructing.from_(absent, closed), name="session/resume")
    # The constructor's three ends. A close or a delete may overtake each: cancelling work whose result is already
    # there does not stop it.
    constructed = Event(constructing.to(open) | stays(closing, deleting), name="constructed")
    not_found = Event(constructing.to(absent) | stays(closing, deleting), name="not_found")
    # In `open` this is a replay that failed half-way on a live session: what the client has seen cannot be taken
    # back.
    setup_failed = Event(closing.from_(constructing, open) | stays(closing, deleting), name="setup_failed")
    session_close = Event(closing.from_(constructing, open), name="session/close")
    session_delete = Event(
        removing.from_(absent, closed) | deleting.from_(constructing, open, closing),
        name="session/delete",
    )
    # The initiator of a delete gave up before the storage step: the session still closes, and stays stored.
    withdrawn = Event(deleting.to(closing), name="withdrawn")
    drained = Event(closing.to(closed) | deleting.to(removing), name="drained")
    unresolved = Event(cleanup_failed.from_(closing, deleting), name="unresolved")
    removed = Event(removing.to(deleted), name="removed")
    not_removed = Event(removing.to(closed), name="not_removed")
