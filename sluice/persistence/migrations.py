"""The schema, as numbered steps; each step and the record that it was taken are one transaction.

A step never changes once released: a later one mends it. Names are `NNN_what`, in order; the number says how far a
file has come, and a name this version does not know means that a later Sluice wrote the file, which is then refused
rather than guessed at (store.engine.migrations).
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from sluice.persistence.errors import StoreError

if TYPE_CHECKING:
    from sqlite_utils import Migrations
    from sqlite_utils.db import Database, ForeignKey, Table

__all__ = ["MIGRATIONS", "Migration", "migrate"]

_SET = "sluice"


@dataclass(frozen=True, slots=True)
class Migration:
    """One step: its name as recorded in the file, and what it does to the schema (no transaction of its own)."""

    name: str
    apply: Callable[[Database], None]


def migrate(connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration] | None = None) -> None:
    """Bring the file forward to the newest known schema.

    The write lock is taken before looking at what is pending, so two processes that open one file at the same time
    take each step once: the second waits, then finds nothing to do. A step that is interrupted leaves no trace and is
    taken again by the next opening.

    Args:
        connection: a connection without open transaction, `isolation_level=None`.
        path: the file's name for error texts.
        migrations: the steps, in order; None means `MIGRATIONS`.

    Raises:
        StoreError: kind newer when the file holds a step that is not among `migrations`; kind other when the file is
            a database of something else.
        sqlite3.Error: what the database says, locked and read-only included.
    """
    from sqlite_utils import Database, Migrations

    known = MIGRATIONS if migrations is None else migrations
    database = Database(connection, execute_plugins=False)
    steps = Migrations(_SET)
    for migration in known:
        steps(name=migration.name)(migration.apply)
    while _step(database, steps, path, [migration.name for migration in known]):
        pass


def _step(database: Database, steps: Migrations, path: Path, known: list[str]) -> bool:
    """Take the next pending step in its own transaction; False when there was none."""
    connection = database.conn
    connection.execute("BEGIN IMMEDIATE")
    try:
        applied = [migration.name for migration in steps.applied(database)]
        _check_ours(database, applied, known, path)
        pending = [name for name in known if name not in applied]
        if pending:
            # sqlite-utils would take all of them; the second is the stop sign, so that each commits by itself.
            steps.apply(database, stop_before=pending[1:2])
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return bool(pending)


def _check_ours(database: Database, applied: list[str], known: list[str], path: Path) -> None:
    unknown = [name for name in applied if name not in known]
    if unknown:
        raise StoreError(
            f"the session store {path} was written by a newer Sluice (it has {unknown[-1]!r}); "
            "update Sluice or name another file",
            "newer",
        )
    if not applied and set(database.table_names()) - {"_sqlite_migrations"}:
        raise StoreError(f"{path} is a database of another program; name another file for the session store")


# --- the steps ---------------------------------------------------------------------------------------------------


def _sessions(db: Database) -> None:
    """Summaries, and the two orders they are listed in.

    `created_at` counts microseconds since the epoch: integers compare exactly, so a page's last row names its
    successor without doubt. The indexes hold just what may be listed, with the condition that `sessions.LISTED`
    repeats word for word, or SQLite would not use them.
    """
    table = _table(db, "sessions")
    columns = {
        "id": str,
        "created_at": int,
        "cwd": str,
        "title": str,
        "parent_id": str,
        "mode": str,
        "agent": str,
        "model_overrides": str,
        "grants": str,
        "context_tokens": int,
        "cost": float,
    }
    table.create(
        columns,
        pk="id",
        not_null=set(columns) - {"cwd", "title", "parent_id"},
        foreign_keys=[_cascade("sessions", ("parent_id",), "sessions", ("id",))],
        strict=True,
    )
    db.execute("CREATE INDEX sessions_parent ON sessions(parent_id) WHERE parent_id IS NOT NULL")
    listed = "WHERE parent_id IS NULL AND substr(cwd, 1, 1) = '/'"
    db.execute(f"CREATE INDEX sessions_listed ON sessions(created_at DESC, id) {listed}")
    db.execute(f"CREATE INDEX sessions_listed_by_cwd ON sessions(cwd, created_at DESC, id) {listed}")


def _items(db: Database) -> None:
    """The history: one row an item, in the order of `position`, gone with its session."""
    _table(db, "session_items").create(
        {"session_id": str, "position": int, "kind": str, "body": str},
        pk=("session_id", "position"),
        not_null={"session_id", "position", "kind", "body"},
        foreign_keys=[_cascade("session_items", ("session_id",), "sessions", ("id",))],
        strict=True,
    )


def _media(db: Database) -> None:
    """What is too big for an item's JSON: the decoded bytes of one part of one item's message."""
    _table(db, "media").create(
        {"session_id": str, "position": int, "part": int, "data": bytes},
        pk=("session_id", "position", "part"),
        not_null={"session_id", "position", "part", "data"},
        foreign_keys=[_cascade("media", ("session_id", "position"), "session_items", ("session_id", "position"))],
        strict=True,
    )


def _store_key(db: Database) -> None:
    """The key that marks this store's listing cursors; random, secret to nobody, different in every file."""
    table = _table(db, "store_key")
    table.create({"id": int, "key": bytes}, pk="id", not_null={"key"}, strict=True)
    db.execute("INSERT INTO store_key(id, key) VALUES (1, ?)", [secrets.token_bytes(16)])


def _table(db: Database, name: str) -> Table:
    return cast("Table", db[name])


def _cascade(table: str, columns: tuple[str, ...], other: str, other_columns: tuple[str, ...]) -> ForeignKey:
    from sqlite_utils.db import ForeignKey

    single = len(columns) == 1
    return ForeignKey(
        table,
        columns[0] if single else None,
        other,
        other_columns[0] if single else None,
        columns,
        other_columns,
        is_compound=not single,
        on_delete="CASCADE",
    )


MIGRATIONS: tuple[Migration, ...] = (
    Migration("001_sessions", _sessions),
    Migration("002_items", _items),
    Migration("003_media", _media),
    Migration("004_store_key", _store_key),
)
