"""Server-sent events, as far as model servers use them: bytes in, the `data` of each event out.

Source: WHATWG HTML, "Server-sent events", section 9.2.6. Events, ids and retry times are not used by any
chat-completions server; lines end in LF or CRLF (a lone CR is not accepted as an end).
"""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["EventSplitter", "EventTooLarge", "MAX_EVENT"]

MAX_EVENT = 16 * 1024 * 1024
"""Bytes of one event that are held in memory; beyond it the stream is broken or hostile."""


class EventTooLarge(Exception):
    """A single event is larger than `MAX_EVENT`."""


class EventSplitter:
    """Cuts a byte stream into events. Pieces may be cut anywhere, also inside a character."""

    def __init__(self, max_event: int = MAX_EVENT) -> None:
        self._max_event = max_event
        self._rest: list[bytes] = []  # the unfinished line, in pieces: joining once keeps long lines linear
        self._data: list[bytes] = []  # the data lines of the unfinished event
        self._held = 0

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """The data of each event that `piece` completes, in order; several data lines are joined by LF.

        Raises:
            EventTooLarge: one event holds more than the limit.
        """
        lines = piece.split(b"\n")
        if len(lines) == 1:
            self._hold(piece)
            self._rest.append(piece)
            return
        if self._rest:
            self._held -= sum(map(len, self._rest))
            lines[0] = b"".join((*self._rest, lines[0]))
            self._rest.clear()
        last = lines.pop()
        for line in lines:
            if line.startswith(b"data:"):
                self._hold(line)
                self._data.append(line)
            elif line in (b"", b"\r"):
                self._held = 0
                if self._data:
                    yield self._take()
        if last:
            self._hold(last)
            self._rest.append(last)

    def end(self) -> bytes | None:
        """The data of an event that the end of the stream left without its blank line, None when there is none."""
        line = b"".join(self._rest)
        self._rest.clear()
        if line.startswith(b"data:"):
            self._data.append(line)
        return self._take() if self._data else None

    def _take(self) -> bytes:
        data = self._data
        if len(data) == 1:
            value = data[0][5:].strip()
        else:
            value = b"\n".join(line[5:].rstrip(b"\r").removeprefix(b" ") for line in data)
        data.clear()
        return value

    def _hold(self, piece: bytes) -> None:
        self._held += len(piece)
        if self._held > self._max_event:
            raise EventTooLarge
