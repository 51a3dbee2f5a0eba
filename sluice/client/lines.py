"""From an agent's stdout to clean JSON-RPC lines: what is not a message is logged and skipped, never answered.

Agents are programs in the wild. Launchers print banners, shells print profiles, libraries print progress bars, and
some implementations send batches. A server answers such input with an error; a client that did so would talk back to
a banner. So this filter sits below the peer and passes on only what is a message.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Protocol

from sluice.wire.frames import Malformed, decode
from sluice.wire.lines import LineSplitter, Oversized

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
    """Bytes in both directions: an agent's process or, within one process, one end of a memory transport."""

    async def receive(self) -> bytes:
        """Take the next bytes; `b""` at the end."""

    async def send(self, data: bytes) -> None:
        """Write all of `data`."""

    async def aclose(self) -> None:
        """End the outgoing direction."""


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
        self._splitter = LineSplitter(limit)
        self._unfinished = 0
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
            # A last message without its newline is still a message.
            lines = list(self._splitter.feed(chunk) if chunk else self._splitter.finish())
            out = b"".join(self._clean(line) for line in lines)
            # A line that is not finished but already too long must not be read for as long as it may go on.
            newline = chunk.rfind(b"\n")
            self._unfinished = self._unfinished + len(chunk) if newline < 0 else len(chunk) - newline - 1
            if self._unfinished > self._limit:
                self._overflow()
            if out or not chunk:
                return out
        return b""

    async def send(self, data: bytes) -> None:
        """Pass our own lines on untouched."""
        await self._stream.send(data)

    async def aclose(self) -> None:
        """End the outgoing direction."""
        await self._stream.aclose()

    def _overflow(self) -> None:
        self.overflow = f"the agent sent a line of more than {self._limit} bytes"

    def _clean(self, line: bytes | Oversized) -> bytes:
        """One line as a well-formed message with its newline, or nothing."""
        if isinstance(line, Oversized):
            self._overflow()
            return b""
        text = _repaired(line.strip().removeprefix(_BOM).strip())
        if not text:
            return b""
        message = decode(text)
        if isinstance(message, Malformed) and b'"jsonrpc"' not in text and text.startswith(b"{"):
            # An agent that forgets the version member means version 2.0.
            text = b'{"jsonrpc":"2.0",' + text[1:]
            message = decode(text)
        # An object with an id and nothing else may be a broken answer; the peer fails the request it names.
        if isinstance(message, Malformed) and message.key is None:
            return self._skip(text, message.error.message)
        return text + b"\n"

    def _skip(self, text: bytes, reason: str) -> bytes:
        self._skipped += 1
        shown = text[:200].decode("utf-8", "replace")
        self.noise.append(shown)
        if self._skipped <= NOISE_LOGGED:
            _log.warning("skipped on the agent's stdout: %s %s", reason, shown)
        return b""


def _repaired(text: bytes) -> bytes:
    """The line as UTF-8; a broken byte sequence (a file cut in the middle of a character) becomes U+FFFD."""
    if text.isascii():
        return text
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return text.decode("utf-8", "replace").encode()
    return text
