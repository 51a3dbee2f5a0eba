"""The summary rows: everything known of a session without its messages. Plain functions on a connection."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import Any, TypedDict

from sluice.persistence.cursor import decode_cursor, encode_cursor
from sluice.persistence.errors import StoreError, UnknownSession
from sluice.persistence.records import SessionRecord

__all__ = [
    "LISTED",
    "SessionChanges",
    "ancestors",
    "delete_tree",
    "descendants",
    "find_session",
    "insert_session",
    "list_page",
    "update_session",
]

LISTED = "parent_id IS NULL AND substr(cwd, 1, 1) = '/'"
"""What a listing shows: roots with an absolute workspace. The partial indexes carry the same condition, to the letter
(session.list.unknown-workspace-hidden)."""

_COLUMNS = "id, created_at, cwd, title, parent_id, mode, agent, model_overrides, grants, context_tokens, cost"

_TREE = """
WITH RECURSIVE tree(id, depth) AS (
    SELECT id, 1 FROM sessions WHERE parent_id = ?
    UNION SELECT child.id, depth + 1 FROM tree JOIN sessions AS child ON child.parent_id = tree.id
) SELECT id FROM tree ORDER BY depth, id
"""

_LINE = """
WITH RECURSIVE line(id, height) AS (
    SELECT parent_id, 1 FROM sessions WHERE id = ?
    UNION SELECT parent_id, height + 1 FROM line JOIN sessions USING (id)
) SELECT id FROM line WHERE id IS NOT NULL ORDER BY height
"""


class SessionChanges(TypedDict, total=False):
    """The columns that may change after a session was made; id, creation time and parent never do."""

    cwd: str | None
    title: str | None
    mode: str
    agent: str
    model_overrides: Mapping[str, str]
    grants: tuple[str, ...]
    context_tokens: int
    cost: float


def insert_session(connection: sqlite3.Connection, record: SessionRecord) -> None:
    """Write a new summary.

    Raises:
        StoreError: the id is taken, or UnknownSession: the parent is not stored.
    """
    if find_session(connection, record.id) is not None:
        raise StoreError(f"session {record.id!r} is in the store already; use another id")
    if record.parent_id is not None and find_session(connection, record.parent_id) is None:
        raise UnknownSession(record.parent_id)
    values = {**vars(record), "created_at": round(record.created_at * 1_000_000)}
    row = [_stored(values[name]) for name in _COLUMNS.split(", ")]
    connection.execute(f"INSERT INTO sessions({_COLUMNS}) VALUES ({', '.join('?' * len(row))})", row)


def find_session(connection: sqlite3.Connection, session_id: str) -> SessionRecord | None:
    """Read one summary, None when there is none."""
    row = connection.execute(f"SELECT {_COLUMNS} FROM sessions WHERE id = ?", [session_id]).fetchone()
    return None if row is None else _record(row)


def update_session(connection: sqlite3.Connection, session_id: str, changes: Mapping[str, Any]) -> None:
    """Change some columns of a summary; no changes is no write.

    Raises:
        TypeError: a name is not one of `SessionChanges`.
        UnknownSession: there is no such session.
    """
    unknown = changes.keys() - SessionChanges.__annotations__.keys()
    if unknown:
        raise TypeError(f"a stored session has no changeable {', '.join(sorted(unknown))}")
    if not changes:
        return
    assignments = ", ".join(f"{name} = ?" for name in changes)
    values = [*map(_stored, changes.values()), session_id]
    if connection.execute(f"UPDATE sessions SET {assignments} WHERE id = ?", values).rowcount == 0:
        raise UnknownSession(session_id)


def list_page(
    connection: sqlite3.Connection, cwd: str | None, cursor: str | None, limit: int
) -> tuple[list[SessionRecord], str | None]:
    """Read one page of root sessions, newest first, equal times by id ascending.

    A page is found by seeking in an index behind the previous page's last row, so its cost does not depend on how
    many sessions there are or how far the paging has come.

    Args:
        connection: one with a read transaction open.
        cwd: only sessions with exactly this workspace; None for all.
        cursor: what the previous page returned; None for the first.
        limit: rows of a page, at least 1.

    Returns:
        The page, and the cursor of the next one or None after the last.

    Raises:
        BadCursor: the cursor was not given out for this store and filter.
    """
    if limit < 1:
        raise ValueError("a page has at least one entry")
    key: bytes = connection.execute("SELECT key FROM store_key").fetchone()[0]
    rows: list[tuple[Any, ...]] = []
    wanted = limit + 1
    if cursor is None:
        rows += _seek(connection, cwd, "", [], wanted)
    else:
        created_at, session_id = decode_cursor(key, cwd, cursor)
        # Two plain seeks rather than one OR: first the rest of that microsecond, then everything older.
        rows += _seek(connection, cwd, "AND created_at = ? AND id > ?", [created_at, session_id], wanted)
        if len(rows) < wanted:
            rows += _seek(connection, cwd, "AND created_at < ?", [created_at], wanted - len(rows))
    page = rows[:limit]
    following = encode_cursor(key, cwd, page[-1][1], page[-1][0]) if len(rows) > limit else None
    return [_record(row) for row in page], following


def _seek(
    connection: sqlite3.Connection, cwd: str | None, after: str, place: list[Any], limit: int
) -> list[tuple[Any, ...]]:
    # INDEXED BY: should the condition and the index ever drift apart, this fails instead of quietly scanning.
    index, which, chosen = (
        ("sessions_listed", "", []) if cwd is None else ("sessions_listed_by_cwd", "AND cwd = ?", [cwd])
    )
    query = (
        f"SELECT {_COLUMNS} FROM sessions INDEXED BY {index} WHERE {LISTED} {which} {after} "
        "ORDER BY created_at DESC, id LIMIT ?"
    )
    return connection.execute(query, [*chosen, *place, limit]).fetchall()


def ancestors(connection: sqlite3.Connection, session_id: str) -> list[str]:
    """Give the ids from the parent up to the root; none for a root or an unknown id."""
    return [row[0] for row in connection.execute(_LINE, [session_id])]


def descendants(connection: sqlite3.Connection, session_id: str) -> list[str]:
    """Give the ids of all sessions below this one, parents before their children; none for an unknown id."""
    return [row[0] for row in connection.execute(_TREE, [session_id])]


def delete_tree(connection: sqlite3.Connection, session_id: str) -> bool:
    """Remove a session and everything below it, items and binaries included, in the caller's transaction.

    Returns:
        False when there was no such session.
    """
    # Leaves first and by name, not by one cascading statement: SQLite refuses cascades deeper than 1000 levels.
    doomed = [session_id, *descendants(connection, session_id)]
    gone = connection.executemany("DELETE FROM sessions WHERE id = ?", [(one,) for one in reversed(doomed)])
    return gone.rowcount > 0


def _stored(value: object) -> object:
    if isinstance(value, Mapping):
        return json.dumps(dict(value))
    if isinstance(value, tuple | list):
        return json.dumps(list(value))
    if isinstance(value, str):
        # A lone surrogate cannot be stored as text; a title made from a provider's JSON may hold one.
        return value.encode("utf-8", "replace").decode()
    return value


def _record(row: tuple[Any, ...]) -> SessionRecord:
    values = dict(zip(_COLUMNS.split(", "), row, strict=True))
    values["created_at"] /= 1_000_000
    values["model_overrides"] = json.loads(values["model_overrides"])
    values["grants"] = tuple(json.loads(values["grants"]))
    return SessionRecord(**values)
