"""One writer, many waiting writes: shared transactions, errors that stay with their owner, cancellation."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import pytest

from sluice.persistence.connection import Reader, Writer, connect
from sluice.persistence.errors import StoreError
from tests.persistence.conftest import Query

pytestmark = pytest.mark.anyio

Work = Callable[[sqlite3.Connection], object]


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def connection(path: Path) -> sqlite3.Connection:
    opened = connect(path, busy_timeout=0.05)
    opened.execute("CREATE TABLE notes(text TEXT PRIMARY KEY)")
    return opened


@pytest.fixture
async def writer(path: Path, connection: sqlite3.Connection) -> AsyncIterator[Writer]:
    opened = Writer(connection, path)
    yield opened
    await opened.aclose()


def note(text: str) -> Callable[[sqlite3.Connection], str]:
    def work(connection: sqlite3.Connection) -> str:
        connection.execute("INSERT INTO notes VALUES (?)", [text])
        return text

    return work


class Gate:
    """A write that says when it has begun and waits, in its thread, until it may go on."""

    def __init__(self) -> None:
        self.begun = anyio.Event()
        self.open = threading.Event()

    def __call__(self, connection: sqlite3.Connection) -> str:
        anyio.from_thread.run_sync(self.begun.set)
        assert self.open.wait(10)
        return note("gate")(connection)


def notes(query: Query) -> list[str]:
    return [row[0] for row in query("SELECT text FROM notes ORDER BY text")]


@pytest.mark.requirement("store.engine.sqlite")
async def test_connections_use_wal_and_enforce_foreign_keys(connection: sqlite3.Connection) -> None:
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA foreign_keys").fetchone() == (1,)
    connection.close()


async def test_switching_a_file_to_wal_waits_for_a_writer_elsewhere(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "new.db", isolation_level=None)
    other.execute("CREATE TABLE notes(text TEXT)")
    other.execute("BEGIN IMMEDIATE")
    opened: list[sqlite3.Connection] = []

    async def open_it() -> None:
        opened.append(await anyio.to_thread.run_sync(connect, tmp_path / "new.db", 60.0))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(open_it)
            await anyio.wait_all_tasks_blocked()
            assert opened == []
            other.execute("COMMIT")
    other.close()
    assert opened[0].execute("PRAGMA journal_mode").fetchone() == ("wal",)
    opened[0].close()


async def test_writes_that_wait_together_are_committed_together(
    connection: sqlite3.Connection, writer: Writer, query: Query
) -> None:
    gate, statements, results = Gate(), list[str](), list[str]()

    async def write(text: str) -> None:
        results.append(await writer.run(note(text)))
        assert text in notes(query)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(writer.run, gate)
            await gate.begun.wait()
            connection.set_trace_callback(statements.append)
            for text in "abcdef":
                tasks.start_soon(write, text)
            await anyio.wait_all_tasks_blocked()
            gate.open.set()
    assert sorted(results) == list("abcdef")
    assert statements.count("COMMIT") == 2


async def test_a_failing_write_does_not_take_its_neighbours_down(writer: Writer, query: Query) -> None:
    gate, caught = Gate(), list[Exception]()

    def fail(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO notes VALUES ('half')")
        raise LookupError("mine alone")

    async def write(work: Work) -> None:
        try:
            await writer.run(work)
        except Exception as error:
            caught.append(error)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(writer.run, gate)
            await gate.begun.wait()
            for work in (note("a"), fail, note("a"), note("b")):
                tasks.start_soon(write, work)
                await anyio.wait_all_tasks_blocked()
            gate.open.set()
    assert notes(query) == ["a", "b", "gate"]
    assert [type(error) for error in caught] == [LookupError, StoreError]


@pytest.mark.requirement("session.delete.cancel-in-store-call")
async def test_a_write_that_has_begun_is_completed_and_its_result_known_despite_a_cancel(
    writer: Writer, query: Query
) -> None:
    gate, seen = Gate(), list[str]()

    async def write() -> None:
        seen.append(await writer.run(gate))
        await anyio.lowlevel.checkpoint()
        seen.append("went on")

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write)
            await gate.begun.wait()
            tasks.cancel_scope.cancel()
            gate.open.set()
    assert seen == ["gate"]
    assert notes(query) == ["gate"]


async def test_a_waiting_write_is_completed_despite_a_cancel(writer: Writer, query: Query) -> None:
    gate, seen = Gate(), list[str]()
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(writer.run, gate)
            await gate.begun.wait()
            async with anyio.create_task_group() as waiting:

                async def write() -> None:
                    seen.append(await writer.run(note("waiting")))

                waiting.start_soon(write)
                await anyio.wait_all_tasks_blocked()
                waiting.cancel_scope.cancel()
                gate.open.set()
    assert seen == ["waiting"]
    assert notes(query) == ["gate", "waiting"]


async def test_a_caller_cancelled_before_handing_over_writes_nothing(writer: Writer, query: Query) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await writer.run(note("late"))
    assert notes(query) == []


async def test_a_task_cancelled_behind_the_back_of_anyio_leaves_all_or_nothing(
    anyio_backend: str, writer: Writer, query: Query
) -> None:
    if anyio_backend == "trio":
        return  # trio knows no other cancellation than that of a scope
    gate, given_up = Gate(), anyio.Event()
    found: list[asyncio.Task[object]] = []

    async def write() -> None:
        task = asyncio.current_task()
        assert task is not None
        found.append(task)
        with pytest.raises(asyncio.CancelledError):
            await writer.run(gate)
        given_up.set()

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write)
            await gate.begun.wait()
            found[0].cancel()
            await given_up.wait()
            tasks.start_soon(writer.run, note("next"))
            await anyio.wait_all_tasks_blocked()
            gate.open.set()
    assert notes(query) == ["gate", "next"]


async def test_a_lock_of_another_process_fails_all_who_wait_and_keeps_nothing(
    writer: Writer, path: Path, query: Query
) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    caught: list[StoreError] = []

    async def write(text: str) -> None:
        with pytest.raises(StoreError, match="locked by another process; try again") as info:
            await writer.run(note(text))
        caught.append(info.value)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            for text in "abc":
                tasks.start_soon(write, text)
    assert [error.kind for error in caught] == ["locked"] * 3
    other.execute("COMMIT")
    other.close()
    assert await writer.run(note("a")) == "a"
    assert notes(query) == ["a"]


async def test_closing_completes_what_waits_and_then_refuses(writer: Writer, query: Query) -> None:
    gate = Gate()
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(writer.run, gate)
            await gate.begun.wait()
            tasks.start_soon(writer.run, note("waiting"))
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(writer.aclose)
            await anyio.wait_all_tasks_blocked()
            gate.open.set()
        assert notes(query) == ["gate", "waiting"]
        with pytest.raises(StoreError, match="is closed"):
            await writer.run(note("late"))


async def test_a_read_sees_one_moment_and_does_not_hold_up_writes(path: Path, writer: Writer) -> None:
    reader = Reader(connect(path), path)
    first, go = anyio.Event(), threading.Event()
    counts: list[list[int]] = []

    def count(connection: sqlite3.Connection) -> int:
        return int(connection.execute("SELECT count(*) FROM notes").fetchone()[0])

    def count_twice(connection: sqlite3.Connection) -> list[int]:
        before = count(connection)
        anyio.from_thread.run_sync(first.set)
        assert go.wait(10)
        return [before, count(connection)]

    async def read() -> None:
        counts.append(await reader.run(count_twice))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await first.wait()
            await writer.run(note("meanwhile"))
            go.set()
        assert counts == [[0, 0]]
        assert await reader.run(count) == 1
        await reader.aclose()
        with pytest.raises(StoreError, match="is closed"):
            await reader.run(count)
