"""A small web site on the loopback for tests of what is fetched."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

__all__ = ["Site", "site"]


@dataclass
class Site:
    """A site that is being served; `pages` may change. `requests` are the headers of each request so far, with
    its first line under the empty name; `any_page` answers every path that is no page.
    """

    port: int
    pages: dict[str, bytes | str]
    type: str
    extra: str
    any_page: bytes | None = None
    bodies: list[bytes] = field(default_factory=list)
    requests: list[dict[str, str]] = field(default_factory=list)

    async def answer(self, stream: SocketStream) -> None:
        """One request of one connection: bytes are a page, a text is where it redirects to."""
        async with stream:
            try:
                reader = BufferedByteReceiveStream(stream)
                head = await reader.receive_until(b"\r\n\r\n", 65536)
                first, *lines = head.decode().split("\r\n")
                split = (line.partition(":") for line in lines)
                headers = {name.lower(): value.strip() for name, _, value in split}
                self.requests.append({**headers, "": first.removesuffix(" HTTP/1.1")})
                self.bodies.append(await reader.receive_exactly(int(headers.get("content-length", 0))))
                await stream.send(self._reply(first.split()[1]))
            except (anyio.BrokenResourceError, anyio.IncompleteRead):
                pass  # the caller has had enough

    def _reply(self, path: str) -> bytes:
        page = self.pages.get(path, self.any_page)
        if page is None:
            return b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        if isinstance(page, str):
            head = f"HTTP/1.1 302 Found\r\nlocation: {page}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            return head.encode()
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {self.type}\r\ncontent-length: {len(page)}\r\n{self.extra}"
        return f"{head}connection: close\r\n\r\n".encode() + page


@asynccontextmanager
async def site(
    pages: Mapping[str, bytes | str], *, type_: str = "text/plain", extra: str = "", any_page: bytes | None = None
) -> AsyncIterator[Site]:
    """Serve pages on 127.0.0.1; `extra` are further header lines of a page, `any_page` answers every other path."""
    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        served = Site(listener.extra(SocketAttribute.local_port), dict(pages), type_, extra, any_page)
        tasks.start_soon(listener.serve, served.answer)
        yield served
        tasks.cancel_scope.cancel()
