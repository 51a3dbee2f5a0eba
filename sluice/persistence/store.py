"""The session store: what a process must remember, in one SQLite file that other processes may use too.

Reads and writes run in threads on separate connections (see `connection`); every method may be called from any task
of the event loop the store was opened in, asyncio or trio.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Unpack

import anyio
import anyio.to_thread

from sluice.persistence import items as history
from sluice.persistence import sessions
from sluice.persistence.connection import BUSY_TIMEOUT, Reader, Writer, connect
from sluice.persistence.errors import BadCursor, StoreError, UnknownSession, explain
from sluice.persistence.records import Item, SessionRecord

__all__ = ["PAGE", "BadCursor", "Store", "StoreError", "UnknownSession"]

PAGE = 50
"""Entries of a page of sessions, at most (session.list.page-size)."""


class Store:
    """An open store. Made by `open`, ended by `aclose`; every method may raise StoreError."""

    def __init__(self, path: Path, writer: Writer, reader: Reader) -> None:
        self.path = path
        self._writer = writer
        self._reader = reader

    @classmethod
    async def open(cls, path: Path, *, busy_timeout: float = BUSY_TIMEOUT) -> Store:
        """Open the file, making it and missing directories (both private to the user), and bring it up to date.

        Args:
            path: the database file; relative to the current directory.
            busy_timeout: seconds to wait for a lock of another process.

        Raises:
            StoreError: it cannot be opened and written, is damaged, or is of a newer version.
        """
        # Shielded: a connection that nobody gets to know of could not be closed. Bounded by the busy timeout.
        with anyio.CancelScope(shield=True):
            found, writing, reading = await anyio.to_thread.run_sync(_open, path, busy_timeout)
        return cls(found, Writer(writing, found), Reader(reading, found))

    async def add_session(self, record: SessionRecord) -> None:
        """Store a new session. `created_at` is kept to the microsecond.

        Raises:
            StoreError: the id is taken; UnknownSession: the parent is not stored.
        """
        await self._writer.run(lambda connection: sessions.insert_session(connection, record))

    async def session(self, session_id: str) -> SessionRecord | None:
        """Read a session's summary, None when it is unknown. Reads no messages."""
        return await self._reader.run(lambda connection: sessions.find_session(connection, session_id))

    async def update_session(self, session_id: str, **changes: Unpack[sessions.SessionChanges]) -> None:
        """Change some of a session's columns.

        Raises:
            UnknownSession: there is no such session.
            TypeError: a column that does not exist or may not change.
        """
        await self._writer.run(lambda connection: sessions.update_session(connection, session_id, changes))

    async def list_sessions(
        self, *, cwd: str | None = None, cursor: str | None = None, limit: int = PAGE
    ) -> tuple[list[SessionRecord], str | None]:
        """Read a page of root sessions that have an absolute workspace, newest first, equal times by id.

        Nothing is frozen between pages: what is added or deleted meanwhile may show, what stays is seen exactly once.

        Args:
            cwd: only sessions whose stored workspace is exactly this string; None for all.
            cursor: what the previous page returned, None for the first page.
            limit: entries of this page.

        Returns:
            The entries, and the cursor of the next page or None after the last.

        Raises:
            BadCursor: the cursor is malformed, of another store or of another filter.
        """
        return await self._reader.run(lambda connection: sessions.list_page(connection, cwd, cursor, limit))

    async def ancestors(self, session_id: str) -> list[str]:
        """Give the ids from the parent up to the root; none for a root or an unknown id."""
        return await self._reader.run(lambda connection: sessions.ancestors(connection, session_id))

    async def descendants(self, session_id: str) -> list[str]:
        """Give the ids of all sessions below this one, parents before children; none for an unknown id."""
        return await self._reader.run(lambda connection: sessions.descendants(connection, session_id))

    async def append(self, session_id: str, items: Sequence[Item]) -> list[int]:
        """Store items behind the session's last one, all or none; on return they survive the process.

        Returns:
            Their positions: from 0, without gaps, never given twice.

        Raises:
            UnknownSession: there is no such session.
        """
        rows = [history.dump_item(item) for item in items]
        return await self._writer.run(lambda connection: history.append_items(connection, session_id, rows))

    async def items(self, session_id: str, *, media_limit: int | None = None) -> list[Item]:
        """Read the whole history in stored order, as it is at one moment.

        Args:
            session_id: the session; an unknown one has no items.
            media_limit: bytes; bigger stored binaries are left out unread (`data` is empty, `size` stays). None
                leaves nothing out. Binaries that lie in the item itself (up to 1 KiB of base64) always come.

        Raises:
            StoreError: kind corrupt when a row cannot be understood.
        """
        return await self._reader.run(partial(history.load_items, session_id=session_id, media_limit=media_limit))

    async def delete_tree(self, session_id: str) -> bool:
        """Remove a session, its descendants, their items and binaries in one transaction.

        Returns:
            False when there was no such session, which is no error.
        """
        return await self._writer.run(lambda connection: sessions.delete_tree(connection, session_id))

    async def aclose(self) -> None:
        """Finish the writes that were handed over, fold the log into the file, close. May be called again."""
        await self._reader.aclose()
        await self._writer.aclose()


def _open(path: Path, busy_timeout: float) -> tuple[Path, sqlite3.Connection, sqlite3.Connection]:
    from sluice.persistence.migrations import migrate

    path = path.absolute()
    opened: list[sqlite3.Connection] = []
    try:
        _make_private(path)
        opened.append(connect(path, busy_timeout))
        migrate(opened[0], path)
        # On a read-only file SQLite lets even BEGIN IMMEDIATE pass. A statement that could write is refused, although
        # it writes nothing: better now than at the first reply of a model.
        opened[0].execute("DELETE FROM sessions WHERE 0")
        opened.append(connect(path, busy_timeout))
        opened[1].execute("PRAGMA query_only=ON")
    except BaseException as error:
        for connection in opened:
            connection.close()
        if isinstance(error, Exception) and (explained := explain(error, path)) is not error:
            raise explained from error
        raise
    return path, opened[0], opened[1]


def _make_private(path: Path) -> None:
    """Make the file and the directories above it that do not exist, for this user only; leave the others alone."""
    missing = [place for place in path.parents if not place.exists()]
    for place in reversed(missing):
        place.mkdir(mode=0o700, exist_ok=True)
    # SQLite would make the file with the umask's mode; conversations are nobody else's business. Its neighbours
    # (-wal, -shm) take the mode of the file.
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
