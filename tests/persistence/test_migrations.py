"""Steps forward: each once, each whole, and never a guess about a file from the future."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sluice.persistence.connection import connect
from sluice.persistence.errors import StoreError
from sluice.persistence.migrations import MIGRATIONS, Migration, migrate

if TYPE_CHECKING:
    from sqlite_utils.db import Database

pytestmark = pytest.mark.requirement("store.engine.migrations")


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    opened = connect(path)
    yield opened
    opened.close()


def taken(connection: sqlite3.Connection) -> list[str]:
    return [row[0] for row in connection.execute("SELECT name FROM _sqlite_migrations ORDER BY id")]


def tables(connection: sqlite3.Connection) -> set[str]:
    return {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def _extra(db: Database) -> None:
    db.execute("ALTER TABLE sessions ADD COLUMN extra TEXT")


def _interrupted(db: Database) -> None:
    db.execute("CREATE TABLE half_done(id INTEGER)")
    raise KeyboardInterrupt


def test_the_released_steps_are_numbered_in_order() -> None:
    names = [migration.name for migration in MIGRATIONS]
    assert [int(name.split("_")[0]) for name in names] == list(range(1, len(names) + 1))


def test_a_new_file_takes_every_step_once_and_records_each(path: Path, connection: sqlite3.Connection) -> None:
    migrate(connection, path)
    before = taken(connection)
    assert before == [migration.name for migration in MIGRATIONS]
    migrate(connection, path)
    assert taken(connection) == before


def test_an_older_file_is_brought_forward_and_keeps_its_rows(path: Path, connection: sqlite3.Connection) -> None:
    migrate(connection, path, MIGRATIONS[:1])
    assert tables(connection) == {"_sqlite_migrations", "sessions"}
    connection.execute(
        "INSERT INTO sessions VALUES ('old', 1, '/w', NULL, NULL, '', '', '{}', '[]', 0, 0.0)",
    )
    migrate(connection, path, [*MIGRATIONS, Migration("900_extra", _extra)])
    assert connection.execute("SELECT id, extra FROM sessions").fetchall() == [("old", None)]
    assert taken(connection)[-1] == "900_extra"


def test_every_table_of_ours_is_strict(path: Path, connection: sqlite3.Connection) -> None:
    migrate(connection, path)
    strict = {row[0] for row in connection.execute("SELECT name FROM pragma_table_list WHERE strict")}
    assert strict == tables(connection) - {"_sqlite_migrations"}
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute("INSERT INTO media VALUES ('s', 'no number', 0, x'00')")


def test_an_interrupted_step_leaves_no_trace_and_is_taken_again(path: Path, connection: sqlite3.Connection) -> None:
    steps = [*MIGRATIONS, Migration("900_half", _interrupted), Migration("901_extra", _extra)]
    with pytest.raises(KeyboardInterrupt):
        migrate(connection, path, steps)
    assert taken(connection) == [migration.name for migration in MIGRATIONS]
    assert "half_done" not in tables(connection)
    steps[-2] = Migration("900_half", lambda db: None)
    migrate(connection, path, steps)
    assert taken(connection)[-2:] == ["900_half", "901_extra"]


def test_a_file_from_a_newer_version_is_refused_untouched(path: Path, connection: sqlite3.Connection) -> None:
    migrate(connection, path, [*MIGRATIONS, Migration("900_extra", _extra)])
    with pytest.raises(StoreError, match=r"newer Sluice.*900_extra.*update Sluice") as caught:
        migrate(connection, path)
    assert caught.value.kind == "newer"
    assert str(path) in caught.value.text
    assert taken(connection)[-1] == "900_extra"
    assert not connection.in_transaction


def test_a_database_of_another_program_is_left_alone(path: Path, connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE bookmarks(url TEXT)")
    with pytest.raises(StoreError, match="another program") as caught:
        migrate(connection, path)
    assert caught.value.kind == "other"
    assert tables(connection) == {"bookmarks"}
