"""The turn machine: who holds the foreground slot of a session?

One per incarnation of a session, from `constructed` to `closed` (ACP page "Prompt Turn").
"""

from __future__ import annotations

from typing import ClassVar

from statemachine import Event, State

from sluice.machines.base import Machine

__all__ = ["Turn"]


class Turn(Machine):
    """The one slot that a prompt, a load or resume of a live session, and a configuration change compete for.

    `busy` lasts until everything the turn started has settled, also when it ended by itself. `draining` is cancelled
    and settling; `queued` is draining with the next prompt waiting. `blocked` is a free slot that nobody may take,
    because the session has a terminal or an MCP server whose cleanup is unresolved.
    """

    machine: ClassVar[str] = "turn"

    idle = State("idle", initial=True)
    reconnecting = State("reconnecting")
    configuring = State("configuring")
    busy = State("busy")
    draining = State("draining")
    queued = State("queued")
    blocked = State("blocked")
    closing = State("closing")
    closed = State("closed", final=True)

    session_prompt = Event(idle.to(busy) | draining.to(queued), name="session/prompt")
    session_cancel = Event(draining.from_(busy, queued), name="session/cancel")
    session_load = Event(idle.to(reconnecting), name="session/load")
    session_resume = Event(idle.to(reconnecting), name="session/resume")
    session_set_mode = Event(idle.to(configuring), name="session/set_mode")
    session_set_config_option = Event(idle.to(configuring), name="session/set_config_option")
    # `drained` and `unresolved` free the slot; VERDICTS chooses between them. Neither has a row for what it cannot
    # meet: nothing is unresolved while configuring, because idle had nothing unresolved and no work ran since. (That
    # is why a session may become open only when none of its MCP servers is still connecting or retiring.)
    drained = Event(
        idle.from_(reconnecting, configuring, busy, draining) | queued.to(busy) | closing.to(closed),
        name="drained",
    )
    unresolved = Event(
        blocked.from_(idle, reconnecting, busy, draining, queued) | closing.to(closed),
        name="unresolved",
    )
    close = Event(
        closed.from_(idle, blocked) | closing.from_(reconnecting, configuring, busy, draining, queued),
        name="close",
    )
