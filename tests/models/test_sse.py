from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.models.sse import EventSplitter, EventTooLarge
from tests.models.helpers import cut

STREAM = (
    ": keep-alive\n\n"
    'data: {"a": "é"}\n\n'
    "event: x\r\nid: 1\r\ndata: one\r\ndata:two\r\n\r\n"
    "\n\n"
    "data:\n\n"
    "data: [DONE]\n\n"
).encode()
EVENTS = ['{"a": "é"}'.encode(), b"one\ntwo", b"", b"[DONE]"]


def events(pieces: list[bytes]) -> list[bytes]:
    splitter = EventSplitter()
    found = [event for piece in pieces for event in splitter.feed(piece)]
    assert splitter.end() is None
    return found


def test_a_stream_cut_at_every_byte_gives_the_same_events() -> None:
    for at in range(len(STREAM) + 1):
        assert events(cut(STREAM, [at])) == EVENTS
    assert events([bytes([byte]) for byte in STREAM]) == EVENTS


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_a_stream_cut_anywhere_gives_the_same_events(cuts: list[int]) -> None:
    assert events(cut(STREAM, cuts)) == EVENTS


def test_an_event_without_its_blank_line_is_told_at_the_end() -> None:
    splitter = EventSplitter()
    assert list(splitter.feed(b"data: a\n\ndata: b")) == [b"a"]
    assert splitter.end() == b"b"
    assert splitter.end() is None


def test_an_endless_line_is_refused_in_bounded_memory() -> None:
    splitter = EventSplitter(max_event=100)
    with pytest.raises(EventTooLarge):
        for _ in range(11):
            list(splitter.feed(b"x" * 10))


def test_endless_data_lines_without_an_end_are_refused() -> None:
    splitter = EventSplitter(max_event=100)
    with pytest.raises(EventTooLarge):
        for _ in range(50):
            list(splitter.feed(b"data: x\n"))


def test_many_events_under_the_limit_are_no_reason_to_refuse() -> None:
    splitter = EventSplitter(max_event=100)
    assert [len(event) for _ in range(50) for event in splitter.feed(b"data: " + b"x" * 60 + b"\n\n")] == [60] * 50
    for _ in range(100):
        assert list(splitter.feed(b"data: ")) == []
        assert list(splitter.feed(b"yy\n\n")) == [b"yy"]
