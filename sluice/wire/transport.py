"""Where bytes come from and go to: the `Transport` protocol, and the transports that need no file descriptor.

A transport moves bytes and knows nothing of lines. The standard-input one is in `wire/stdio.py`.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

import anyio
import anyio.abc
import anyio.lowlevel

__all__ = ["CHUNK_BYTES", "MemoryTransport", "ProcessTransport", "StreamTransport", "Transport"]

CHUNK_BYTES = 65536
"""Most bytes taken from the other end at once: what a pipe holds on Linux."""


class Transport(Protocol):
    """A byte stream in both directions. One task receives and one task sends; they may be two tasks."""

    async def receive(self) -> bytes:
        """Wait for bytes.

        Returns:
            At least one byte, or b"" at the end of input (and again on each later call).

        Raises:
            anyio.BrokenResourceError: the stream broke, or was closed by `aclose`.
        """

    async def send(self, data: bytes) -> None:
        """Hand over all of `data`; waits while the other end does not take it.

        Raises:
            anyio.BrokenResourceError: the other end no longer reads, or `aclose` was called.
        """

    async def aclose(self) -> None:
        """Close both directions; the other end sees the end of its input. May be called twice."""


class _Channel:
    """One direction of a `MemoryTransport`: bytes sent and not yet received, at most `capacity` of them."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._ended = anyio.Event()
        self._refused = anyio.Event()
        self._changed = anyio.Event()

    def end(self) -> None:
        """No more bytes will be sent; what was sent can still be received."""
        self._ended.set()
        self._notify()

    def refuse(self) -> None:
        """No more bytes will be received."""
        self._refused.set()
        self._notify()

    async def receive(self) -> bytes:
        await anyio.lowlevel.checkpoint()
        while not self._chunks:
            if self._refused.is_set():
                raise anyio.BrokenResourceError
            if self._ended.is_set():
                return b""
            await self._changed.wait()
        chunk = self._chunks.popleft()
        self._size -= len(chunk)
        self._notify()
        return chunk

    async def send(self, data: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        view = memoryview(data)
        while view:
            if self._refused.is_set() or self._ended.is_set():
                raise anyio.BrokenResourceError
            if room := min(self._capacity - self._size, CHUNK_BYTES):
                self._chunks.append(bytes(view[:room]))
                self._size += len(view[:room])
                view = view[room:]
                self._notify()
            else:
                await self._changed.wait()

    def _notify(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()


class MemoryTransport:
    """One end of an in-memory connection; `MemoryTransport.pair` makes both.

    For programs that embed an agent, and for tests. Like a pipe it holds a limited number of bytes, so a sender waits
    for a receiver that does not receive.
    """

    def __init__(self, incoming: _Channel, outgoing: _Channel) -> None:
        self._incoming = incoming
        self._outgoing = outgoing

    @classmethod
    def pair(cls, capacity: int = CHUNK_BYTES) -> tuple[MemoryTransport, MemoryTransport]:
        """Connect two ends.

        Args:
            capacity: bytes that each direction holds before its sender waits; at least 1.
        """
        there, back = _Channel(capacity), _Channel(capacity)
        return cls(back, there), cls(there, back)

    async def receive(self) -> bytes:
        """See `Transport.receive`."""
        return await self._incoming.receive()

    async def send(self, data: bytes) -> None:
        """See `Transport.send`."""
        await self._outgoing.send(data)

    async def aclose(self) -> None:
        """See `Transport.aclose`."""
        self.send_eof()
        self.stop_receiving()

    def send_eof(self) -> None:
        """Close the outgoing direction only: the other end sees the end of its input and may still send."""
        self._outgoing.end()

    def stop_receiving(self) -> None:
        """Close the incoming direction only: the other end's sends break, as on a pipe nobody reads."""
        self._incoming.refuse()


class StreamTransport:
    """A transport over two anyio byte streams (a child's pipes, a socket).

    Args:
        incoming: where bytes come from.
        outgoing: where bytes go to; may be the same object as `incoming`.
    """

    def __init__(self, incoming: anyio.abc.ByteReceiveStream, outgoing: anyio.abc.ByteSendStream) -> None:
        self._incoming = incoming
        self._outgoing = outgoing

    async def receive(self) -> bytes:
        """See `Transport.receive`."""
        try:
            return await self._incoming.receive(CHUNK_BYTES)
        except anyio.EndOfStream:
            return b""
        except (anyio.ClosedResourceError, OSError) as error:
            raise anyio.BrokenResourceError from error

    async def send(self, data: bytes) -> None:
        """See `Transport.send`."""
        try:
            await self._outgoing.send(data)
        except (anyio.ClosedResourceError, OSError) as error:
            raise anyio.BrokenResourceError from error

    async def send_eof(self) -> None:
        """Close the outgoing direction only: the other end sees the end of its input and may still send."""
        await self._outgoing.aclose()

    async def aclose(self) -> None:
        """See `Transport.aclose`."""
        try:
            await self._outgoing.aclose()
        finally:
            await self._incoming.aclose()


class ProcessTransport(StreamTransport):
    """A transport over the standard input and output of a child process.

    It closes the pipes and nothing else: ending the process belongs to whoever started it.

    Args:
        process: a child opened with pipes for its standard input and output.
    """

    def __init__(self, process: anyio.abc.Process) -> None:
        if process.stdout is None or process.stdin is None:
            raise ValueError("the child needs pipes for its standard input and output")
        super().__init__(process.stdout, process.stdin)
        self.process = process
