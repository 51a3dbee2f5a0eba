"""Big binaries leave the item's JSON and come back exactly."""

from __future__ import annotations

import base64

from hypothesis import given
from hypothesis import strategies as st

from sluice.persistence.media import INLINE_LIMIT, join_media, split_media
from sluice.persistence.records import Item, Message, Part

BIG = INLINE_LIMIT


def item(*parts: Part) -> Item:
    return Item("message", message=Message("user", parts))


def image(data: bytes) -> Part:
    return Part("image", data=base64.b64encode(data).decode(), mime_type="image/png", size=len(data))


def test_only_big_binaries_are_taken_out() -> None:
    text, small, big = Part("text", text="x" * 5000), image(b"s" * 100), image(b"b" * BIG)
    lean, blobs = split_media(item(text, small, big))
    assert blobs == {2: b"b" * BIG}
    assert lean.message is not None
    assert lean.message.parts[:2] == (text, small)
    assert lean.message.parts[2] == Part("image", mime_type="image/png", size=BIG)
    assert join_media(lean, blobs) == item(text, small, big)


def test_data_that_is_not_exact_base64_stays_where_it_is() -> None:
    exact = base64.b64encode(b"b" * BIG).decode()
    loose_bits = exact[:-3] + "/=="  # the last character carries bits that decoding drops
    assert base64.b64decode(loose_bits)
    for data in ("!" * 2000, exact + "=", exact + "\n", "é" * 2000, loose_bits):
        kept = item(Part("image", data=data))
        assert split_media(kept) == (kept, {})


def test_items_without_message_have_no_media() -> None:
    error = Item("error", text="x" * 5000)
    assert split_media(error) == (error, {})
    assert join_media(error, {}) == error


@given(st.lists(st.binary(max_size=3) | st.binary(min_size=800, max_size=1000), max_size=4))
def test_joining_gives_back_what_was_split(contents: list[bytes]) -> None:
    whole = item(*map(image, contents))
    assert join_media(*split_media(whole)) == whole
