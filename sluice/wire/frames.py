"""Lines of bytes to JSON-RPC 2.0 messages and back: where one message ends, what it is, how ours are written.

Pure functions; nothing here waits or does I/O. Only the envelope is read. `params`, `result` and
`error` stay raw JSON, because what they must look like is the business of whoever knows the method. The id is kept as
the bytes that came in, so that `7`, `"7"`, `1.0` and 9007199254740993 go back exactly as they were written.

Invariant: `decode` returns for every possible line. If it raises anything, that is a bug.

Source: JSON-RPC 2.0; ACP "Transports" (one message a line, UTF-8, no newline inside).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from sluice.wire.errors import BackendError, InvalidRequest, ParseError, PeerError, RpcError
from sluice.wire.lines import MAX_LINE_BYTES, LineSplitter, Oversized

__all__ = [
    "MAX_ID_BYTES",
    "MAX_LINE_BYTES",
    "NULL_ID",
    "FrameTooLarge",
    "IdKey",
    "LineSplitter",
    "Malformed",
    "Message",
    "Notification",
    "Oversized",
    "Request",
    "Response",
    "answered_by",
    "decode",
    "encode_error",
    "encode_notification",
    "encode_request",
    "encode_result",
    "id_key",
]

logger = logging.getLogger(__name__)

MAX_ID_BYTES = 1024
"""Longest request id, in bytes of JSON. An id is repeated in the answer and kept while the request lives."""

NULL_ID = b"null"
"""The id of an answer to a message whose own id could not be read (JSON-RPC 2.0 section 5)."""

_MAX_ERROR_TEXT = 1000

IdKey: TypeAlias = tuple[str, int | str]
"""An id as a dictionary key: its JSON type and its value, so that `7` and `"7"` differ and `1` and `1.0` do not."""


class Request(msgspec.Struct, frozen=True):
    """A call that wants an answer.

    Attributes:
        id: the id as it was written, raw JSON.
        key: the same id as a dictionary key.
        method: exactly as sent, never empty.
        params: raw JSON of an object or array, or b"" when absent or null.
    """

    id: bytes
    key: IdKey
    method: str
    params: bytes


class Notification(msgspec.Struct, frozen=True):
    """A call that must not be answered; attributes as in `Request`."""

    method: str
    params: bytes


class Response(msgspec.Struct, frozen=True):
    """An answer to a request of ours, not yet judged.

    Attributes:
        key: the id it names, or None when that is no possible id.
        result: raw JSON, or None when the member is absent.
        error: raw JSON, or None when the member is absent.
    """

    key: IdKey | None
    result: bytes | None
    error: bytes | None


class Malformed(msgspec.Struct, frozen=True):
    """A line that is no message.

    Attributes:
        error: what to tell the sender.
        id: raw JSON of the id to answer under, or None when it was a broken notification, which is never answered.
        key: the id of a message that has an id and nothing else; it may be a broken answer to a request of ours.
    """

    error: PeerError
    id: bytes | None
    key: IdKey | None = None


Message: TypeAlias = Request | Notification | Response | Malformed

_Raw: TypeAlias = msgspec.Raw | msgspec.UnsetType


class _Envelope(msgspec.Struct):
    jsonrpc: _Raw = msgspec.UNSET
    id: _Raw = msgspec.UNSET
    method: _Raw = msgspec.UNSET
    params: _Raw = msgspec.UNSET
    result: _Raw = msgspec.UNSET
    error: _Raw = msgspec.UNSET


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_ANY_JSON = msgspec.json.Decoder(msgspec.Raw)
_TEXT = msgspec.json.Decoder(str)
# The members of an answer in any usual order: the id before the result, or behind it at the end of the line.
_ANSWER_HEAD = re.compile(
    rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?(?:"id"\s*:\s*(\d{1,15})\s*,\s*)?'
    rb'(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"(?:result|error)"'
)
_ANSWER_TAIL = re.compile(rb'"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')
_INTEGER = re.compile(rb"-?(?:0|[1-9][0-9]*)\Z")
# An escaped backslash is matched only to step over it; a high half takes the low half that follows it along.
_SURROGATES = re.compile(
    rb"(?:\\\\)+|\\u[dD][89abAB][0-9a-fA-F]{2}(\\u[dD][c-fC-F][0-9a-fA-F]{2})?|\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)


def decode(line: bytes) -> Message:
    """Say what one line is.

    A string escape that names a lone surrogate is read as U+FFFD, so the message around it survives.

    Args:
        line: one line without its line end, as `LineSplitter` yields it.

    Returns:
        A message, or `Malformed` with the error to answer. Never raises.
    """
    if not line.isascii():
        try:
            line.decode("utf-8")
        except UnicodeDecodeError:
            return Malformed(ParseError("The line is not valid UTF-8."), NULL_ID)
    envelope = _parse(line)
    if isinstance(envelope, Malformed):
        return envelope
    if envelope.method is not msgspec.UNSET:
        return _call(envelope)
    key = None if envelope.id is msgspec.UNSET else id_key(bytes(envelope.id))
    if envelope.result is msgspec.UNSET and envelope.error is msgspec.UNSET:
        return Malformed(InvalidRequest("The message has no method."), NULL_ID, key)
    return Response(key, _member(envelope.result), _member(envelope.error))


def answered_by(line: Oversized) -> IdKey | None:
    """The request that a line too long to be read is the answer to, as far as its two ends tell; else None.

    Only integer ids are looked for: those are the ones this program gives.
    """
    found = _ANSWER_HEAD.match(line.head)
    if found is None:
        return None
    number = found[1] or ((tail := _ANSWER_TAIL.search(line.tail)) and tail[1])
    return ("number", int(number)) if number else None


def id_key(raw: bytes) -> IdKey | None:
    """Read the raw JSON of an id.

    Returns:
        The id as a dictionary key, or None when no request may have such an id: an object, an array, a boolean, a
        fraction, an integral number above 2^53 that is not written as an integer, or more than `MAX_ID_BYTES`.
    """
    if len(raw) > MAX_ID_BYTES:
        return None
    if _INTEGER.match(raw):
        return "number", int(raw)
    if raw == NULL_ID:
        return "null", 0
    if raw.startswith(b'"'):
        text = _text(raw)
        return None if text is None else ("string", text)
    if raw[:1] in b"-0123456789":
        value = float(raw)
        return ("number", int(value)) if value.is_integer() and abs(value) <= 2**53 else None
    return None


def _parse(line: bytes) -> _Envelope | Malformed:
    try:
        return _ENVELOPE.decode(line)
    except RecursionError:
        return Malformed(ParseError("The JSON is nested too deeply."), NULL_ID)
    except msgspec.DecodeError as error:
        if (repaired := _without_lone_surrogates(line)) != line:
            return _reject_repaired_id(_parse(repaired))
        if not isinstance(error, msgspec.ValidationError):
            return Malformed(ParseError("The line is not valid JSON."), NULL_ID)
    return _not_an_object(line)


def _not_an_object(line: bytes) -> Malformed:
    # The envelope decoder gives up at the first byte of a value that is no object; the rest is still unread.
    try:
        value = bytes(_ANY_JSON.decode(line))
    except RecursionError:
        return Malformed(ParseError("The JSON is nested too deeply."), NULL_ID)
    except msgspec.DecodeError:
        return Malformed(ParseError("The line is not valid JSON."), NULL_ID)
    text = "Batches are not supported." if value.startswith(b"[") else "The message is not an object."
    return Malformed(InvalidRequest(text), NULL_ID)


def _without_lone_surrogates(line: bytes) -> bytes:
    def repair(match: re.Match[bytes]) -> bytes:
        found = match.group()
        return found if found.startswith(b"\\\\") or match.group(1) else b"\\ufffd"

    return _SURROGATES.sub(repair, line)


def _reject_repaired_id(envelope: _Envelope | Malformed) -> _Envelope | Malformed:
    """Refuse an id that held a lone surrogate: it could not be echoed as it was, and two of them would look alike."""
    if isinstance(envelope, _Envelope) and envelope.id is not msgspec.UNSET and b"\\ufffd" in bytes(envelope.id):
        return Malformed(InvalidRequest("The id holds a lone surrogate."), NULL_ID)
    return envelope


def _call(envelope: _Envelope) -> Message:
    raw = None if envelope.id is msgspec.UNSET else bytes(envelope.id)
    key = None if raw is None else id_key(raw)
    if raw is not None and key is None:
        return Malformed(InvalidRequest("The id must be a string, an integer or null."), NULL_ID)
    method = _text(bytes(envelope.method)) if envelope.method is not msgspec.UNSET else None
    if not method:
        return Malformed(InvalidRequest("The method must be a non-empty string."), raw or NULL_ID)
    # From here on a message without an id is a notification, and no notification is ever answered.
    if envelope.jsonrpc is msgspec.UNSET or _text(bytes(envelope.jsonrpc)) != "2.0":
        return Malformed(InvalidRequest('The member "jsonrpc" must be "2.0".'), raw)
    params = _member(envelope.params) or b""
    if params == b"null":
        params = b""
    if params and params[:1] not in b"{[":
        return Malformed(InvalidRequest("The params must be an object or an array."), raw)
    return Notification(method, params) if raw is None or key is None else Request(raw, key, method, params)


def _member(raw: _Raw) -> bytes | None:
    return None if raw is msgspec.UNSET else bytes(raw)


def _text(raw: bytes) -> str | None:
    try:
        return _TEXT.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None


class FrameTooLarge(BackendError):
    """A message of ours would be longer than the line limit (transport.limits.outbound-ceiling)."""


_ENCODER = msgspec.json.Encoder()


def encode_result(id: bytes, result: Any, limit: int = MAX_LINE_BYTES) -> bytes:
    """Write a successful response.

    Args:
        id: raw JSON of the request's id, echoed as it is.
        result: a msgspec struct, plain JSON data or `msgspec.Raw` holding valid JSON; None is written as null.
        limit: longest line in bytes, newline included.

    Returns:
        One line with its newline. A result that does not fit becomes an internal error under the same id.

    Raises:
        TypeError: `result` holds a value that has no JSON form.
        RecursionError: `result` is nested too deeply.
    """
    frame = b'{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (id, _json(result))
    if len(frame) <= limit:
        return frame
    logger.error("a response of %d bytes does not fit into a line of %d bytes", len(frame), limit)
    return encode_error(id, FrameTooLarge("The response is larger than a line may be.", {"limit": limit}), limit)


def encode_error(id: bytes, error: RpcError, limit: int = MAX_LINE_BYTES) -> bytes:
    """Write an error response: an integer code, one non-empty line of text, and data if there is any.

    Data that has no JSON form or does not fit is left out rather than lost together with the answer.

    Args:
        id: raw JSON of the request's id, or `NULL_ID`.
        error: supplies code, message and data.
        limit: longest line in bytes, newline included.
    """
    text = " ".join(error.message.split()) or "Error"
    body: dict[str, Any] = {"code": int(error.code), "message": text[:_MAX_ERROR_TEXT]}
    bare = b'{"jsonrpc":"2.0","id":%b,"error":%b}\n' % (id, _json(body))
    if error.data is None:
        return bare
    try:
        frame = b'{"jsonrpc":"2.0","id":%b,"error":%b}\n' % (id, _json({**body, "data": error.data}))
    except (TypeError, ValueError, RecursionError):
        logger.exception("the data of an error response has no JSON form")
        return bare
    return frame if len(frame) <= limit else bare


def encode_request(id: int, method: str, params: Any, limit: int = MAX_LINE_BYTES) -> bytes:
    """Write a request of our own; arguments and errors as for `encode_notification`, and `id` is our own number."""
    return _checked(b'{"jsonrpc":"2.0","id":%d,"method":%b%b}\n' % (id, _name(method), _params(params)), limit)


def encode_notification(method: str, params: Any, limit: int = MAX_LINE_BYTES) -> bytes:
    """Write a notification.

    Args:
        method: its name.
        params: a msgspec struct, a mapping or `msgspec.Raw` holding valid JSON; None leaves the member out.
        limit: longest line in bytes, newline included.

    Returns:
        One line with its newline.

    Raises:
        FrameTooLarge: the line would be longer than `limit`.
        TypeError: `params` holds a value that has no JSON form.
        RecursionError: `params` is nested too deeply.
    """
    return _checked(b'{"jsonrpc":"2.0","method":%b%b}\n' % (_name(method), _params(params)), limit)


def _checked(frame: bytes, limit: int) -> bytes:
    if len(frame) > limit:
        raise FrameTooLarge("The message is larger than a line may be.", {"limit": limit})
    return frame


@lru_cache(maxsize=256)
def _name(method: str) -> bytes:
    return _json(method)


def _params(params: Any) -> bytes:
    return b"" if params is None else b',"params":' + _json(params)


def _json(value: Any) -> bytes:
    try:
        body = _ENCODER.encode(value)
    except UnicodeEncodeError:
        body = _ENCODER.encode(_scrubbed(msgspec.to_builtins(value, builtin_types=(msgspec.Raw,), str_keys=True)))
    # Both can only come from a Raw: the encoder itself escapes newlines and writes UTF-8. Between tokens, the only
    # place where JSON allows a newline, a space means the same.
    if b"\n" in body:
        body = body.replace(b"\n", b" ")
    if not body.isascii():
        try:
            body.decode("utf-8")
        except UnicodeDecodeError:
            body = body.decode("utf-8", "replace").encode("utf-8")
    return body


def _scrubbed(value: Any) -> Any:
    """Copy plain data with every lone surrogate replaced by U+FFFD; two halves of a pair become their character."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, Mapping):
        return {_scrubbed(key): _scrubbed(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_scrubbed(item) for item in value]
    return value
