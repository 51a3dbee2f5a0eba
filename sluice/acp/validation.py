"""From JSON to typed messages, with errors that name the field; and from an answer to a typed result.

Three steps, none of which knows any behaviour: plain JSON data; leniency, where the specification or real clients ask
for it (`_prepare`); then the shape (msgspec) and the rules about values (`rules`).

Source: JSON-RPC 2.0 section 5.1; ACP "Initialization", "Session Setup"; requirements initialize.version.malformed,
session.new.*, turn-admission.params.*, client-mcp.accept.*.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from sluice.acp.base import Message, convert
from sluice.acp.methods import METHODS, Kind, Method, find
from sluice.wire.errors import InvalidParams, InvalidRequest, MethodNotFound, ParseError

if TYPE_CHECKING:
    from sluice.acp.tools import RequestPermissionOutcome, RequestPermissionResponse

__all__ = ["BadAnswer", "decode_notification", "decode_params", "decode_result", "permission_outcome"]

Side = Literal["agent", "client"]

_LONGEST_REASON = 200
"""Characters of a reason: it may quote a peer's word, and an error message is for people."""

_MISSING = re.compile(r"^Object missing required field `(\w+)`$")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]+")


class BadAnswer(ValueError):
    """A peer answered a request of ours with a result that is none; the request has failed, nothing else has."""


def decode_params(method: str, raw: bytes, *, side: Side = "agent") -> Any:
    """The typed params of a request.

    Args:
        method: the method's name, exactly as on the wire.
        raw: the JSON text of the params; empty when the request has none, which counts as `{}`, and so does `null`.
        side: who received the request.

    Returns:
        An instance of the row's params type.

    Raises:
        MethodNotFound: this side has no request of that name.
        InvalidRequest: the params are a scalar.
        InvalidParams: the params are an array, or have the wrong shape or value; `data["path"]` says where.
        ParseError: the text is no JSON after all (bad UTF-8 or a lone surrogate inside a string, or too deep).
    """
    return _decode(_row(method, side, "request"), raw)


def decode_notification(method: str, raw: bytes, *, side: Side = "agent") -> Any:
    """The typed params of a notification; arguments and errors are those of `decode_params`.

    Nobody is ever told of these errors: the caller drops the notification.
    """
    return _decode(_row(method, side, "notification"), raw)


def decode_result(method: str, data: object) -> Any:
    """The typed result of a request that we sent.

    Args:
        method: the request's method.
        data: the `result` as plain JSON data. None counts as `{}`, since several methods answer nothing at all.

    Raises:
        BadAnswer: the result has the wrong shape.
        KeyError: no such request; that is a bug in the caller.
    """
    row = METHODS[method]
    if row.result is None:
        raise KeyError(method)
    try:
        return convert({} if data is None else data, row.result)
    except (msgspec.ValidationError, RecursionError) as error:
        path, reason = _explain(error)
        raise BadAnswer(f"Unusable answer to {method} at {path}: {reason}") from None


def permission_outcome(data: object, offered: Collection[str]) -> RequestPermissionOutcome | None:
    """What a client answered to a permission request, read so that a doubt never approves anything.

    Args:
        data: the `result` as plain JSON data, of any shape.
        offered: the option ids that were offered.

    Returns:
        The outcome; None when the answer is malformed or selects what was not offered, which is no approval.
    """
    from sluice.acp.tools import CancelledPermissionOutcome, SelectedPermissionOutcome

    try:
        response: RequestPermissionResponse = decode_result("session/request_permission", data)
    except BadAnswer:
        return None
    match response.outcome:
        case SelectedPermissionOutcome(option_id=chosen):
            return response.outcome if chosen in offered else None
        case CancelledPermissionOutcome():
            return response.outcome


def _row(method: str, side: Side, kind: Kind) -> Method:
    row = find(method, side, kind)
    if row is None:
        raise MethodNotFound("Method not found")
    return row


def _decode(row: Method, raw: bytes) -> Any:
    params = _object(raw)
    present = {key: value for key, value in params.items() if value is not None}
    _prepare(row.name, params, present)
    try:
        message: Message = convert(present, row.params)
    except (msgspec.ValidationError, RecursionError) as error:
        path, reason = _explain(error)
        raise InvalidParams(f"Invalid params at {path}: {reason}", {"path": path}) from None
    if row.name.startswith("session/"):  # no other method has rules, and the first one must not wait for them
        from sluice.acp.rules import RULES

        rule = RULES.get(row.name)
        if rule is not None:
            rule(message)
    return message


def _object(raw: bytes) -> dict[str, Any]:
    """The params as an object; the scan of an envelope does not look into strings, so this can still fail."""
    try:
        params = msgspec.json.decode(raw) if raw else None
    except msgspec.ValidationError as error:
        path, reason = _explain(error)
        raise InvalidParams(f"Invalid params at {path}: {reason}", {"path": path}) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ParseError("The params are not valid JSON") from None
    except RecursionError:
        raise ParseError("The params are nested too deeply") from None
    if params is None:
        return {}
    if isinstance(params, dict):
        return params
    if isinstance(params, list):
        raise InvalidParams("Invalid params at $: params by position are not supported", {"path": "$"})
    raise InvalidRequest("The params must be an object")


def _initialize(params: Mapping[str, Any], present: dict[str, Any]) -> None:
    """Nothing about the client but its version may fail the call (initialize.client.missing-capabilities)."""
    if not isinstance(present.get("clientCapabilities"), dict):
        present.pop("clientCapabilities", None)
    from sluice.acp.initialize import Implementation

    try:
        convert(present.get("clientInfo"), Implementation)
    except msgspec.ValidationError:
        present.pop("clientInfo", None)


def _session_new(params: Mapping[str, Any], present: dict[str, Any]) -> None:
    """A null list of servers is an empty one here, a missing one is an error (session.new.mcp-list-required)."""
    if "mcpServers" in params:
        present.setdefault("mcpServers", [])


def _cancel_request(params: Mapping[str, Any], present: dict[str, Any]) -> None:
    """Null is a value here: JSON-RPC allows it as a request id."""
    if "requestId" in params:
        present["requestId"] = params["requestId"]


_PREPARATIONS: Mapping[str, Callable[[Mapping[str, Any], dict[str, Any]], None]] = MappingProxyType(
    {"initialize": _initialize, "session/new": _session_new, "$/cancel_request": _cancel_request}
)


def _prepare(method: str, params: Mapping[str, Any], present: dict[str, Any]) -> None:
    preparation = _PREPARATIONS.get(method)
    if preparation is not None:
        preparation(params, present)


def _explain(error: Exception) -> tuple[str, str]:
    """Path and reason of a decoding error.

    msgspec ends its text with one "- at" clause per level of nested conversion, the innermost first; a missing field
    is reported at its parent, so its name is added to the path.
    """
    if isinstance(error, RecursionError):
        return "$", "nested too deeply"
    reason, *places = _CONTROL.sub(" ", str(error)).split(" - at `$")
    path = "$" + "".join(place.rstrip("`") for place in reversed(places))
    missing = _MISSING.match(reason)
    if missing:
        path = f"{path}.{missing[1]}"
    return path, reason[:_LONGEST_REASON]
