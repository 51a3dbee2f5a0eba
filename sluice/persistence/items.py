"""The history rows: written at their positions, read back in order. Plain functions on a connection."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from sluice.persistence.codec import decode, encode
from sluice.persistence.errors import StoreError, UnknownSession
from sluice.persistence.media import join_media, split_media
from sluice.persistence.records import Item

__all__ = ["append_items", "dump_item", "load_items"]


def dump_item(item: Item) -> tuple[str, str, dict[int, bytes]]:
    """Give the stored form of an item: its kind, its JSON and its binaries by part index.

    The position is a column, never part of the JSON. Text that is not valid Unicode (a lone surrogate from a
    provider's JSON) is kept by escaping, at the price of a longer row.
    """
    lean, blobs = split_media(item)
    body = json.dumps(encode(replace(lean, position=-1)), ensure_ascii=False, separators=(",", ":"))
    try:
        body.encode()
    except UnicodeEncodeError:
        body = json.dumps(json.loads(body), separators=(",", ":"))
    return item.kind, body, blobs


def append_items(
    connection: sqlite3.Connection, session_id: str, rows: Sequence[tuple[str, str, dict[int, bytes]]]
) -> list[int]:
    """Write dumped items behind the last one of the session, inside the caller's write transaction.

    Returns:
        Their positions.

    Raises:
        UnknownSession: there is no such session.
    """
    if connection.execute("SELECT 1 FROM sessions WHERE id = ?", [session_id]).fetchone() is None:
        raise UnknownSession(session_id)
    # Items leave only with their whole session, so the highest position is also the last one ever given.
    query = "SELECT coalesce(max(position) + 1, 0) FROM session_items WHERE session_id = ?"
    first: int = connection.execute(query, [session_id]).fetchone()[0]
    connection.executemany(
        "INSERT INTO session_items(session_id, position, kind, body) VALUES (?, ?, ?, ?)",
        [(session_id, first + index, kind, body) for index, (kind, body, _) in enumerate(rows)],
    )
    connection.executemany(
        "INSERT INTO media(session_id, position, part, data) VALUES (?, ?, ?, ?)",
        [
            (session_id, first + index, part, blob)
            for index, (_, _, blobs) in enumerate(rows)
            for part, blob in blobs.items()
        ],
    )
    return list(range(first, first + len(rows)))


def load_items(connection: sqlite3.Connection, session_id: str, media_limit: int | None = None) -> list[Item]:
    """Read a session's items in stored order.

    Args:
        connection: one with a read transaction open, so that items and binaries are of one moment.
        session_id: the session; an unknown one has no items.
        media_limit: bytes; bigger binaries are not read and their parts have empty `data` (their `size` stays).
            None reads all.

    Raises:
        StoreError: kind corrupt when a row cannot be understood.
    """
    blobs: dict[int, dict[int, bytes]] = defaultdict(dict)
    query = "SELECT position, part, data FROM media WHERE session_id = ?1 AND (?2 IS NULL OR length(data) <= ?2)"
    for position, part, data in connection.execute(query, [session_id, media_limit]):
        blobs[position][part] = data
    query = "SELECT position, body FROM session_items WHERE session_id = ? ORDER BY position"
    return [
        join_media(_load(session_id, position, body), blobs.get(position, {}))
        for position, body in connection.execute(query, [session_id])
    ]


def _load(session_id: str, position: int, body: str) -> Item:
    try:
        return replace(decode(Item, json.loads(body)), position=position)
    except (ValueError, KeyError, TypeError, AttributeError):
        text = f"item {position} of session {session_id!r} cannot be read; delete the session or restore a copy"
        raise StoreError(text, "corrupt") from None
