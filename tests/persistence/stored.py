"""What the tests of the open store put into it, and how they count what is in the file."""

from __future__ import annotations

import base64

from sluice.persistence.records import Item, Message, Part, SessionRecord
from sluice.persistence.store import Store
from tests.persistence.conftest import Query

TABLES = ("sessions", "session_items", "media")


def message(text: str, media: int = 0) -> Item:
    image = Part("image", data=base64.b64encode(b"x" * media).decode(), size=media)
    return Item("message", message=Message("user", (Part("text", text), image) if media else (Part("text", text),)))


async def add(store: Store, session_id: str, parent_id: str | None = None, items: int = 0) -> None:
    await store.add_session(SessionRecord(session_id, 1.0, cwd="/work", parent_id=parent_id))
    if items:
        await store.append(session_id, [message(str(number), media=3000) for number in range(items)])


def rows(query: Query) -> list[int]:
    return [int(query(f"SELECT count(*) FROM {table}")[0][0]) for table in TABLES]
