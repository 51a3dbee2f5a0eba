"""Stores with something in them, made through the store's own door."""

from __future__ import annotations

import uuid
from pathlib import Path

from sluice.persistence.records import Item, Message, Part, SessionRecord
from sluice.persistence.store import Store


async def fill(path: Path, cwd: str, number: int) -> None:
    """A store with `number` sessions; the store is made by us, the rows by one statement, for speed."""
    import sqlite3

    store = await Store.open(path)
    await store.add_session(SessionRecord("first", 1_700_000_000.0, cwd=cwd, title="first"))
    await store.aclose()
    with sqlite3.connect(path) as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(sessions)")]
        source = {"id": "lower(hex(randomblob(16)))", "created_at": "created_at + n.value * 1000000"}
        chosen = ", ".join(source.get(column, column) for column in columns)
        numbers = "WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < ?)"
        insert = f"INSERT INTO sessions ({', '.join(columns)}) SELECT {chosen} FROM sessions, n WHERE id = 'first'"
        connection.execute(f"{numbers} {insert}", (number - 1,))


async def long_session(path: Path, cwd: str, items: int) -> str:
    """A store with one session of `items` items, half of them replies; returns its id."""
    session = uuid.uuid4().hex
    store = await Store.open(path)
    await store.add_session(SessionRecord(session, 1_700_000_000.0, cwd=cwd))
    roles = ("user", "assistant")
    made = [
        Item("message", Message(roles[n % 2], (Part("text", f"Message {n} with a few words in it."),), id=f"m{n}"))
        for n in range(items)
    ]
    for start in range(0, items, 500):
        await store.append(session, made[start : start + 500])
    await store.aclose()
    return session
