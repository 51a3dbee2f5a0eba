"""The outgoing side of a connection: a queue of finished lines, and the one task that writes them.

Lines are joined before they are sent, so a flood of small updates costs one system call for many of them, and a line
is never cut by another one, because nobody else writes (transport.output.single-writer).

Two ways in. `put` queues at once and is for what must not wait: answers, and the few updates of a drain. `room` waits
until the queue is below its bound and is the back-pressure that reaches the producer: whoever can wait calls it
first. So the queue is bounded by `QUEUE_BYTES` plus what may not wait (transport.output.slow-reader).
"""

from __future__ import annotations

import logging
from collections import deque

import anyio
import anyio.lowlevel

from sluice.wire.transport import Transport

__all__ = ["QUEUE_BYTES", "SEND_BYTES", "ConnectionLost", "Outbox"]

logger = logging.getLogger(__name__)

QUEUE_BYTES = 1024 * 1024
"""Bytes not yet taken by the other end above which `room` waits."""

SEND_BYTES = 256 * 1024
"""Most bytes joined into one send; a single longer line is sent alone."""

_CALLS_PER_CHECKPOINT = 32


class ConnectionLost(Exception):
    """Nothing more can be sent, or no answer can come any more."""


class Outbox:
    """Lines on their way out.

    Args:
        transport: where they go; used for sending only.

    Attributes:
        broken: set when the other end stopped reading.
        ended: set when the writer is gone, for whatever reason.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._frames: deque[bytes] = deque()
        self._unsent = 0
        self._calls = 0
        self._filled = anyio.Event()
        self._drained = anyio.Event()
        self._closing = anyio.Event()
        self.broken = anyio.Event()
        self.ended = anyio.Event()

    @property
    def unsent(self) -> int:
        """Bytes queued or in the hands of a send that has not returned."""
        return self._unsent

    @property
    def accepting(self) -> bool:
        """Whether a line queued now has a chance to be written."""
        return not (self._closing.is_set() or self.ended.is_set())

    def put(self, frame: bytes) -> bool:
        """Queue one or more finished lines that stay together; never waits.

        Returns:
            False when they were dropped because the outbox is closed or the writer gone.
        """
        if not self.accepting:
            return False
        self._frames.append(frame)
        self._unsent += len(frame)
        if len(self._frames) == 1:
            self._filled.set()
        return True

    async def room(self, bound: int = QUEUE_BYTES) -> None:
        """Wait until at most `bound` bytes are unsent.

        While there is room it returns without suspending, but for one checkpoint in a while: a producer that never
        waits for anything else must not starve the reader, nor escape its own cancellation.

        Raises:
            ConnectionLost: the outbox is closed or the writer gone, now or while waiting.
        """
        self._calls += 1
        if self._calls % _CALLS_PER_CHECKPOINT == 0:
            await anyio.lowlevel.checkpoint()
        while self.accepting and self._unsent > bound:
            if self._drained.is_set():
                self._drained = anyio.Event()
            await self._drained.wait()
        if not self.accepting:
            raise ConnectionLost("the connection is closed for sending")

    async def run(self) -> None:
        """Write until `close` was called and everything is sent, or until the other end stops reading.

        There is no deadline: a peer that does not read holds this task, and whoever waits for it, until it reads,
        goes away or this task is cancelled.
        """
        try:
            while self._frames or not self._closing.is_set():
                if self._frames:
                    await self._send_some()
                else:
                    self._filled = anyio.Event()
                    await self._filled.wait()
        except anyio.BrokenResourceError:
            logger.info("the other end no longer reads")
            self.broken.set()
        finally:
            # Also when cancelled: part of a line may have been written, so nothing may follow it.
            self.ended.set()
            self._frames.clear()
            self._unsent = 0
            self._drained.set()

    def close(self) -> None:
        """Accept nothing more; the writer sends what is queued and ends."""
        self._closing.set()
        self._filled.set()
        self._drained.set()

    async def _send_some(self) -> None:
        batch = [self._frames.popleft()]
        size = len(batch[0])
        while self._frames and size + len(self._frames[0]) <= SEND_BYTES:
            batch.append(self._frames.popleft())
            size += len(batch[-1])
        await self._transport.send(b"".join(batch) if len(batch) > 1 else batch[0])
        self._unsent -= size
        self._drained.set()
