"""The history rows on a real file: order, positions, and every record exactly as it was."""

from __future__ import annotations

import base64
import itertools
import sqlite3
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.persistence.connection import connect
from sluice.persistence.errors import StoreError, UnknownSession
from sluice.persistence.items import append_items, dump_item, load_items
from sluice.persistence.migrations import migrate
from sluice.persistence.records import Item, Message, Part, SessionRecord
from sluice.persistence.sessions import insert_session
from tests.persistence.strategies import ITEMS

FRESH = itertools.count()


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    path = tmp_path_factory.mktemp("items") / "session.db"
    opened = connect(path)
    migrate(opened, path)
    yield opened
    opened.close()


@pytest.fixture
def session_id(connection: sqlite3.Connection) -> str:
    return new_session(connection)


def new_session(connection: sqlite3.Connection) -> str:
    record = SessionRecord(f"s{next(FRESH)}", 1.0)
    insert_session(connection, record)
    return record.id


def append(connection: sqlite3.Connection, session_id: str, *items: Item) -> list[int]:
    return append_items(connection, session_id, [dump_item(item) for item in items])


def image(size: int, fill: bytes = b"x") -> Part:
    return Part("image", data=base64.b64encode(fill * size).decode(), mime_type="image/png", size=size)


@pytest.mark.requirement("store.items.kinds")
def test_all_kinds_come_back_in_the_order_they_were_stored(connection: sqlite3.Connection, session_id: str) -> None:
    items = [
        Item("message", message=Message("user", (Part("text", "hello"),))),
        Item("sub_session", session_id="child"),
        Item("error", text="it broke", code="model_error"),
        Item("summary", text="so far", first_kept=0),
        Item("termination", text="over budget"),
    ]
    positions = append(connection, session_id, *items[:2]) + append(connection, session_id, *items[2:])
    assert positions == [0, 1, 2, 3, 4]
    loaded = load_items(connection, session_id)
    assert [item.kind for item in loaded] == ["message", "sub_session", "error", "summary", "termination"]
    assert loaded == [Item(**{**vars(item), "position": index}) for index, item in enumerate(items)]


@given(items=st.lists(ITEMS, max_size=4))
def test_every_record_comes_back_as_it_was(connection: sqlite3.Connection, items: list[Item]) -> None:
    session_id = new_session(connection)
    positions = append(connection, session_id, *items)
    assert load_items(connection, session_id) == [
        Item(**{**vars(item), "position": position}) for item, position in zip(items, positions, strict=True)
    ]


def test_a_position_given_by_the_caller_is_not_believed(connection: sqlite3.Connection, session_id: str) -> None:
    assert append(connection, session_id, Item("error", position=7), Item("error", position=7)) == [0, 1]
    assert [item.position for item in load_items(connection, session_id)] == [0, 1]


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "nul \0 in between", "\U0001f600", "line\u2028end"])
def test_any_text_a_provider_can_send_is_kept(connection: sqlite3.Connection, session_id: str, text: str) -> None:
    append(connection, session_id, Item("error", text=text))
    assert load_items(connection, session_id)[0].text == text


def test_big_binaries_lie_decoded_in_a_table_of_their_own(connection: sqlite3.Connection, session_id: str) -> None:
    item = Item("message", message=Message("user", (Part("text", "see"), image(5000), image(10), image(9000, b"y"))))
    append(connection, session_id, Item("error"), item)
    rows = connection.execute("SELECT position, part, data FROM media WHERE session_id = ?", [session_id]).fetchall()
    assert rows == [(1, 1, b"x" * 5000), (1, 3, b"y" * 9000)]
    body = connection.execute("SELECT body FROM session_items WHERE session_id = ? AND position = 1", [session_id])
    assert len(body.fetchone()[0]) < 2000
    assert load_items(connection, session_id)[1].message == item.message


@pytest.mark.requirement("session.load.bounds.inline-512k")
def test_binaries_above_a_limit_are_left_out_unread_with_their_size_known(
    connection: sqlite3.Connection, session_id: str
) -> None:
    parts = (image(512 * 1024), image(512 * 1024 + 1))
    append(connection, session_id, Item("message", message=Message("user", parts)))
    message = load_items(connection, session_id, media_limit=512 * 1024)[0].message
    assert message is not None
    assert message.parts[0] == parts[0]
    assert (message.parts[1].data, message.parts[1].size) == ("", 512 * 1024 + 1)


@pytest.mark.requirement("store.items.keyed-by-session")
def test_items_belong_to_the_session_they_were_stored_under(connection: sqlite3.Connection) -> None:
    one, other = new_session(connection), new_session(connection)
    append(connection, one, Item("error", text="one"))
    assert append(connection, other, Item("error", text="other")) == [0]
    assert [item.text for item in load_items(connection, one)] == ["one"]
    assert load_items(connection, "unknown") == []


def test_nothing_can_be_stored_under_an_unknown_session(connection: sqlite3.Connection) -> None:
    for items in ([], [Item("error")]):
        with pytest.raises(UnknownSession, match="'nobody' is not in the store"):
            append(connection, "nobody", *items)


@pytest.mark.parametrize("body", ["", "no json", "[]", "3", "{}", '{"kind":"message","message":[1]}'])
def test_a_row_that_is_no_item_is_named(connection: sqlite3.Connection, session_id: str, body: str) -> None:
    append(connection, session_id, Item("error"), Item("error"))
    connection.execute("UPDATE session_items SET body = ? WHERE session_id = ? AND position = 1", [body, session_id])
    with pytest.raises(StoreError, match=f"item 1 of session '{session_id}' cannot be read") as caught:
        load_items(connection, session_id)
    assert caught.value.kind == "corrupt"
