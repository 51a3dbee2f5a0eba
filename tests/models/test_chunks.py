from __future__ import annotations

import h11
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.models.chunks import ChunkMerger
from tests.models.helpers import cut

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunked(*bodies: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(body), body) for body in bodies) + b"0\r\n\r\n"


def read(pieces: list[bytes]) -> tuple[list[bytes], bool]:
    """The body as the HTTP library reads it: its data events, and whether it ended well."""
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method="GET", target="/", headers=[("host", "x")]))
    client.send(h11.EndOfMessage())
    found: list[bytes] = []
    for piece in [*pieces, b""]:
        client.receive_data(piece)
        try:
            while (event := client.next_event()) is not h11.NEED_DATA:
                if isinstance(event, h11.Data):
                    found.append(bytes(event.data))
                if isinstance(event, h11.EndOfMessage):
                    return found, True
                if event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
                    return found, False
        except h11.RemoteProtocolError:
            return found, False
    return found, False


def merged(pieces: list[bytes]) -> list[bytes]:
    merger = ChunkMerger()
    fed = [out for piece in pieces if piece and (out := merger.feed(piece))]
    rest = merger.end()
    return [*fed, rest] if rest else fed


STREAMS = [
    HEAD + chunked(b"data: a\n\n", b"data: b\r\n\r\n", b"x" * 40),
    b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + chunked(b"ab", b"c"),
    HEAD + b"3;ext=1\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
    HEAD + b"2\r\nab\r\n3;ext=1\r\ncde\r\n0\r\n\r\n",
    HEAD + b"2\r\nab\r\n0\r\nTrailer: x\r\n\r\n",
    HEAD + b"0002\r\nab\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\n\r\nuntil the end",
    HEAD + b"2\r\nab\r\n5\r\nabc",
    HEAD + b"2\r\nabXX3\r\nabc\r\n0\r\n\r\n",
    HEAD + b"zz\r\nab\r\n",
    HEAD + b"2\r\nab\r\n12345678901234567890\r\n",
    HEAD[:40],
]


@pytest.mark.parametrize("stream", STREAMS)
def test_the_library_reads_the_same_body_however_the_stream_is_cut(stream: bytes) -> None:
    bodies, well = read([stream])
    whole = b"".join(bodies)
    for at in range(len(stream) + 1):
        pieces = cut(stream, [at])
        found, ended = read(merged(pieces))
        assert (b"".join(found), ended) == (whole, well)
    found, ended = read(merged([bytes([byte]) for byte in stream]))
    assert (b"".join(found), ended) == (whole, well)


@settings(max_examples=200)
@given(st.lists(st.binary(min_size=1, max_size=30), max_size=12), st.data())
def test_any_chunks_in_any_pieces_give_the_same_body(bodies: list[bytes], data: st.DataObject) -> None:
    stream = HEAD + chunked(*bodies)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=10))
    found, ended = read(merged(cut(stream, cuts)))
    assert (b"".join(found), ended) == (b"".join(bodies), True)


@given(st.binary(max_size=60), st.data())
def test_nonsense_is_never_taken_for_a_better_body_than_the_library_sees(tail: bytes, data: st.DataObject) -> None:
    stream = HEAD + b"2\r\nab\r\n" + tail
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=5))
    bodies, well = read([stream])
    found, ended = read(merged(cut(stream, cuts)))
    if well:
        assert (b"".join(found), ended) == (b"".join(bodies), True)
    else:
        assert not ended


def test_what_arrived_at_once_is_handed_on_as_one_chunk() -> None:
    merger = ChunkMerger()
    out = merger.feed(HEAD + chunked(*([b"data: x\n\n"] * 100)))
    found, ended = read([out])
    assert len(found) == 1
    assert ended


def test_nothing_but_an_unfinished_size_line_is_held_back() -> None:
    merger = ChunkMerger()
    merger.feed(HEAD)
    assert b"abc" in merger.feed(b"6\r\nabc")
    assert b"def" in merger.feed(b"def")
    assert merger.feed(b"\r") == b""
    assert merger.end() == b"\r"


def test_the_next_response_is_understood_again() -> None:
    merger = ChunkMerger()
    merger.feed(HEAD + chunked(b"a"))
    merger.reset()
    out = merger.feed(HEAD + chunked(b"b", b"c"))
    assert read([out]) == ([b"bc"], True)
