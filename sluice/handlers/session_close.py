"""session/close: end a session here; nothing is removed from the store.

Specification page: https://agentclientprotocol.com/protocol/session-setup (closing sessions).
"""

from __future__ import annotations

from sluice.acp import CloseSessionRequest
from sluice.acp.validation import decode_params
from sluice.handlers.connection import Connection
from sluice.wire.peer import IncomingRequest

__all__ = ["close"]


def close(connection: Connection, request: IncomingRequest) -> None:
    """Close, or join the close under way; success means drained (session.close.result-means-drained).

    Cancelling the request ends only its wait. A failed cleanup is kept and returned to this and every later close.
    """
    params: CloseSessionRequest = decode_params("session/close", request.params)
    entry = connection.entry(params.session_id)
    decision = connection.decide("session/close", entry)
    if decision.verdict == "ok":
        request.answer({})
        return
    live = entry.live
    assert live is not None, "a session that can be closed or joined has an incarnation"
    live.ending.attach(request)
    if decision.verdict == "admitted":
        live.fire_session("session/close")
