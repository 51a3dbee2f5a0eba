"""`serve mcp --http`: Streamable HTTP without sessions, each answer one event, behind a door that checks who comes.

Requirements `serve-mcp.http.*`, `serve-mcp.auth.bearer`. Import this module where it is needed: it loads the MCP
library and an HTTP server.
"""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import logging
import socket
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import anyio
import uvicorn
from mcp.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings

__all__ = ["STOP_SECONDS", "Door", "HttpApp", "listen_on", "serve_http"]

PATHS = frozenset({"/mcp", "/"})

STOP_SECONDS = 5
"""How long requests may take to end when the server stops, in seconds; then they are cancelled, and settle."""

_JSON = b"application/json"
_EVENT_STREAM = b"text/event-stream"

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Door:
    """Who may come in. `token` None lets everybody in, which off this machine needs `insecure`."""

    token: str | None = field(default=None, repr=False)
    insecure: bool = False

    def admits(self, authorization: str) -> bool:
        """Whether a request with this Authorization header may come in; takes as long for every wrong token."""
        if self.token is None:
            return True
        scheme, _, given = authorization.partition(" ")
        same = hmac.compare_digest(given.strip().encode("utf-8", "replace"), self.token.encode())
        return same and scheme.lower() == "bearer"


def listen_on(address: str, door: Door) -> tuple[socket.socket, str]:
    """Open the listening socket.

    Args:
        address: `host:port`, `[ipv6]:port` or `:port`; port 0 takes a free one.
        door: who may come in.

    Returns:
        The socket, and the host as it goes into a URL.

    Raises:
        ValueError: the address is none, or it can be reached from other machines and anybody might come in.
        OSError: it cannot be listened on.
    """
    host, colon, port = address.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535 or (":" in bare and bare == host):
        raise ValueError(f"--listen {address}: expected host:port")
    if not _is_local(bare) and door.token is None and not door.insecure:
        raise ValueError(f"--listen {address} can be reached from other machines: give --auth-token")
    family = socket.AF_INET6 if ":" in bare else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((bare, int(port)))
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener, host or "0.0.0.0"


def _is_local(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # a name may be anything


class HttpApp:
    """The door and the shape of answers, in front of the MCP library's handling of one request."""

    def __init__(self, inner: Callable[[Scope, Receive, Send], Awaitable[None]], door: Door) -> None:
        self._inner = inner
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        assert scope["type"] == "http", "lifespan and websockets are switched off"
        headers = {key.lower(): value for key, value in scope["headers"]}
        if not self._door.admits(headers.get(b"authorization", b"").decode("latin-1")):
            await _plain(send, 401, b"unauthorized", (b"www-authenticate", b"Bearer"))
        elif scope["path"] not in PATHS:
            await _plain(send, 404, b"not found")
        elif scope["method"] != "POST":
            await _plain(send, 405, b"POST only", (b"allow", b"POST"))
        else:
            await self._inner(scope, receive, _as_events(send))


async def _plain(send: Send, status: int, text: bytes, *headers: tuple[bytes, bytes]) -> None:
    shape = [(b"content-type", b"text/plain"), (b"content-length", str(len(text)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": shape})
    await send({"type": "http.response.body", "body": text})


def _as_events(send: Send) -> Send:
    """Turn a successful JSON answer into one event, so that every answer comes in the same shape."""
    held: list[Message] = []
    body = bytearray()

    async def shaped(message: Message) -> None:
        if message["type"] == "http.response.start":
            kind = next((value for key, value in message["headers"] if key.lower() == b"content-type"), b"")
            if message["status"] == 200 and kind.startswith(_JSON):
                held.append(message)
                return
        elif held:
            body.extend(message.get("body", b""))
            if message.get("more_body"):
                return
            start = held.pop()
            kept = [pair for pair in start["headers"] if pair[0].lower() not in (b"content-type", b"content-length")]
            await send(
                {**start, "headers": [*kept, (b"content-type", _EVENT_STREAM), (b"cache-control", b"no-store")]}
            )
            message = {**message, "body": b"event: message\r\ndata: " + bytes(body) + b"\r\n\r\n"}
        await send(message)

    return shaped


class _Server(uvicorn.Server):
    """An HTTP server that leaves signals to whoever runs it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve_http(server: Server[Any], listener: socket.socket, host: str, door: Door) -> None:
    """Serve until cancelled. Requests under way are then given up to `STOP_SECONDS`, and their turns settle."""
    own = [f"{name}:*" for name in dict.fromkeys(("127.0.0.1", "localhost", "[::1]", host))]
    # A page in somebody's browser must not reach an agent on this machine by a name that points here.
    guard = TransportSecuritySettings(
        enable_dns_rebinding_protection=_is_local(host.strip("[]")),
        allowed_hosts=own,
        allowed_origins=[f"http://{name}" for name in own],
    )
    manager = StreamableHTTPSessionManager(app=server, stateless=True, security_settings=guard)
    config = uvicorn.Config(
        HttpApp(manager.handle_request, door),
        lifespan="off",
        log_config=None,
        access_log=False,
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=STOP_SECONDS,
    )
    http = _Server(config)
    async with manager.run():
        await _until_cancelled(http, listener)


async def _until_cancelled(http: uvicorn.Server, listener: socket.socket) -> None:
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            # Shielded: it is told to end, so that it closes its connections and its requests settle.
            with anyio.CancelScope(shield=True):
                await http.serve(sockets=[listener])
            tasks.cancel_scope.cancel()

        tasks.start_soon(serve)
        try:
            await anyio.sleep_forever()
        finally:
            http.should_exit = True
    logging.getLogger(__name__).info("the HTTP server has ended")
