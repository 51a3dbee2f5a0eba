"""A connection in memory with a recording router, for the tests of this room."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from sluice.wire.lines import LineSplitter, Oversized
from sluice.wire.peer import IncomingRequest, Peer
from sluice.wire.transport import MemoryTransport

SECONDS = 10.0
"""Bound of every wait in these tests; reaching it is a failure."""


class Recorder:
    """A router that keeps what it gets; `on_request` may act at once."""

    def __init__(self, on_request: Callable[[IncomingRequest], None] | None = None) -> None:
        self.log: list[str] = []
        self.requests: list[IncomingRequest] = []
        self.on_request = on_request
        self._changed = anyio.Event()

    def request(self, request: IncomingRequest) -> None:
        self._note(f"request {request.method}")
        self.requests.append(request)
        if self.on_request is not None:
            self.on_request(request)

    def notification(self, method: str, params: bytes) -> None:
        self._note(f"notification {method} {params.decode()}".rstrip())
        if method == "boom":
            raise RuntimeError("a notification handler failed")

    def end_of_input(self) -> None:
        self._note("end of input")

    def _note(self, entry: str) -> None:
        self.log.append(entry)
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed = anyio.Event()
            await self._changed.wait()


class Wire:
    """The other end of a connection, line by line."""

    def __init__(self, transport: MemoryTransport) -> None:
        self.transport = transport
        self._splitter = LineSplitter()
        self._lines: list[bytes] = []

    async def send(self, *messages: Any) -> None:
        """Send messages in one write; bytes as they are, anything else as JSON with a version member."""
        await self.transport.send(b"".join(as_line(message) for message in messages))

    async def line(self) -> bytes:
        """The next line, or b"" at the end of input."""
        while not self._lines:
            data = await self.transport.receive()
            if not data:
                return b""
            for line in self._splitter.feed(data):
                assert not isinstance(line, Oversized)
                self._lines.append(line)
        return self._lines.pop(0)

    async def message(self) -> dict[str, Any]:
        message = json.loads((await self.line()).decode("utf-8"))
        assert message.pop("jsonrpc") == "2.0"
        assert isinstance(message, dict)
        return message

    async def error(self) -> tuple[Any, int]:
        message = await self.message()
        assert message.keys() == {"id", "error"}
        assert message["error"]["message"].strip()
        return message["id"], message["error"]["code"]


def as_line(message: Any) -> bytes:
    if isinstance(message, bytes):
        return message
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


class Connection:
    """A running peer, its router and the wire to it."""

    def __init__(self, router: Recorder, capacity: int = 65536, **options: Any) -> None:
        ours, theirs = MemoryTransport.pair(capacity)
        self.router = router
        self.peer = Peer(ours, **options)
        self.wire = Wire(theirs)
        self.transport = ours


@asynccontextmanager
async def connected(
    router: Recorder | None = None, capacity: int = 65536, **options: Any
) -> AsyncIterator[Connection]:
    connection = Connection(router or Recorder(), capacity, **options)
    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connection.peer.read, connection.router)
            tasks.start_soon(connection.peer.write)
            yield connection
            tasks.cancel_scope.cancel()
