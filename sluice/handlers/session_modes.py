"""session/set_mode: the older way to change the safety mode; the same setting as the option `mode`.

Specification page: https://agentclientprotocol.com/protocol/session-modes.
"""

from __future__ import annotations

from typing import Any

from sluice import acp
from sluice.acp.validation import decode_params
from sluice.handlers.connection import Connection
from sluice.handlers.session import Incarnation
from sluice.handlers.session_config_options import change_mode, reserve
from sluice.wire.peer import IncomingRequest

__all__ = ["set_mode"]


def set_mode(connection: Connection, request: IncomingRequest) -> None:
    """Reserve the idle session, then change and store the mode."""
    params: acp.SetSessionModeRequest = decode_params("session/set_mode", request.params)
    entry = connection.entry(params.session_id)
    connection.decide("session/set_mode", entry)
    reserve(connection, request, "session/set_mode", params.session_id, lambda live: _set(live, params.mode_id))


async def _set(live: Incarnation, mode: str) -> Any:
    await change_mode(live, mode)
    return acp.SetSessionModeResponse()
