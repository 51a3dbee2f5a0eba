"""From a refusal of the tables, or an error of the back ends, to the error a caller gets.

Every refusal carries data {reason, sessionId when the request named one}; -32000 carries {methodId, message}; -32002
{sessionId, error}; turn failures {sessionId, runtimeCode, error}.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from sluice.machines import Refusal
from sluice.wire.errors import BackendError, RefusedError, RpcError

if TYPE_CHECKING:
    from sluice.agent.outcome import Failure
    from sluice.config.errors import ConfigError

__all__ = ["AUTH_METHOD_ID", "auth_required", "not_found", "refused", "turn_failure", "unusable", "wire_error"]

log = logging.getLogger(__name__)

AUTH_METHOD_ID = "host-credentials"
"""The one authentication method: adopt the credentials that are set up on the agent's host."""

MESSAGES = {
    "busy": "The session is busy",
    "not_initialized": "The connection is not initialized: send initialize first",
    "authenticating": "Authentication is changing on this connection: wait for it to end",
    "live_sessions": "Close the open sessions before authenticating",
    "shutting_down": "The agent is shutting down",
    "cleanup_failed": "An earlier cleanup failed; this cannot be used any more in this process",
}


def refused(refusal: Refusal, session_id: str | None = None, kept: str | None = None) -> RpcError:
    """The wire error of a refusal. `kept` is the retained text of a failed cleanup, None when there is none."""
    if refusal.reason == "auth_required":
        return auth_required()
    if refusal.reason == "not_found":
        return not_found(session_id or "")
    data: dict[str, Any] = {"reason": refusal.reason}
    if session_id is not None:
        data["sessionId"] = session_id
    if refusal.reason == "cleanup_failed":
        data["error"] = kept or MESSAGES["cleanup_failed"]
    message = MESSAGES.get(refusal.reason, "Internal error")
    code = refusal.code if refusal.code is not None else -32603
    return RefusedError(message, data, code=code)


def auth_required(detail: str = "Credentials are missing on the agent's host") -> RefusedError:
    """-32000, used for nothing but authentication (auth.required.only-for-auth)."""
    return RefusedError("Authentication required", {"methodId": AUTH_METHOD_ID, "message": detail}, code=-32000)


def not_found(session_id: str) -> RefusedError:
    """-32002, used for nothing but a session that does not exist here."""
    return RefusedError("Session not found", {"sessionId": session_id, "error": "no such session"}, code=-32002)


def turn_failure(session_id: str, failure: Failure) -> BackendError:
    """-32603 with the runtime code (prompt.outcome.failure-shape)."""
    return BackendError(
        "The turn failed",
        {"sessionId": session_id, "runtimeCode": failure.code, "error": failure.text},
    )


def wire_error(error: BaseException) -> BaseException:
    """What a caller is told of an error that work ended with: the store's failures in words, groups by their leaf.

    Anything else is returned as it is; the boundary in `wire/peer.py` gives unknown ones a fixed text.
    """
    from sluice.persistence.errors import StoreError

    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, StoreError):
        log.error("store: %s", error.text)
        return BackendError("The session store failed", {"reason": f"store_{error.kind}", "error": error.text})
    return error


def unusable(message: str, error: ConfigError) -> BackendError:
    """A configuration error for the wire, which says where in which file; the log gets the same line."""
    log.error("%s", error)
    data = {"file": str(error.file), "line": error.line, "key": error.key, "error": error.message}
    return BackendError(message, data)
