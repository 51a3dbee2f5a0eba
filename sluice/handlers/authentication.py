"""authenticate and logout: adopt the host's credentials, and let go of everything that uses them.

Specification page: https://agentclientprotocol.com/protocol/authentication.
"""

from __future__ import annotations

from sluice.acp import AuthenticateRequest
from sluice.acp.validation import decode_params
from sluice.handlers.answers import AUTH_METHOD_ID, auth_required, refused
from sluice.handlers.connection import Connection
from sluice.handlers.joint import Joint
from sluice.machines import Refusal, verdicts
from sluice.wire.errors import InvalidParams
from sluice.wire.peer import IncomingRequest

__all__ = ["authenticate", "logout"]


def authenticate(connection: Connection, request: IncomingRequest) -> None:
    """Re-read the credential sources and validate the team with them; a healthy connection changes nothing."""
    params: AuthenticateRequest = decode_params("authenticate", request.params)
    if params.method_id != AUTH_METHOD_ID:
        raise InvalidParams("Unknown authentication method", {"path": "$.methodId"})
    decision = connection.decide("authenticate", others=connection.entries.values())
    if decision.verdict == "ok":
        request.answer({})
        return
    connection.fire("authenticate")
    work = connection.authenticating = Joint()
    work.attach(request)
    work.start(connection.tasks, lambda: _adopt(connection))


async def _adopt(connection: Connection) -> object:
    try:
        missing = await connection.assembly.reload()
    except BaseException:
        connection.fire("authentication_failed")
        raise
    if missing:
        connection.fire("authentication_failed")
        raise auth_required(missing)
    connection.fire("authenticated")
    return {}


def logout(connection: Connection, request: IncomingRequest) -> None:
    """Refuse new work at once, drain everything, then answer; a second logout joins the first.

    Nothing shared is touched: keys, other processes and the history stay as they are.
    """
    decode_params("logout", request.params)
    decision = connection.decide("logout")
    if decision.verdict == "ok":
        request.answer({})
        return
    if decision.verdict == "join":
        assert connection.logging_out is not None, "a logout under way has its joint work"
        connection.logging_out.attach(request)
        return
    work = connection.logging_out = Joint()
    work.attach(request)
    connection.fire("logout")
    work.start(connection.tasks, lambda: _drain(connection))


async def _drain(connection: Connection) -> object:
    if connection.authenticating is not None:
        await connection.authenticating.done.wait()
    for entry in list(connection.entries.values()):
        if entry.live is not None:
            await entry.live.ending.done.wait()
    for removal in list(connection.removals):
        await removal.done.wait()
    await connection.stop_validation()
    event = verdicts.verdict("connection", connection.children())
    assert event is not None, "everything is joined, so the verdict is there"
    # Shutdown may have overtaken the logout; then the verdict is its own to give, and this event would end it early.
    if connection.machine.state == "logging_out":
        connection.machine.fire(event)
    if event == "cleanup_failed":
        raise refused(Refusal("cleanup_failed", -32603))
    return {}
