"""How a request leaves: its head and its body in one piece, and nothing stays behind."""

from __future__ import annotations

import anyio
import httpx
import pytest
from anyio.abc import SocketAttribute, SocketStream

from sluice.models.http import new_client

pytestmark = pytest.mark.anyio

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok"


class Served:
    """A server that keeps the first piece of each connection and answers when the whole request is there."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    async def __call__(self, stream: SocketStream) -> None:
        async with stream:
            self.pieces.append(await stream.receive())
            await stream.send(ANSWER)


async def exchanged(body: bytes) -> bytes:
    """The first piece of a POST with this body, as the server got it."""
    served = Served()
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra(SocketAttribute.local_port)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, served)
            client = new_client(f"http://127.0.0.1:{port}/v1", 5.0)
            with anyio.fail_after(10):
                async with client:
                    response = await client.post(f"http://127.0.0.1:{port}/v1", content=body)
            assert (response.status_code, response.text) == (httpx.codes.OK, "ok")
            tasks.cancel_scope.cancel()
    return served.pieces[0]


async def test_the_head_and_the_body_of_a_request_come_in_one_piece() -> None:
    piece = await exchanged(b'{"model": "m"}')
    assert piece.startswith(b"POST /v1 HTTP/1.1\r\n")
    assert piece.endswith(b'\r\n\r\n{"model": "m"}')


async def test_the_head_of_a_request_without_a_body_is_sent_too() -> None:
    piece = await exchanged(b"")
    assert piece.startswith(b"POST /v1 HTTP/1.1\r\n")
    assert piece.endswith(b"\r\n\r\n")
