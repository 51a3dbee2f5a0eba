"""The queue and its writer."""

from __future__ import annotations

import anyio
import pytest

from sluice.wire.outbox import QUEUE_BYTES, SEND_BYTES, ConnectionLost, Outbox
from tests.wire.support import SECONDS

pytestmark = pytest.mark.anyio


class Sink:
    """A transport that notes the size of each send, and takes it only when its gate is open."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.gate = anyio.Event()

    async def receive(self) -> bytes:
        return b""

    async def send(self, data: bytes) -> None:
        self.sizes.append(len(data))
        await self.gate.wait()

    async def aclose(self) -> None:
        return None


async def test_small_lines_are_joined_and_a_long_one_goes_alone() -> None:
    sink = Sink()
    sink.gate.set()
    outbox = Outbox(sink)
    for size in [100_000, 100_000, 100_000, 600_000, 1, 1]:
        assert outbox.put(b"x" * size)
    outbox.close()
    with anyio.fail_after(SECONDS):
        await outbox.run()
    assert sink.sizes == [200_000, 100_000, 600_000, 2]
    assert max(sink.sizes[:2]) <= SEND_BYTES
    assert outbox.unsent == 0


@pytest.mark.requirement("transport.output.slow-reader")
async def test_what_a_send_has_not_delivered_still_counts_as_unsent() -> None:
    sink = Sink()
    outbox = Outbox(sink)
    outbox.put(b"x" * (QUEUE_BYTES + 1))
    passed: list[str] = []

    async def produce() -> None:
        await outbox.room()
        passed.append("room")

    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(outbox.run)
            tasks.start_soon(produce)
            await anyio.wait_all_tasks_blocked()
            assert (passed, outbox.unsent) == ([], QUEUE_BYTES + 1)
            assert outbox.put(b"an answer does not wait")
            sink.gate.set()
            await anyio.wait_all_tasks_blocked()
            assert (passed, outbox.unsent) == (["room"], 0)
            outbox.close()


@pytest.mark.requirement("transport.output.blocked-write-documented")
async def test_a_blocked_write_keeps_the_writer_until_it_is_taken_or_cancelled() -> None:
    sink = Sink()
    outbox = Outbox(sink)
    outbox.put(b"x")
    outbox.close()
    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(outbox.run)
            await anyio.wait_all_tasks_blocked()
            before = outbox.ended.is_set()
            tasks.cancel_scope.cancel()
    assert (before, outbox.ended.is_set(), outbox.broken.is_set()) == (False, True, False)


async def test_nothing_is_accepted_once_the_writer_is_gone() -> None:
    outbox = Outbox(Sink())
    with anyio.CancelScope() as scope:
        scope.cancel()
        await outbox.run()
    assert not outbox.put(b"x")
    assert outbox.unsent == 0
    with pytest.raises(ConnectionLost):
        await outbox.room()
