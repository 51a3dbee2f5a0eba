"""session/delete: close a session if it is open, then remove it and its descendants from the store.

Specification page: https://agentclientprotocol.com/protocol/session-delete. The guarantee covers this agent process
and this store (session.delete.scope-documented).
"""

from __future__ import annotations

from sluice.acp import DeleteSessionRequest
from sluice.acp.validation import decode_params
from sluice.handlers.answers import refused
from sluice.handlers.connection import Connection
from sluice.handlers.entry import Entry
from sluice.handlers.joint import Joint
from sluice.machines import Refusal
from sluice.wire.errors import InvalidParams
from sluice.wire.peer import IncomingRequest

__all__ = ["delete"]


def delete(connection: Connection, request: IncomingRequest) -> None:
    """Admit a delete, or join the one of the same session.

    The barrier is held from here to the end of the work; cancelling the initiator withdraws the removal while the
    session is still draining, and ends only the wait afterwards.
    """
    params: DeleteSessionRequest = decode_params("session/delete", request.params)
    entry = connection.entry(params.session_id)
    others = [other for other in connection.entries.values() if other is not entry]
    decision = connection.decide("session/delete", entry, others)
    if decision.verdict == "ok":
        request.answer({})
        return
    if decision.verdict == "join":
        assert entry.removal is not None, "a session that is being removed has its joint work"
        entry.removal.attach(request)
        return
    _check_tree(connection, entry)
    removal = entry.removal = Joint()

    def withdraw() -> None:
        if entry.machine.state == "deleting":
            entry.machine.fire("withdrawn")

    removal.attach(request, before=withdraw)
    connection.register(entry)
    connection.removals.add(removal)
    connection.deletion.fire("session/delete")
    if entry.live is not None:
        entry.live.fire_session("session/delete")
    else:
        entry.machine.fire("session/delete")
    removal.start(connection.tasks, lambda: _remove(connection, entry, removal))


def _check_tree(connection: Connection, entry: Entry) -> None:
    """Refuse by what is known of sessions that are open here; the rest is checked in the storage step.

    Raises:
        InvalidParams: the session is a child.
        RefusedError: busy while a descendant is open; cleanup_failed for good when one could not be closed.
    """
    if entry.ancestors:
        raise _child(entry.id)
    for other in connection.entries.values():
        if entry.id not in other.ancestors:
            continue
        if other.machine.state == "cleanup_failed":
            raise refused(Refusal("cleanup_failed", -32603), entry.id, other.error)
        raise refused(Refusal("busy", -32600), entry.id)


def _child(session_id: str) -> InvalidParams:
    return InvalidParams(
        "A child session is deleted with its root", {"reason": "child_session", "sessionId": session_id}
    )


async def _remove(connection: Connection, entry: Entry, removal: Joint) -> object:
    try:
        if entry.live is not None:
            await entry.live.ending.done.wait()
        if entry.machine.state == "removing":
            await _storage_step(connection, entry)
            return {}
        # Withdrawn: the session is closed and its history is kept, so whoever joined may try again.
        reason = "cleanup_failed" if entry.machine.state == "cleanup_failed" else "busy"
        raise refused(Refusal(reason, -32603 if reason == "cleanup_failed" else -32600), entry.id, entry.error)
    finally:
        connection.deletion.fire("released")
        connection.removals.discard(removal)
        connection.session_ended(entry)


async def _storage_step(connection: Connection, entry: Entry) -> None:
    try:
        store = await connection.assembly.store()
        stored = await store.session(entry.id)
        if stored is not None and stored.parent_id is not None:
            raise _child(entry.id)
        await store.delete_tree(entry.id)
    except BaseException:
        entry.machine.fire("not_removed")
        raise
    entry.machine.fire("removed")
