"""From an agent's stdout to clean JSON-RPC lines: what is not a message is logged and skipped, never answered.

Agents are programs in the wild. Launchers print banners, shells print profiles, libraries print progress bars, and
some implementations send batches or malformed responses. A server answers such input with an error; a client that
did so would talk back to a banner. So this filter sits below the peer and passes on only what is a message.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Protocol

import msgspec

__all__ = ["LINE_LIMIT", "ByteStream", "MessageFilter"]

_log = logging.getLogger(__name__)

LINE_LIMIT = 32 << 20
"""Bytes one line of an agent may have; images and whole-file diffs travel in a single line."""

NOISE_KEPT = 5
"""Lines that were no message, kept for error texts: some programs print their usage error to stdout."""

NOISE_LOGGED = 100
"""Lines that were no message and are logged; a progress bar must not fill the log."""

_BOM = b"\xef\xbb\xbf"


class ByteStream(Protocol):
    """Bytes in both directions: an agent's process or, in one process, a pair of memory streams."""

    async def receive(self) -> bytes:
        """Take the next bytes; `b""` at the end."""

    async def send(self, data: bytes) -> None:
        """Write all of `data`."""

    async def aclose(self) -> None:
        """End the outgoing direction."""


class _Envelope(msgspec.Struct):
    """The root members of a message, undecoded; an empty `Raw` is an absent member."""

    jsonrpc: msgspec.Raw = msgspec.Raw()
    id: msgspec.Raw = msgspec.Raw()
    method: msgspec.Raw = msgspec.Raw()
    params: msgspec.Raw = msgspec.Raw()
    result: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


class _Error(msgspec.Struct):
    """A well-formed error member."""

    code: int
    message: str
    data: msgspec.Raw = msgspec.Raw()


_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_error = msgspec.json.Decoder(_Error).decode
_decode_id = msgspec.json.Decoder(int | str).decode
_decode_string = msgspec.json.Decoder(str).decode


class MessageFilter:
    """The byte stream of an agent, with only well-formed messages in the incoming direction.

    Attributes:
        overflow: the readable reason once a line passed the limit, else None. The stream is reported as ended then:
            the lost line may have been the answer somebody waits for, and waiting for ever is worse than an error.
        noise: the last lines that were no message.
    """

    def __init__(self, stream: ByteStream, limit: int = LINE_LIMIT) -> None:
        self._stream = stream
        self._limit = limit
        self._pending: list[bytes] = []
        self._size = 0
        self._skipped = 0
        self.overflow: str | None = None
        self.noise: deque[str] = deque(maxlen=NOISE_KEPT)

    async def receive(self) -> bytes:
        """Take the next messages, each ending in a newline; `b""` at the end.

        Returns:
            One or more whole lines in the order in which they came.
        """
        while self.overflow is None:
            chunk = await self._stream.receive()
            if not chunk:
                # A last message without its newline is still a message.
                return self._clean(self._take_pending())
            out = b"".join(self._clean(line) for line in self._lines(chunk))
            if out:
                return out
        return b""

    async def send(self, data: bytes) -> None:
        """Pass our own lines on untouched."""
        await self._stream.send(data)

    async def aclose(self) -> None:
        """End the outgoing direction."""
        await self._stream.aclose()

    def _lines(self, chunk: bytes) -> list[bytes]:
        first, *rest = chunk.split(b"\n")
        self._pending.append(first)
        self._size += len(first)
        lines = []
        if rest:
            lines = [self._take_pending(), *rest[:-1]]
            self._pending, self._size = [rest[-1]], len(rest[-1])
        longest = max(self._size, *map(len, lines)) if lines else self._size
        if longest > self._limit:
            self.overflow = f"the agent sent a line of more than {self._limit >> 20} MiB"
        return [line for line in lines if len(line) <= self._limit]

    def _take_pending(self) -> bytes:
        line = b"".join(self._pending)
        self._pending, self._size = [], 0
        return line

    def _clean(self, line: bytes) -> bytes:
        """One line as a well-formed message with its newline, or nothing."""
        text = line.strip().removeprefix(_BOM).strip()
        if not text:
            return b""
        try:
            envelope = _decode_envelope(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._skip(text, "not a JSON-RPC message")
        if envelope.method:
            return self._call(text, envelope)
        return self._response(text, envelope)

    def _call(self, text: bytes, envelope: _Envelope) -> bytes:
        if not _is(_decode_string, envelope.method):
            return self._skip(text, "a method that is no string")
        return _line(text, envelope)

    def _response(self, text: bytes, envelope: _Envelope) -> bytes:
        """A response, or the error its request gets when it is malformed (so that nobody waits for it)."""
        if not _is(_decode_id, envelope.id):
            return self._skip(text, "a response to no request")
        # Some implementations send both members and null in the one that does not apply.
        has_error = bytes(envelope.error) not in (b"", b"null")
        has_result = bool(envelope.result) and not (has_error and bytes(envelope.result) == b"null")
        if has_result and not has_error:
            return _line(text, envelope) if not envelope.error else _rebuilt(envelope.id, result=envelope.result)
        if has_error and not has_result and _is(_decode_error, envelope.error):
            return _line(text, envelope) if not envelope.result else _rebuilt(envelope.id, error=envelope.error)
        _log.warning("malformed response: %s", _shown(text))
        return _rebuilt(envelope.id, error=msgspec.json.encode({"code": -32603, "message": _malformed(envelope)}))

    def _skip(self, text: bytes, reason: str) -> bytes:
        self._skipped += 1
        self.noise.append(_shown(text))
        if self._skipped <= NOISE_LOGGED:
            _log.warning("skipped on the agent's stdout (%s): %s", reason, _shown(text))
        return b""


def _is(decode: object, raw: msgspec.Raw) -> bool:
    """Whether an undecoded member has the type of a decoder."""
    assert callable(decode)
    try:
        decode(raw)
    except msgspec.DecodeError:
        return False
    return True


def _line(text: bytes, envelope: _Envelope) -> bytes:
    """The line as it came, with the version member supplied if the agent forgot it."""
    if envelope.jsonrpc:
        return text + b"\n"
    return b'{"jsonrpc":"2.0",' + text[1:].lstrip() + b"\n"


def _rebuilt(
    request: msgspec.Raw, *, result: bytes | msgspec.Raw | None = None, error: bytes | msgspec.Raw | None = None
) -> bytes:
    name, value = ("result", result) if error is None else ("error", error)
    assert value is not None
    return b'{"jsonrpc":"2.0","id":' + bytes(request) + b',"' + name.encode() + b'":' + bytes(value) + b"}\n"


def _malformed(envelope: _Envelope) -> str:
    """Say what is wrong with a response, and keep the agent's own words if it had some."""
    if envelope.result and envelope.error:
        return "malformed response: both a result and an error"
    if not envelope.error:
        return "malformed response: neither a result nor an error"
    try:
        said = msgspec.json.decode(envelope.error)
    except msgspec.DecodeError:
        said = None
    message = said.get("message") if isinstance(said, dict) else said
    return f"malformed error response: {message}" if isinstance(message, str) else "malformed error response"


def _shown(text: bytes) -> str:
    return text[:200].decode("utf-8", "replace")
