"""Where one line ends and the next begins in a stream of bytes.

Source: ACP "Transports"; transport.framing.lf-delimits, transport.limits.inbound-ceiling.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

__all__ = ["MAX_LINE_BYTES", "LineSplitter", "Oversized"]

MAX_LINE_BYTES = 10 * 1024 * 1024
"""Longest line in either direction, in bytes without its line end."""

_BOM = b"\xef\xbb\xbf"


_EDGE = 128
"""Bytes kept of either end of a line that is dropped: enough to see which request it answers."""


@dataclass(frozen=True, slots=True)
class Oversized:
    """Stands in the place of a line that was longer than the limit; the line itself was thrown away unread.

    Attributes:
        size: length of the line in bytes.
        head: its first bytes.
        tail: its last bytes.
    """

    size: int
    head: bytes = field(default=b"", compare=False, repr=False)
    tail: bytes = field(default=b"", compare=False, repr=False)


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
        self._head = self._tail = b""
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
            self._tail = (self._tail + data[max(start, end - _EDGE) : end])[-_EDGE:]
        # A CR and a byte-order mark that are still to be removed do not count.
        elif len(self._held) + size > self.limit + 1 + len(self._mark):
            self._dropped = len(self._held) + size
            self._head = (bytes(self._held[:_EDGE]) + data[start : min(end, start + _EDGE)])[:_EDGE]
            self._tail = (bytes(self._held[-_EDGE:]) + data[max(start, end - _EDGE) : end])[-_EDGE:]
            self._held = bytearray()
        else:
            self._held += memoryview(data)[start:end]

    def _release(self) -> bytes | Oversized:
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            self._mark = b""
            return Oversized(dropped, self._head, self._tail)
        line, self._held = bytes(self._held), bytearray()
        return self._finished(line)

    def _finished(self, line: bytes) -> bytes | Oversized:
        line = line.removesuffix(b"\r")
        if self._mark:
            line = line.removeprefix(self._mark)
            self._mark = b""
        return Oversized(len(line), line[:_EDGE], line[-_EDGE:]) if len(line) > self.limit else line
