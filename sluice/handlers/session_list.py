"""session/list: the stored sessions, page by page, newest first.

Specification page: https://agentclientprotocol.com/protocol/session-list.
"""

from __future__ import annotations

import os.path

from sluice import acp
from sluice.acp.validation import decode_params
from sluice.handlers.connection import Connection
from sluice.persistence.errors import BadCursor
from sluice.wire.errors import InvalidParams
from sluice.wire.peer import IncomingRequest

__all__ = ["list_sessions"]


def list_sessions(connection: Connection, request: IncomingRequest) -> None:
    """Answer one page; a cancelled listing ends request-cancelled."""
    params: acp.ListSessionsRequest = decode_params("session/list", request.params)
    connection.decide("session/list")
    connection.perform(request, lambda: _page(connection, params))


async def _page(connection: Connection, params: acp.ListSessionsRequest) -> acp.ListSessionsResponse:
    store = await connection.assembly.store()
    cwd = os.path.normpath(params.cwd) if params.cwd is not None else None
    try:
        records, cursor = await store.list_sessions(cwd=cwd, cursor=params.cursor)
    except BadCursor as error:
        raise InvalidParams("Unknown cursor, or one of another listing", {"path": "$.cursor"}) from error
    sessions = [
        # updatedAt is left out: creation time is not activity (session.list.no-updated-at).
        acp.SessionInfo(record.id, record.cwd or "", _roots(connection, record.id), title=record.title)
        for record in records
    ]
    return acp.ListSessionsResponse(sessions, cursor)


def _roots(connection: Connection, session_id: str) -> tuple[str, ...]:
    entry = connection.entries.get(session_id)
    if entry is None or entry.live is None or entry.live.conversation is None:
        return ()
    return entry.live.conversation.roots
