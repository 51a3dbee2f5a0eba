"""MCP over HTTP, kept on one origin: Streamable HTTP and SSE, with addresses judged once and pinned.

Whatever the server says, every request goes to the scheme, host and port it was configured with: redirects and the
message endpoint that an SSE server announces included. Nothing of a URL or of a header appears in an error or in the
log (requirements `client-mcp.url.*`, `client-mcp.headers.*`, `client-mcp.errors.generic`). Import this module where
it is needed: it loads the HTTP library.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import urljoin

import anyio
import anyio.to_thread
import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from sluice.mcp.stdio import LINE_BYTES
from sluice.outbound import AddressPolicy, AddressRefused, Resolver, proxy_for
from sluice.wire.cleanup import shielded

__all__ = ["DELETE_SECONDS", "Endpoint", "RemoteServer"]

CONNECT_SECONDS = 20.0
"""How long one connection, write or wait for a free connection may take, in seconds. Reading has no limit: a tool may
work as long as it likes, and whoever called it can cancel."""

DELETE_SECONDS = 2.0
"""How long a server may take to answer the end of its session, in seconds; then the connection is cut."""

_PORTS = {"http": 80, "https": 443}

_log = logging.getLogger(__name__)

for _noisy in ("mcp.client", "httpx2", "httpcore2"):
    # They log addresses, session ids and whole messages, warnings and errors included.
    logging.getLogger(_noisy).setLevel(logging.CRITICAL + 1)


@dataclass(frozen=True)
class Endpoint:
    """Where a server is.

    Attributes:
        name: the server's name, the one thing of it that is ever shown.
        url: http or https; checked by whoever made this.
        sse: whether it speaks the old HTTP+SSE transport.
        headers: sent with every request, literally.
        policy: which addresses may be reached; None for a server that the operator has configured.
        env: where a proxy is looked up.
        resolver: None for the system's.
    """

    name: str
    url: str = field(repr=False)
    sse: bool = False
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    policy: AddressPolicy | None = field(default_factory=AddressPolicy)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    resolver: Resolver | None = field(default=None, repr=False)


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends requests of one server to its origin, at the addresses found when the first one was sent.

    Attributes:
        problem: what went wrong last, for a person; "" while nothing has.
        session: the `Mcp-Session-Id` that the server gave, "" for none.
        version: the protocol version of the last request that named one.
    """

    def __init__(self, endpoint: Endpoint, on_lost: Callable[[], None]) -> None:
        self.problem = ""
        self.session = ""
        self.version = ""
        self._endpoint = endpoint
        self._on_lost = on_lost
        self._origin = _origin(httpx2.URL(endpoint.url))
        scheme, host, _port = self._origin
        self._proxy = proxy_for(scheme, host, endpoint.env)
        self._inner = httpx2.AsyncHTTPTransport(proxy=self._proxy)
        self._pinned: tuple[str, ...] | None = None
        self._pinning = anyio.Lock()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request. Raises a subclass of TransportError whose text says nothing of the address."""
        if _origin(request.url) != self._origin:
            self._fail("sent the client to another origin", request)
        self.version = request.headers.get("mcp-protocol-version", self.version)
        try:
            response = await self._send(request)
        except AddressRefused:
            self._fail("is at an address that may not be reached from here", request)
        except (OSError, httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError):
            self._on_lost()
            self._fail("could not be connected to", request)
        return self._checked(request, response)

    def _checked(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        self.session = response.headers.get("mcp-session-id", self.session)
        status, method = response.status_code, request.method
        if status == 404 and self.session and method == "POST":
            self._on_lost()  # Streamable HTTP: the server has ended the session
        if status >= 300 and method == "POST":
            self.problem = f"answered with HTTP status {status}"
        location = response.headers.get("location")
        if 300 <= status < 400 and location and _origin(request.url.join(location)) != self._origin:
            self.problem = "sent the client to another origin"
        if response.headers.get("content-encoding", "identity") != "identity":
            # Nothing was asked for in compressed form, and what is compressed cannot be bounded here.
            response.stream = _Bounded(response.stream, 0)
        elif not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            response.stream = _Bounded(response.stream, LINE_BYTES)
        return response

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        endpoint = self._endpoint
        _scheme, host, port = self._origin
        if endpoint.policy is None:
            return await self._inner.handle_async_request(request)
        if self._proxy is not None:
            endpoint.policy.check_for_proxy(host)
            return await self._inner.handle_async_request(request)
        async with self._pinning:
            if self._pinned is None:
                pin = partial(endpoint.policy.pin, host, port, endpoint.resolver)
                self._pinned = await anyio.to_thread.run_sync(pin, abandon_on_cancel=True)
        refused: Exception | None = None
        for address in self._pinned:
            try:
                return await self._inner.handle_async_request(_to_address(request, address))
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                refused = error  # nothing of the request was sent, so the next address may be tried
        assert refused is not None, "there is at least one address"
        raise refused

    def _fail(self, problem: str, request: httpx2.Request) -> None:
        self.problem = problem
        raise httpx2.ConnectError(problem, request=request) from None

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


class _Bounded(httpx2.AsyncByteStream):
    """A response body of at most so many bytes."""

    def __init__(self, inner: Any, limit: int) -> None:
        self._inner = inner
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._inner:
            size += len(chunk)
            if size > self._limit:
                raise httpx2.ReadError("the answer is too large, or compressed")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


class RemoteServer:
    """One connection to a server over HTTP.

    Args:
        endpoint: where.
        on_lost: called when the server can no longer be talked to.

    Attributes:
        polite, gone: as for a process; a connection is always gone after the clean-up.
    """

    def __init__(self, endpoint: Endpoint, on_lost: Callable[[], None]) -> None:
        self.polite = 0.0
        self.gone = True
        self._endpoint = endpoint
        self._on_lost = on_lost
        self._guard = GuardedTransport(endpoint, on_lost)

    @property
    def problem(self) -> str:
        """What went wrong on the connection, "" when nothing did."""
        return self._guard.problem

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[tuple[Any, Any]]:
        """Connect, and give the two message streams of an MCP client. At the end the session is deleted if there is
        one, and every connection is closed.
        """
        client = httpx2.AsyncClient(
            transport=self._guard,
            # Last, so that what is given wins over the library's own; what may not be given is refused before.
            headers={"accept-encoding": "identity", **dict(self._endpoint.headers)},
            timeout=httpx2.Timeout(CONNECT_SECONDS, read=None),
            trust_env=False,
            follow_redirects=False,
        )
        async with client:
            if self._endpoint.sse:
                async with self._sse(client) as streams:
                    yield streams
                return
            try:
                async with streamable_http_client(
                    self._endpoint.url,
                    http_client=client,
                    terminate_on_close=False,  # done here, with a budget and also after a failure
                    max_sse_event_size=LINE_BYTES,
                ) as streams:
                    yield streams
            finally:
                await self._delete(client)

    async def _delete(self, client: httpx2.AsyncClient) -> None:
        if not self._guard.session:
            return
        headers = {"mcp-session-id": self._guard.session}
        if self._guard.version:
            headers["mcp-protocol-version"] = self._guard.version
        reason = "an MCP server over HTTP is told that its session has ended"
        with shielded(DELETE_SECONDS, reason), suppress(httpx2.HTTPError):
            await client.delete(self._endpoint.url, headers=headers)

    # --- HTTP+SSE: one stream of events in, one POST for each message out

    @asynccontextmanager
    async def _sse(self, client: httpx2.AsyncClient) -> AsyncIterator[tuple[Any, Any]]:
        async with client.stream("GET", self._endpoint.url, headers=_SSE_HEADERS, follow_redirects=True) as response:
            if response.status_code != 200:
                self._guard.problem = f"answered with HTTP status {response.status_code}"
                raise httpx2.RemoteProtocolError(self._guard.problem)
            events = aiter(httpx2.EventSource(response, max_event_size=LINE_BYTES))
            messages = await self._endpoint_of(events)
            to_session, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
            outgoing, from_session = anyio.create_memory_object_stream[SessionMessage](0)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._receive, events, to_session)
                tasks.start_soon(self._post_all, client, messages, from_session)
                try:
                    yield incoming, outgoing
                finally:
                    tasks.cancel_scope.cancel()
                    for stream in (incoming, outgoing, to_session, from_session):
                        stream.close()

    async def _endpoint_of(self, events: AsyncIterator[httpx2.ServerSentEvent]) -> str:
        """The address for messages, which the first event announces. Raises when it is on another origin."""
        async for event in events:
            if event.event == "endpoint":
                announced = urljoin(self._endpoint.url, event.data.strip())
                if _origin(httpx2.URL(announced)) != _origin(httpx2.URL(self._endpoint.url)):
                    self._guard.problem = "announced a message endpoint on another origin"
                    raise httpx2.RemoteProtocolError(self._guard.problem)
                return announced
        self._guard.problem = "announced no message endpoint"
        raise httpx2.RemoteProtocolError(self._guard.problem)

    async def _receive(self, events: AsyncIterator[httpx2.ServerSentEvent], to_session: Any) -> None:
        try:
            async for event in events:
                if event.event != "message" or not event.data:
                    continue
                try:
                    message = jsonrpc_message_adapter.validate_json(event.data, by_name=False)
                except ValueError:
                    _log.debug("MCP server %s: an event that is no JSON-RPC message", self._endpoint.name)
                    continue
                with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                    await to_session.send(SessionMessage(message))
        except httpx2.HTTPError as error:
            _log.info("MCP server %s: the event stream broke off (%s)", self._endpoint.name, type(error).__name__)
        finally:
            to_session.close()  # the session fails what is pending
            self._on_lost()

    async def _post_all(self, client: httpx2.AsyncClient, url: str, from_session: Any) -> None:
        async with from_session:  # once it is closed, whoever still sends is told so
            async for message in from_session:  # one after the other: they must arrive in order
                body = message.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
                if not await self._post(client, url, body):
                    break

    async def _post(self, client: httpx2.AsyncClient, url: str, body: Any) -> bool:
        """Send one message; False when the server is lost with it."""
        try:
            response = await client.post(url, json=body, follow_redirects=True)
        except httpx2.HTTPError:
            self._on_lost()
            return False
        if response.status_code >= 300:
            self._on_lost()
            return False
        return True


_SSE_HEADERS = {"accept": "text/event-stream", "cache-control": "no-store"}


def _origin(url: httpx2.URL) -> tuple[str, str, int]:
    """Scheme, host and effective port."""
    return url.scheme, url.host, url.port or _PORTS.get(url.scheme, 0)


def _to_address(request: httpx2.Request, address: str) -> httpx2.Request:
    """The same request, sent to a numeric address; the name stays in `Host` and in the TLS handshake."""
    extensions = {**request.extensions, "sni_hostname": request.url.host}
    return httpx2.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions=extensions,
    )
