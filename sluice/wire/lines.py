"""Where one line ends and the next begins in a stream of bytes.

Source: ACP "Transports"; transport.framing.lf-delimits, transport.limits.inbound-ceiling.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

__all__ = ["MAX_LINE_BYTES", "LineSplitter", "Oversized"]

MAX_LINE_BYTES = 10 * 1024 * 1024
"""Longest line in either direction, in bytes without its line end."""

_BOM = b"\xef\xbb\xbf"


class Oversized(msgspec.Struct, frozen=True):
    """Stands in the place of a line that was longer than the limit; the line itself was thrown away unread.

    Attributes:
        size: length of the line in bytes.
    """

    size: int


class LineSplitter:
    """Cuts a byte stream into lines at 0x0A and at nothing else.

    One trailing CR is removed from each line, and one byte-order mark from the start of the stream. What is held back
    between calls is at most one unfinished line of about `limit` bytes: a longer one is dropped as it arrives, up to
    its newline, and reported as `Oversized`.

    Args:
        limit: longest accepted line in bytes, line end not counted.
    """

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self.limit = limit
        self._held = bytearray()
        self._dropped = 0
        self._mark = _BOM

    @property
    def held(self) -> int:
        """Bytes of the unfinished line kept in memory."""
        return len(self._held)

    def feed(self, data: bytes) -> Iterator[bytes | Oversized]:
        """Yield the lines that `data` completes, in order. The iterator must be exhausted before the next call."""
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            if self._held or self._dropped:
                self._hold(data, start, end)
                yield self._release()
            else:
                # The common case, a whole line in one chunk: one slice, no copy through the buffer.
                yield self._finished(data[start:end])
            start = end + 1
        if start < len(data):
            self._hold(data, start, len(data))

    def finish(self) -> Iterator[bytes | Oversized]:
        """Yield the last line if the stream ended without a newline after it (at most one item)."""
        if self._held or self._dropped:
            yield self._release()

    def _hold(self, data: bytes, start: int, end: int) -> None:
        size = end - start
        if self._dropped:
            self._dropped += size
        # A CR and a byte-order mark that are still to be removed do not count.
        elif len(self._held) + size > self.limit + 1 + len(self._mark):
            self._dropped = len(self._held) + size
            self._held = bytearray()
        else:
            self._held += memoryview(data)[start:end]

    def _release(self) -> bytes | Oversized:
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            self._mark = b""
            return Oversized(dropped)
        line, self._held = bytes(self._held), bytearray()
        return self._finished(line)

    def _finished(self, line: bytes) -> bytes | Oversized:
        line = line.removesuffix(b"\r")
        if self._mark:
            line = line.removeprefix(self._mark)
            self._mark = b""
        return Oversized(len(line)) if len(line) > self.limit else line
