"""The two connections of a store, and the one thread each may use at a time.

SQLite allows one writer per file, so all writes go through one `Writer`: whoever comes first takes everything that is
waiting into one transaction (group commit), and whoever finds their write done just returns. Reads have a connection
of their own: in WAL mode neither blocks the other.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Generic, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread

from sluice.persistence.errors import explain

__all__ = ["BUSY_TIMEOUT", "Reader", "Writer", "connect"]

T = TypeVar("T")

BUSY_TIMEOUT = 5.0
"""Seconds a statement waits for another process's lock: enough for any short write, and bearable for a person."""

_WAL_RETRY = 0.02
"""Seconds between attempts to switch a new file to WAL, for which SQLite does not wait by itself."""


def connect(path: Path, busy_timeout: float = BUSY_TIMEOUT) -> sqlite3.Connection:
    """Open one connection: WAL, foreign keys enforced, statements wait `busy_timeout` seconds for a lock.

    Any thread may use it, but one at a time. Where WAL is impossible (some network file systems) the store stays in
    rollback mode and every commit is synchronised.

    Raises:
        sqlite3.Error: the file cannot be opened or is no database.
    """
    connection = sqlite3.connect(path.absolute(), check_same_thread=False, timeout=busy_timeout, isolation_level=None)
    try:
        mode = _enable_wal(connection, time.monotonic() + busy_timeout)
        # NORMAL under WAL survives a killed process; only a power cut may take the last commits, never consistency.
        connection.execute("PRAGMA synchronous=" + ("NORMAL" if mode == "wal" else "FULL"))
        connection.execute("PRAGMA foreign_keys=ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _enable_wal(connection: sqlite3.Connection, deadline: float) -> str:
    """Switch to WAL; the switch needs the file to itself, and SQLite gives up on that at once instead of waiting."""
    while True:
        try:
            return str(connection.execute("PRAGMA journal_mode=WAL").fetchone()[0])
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
        time.sleep(_WAL_RETRY)


class _Write(Generic[T]):
    """A write that was handed over: what to do inside the transaction, and what came of it."""

    __slots__ = ("outcome", "work")

    def __init__(self, work: Callable[[sqlite3.Connection], T]) -> None:
        self.work = work
        self.outcome: Future[T] = Future()


class Writer:
    """The only way to write: one connection, one thread at a time, transactions that begin with the lock in hand.

    Args:
        connection: a connection of `connect`, given away.
        path: the file's name for error texts.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._pending: deque[_Write[Any]] = deque()
        self._turn = anyio.Lock(fast_acquire=True)  # the thread is wait enough
        self._thread = anyio.CapacityLimiter(1)
        # An asyncio task that is cancelled from outside anyio leaves its thread behind; this keeps that thread and
        # the next one off each other.
        self._one_thread = threading.Lock()

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do `work` in a write transaction, perhaps together with other waiting writes.

        Once this has begun to wait, the write happens whether or not the caller is cancelled: all of it or, when it
        fails, nothing. The call returns after the commit in either case, and the caller meets its cancellation at
        its next checkpoint, knowing the result. `work` may be called a second time after a rollback.

        Raises:
            StoreError: the transaction failed and left nothing behind.
            Exception: what `work` itself raised; nothing of it was kept.
        """
        await anyio.lowlevel.checkpoint_if_cancelled()
        write = _Write(work)
        self._pending.append(write)
        # Cleanup policy: unbounded here, but SQLite gives up on a lock after the busy timeout.
        with anyio.CancelScope(shield=True):
            async with self._turn:
                if not write.outcome.done():
                    await anyio.to_thread.run_sync(self._commit_pending, limiter=self._thread)
        return write.outcome.result()

    async def aclose(self) -> None:
        """Finish what was handed over, fold the log into the file and close; further writes raise StoreError."""
        with anyio.CancelScope(shield=True):
            async with self._turn:
                await anyio.to_thread.run_sync(self._finish, limiter=self._thread)

    def _commit_pending(self) -> None:
        with self._one_thread:
            batch: list[_Write[Any]] = []
            while self._pending:
                batch.append(self._pending.popleft())
            self._commit(batch)

    def _commit(self, batch: list[_Write[Any]]) -> None:
        """One transaction for all. If it fails, each gets its own, so that nobody pays for a neighbour's error."""
        if not batch:
            return
        try:
            # Taking the lock first: a deferred transaction that reads and then writes fails at once when another
            # process has committed in between, whatever the busy timeout.
            self._connection.execute("BEGIN IMMEDIATE")
        except Exception as error:
            for write in batch:
                write.outcome.set_exception(explain(error, self._path))
            return
        try:
            results = [write.work(self._connection) for write in batch]
            self._connection.execute("COMMIT")
        except BaseException as error:
            # A full disk ends the transaction by itself.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            if len(batch) > 1:
                for write in batch:
                    self._commit([write])
            else:
                batch[0].outcome.set_exception(explain(error, self._path) if isinstance(error, Exception) else error)
            return
        for write, result in zip(batch, results, strict=True):
            write.outcome.set_result(result)

    def _finish(self) -> None:
        self._commit_pending()
        with self._one_thread:
            try:
                # Another process may be reading; the log is then its business, and waiting for it would only hold
                # up the shutdown.
                self._connection.execute("PRAGMA busy_timeout=0")
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            except sqlite3.Error:
                pass
            self._connection.close()


class Reader:
    """The way to read: one connection that cannot write, one thread at a time, each read a snapshot.

    Args:
        connection: a connection of `connect`, given away.
        path: the file's name for error texts.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._thread = anyio.CapacityLimiter(1)
        self._one_thread = threading.Lock()

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do `work` on one consistent state of the file, later commits not mixed in.

        Raises:
            StoreError: the file cannot be read.
        """
        return await anyio.to_thread.run_sync(self._read, work, limiter=self._thread)

    async def aclose(self) -> None:
        """Wait for the read under way and close."""
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._finish, limiter=self._thread)

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._one_thread:
            try:
                self._connection.execute("BEGIN")
                try:
                    return work(self._connection)
                finally:
                    if self._connection.in_transaction:
                        self._connection.execute("ROLLBACK")
            except Exception as error:
                explained = explain(error, self._path)
                if explained is error:
                    raise
                raise explained from error

    def _finish(self) -> None:
        with self._one_thread:
            self._connection.close()
