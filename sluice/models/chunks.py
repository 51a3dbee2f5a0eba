"""Merges the chunks of an HTTP/1.1 body that are already there, so that the HTTP library sees few large ones.

A model server writes one HTTP chunk for every token, and the HTTP library spends more on each chunk than everything
else together does (about 10 of 16 microseconds). What has arrived in one read is therefore handed on as one chunk.
Nothing is held back but an unfinished size line, so nothing is late. Whatever is not plainly understood is passed on
as it came: then the library decides, as if this module were not there.

Source: RFC 9112 section 7.1.
"""

from __future__ import annotations

import re
from collections.abc import Callable

__all__ = ["ChunkMerger"]

_MAX_HEAD = 128 * 1024
"""Bytes of a response head that are looked at; the HTTP library refuses larger ones anyway."""

_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked[ \t]*\r\n", re.IGNORECASE)
_INFORMATIONAL = re.compile(rb"HTTP/1\.1 1[0-9][0-9][ \r]")
_SIZE = re.compile(rb"[0-9a-fA-F]{1,8}")
_LONGEST_LINE = 12
"""Bytes of a size line that is understood: a line end, eight digits, a line end."""

_MORE, _ODD = -1, -2


class ChunkMerger:
    """Rewrites the bytes of one response at a time; call `reset` before each request."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Expect a new response; what was held of an old one is dropped."""
        self._step: Callable[[bytes], bytes] = self._head
        self._held = b""
        self._open = False  # a chunk was handed on whose own line end has not been read
        self._left = 0  # bytes of that chunk still to come

    def feed(self, data: bytes) -> bytes:
        """The bytes to hand on for those that arrived; may be empty while something is held."""
        return self._step(data)

    def end(self) -> bytes:
        """What is still held when the connection ends."""
        held, self._held = self._held, b""
        return held

    def _head(self, data: bytes) -> bytes:
        data = self._held + data
        end = data.find(b"\r\n\r\n") + 4
        if end < 4:
            self._held = data
            return b"" if len(data) <= _MAX_HEAD else self._give_up(b"")
        self._held = b""
        head, rest = data[:end], data[end:]
        if _INFORMATIONAL.match(head):
            return head + (self._head(rest) if rest else b"")
        if not _CHUNKED.search(head):
            return head + self._give_up(rest)
        self._step = self._body
        return head + self._body(rest)

    def _body(self, data: bytes) -> bytes:
        data = self._held + data
        self._held = b""
        pieces: list[bytes] = []
        at, end = 0, len(data)
        while at < end:
            if self._left:
                piece = data[at : at + self._left]
                pieces.append(piece)
                self._left -= len(piece)
                at += len(piece)
                continue
            begin = self._size_line(data, at)
            if begin == _MORE:
                self._held = data[at:]
                break
            if begin == _ODD:
                return _merged(pieces) + self._give_up(data[at:])
            at = begin
        return _merged(pieces)

    def _size_line(self, data: bytes, at: int) -> int:
        """Where the bytes of the next chunk begin, or that more is needed, or that this is no such line.

        The last chunk (size 0) counts as none: what ends a body is left to the library.
        """
        begin = at
        if self._open:
            if not b"\r\n".startswith(data[at : at + 2]):
                return _ODD
            begin += 2
        line = data.find(b"\r\n", begin)
        if line < 0:
            return _MORE if len(data) - at < _LONGEST_LINE else _ODD
        size = data[begin:line]
        if not _SIZE.fullmatch(size) or not int(size, 16):
            return _ODD
        self._open, self._left = True, int(size, 16)
        return line + 2

    def _give_up(self, data: bytes) -> bytes:
        """Hand on everything as it comes until the next response."""
        held, self._held = self._held, b""
        if self._open:
            # The chunk it belongs to was closed when it was handed on.
            data = data.removeprefix(b"\r\n")
        self._open = False
        self._step = _unchanged
        return held + data


def _unchanged(data: bytes) -> bytes:
    return data


def _merged(pieces: list[bytes]) -> bytes:
    if not pieces:
        return b""
    body = b"".join(pieces)
    return b"%x\r\n%s\r\n" % (len(body), body)
