"""Transports without descriptors: in memory, over streams, over a child's pipes."""

from __future__ import annotations

import subprocess
import sys

import anyio
import anyio.abc
import pytest

from sluice.wire.transport import MemoryTransport, ProcessTransport, StreamTransport, Transport
from tests.wire.support import SECONDS

pytestmark = pytest.mark.anyio

ECHO = "import sys\nwhile data := sys.stdin.buffer.readline():\n  sys.stdout.buffer.write(data); sys.stdout.flush()"


async def test_memory_ends_are_crosswise_and_see_each_other_end() -> None:
    left, right = MemoryTransport.pair()
    ends: tuple[Transport, Transport] = (left, right)
    await ends[0].send(b"to right")
    await ends[1].send(b"to left")
    assert await left.receive() == b"to left"
    left.send_eof()
    assert await right.receive() == b"to right"
    assert await right.receive() == b""
    assert await right.receive() == b""
    await right.send(b"still open")
    assert await left.receive() == b"still open"
    with pytest.raises(anyio.BrokenResourceError):
        await left.send(b"x")


async def test_a_memory_sender_waits_for_a_receiver_that_does_not_receive() -> None:
    left, right = MemoryTransport.pair(capacity=10)
    sent: list[int] = []

    async def send() -> None:
        await left.send(b"x" * 25)
        sent.append(25)

    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            await anyio.wait_all_tasks_blocked()
            assert await right.receive() == b"x" * 10
            await anyio.wait_all_tasks_blocked()
            assert sent == []
            assert await right.receive() + await right.receive() == b"x" * 15
        assert sent == [25]


async def test_closing_a_memory_end_breaks_whoever_waits_on_it() -> None:
    left, right = MemoryTransport.pair(capacity=10)

    async def send(end: MemoryTransport) -> None:
        with pytest.raises(anyio.BrokenResourceError):
            await end.send(b"x" * 25)

    async def receive(end: MemoryTransport) -> None:
        with pytest.raises(anyio.BrokenResourceError):
            await end.receive()

    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send, left)
            tasks.start_soon(receive, left)
            await anyio.wait_all_tasks_blocked()
            await left.aclose()
            await left.aclose()
        assert await right.receive() == b"x" * 10
        assert await right.receive() == b""
        await send(right)


async def test_a_childs_pipes_carry_bytes_and_its_end() -> None:
    with anyio.fail_after(SECONDS):
        process = await anyio.open_process([sys.executable, "-c", ECHO], stderr=subprocess.DEVNULL)
        transport = ProcessTransport(process)
        await transport.send(b"hello\n")
        assert await transport.receive() == b"hello\n"
        await transport.send_eof()
        assert await transport.receive() == b""
        assert await process.wait() == 0
        with pytest.raises(anyio.BrokenResourceError):
            await transport.send(b"x")
        await transport.aclose()
        await process.aclose()


async def test_sending_to_a_child_that_is_gone_breaks() -> None:
    with anyio.fail_after(SECONDS):
        process = await anyio.open_process([sys.executable, "-c", "pass"], stderr=subprocess.DEVNULL)
        transport = ProcessTransport(process)
        assert await transport.receive() == b""
        with pytest.raises(anyio.BrokenResourceError):
            while True:
                await transport.send(b"x" * 100_000)
        await transport.aclose()
        await process.aclose()


async def test_a_child_without_pipes_is_refused() -> None:
    process = await anyio.open_process([sys.executable, "-c", "pass"], stdin=subprocess.DEVNULL)
    with pytest.raises(ValueError, match="pipes"):
        ProcessTransport(process)
    await process.aclose()


async def test_a_stream_that_was_closed_here_is_broken() -> None:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener:
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        stream = await anyio.connect_tcp("127.0.0.1", port)
        transport = StreamTransport(stream, stream)
        await transport.aclose()
        with pytest.raises(anyio.BrokenResourceError):
            await transport.receive()
        with pytest.raises(anyio.BrokenResourceError):
            await transport.send(b"x")
