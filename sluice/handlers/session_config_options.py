"""session/set_config_option, and the options themselves.

Specification page: https://agentclientprotocol.com/protocol/session-config-options. A change is made only while the
session is idle, which deviates from the page on purpose: a setting never changes under a running turn.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

from sluice import acp
from sluice.acp.validation import decode_params
from sluice.handlers.connection import Connection
from sluice.handlers.model_options import choose_effort, choose_model, model_options
from sluice.handlers.session import Holder, Incarnation
from sluice.wire.errors import InvalidParams
from sluice.wire.peer import ConnectionLost, IncomingRequest

__all__ = [
    "MODES",
    "change_mode",
    "modes_of",
    "options_of",
    "post_options",
    "set_config_option",
    "shown_options",
    "tell_options",
]

log = logging.getLogger(__name__)

MODES = (
    acp.SessionMode("default", "Default", "Read-only tools run; every other call is asked about."),
    acp.SessionMode("strict", "Strict", "Every call is asked about."),
    acp.SessionMode("balanced", "Balanced", "Safe calls run; destructive and unknown ones are asked about."),
    acp.SessionMode("restricted", "Restricted", "Safe calls run; every other call is denied without asking."),
    acp.SessionMode("autonomous", "Autonomous", "Every call runs that no rule denies."),
)
"""The five safety modes, in the order they are offered (modes.list.five-ids)."""


def modes_of(incarnation: Incarnation) -> acp.SessionModeState:
    """The legacy modes object; always in agreement with the option `mode`."""
    return acp.SessionModeState(_mode(incarnation), MODES)


def options_of(incarnation: Incarnation) -> list[acp.SessionConfigOption]:
    """All options, most important first; the order is the same for equal configurations.

    While background work is active only the mode is offered: a model cannot be changed under an agent that runs
    (config-options.idle.volatile-hidden).
    """
    choices = [acp.SessionConfigSelectOption(mode.id, mode.name, mode.description) for mode in MODES]
    mode = acp.SessionConfigSelect(
        "mode",
        "Safety mode",
        _mode(incarnation),
        choices,
        description="What may run without asking.",
        category="mode",
    )
    if any(task.state != "ended" for task in incarnation.background):
        return [mode]
    return [mode, *model_options(incarnation)]


def shown_options(live: Incarnation) -> list[acp.SessionConfigOption]:
    """All options, remembered as what the client has been told."""
    live.shown_options = options_of(live)
    return live.shown_options


async def tell_options(live: Incarnation) -> None:
    """Send the options when they differ from what the client was told last (config-options.notify.boundaries)."""
    if live.shown_options != options_of(live):
        await live.notify(acp.ConfigOptionUpdate(shown_options(live)))


def post_options(live: Incarnation) -> None:
    """The same at the end of a turn, where nothing may wait for the client."""
    if live.shown_options != options_of(live):
        update = acp.ConfigOptionUpdate(shown_options(live))
        with suppress(ConnectionLost):
            live.connection.peer.post("session/update", acp.SessionNotification(live.id, update))


def _mode(incarnation: Incarnation) -> str:
    mode = incarnation.talk.approval.mode
    return mode if any(mode == known.id for known in MODES) else "strict"


def set_config_option(connection: Connection, request: IncomingRequest) -> None:
    """Reserve the idle session, then change, store and answer with the complete list."""
    params: acp.SetSessionConfigOptionRequest = decode_params("session/set_config_option", request.params)
    entry = connection.entry(params.session_id)
    connection.decide("session/set_config_option", entry)
    reserve(connection, request, "session/set_config_option", params.session_id, lambda live: _set(live, params))


async def _set(live: Incarnation, params: acp.SetSessionConfigOptionRequest) -> Any:
    """Only a value that is offered at this moment is taken, to the letter (config-options.set.exact-values)."""
    option = next((option for option in options_of(live) if option.id == params.config_id), None)
    if not isinstance(option, acp.SessionConfigSelect):
        raise InvalidParams("Unknown configuration option", {"path": "$.configId", "sessionId": live.id})
    offered = [entry.value for entry in option.options if isinstance(entry, acp.SessionConfigSelectOption)]
    if not isinstance(params.value, str) or params.type == "boolean" or params.value not in offered:
        raise InvalidParams("This option takes one of its listed values", {"path": "$.value", "sessionId": live.id})
    await _CHANGES[option.id](live, params.value)
    await _told(live)
    return acp.SetSessionConfigOptionResponse(shown_options(live))


async def _told(live: Incarnation, *updates: acp.SessionUpdate) -> None:
    """Tell the change. It is in force and stored, so a client that cannot be told undoes nothing."""
    try:
        for update in updates:
            await live.notify(update)
        await tell_options(live)
    except ConnectionLost:
        log.info("the client was not told of a change of session %s", live.id)


def reserve(connection: Connection, request: IncomingRequest, method: str, session_id: str, work: Any) -> None:
    """Fire an admitted configuration change and let it hold the slot."""
    live = connection.entries[session_id].live
    assert live is not None, "an open session has an incarnation"
    holder = Holder(request, method, lambda _: work(live))
    request.on_cancel = holder.scope.cancel
    live.fire_turn(method)
    live.hold(holder)


async def change_mode(live: Incarnation, mode: str) -> None:
    """Store the mode, then put it in force, then tell the client; setting the same value tells nobody anything.

    A failed write changes nothing and fails the call (config-options.persist.failed-write).
    """
    if not any(mode == known.id for known in MODES):
        raise InvalidParams("Unknown mode", {"path": "$.modeId", "sessionId": live.id})
    if mode == live.talk.approval.mode:
        return
    store = await live.connection.assembly.store()
    await store.update_session(live.id, mode=mode)
    live.talk.approval.mode = mode
    await _told(live, acp.CurrentModeUpdate(mode))


_CHANGES = {"mode": change_mode, "model": choose_model, "thought_level": choose_effort}
"""What setting each option does."""
