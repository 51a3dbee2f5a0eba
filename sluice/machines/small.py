"""The small machines: the deletion barrier, a background task, an MCP server, an elicitation."""

from __future__ import annotations

from typing import ClassVar

from statemachine import Event, State

from sluice.machines.base import Machine, stays

__all__ = ["Background", "Deletion", "Elicitation", "McpServer"]


class Deletion(Machine):
    """The barrier of the process: while one session is being deleted, none is constructed and no other deleted.

    History is shared between a session and its descendants; one delete at a time keeps "who is a descendant" true
    from the check to the removal.
    """

    machine: ClassVar[str] = "deletion"

    clear = State("clear", initial=True)
    held = State("held")

    session_delete = Event(clear.to(held), name="session/delete")
    released = Event(held.to(clear), name="released")


class Background(Machine):
    """A background agent of a session; a shell job in the background is a resource, not one of these.

    Declared here and drawn from here; driven by `compiled.CompiledBackground`.
    """

    machine: ClassVar[str] = "background"

    running = State("running", initial=True)
    cancelling = State("cancelling")
    ended = State("ended", final=True)

    cancel = Event(running.to(cancelling), name="cancel")
    finished = Event(ended.from_(running, cancelling), name="finished")


class McpServer(Machine):
    """One MCP server of a session's incarnation, from the connection attempt to its end."""

    machine: ClassVar[str] = "mcp"

    connecting = State("connecting", initial=True)
    ready = State("ready")
    disconnected = State("disconnected")
    retiring = State("retiring")
    retired = State("retired", final=True)
    failed = State("failed", final=True)

    listed = Event(connecting.to(ready) | stays(retiring), name="listed")  # its tools are known
    lost = Event(connecting.to(retiring) | ready.to(disconnected) | stays(retiring), name="lost")
    retire = Event(retiring.from_(connecting, ready, disconnected), name="retire")
    stopped = Event(retiring.to(retired), name="stopped")
    stop_failed = Event(retiring.to(failed), name="stop_failed")


class Elicitation(Machine):
    """One question to the person at the client (ACP "elicitation/create"); it decides nothing in ADMISSION."""

    machine: ClassVar[str] = "elicitation"

    open = State("open", initial=True)
    accepted = State("accepted", final=True)
    declined = State("declined", final=True)
    cancelled = State("cancelled", final=True)
    withdrawn = State("withdrawn", final=True)

    accept = Event(open.to(accepted), name="accept")
    decline = Event(open.to(declined), name="decline")
    cancel = Event(open.to(cancelled), name="cancel")
    withdraw = Event(open.to(withdrawn), name="withdraw")  # by the agent: the turn that asked has ended
