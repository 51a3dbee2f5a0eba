"""The cursor: read back by whoever wrote it, refused in every other case."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.persistence.cursor import decode_cursor, encode_cursor
from sluice.persistence.errors import BadCursor

KEY = b"k" * 16
TIMES = st.integers(min_value=-(2**60), max_value=2**60)
FILTERS = st.none() | st.text()


@given(cwd=FILTERS, created_at=TIMES, session_id=st.text())
def test_what_was_encoded_is_decoded(cwd: str | None, created_at: int, session_id: str) -> None:
    cursor = encode_cursor(KEY, cwd, created_at, session_id)
    assert decode_cursor(KEY, cwd, cursor) == (created_at, session_id)
    assert cursor.isascii()


@pytest.mark.requirement("session.list.bad-cursor")
@given(cwd=FILTERS, other=FILTERS, created_at=TIMES)
def test_a_cursor_is_good_for_its_own_filter_only(cwd: str | None, other: str | None, created_at: int) -> None:
    cursor = encode_cursor(KEY, cwd, created_at, "id")
    if cwd == other:
        assert decode_cursor(KEY, other, cursor)
    else:
        with pytest.raises(BadCursor):
            decode_cursor(KEY, other, cursor)


@pytest.mark.requirement("session.list.bad-cursor")
def test_a_cursor_of_another_store_is_refused() -> None:
    with pytest.raises(BadCursor):
        decode_cursor(b"other" * 3, None, encode_cursor(KEY, None, 1, "id"))


@pytest.mark.requirement("session.list.bad-cursor")
@given(st.text() | st.text("abcdefAB0123_-="))
def test_anything_else_is_refused(cursor: str) -> None:
    with pytest.raises(BadCursor):
        decode_cursor(KEY, None, cursor)


@given(st.data())
def test_a_changed_cursor_is_refused(data: st.DataObject) -> None:
    cursor = encode_cursor(KEY, "/w", 17, "some-id")
    at = data.draw(st.integers(0, len(cursor) - 2))
    letter = data.draw(st.sampled_from("ABCdef012-_").filter(lambda other: other != cursor[at]))
    with pytest.raises(BadCursor):
        decode_cursor(KEY, "/w", cursor[:at] + letter + cursor[at + 1 :])
