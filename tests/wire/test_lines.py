"""Where lines begin and end."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.wire.lines import MAX_LINE_BYTES, LineSplitter, Oversized

KIB = 1024
MIB = 1024 * KIB


def split(*chunks: bytes, limit: int = MAX_LINE_BYTES) -> list[bytes | Oversized]:
    splitter = LineSplitter(limit)
    lines = [line for chunk in chunks for line in splitter.feed(chunk)]
    return [*lines, *splitter.finish()]


@pytest.mark.requirement("transport.framing.lf-delimits")
def test_only_the_line_feed_byte_ends_a_line() -> None:
    inside = "a\rb\u2028c\u2029d\u0085e\x0bf\x0cg\x1ch".encode()
    assert split(inside + b"\nnext\n") == [inside, b"next"]


@pytest.mark.requirement("transport.framing.crlf-accepted")
def test_one_carriage_return_before_the_line_feed_is_removed() -> None:
    assert split(b"a\r\nb\r\r\n\r\nc\n") == [b"a", b"b\r", b"", b"c"]


def test_a_carriage_return_and_its_line_feed_may_come_apart() -> None:
    assert split(b"a\r", b"\nb\n") == [b"a", b"b"]


@pytest.mark.requirement("transport.framing.leading-bom")
def test_one_byte_order_mark_is_skipped_at_the_very_start_only() -> None:
    bom = b"\xef\xbb\xbf"
    assert split(bom + b"a\n" + bom + b"b\n") == [b"a", bom + b"b"]
    assert split(bom + bom + b"a\n") == [bom + b"a"]
    assert split(b"\n" + bom + b"a\n") == [b"", bom + b"a"]


@pytest.mark.requirement("transport.framing.leading-bom")
def test_a_byte_order_mark_that_arrives_byte_by_byte_is_skipped_too() -> None:
    assert split(b"\xef", b"\xbb", b"\xbf", b"a", b"\n") == [b"a"]


@pytest.mark.requirement("transport.framing.split-and-joined-reads")
def test_bytes_that_come_one_at_a_time_make_the_same_lines_as_all_at_once() -> None:
    data = b'{"a":1}\n\n{"b":2}\r\n{"c":3}'
    assert split(*(bytes([byte]) for byte in data)) == split(data) == [b'{"a":1}', b"", b'{"b":2}', b'{"c":3}']


@pytest.mark.requirement("transport.framing.unterminated-last-line")
def test_the_last_line_needs_no_line_feed() -> None:
    assert split(b"a\nb") == [b"a", b"b"]
    assert split(b"a\n") == [b"a"]
    assert split() == []


@pytest.mark.requirement("transport.limits.large-lines")
@pytest.mark.parametrize("size", [64 * KIB + 1, MIB, int(9.9 * MIB), 10 * MIB])
def test_long_lines_up_to_the_limit_are_accepted(size: int) -> None:
    line = b"x" * size
    data = line + b"\r\n"
    chunks = [data[start : start + 64 * KIB] for start in range(0, len(data), 64 * KIB)]
    assert split(*chunks) == [line]
    assert split(data) == [line]


@pytest.mark.requirement("transport.limits.inbound-ceiling")
def test_a_line_above_the_limit_is_never_held_and_the_next_line_is_read() -> None:
    splitter = LineSplitter()
    chunk = b"x" * (64 * KIB)
    most = 0
    for _ in range(11 * 16):
        assert list(splitter.feed(chunk)) == []
        most = max(most, splitter.held)
    assert most <= MAX_LINE_BYTES + 4
    assert splitter.held == 0
    assert list(splitter.feed(b"\nnext\n")) == [Oversized(11 * MIB), b"next"]


@pytest.mark.requirement("transport.limits.inbound-ceiling")
def test_one_byte_above_the_limit_is_too_long_however_it_arrives() -> None:
    for data in (b"x" * 11 + b"\n", b"x" * 11 + b"\r\n"):
        assert split(data, limit=10) == [Oversized(11)]
        assert split(*(bytes([byte]) for byte in data), limit=10) == [Oversized(11)]
    assert split(b"x" * 10 + b"\r\n", limit=10) == [b"x" * 10]
    assert split(b"x" * 12, limit=10) == [Oversized(12)]


pieces = st.lists(
    st.sampled_from([b"a", b"bc" * 4, b"\n", b"\r", b"\r\n", b"\xef\xbb\xbf", b"\xe2\x80\xa8"]), max_size=40
)


@pytest.mark.requirement("transport.framing.split-and-joined-reads")
@given(pieces=pieces, cuts=st.lists(st.integers(0, 400), max_size=20))
def test_any_chunking_gives_the_same_lines(pieces: list[bytes], cuts: list[int]) -> None:
    data = b"".join(pieces)
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    chunks = [data[start:end] for start, end in pairwise(edges)]

    def sizeless(lines: list[bytes | Oversized]) -> list[bytes | None]:
        return [None if isinstance(line, Oversized) else line for line in lines]

    for limit in (3, 10, 1000):
        assert sizeless(split(*chunks, limit=limit)) == sizeless(split(data, limit=limit))


@given(data=st.binary(max_size=300))
def test_lines_are_what_the_line_feed_separates(data: bytes) -> None:
    expected = data.split(b"\n")
    if not expected[-1]:
        expected.pop()
    expected = [line.removesuffix(b"\r") for line in expected]
    expected[:1] = [line.removeprefix(b"\xef\xbb\xbf") for line in expected[:1]]
    assert split(data) == expected
