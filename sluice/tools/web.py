"""One page from the web: the address judged at each step, redirects followed here, the body bounded.

Every hop is checked anew (scheme, domain rules, address policy), and the connection goes to an address that the rules
has just judged, so that neither a second look-up nor a redirect leads elsewhere. Requirement `tools.fetch.guarded`.
"""

from __future__ import annotations

import ipaddress
import json
import re
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

import anyio
import anyio.to_thread

from sluice.agent.ports import ToolFailure
from sluice.outbound import AddressPolicy, AddressRefused, Resolver, numeric, proxy_for

if TYPE_CHECKING:
    import httpx

__all__ = [
    "HEADERS",
    "MAX_BYTES",
    "MAX_REDIRECTS",
    "DomainRules",
    "Origin",
    "Page",
    "Unreachable",
    "Web",
    "body_of",
    "direct",
    "encoded",
    "new_client",
    "origin",
    "reach",
    "said",
]

MAX_BYTES = 1_000_000
"""Bytes of one page: what is longer is cut, and the reader is told."""

MAX_REDIRECTS = 5
"""Redirects followed for one address."""

CONNECT_SECONDS = 15.0
"""Seconds to reach one address of a host."""

Origin = tuple[str, str, int]
"""Scheme, host and port of a URL."""

_PORTS = {"http": 80, "https": 443}
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TEXTUAL = re.compile(r"text/.*|application/((.*\+)?(json|xml)|javascript|ecmascript|yaml|x-yaml|toml|x-ndjson)")
_CHARSET = re.compile(r"""charset\s*=\s*["']?([A-Za-z0-9_.:-]+)""", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class DomainRules:
    """Which hosts may be fetched from, besides what the address policy says; blocked wins.

    A bare name means itself and what is below it; `.name` and `*.name` only what is below it; an address or a network
    (`10.1.0.0/16`) means hosts written as an address. `allowed` None = any host.
    """

    allowed: tuple[str, ...] | None = None
    blocked: tuple[str, ...] = ()

    def blocks(self, addresses: Iterable[str]) -> bool:
        """Whether one of the addresses that a name has is blocked."""
        return any(_matches(rule, address) for rule in self.blocked for address in addresses)

    def permits(self, host: str) -> bool:
        """Whether a host, as it is written in a URL, may be fetched from."""
        if any(_matches(rule, host) for rule in self.blocked):
            return False
        return self.allowed is None or any(_matches(rule, host) for rule in self.allowed)


def _matches(rule: str, host: str) -> bool:
    rule, host = rule.strip().lower().rstrip("."), host.strip("[]").lower().rstrip(".")
    try:
        return ipaddress.ip_address(numeric(host) or host) in ipaddress.ip_network(rule)
    except ValueError:
        pass
    if rule.startswith(("*.", ".")):
        return host.endswith(f".{rule.lstrip('*').lstrip('.')}")
    return host == rule or host.endswith(f".{rule}")


@dataclass(frozen=True, slots=True)
class Page:
    """What was fetched: the last address, the type without parameters, the text, and whether its end is missing."""

    url: str
    type: str
    text: str
    cut: bool = False


@dataclass(frozen=True)
class Web:
    """How pages are fetched.

    Attributes:
        policy: which addresses may be reached.
        rules: which hosts may be fetched from.
        headers: sent to the host that was asked for, and never to another that it redirects to.
        env: where a proxy is looked up.
        resolver: None for the system's.
    """

    policy: AddressPolicy
    rules: DomainRules = DomainRules()
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    resolver: Resolver | None = None

    async def get(self, url: str, seconds: float) -> Page:
        """Fetch one page.

        Args:
            url: http or https.
            seconds: how long all of it may take.

        Raises:
            ToolFailure: it may not be fetched, or could not be; the text says why.
        """
        try:
            with anyio.fail_after(seconds):
                return await self._follow(url)
        except TimeoutError:
            raise ToolFailure(f"it took longer than {seconds:g} seconds") from None

    async def _follow(self, url: str) -> Page:
        first = origin(url)
        for _ in range(MAX_REDIRECTS + 1):
            here = origin(url)
            if not self.rules.permits(here[1]):
                raise ToolFailure(f"the domain rules do not let {here[1]} be fetched")
            found = await self._hop(url, here, self.headers if here == first else {})
            if isinstance(found, Page):
                return found
            url = urljoin(url, found)
        raise ToolFailure(f"it redirects more than {MAX_REDIRECTS} times")

    async def _hop(self, url: str, here: Origin, headers: Mapping[str, str]) -> Page | str:
        """One request: a page, or where it redirects to."""
        proxy, addresses = await reach(here, self.policy, self.env, self.resolver)
        if proxy is not None:
            return await self._request(url, "", headers, proxy)
        if self.rules.blocks(addresses):
            raise ToolFailure(f"the domain rules do not let {here[1]} be fetched")
        for address in addresses[:-1]:
            try:
                return await self._request(url, address, headers, None)
            except Unreachable:
                continue
        return await self._request(url, addresses[-1], headers, None)

    async def _request(self, url: str, address: str, headers: Mapping[str, str], proxy: str | None) -> Page | str:
        """Ask one address ("" leaves the name to the proxy). Raises Unreachable when nothing was sent."""
        import httpx

        client = await anyio.to_thread.run_sync(partial(new_client, proxy, urlsplit(url).scheme))
        try:
            async with client:
                request = client.build_request("GET", url, headers={**HEADERS, **headers})
                direct(request, address)
                response = await client.send(request, stream=True)
                try:
                    return await _read(response, url)
                finally:
                    await response.aclose()
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise Unreachable("it could not be connected to") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ToolFailure(f"the answer broke off ({type(error).__name__})") from error


async def reach(
    here: Origin, policy: AddressPolicy, env: Mapping[str, str], resolver: Resolver | None = None
) -> tuple[str | None, tuple[str, ...]]:
    """Judge a host once.

    Args:
        here: where a request is to go.
        policy: which addresses may be reached.
        env: where a proxy is looked up.
        resolver: None for the system's.

    Returns:
        The proxy to go through and no addresses, or None and the numeric addresses to connect to, at least one.

    Raises:
        ToolFailure: it may not be reached, or has no address.
    """
    scheme, host, port = here
    proxy = proxy_for(scheme, host, env)
    try:
        if proxy is not None:
            policy.check_for_proxy(host)
            return proxy, ()
        pin = partial(policy.pin, host, port, resolver)
        return None, await anyio.to_thread.run_sync(pin, abandon_on_cancel=True)
    except AddressRefused:
        raise ToolFailure(f"{host} is at an address that may not be reached from here") from None
    except OSError:
        raise ToolFailure(f"{host} has no address") from None


def direct(request: httpx.Request, address: str) -> None:
    """Let a request connect to one address of its host; "" leaves the name to the proxy or to the system."""
    if address:
        # The name stays in `Host` and in the TLS handshake.
        request.extensions["sni_hostname"] = request.url.host
        request.url = request.url.copy_with(host=address)


class Unreachable(ToolFailure):
    """One address of a host does not answer; another may."""


HEADERS = {
    "user-agent": "sluice",
    "accept": "text/html, text/markdown, text/plain, application/json;q=0.9, */*;q=0.1",
    "accept-encoding": "identity",  # what is compressed has no bound before it is unpacked
}


def new_client(proxy: str | None, scheme: str) -> httpx.AsyncClient:
    """A client for one request; loads certificates, so not on the event loop."""
    import httpx

    context = httpx.create_ssl_context() if scheme == "https" or proxy else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    timeout = httpx.Timeout(None, connect=CONNECT_SECONDS)
    return httpx.AsyncClient(verify=context, proxy=proxy, trust_env=False, follow_redirects=False, timeout=timeout)


async def _read(response: httpx.Response, url: str) -> Page | str:
    location = response.headers.get("location")
    if response.status_code in _REDIRECTS and location:
        return str(location)
    if response.status_code >= 300:
        raise ToolFailure(f"it answered with HTTP status {response.status_code}")
    return Page(url, *await body_of(response, MAX_BYTES))


async def body_of(response: httpx.Response, limit: int) -> tuple[str, str, bool]:
    """Read an answer that is text.

    Args:
        response: an answer whose body was not read.
        limit: how many bytes of it are read.

    Returns:
        The type without parameters, the text, and whether its end is missing.

    Raises:
        ToolFailure: it is compressed, or no text.
    """
    if response.headers.get("content-encoding", "identity") != "identity":
        raise ToolFailure("its answer is compressed, which was not asked for")
    written = response.headers.get("content-type", "text/plain")
    kind = written.partition(";")[0].strip().lower()
    if not _TEXTUAL.fullmatch(kind):
        raise ToolFailure(f"its content is {kind or 'of no known type'}, not text")
    data = bytearray()
    async for chunk in response.aiter_raw():
        data += chunk
        if len(data) > limit:
            break
    return kind, _decoded(bytes(data[:limit]), written), len(data) > limit


def said(value: Any) -> str:
    """Return an argument as text: a text as it is, anything else as JSON. Raises ToolFailure for half a character."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    encoded(text)
    return text


def encoded(text: str) -> bytes:
    """What is sent for a text. Raises ToolFailure for half a character."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ToolFailure("an argument holds half of a surrogate pair, which is no text") from None


def _decoded(data: bytes, written: str) -> str:
    named = _CHARSET.search(written)
    try:
        return data.decode(named[1] if named else "utf-8", "replace").lstrip("\ufeff")
    except (LookupError, UnicodeError):
        return data.decode("utf-8", "replace")


def origin(url: str) -> Origin:
    """Where a URL leads to. Raises ToolFailure for a URL that is not fetched."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ToolFailure("it is no URL") from None
    if parts.scheme not in _PORTS or not host:
        raise ToolFailure("only http and https URLs can be fetched")
    if "@" in parts.netloc or "\\" in url or any(ord(char) <= 32 or ord(char) == 127 for char in url):
        raise ToolFailure("a URL with a user name, a backslash or a blank is not fetched")
    if not host.isascii():
        # Such a name has several spellings, and the rules must judge the one that is looked up.
        raise ToolFailure("write the host's name in its ASCII form (xn--...)")
    return parts.scheme, host, port or _PORTS[parts.scheme]
