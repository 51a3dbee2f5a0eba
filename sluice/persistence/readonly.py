"""A store looked at by a command: nothing is made, migrated or written, and an agent may go on using the file.

Blocking, for commands that have nothing else to do.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from sluice.persistence import items as history
from sluice.persistence import sessions
from sluice.persistence.errors import StoreError, explain
from sluice.persistence.migrations import MIGRATIONS
from sluice.persistence.records import Item, SessionRecord

__all__ = ["StoredSessions"]

_PAGE = 500
"""Sessions read at once."""


class StoredSessions:
    """The sessions of a store; made by `open`."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[StoredSessions]:
        """Open a store that exists; what is read within is the state of one moment.

        Raises:
            StoreError: it does not exist, cannot be read, or is not of this version.
        """
        path = path.absolute()
        if not path.exists():
            raise StoreError(f"there is no session store at {path} yet", "unreadable")
        connection: sqlite3.Connection | None = None
        try:
            # Beside a store in WAL mode SQLite makes the files of its log and leaves them, empty, to the next agent;
            # the store itself stays as it is.
            connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, isolation_level=None)
            connection.execute("BEGIN")
            _check_version(connection, path)
            yield cls(path, connection)
        except sqlite3.Error as error:
            raise explain(error, path) from error
        finally:
            if connection is not None:
                connection.close()

    def sessions(self, cwd: str | None = None) -> Iterator[SessionRecord]:
        """The root sessions with an absolute workspace, newest first.

        Args:
            cwd: only those of exactly this workspace; None for all.
        """
        cursor: str | None = None
        while True:
            page, cursor = sessions.list_page(self._connection, cwd, cursor, _PAGE)
            yield from page
            if cursor is None:
                return

    def find(self, wanted: str) -> SessionRecord:
        """The session with this id, children included, or the one listed whose id begins so.

        Raises:
            StoreError: none fits, or several do.
        """
        exact = sessions.find_session(self._connection, wanted)
        if exact is not None:
            return exact
        fitting = [record for record in self.sessions() if wanted and record.id.startswith(wanted)]
        if len(fitting) == 1:
            return fitting[0]
        found = f"{len(fitting)} sessions begin" if fitting else "no session begins"
        raise StoreError(f"{found} with {wanted!r} in {self.path}")

    def items(self, session_id: str) -> list[Item]:
        """The whole history of a session, binaries included, in stored order."""
        return history.load_items(self._connection, session_id)

    def descendants(self, session_id: str) -> list[SessionRecord]:
        """The sessions below this one, parents before children."""
        found = (
            sessions.find_session(self._connection, each)
            for each in sessions.descendants(self._connection, session_id)
        )
        return [record for record in found if record is not None]


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    """Compare the steps the file has taken with those this version knows.

    Raises:
        StoreError: they differ, or the file is no session store.
    """
    query = "SELECT name FROM sqlite_master WHERE type = 'table'"
    tables = {name for (name,) in connection.execute(query)}
    if "_sqlite_migrations" not in tables:
        raise StoreError(f"{path} is no session store; name another file")
    taken = {name for (name,) in connection.execute("SELECT name FROM _sqlite_migrations")}
    known = [migration.name for migration in MIGRATIONS]
    if newer := taken - set(known):
        raise StoreError(f"{path} was written by a newer Sluice (it has {max(newer)!r}); update Sluice", "newer")
    if set(known) - taken:
        raise StoreError(
            f"{path} was written by an older Sluice; `sluice serve` or `sluice run` brings it up to date"
        )
