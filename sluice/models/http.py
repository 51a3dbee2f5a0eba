"""The HTTP client of the model providers: timeouts, certificates, and reads merged into few large pieces."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from sluice.models.chunks import ChunkMerger

if TYPE_CHECKING:
    import httpx

__all__ = ["CONNECT_TIMEOUT", "new_client"]

CONNECT_TIMEOUT = 15.0
"""Seconds to reach the server: a dead address should be told soon, a slow network still gets three SYN retries."""

WRITE_TIMEOUT = 60.0
"""Seconds without progress while sending the prompt; prompts with images take a while on a slow uplink."""

KEEP_ALIVE = 60.0
"""Seconds an idle connection is kept: tools run between two calls, and a new handshake costs a round trip or two."""

MAX_CONNECTIONS = 16
"""A turn makes one call at a time, and one for each task that it has handed out, up to a whole batch of them."""


def new_client(url: str, idle_timeout: float) -> httpx.AsyncClient:
    """A client for one server; nothing is connected yet. Loads httpx (about 80 ms), so not on the event loop.

    Args:
        url: the address it will be used for.
        idle_timeout: seconds of silence after which a read fails.
    """
    import httpx

    if urlsplit(url).scheme == "https":
        context = httpx.create_ssl_context()
    else:
        # Never used, but httpx wants one; empty, it trusts nobody and costs nothing to make.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    limits = httpx.Limits(max_connections=MAX_CONNECTIONS, keepalive_expiry=KEEP_ALIVE)
    transport = None
    if _on_this_machine(url) or not getproxies():
        # Given a transport, httpx no longer looks at the environment's proxies; where there are any, they win. A
        # proxy elsewhere cannot reach this machine's loopback, and must not see the embedded model's key.
        transport = httpx.AsyncHTTPTransport(verify=context, limits=limits)
        _merge_reads(transport)
    timeout = httpx.Timeout(idle_timeout, connect=CONNECT_TIMEOUT, write=WRITE_TIMEOUT, pool=None)
    return httpx.AsyncClient(
        timeout=timeout, verify=context, limits=limits, follow_redirects=False, transport=transport
    )


def _on_this_machine(url: str) -> bool:
    return urlsplit(url).hostname in ("127.0.0.1", "::1", "localhost")


def _merge_reads(transport: httpx.AsyncHTTPTransport) -> None:
    """Put the merging between the transport and the network.

    httpx has no public way to name a network backend. Should a later version keep it elsewhere, reads are just not
    merged: that is slower, and nothing else.
    """
    pool: Any = getattr(transport, "_pool", None)
    backend = getattr(pool, "_network_backend", None)
    if backend is not None:
        pool._network_backend = _Backend(backend)


class _Backend:
    """A network backend of the HTTP library whose connections merge what they read."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> _Stream:
        return _Stream(await self._backend.connect_tcp(host, port, timeout, local_address, socket_options))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


class _Stream:
    """A connection that merges what it reads, and the head of a request with its body.

    The library sends the two on their own, and the server is woken for a head that it can do nothing with. Everything
    else is left to the connection that is wrapped.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._merger = ChunkMerger()
        self._head = b""

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._head:  # of a request that had no body
            await self.write(b"", timeout)
        while True:
            data: bytes = await self._stream.read(max_bytes, timeout)
            if not data:
                return self._merger.end()
            if merged := self._merger.feed(data):
                return merged

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        # The answer to a request begins after the request was written: HTTP/1.1 without pipelining.
        self._merger.reset()
        if buffer.startswith(b"POST ") and buffer.endswith(b"\r\n\r\n"):
            self._head = buffer
            return
        head, self._head = self._head, b""
        await self._stream.write(head + buffer, timeout)

    async def start_tls(self, *arguments: Any, **named: Any) -> _Stream:
        return _Stream(await self._stream.start_tls(*arguments, **named))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
