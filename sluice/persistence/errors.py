"""What goes wrong in the store, said in one line that names the file and the way out.

Exception
├── StoreError            the file, the disk or another process: nothing the caller did
│   └── UnknownSession    a write named a session that is not (or no longer) stored
└── ValueError
    └── BadCursor         a page was asked for with a cursor this listing never gave out
"""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path
from typing import Literal

__all__ = ["BadCursor", "Kind", "StoreError", "UnknownSession", "explain"]

Kind = Literal["locked", "read_only", "full", "corrupt", "newer", "unreadable", "other"]


class StoreError(Exception):
    """The store cannot do what was asked; nothing of the failed write was kept.

    Attributes:
        text: one line for a person: which file, what is wrong, what to do.
        kind: locked (another process holds the write lock beyond the busy timeout: try again), read_only, full,
            corrupt, newer (written by a later Sluice), unreadable (cannot be opened at all) or other.
    """

    def __init__(self, text: str, kind: Kind = "other") -> None:
        super().__init__(text)
        self.text = text
        self.kind: Kind = kind


class UnknownSession(StoreError):
    """A write named a session that is not in the store, for instance because it was deleted meanwhile."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"session {session_id!r} is not in the store; start or load another one")
        self.session_id = session_id


class BadCursor(ValueError):
    """The cursor is malformed, of another store, or was given out for another filter."""


# SQLite's primary result code (the low byte of the extended one) -> kind and the rest of the sentence.
_EXPLAINED: dict[int, tuple[Kind, str]] = {
    sqlite3.SQLITE_BUSY: ("locked", "is locked by another process; try again when that one is done"),
    sqlite3.SQLITE_LOCKED: ("locked", "is locked by another process; try again when that one is done"),
    sqlite3.SQLITE_READONLY: ("read_only", "cannot be written; check the permissions of the file and its directory"),
    sqlite3.SQLITE_PERM: ("unreadable", "may not be opened; check the permissions of the file and its directory"),
    sqlite3.SQLITE_FULL: ("full", "cannot grow because the disk or a quota is full; free some space and try again"),
    sqlite3.SQLITE_CORRUPT: ("corrupt", "is damaged; move it away or restore a copy, then start again"),
    sqlite3.SQLITE_NOTADB: ("corrupt", "is not a session store; name another file or move it away"),
    sqlite3.SQLITE_CANTOPEN: ("unreadable", "cannot be opened; check the path and its permissions"),
    sqlite3.SQLITE_IOERR: ("other", "could not be read or written; check the disk it lies on and its free space"),
}


def explain(error: Exception, path: Path) -> Exception:
    """Say what an error of SQLite or of the file system means for the store at `path`.

    Returns:
        A StoreError for what the database or the operating system reported; any other exception (a wrong argument,
        an UnknownSession) as it is.
    """
    if isinstance(error, sqlite3.ProgrammingError) and "closed database" in str(error):
        return StoreError(f"the session store {path} is closed; open it again")
    if isinstance(error, sqlite3.Error):
        return _explain_sqlite(error, path)
    if isinstance(error, OSError):
        return _explain_os(error, path)
    return error


def _explain_sqlite(error: sqlite3.Error, path: Path) -> StoreError:
    # Errors raised by the module itself (wrong parameter types and the like) carry no result code.
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return StoreError(f"the session store {path} refused a statement: {error}")
    primary = code & 0xFF
    if primary == sqlite3.SQLITE_CANTOPEN and _only_readable(path):
        # A store in WAL mode needs its -wal and -shm neighbours; where they cannot be made, SQLite reports that it
        # "cannot open" a file that is there and readable.
        primary = sqlite3.SQLITE_READONLY
    kind, rest = _EXPLAINED.get(primary, ("other", f"failed: {error}"))
    return StoreError(f"the session store {path} {rest}", kind)


def _explain_os(error: OSError, path: Path) -> StoreError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        kind, rest = _EXPLAINED[sqlite3.SQLITE_FULL]
    elif error.errno == errno.EROFS or (error.errno == errno.EACCES and _may_only_look(path.parent)):
        kind, rest = _EXPLAINED[sqlite3.SQLITE_READONLY]
    else:
        kind, rest = "unreadable", f"cannot be opened ({error.strerror or error}); check the path or name another"
    return StoreError(f"the session store {path} {rest}", kind)


def _may_only_look(directory: Path) -> bool:
    """Whether the nearest directory that exists may be entered but not written."""
    existing = next((place for place in (directory, *directory.parents) if os.access(place, os.F_OK)), directory)
    return _may(existing, os.X_OK) and not _may(existing, os.W_OK)


def _only_readable(path: Path) -> bool:
    return _may(path, os.R_OK) and not (_may(path, os.W_OK) and _may(path.parent, os.W_OK))


def _may(path: Path, what: int) -> bool:
    return os.access(path, what, effective_ids=os.access in os.supports_effective_ids)
