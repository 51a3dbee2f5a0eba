"""Every failure becomes one line that names the file, or stays what it was."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

import pytest

from sluice.persistence.errors import Kind, StoreError, UnknownSession, explain


def sqlite_error(code: int | None) -> sqlite3.Error:
    error = sqlite3.OperationalError("what SQLite said")
    if code is not None:
        error.sqlite_errorcode = code
    return error


SQLITE: list[tuple[int | None, Kind]] = [
    (sqlite3.SQLITE_BUSY, "locked"),
    (sqlite3.SQLITE_BUSY_SNAPSHOT, "locked"),
    (sqlite3.SQLITE_LOCKED, "locked"),
    (sqlite3.SQLITE_READONLY, "read_only"),
    (sqlite3.SQLITE_READONLY_DIRECTORY, "read_only"),
    (sqlite3.SQLITE_FULL, "full"),
    (sqlite3.SQLITE_CORRUPT, "corrupt"),
    (sqlite3.SQLITE_NOTADB, "corrupt"),
    (sqlite3.SQLITE_CANTOPEN, "unreadable"),
    (sqlite3.SQLITE_PERM, "unreadable"),
    (sqlite3.SQLITE_IOERR_READ, "other"),
    (sqlite3.SQLITE_ERROR, "other"),
    (None, "other"),
]
SYSTEM: list[tuple[int, Kind]] = [
    (errno.ENOSPC, "full"),
    (errno.EDQUOT, "full"),
    (errno.EROFS, "read_only"),
    (errno.ENOTDIR, "unreadable"),
    (errno.ENAMETOOLONG, "unreadable"),
]


@pytest.mark.parametrize(("code", "kind"), SQLITE)
def test_result_codes_of_sqlite_have_kinds(tmp_path: Path, code: int | None, kind: Kind) -> None:
    path = tmp_path / "session.db"
    explained = explain(sqlite_error(code), path)
    assert isinstance(explained, StoreError)
    assert explained.kind == kind
    assert str(path) in explained.text
    assert "\n" not in explained.text
    assert str(explained) == explained.text


@pytest.mark.parametrize(("code", "kind"), SYSTEM)
def test_errors_of_the_operating_system_have_kinds(tmp_path: Path, code: int, kind: Kind) -> None:
    explained = explain(OSError(code, "what the system said"), tmp_path / "session.db")
    assert isinstance(explained, StoreError)
    assert explained.kind == kind
    assert str(tmp_path) in explained.text


def test_a_closed_connection_is_a_closed_store(path: Path) -> None:
    connection = sqlite3.connect(":memory:")
    connection.close()
    with pytest.raises(sqlite3.ProgrammingError) as caught:
        connection.execute("SELECT 1")
    assert str(explain(caught.value, path)) == f"the session store {path} is closed; open it again"


@pytest.mark.parametrize("error", [ValueError("a wrong argument"), UnknownSession("s"), StoreError("said already")])
def test_what_is_not_about_the_file_stays_as_it_is(path: Path, error: Exception) -> None:
    assert explain(error, path) is error
