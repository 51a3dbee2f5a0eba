"""The one policy for addresses that may be reached when somebody else says where to connect.

A name is resolved once; every address it has is judged, and the connection is then made to one of those very
addresses, so that a second look-up cannot lead elsewhere. Only the operator opens addresses that are closed by
default. Requirement `client-mcp.url.private-blocked`.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["AddressPolicy", "AddressRefused", "Resolver", "look_up", "networks", "proxy_for"]

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

Resolver = Callable[[str, int], Sequence[str]]
"""Name and port to numeric addresses, in order of preference. It blocks; raises OSError when there are none."""

CLOSED_4: tuple[ipaddress.IPv4Network, ...] = tuple(
    map(
        ipaddress.IPv4Network,
        (
            "0.0.0.0/8",  # this host: Linux connects to itself
            "10.0.0.0/8",
            "100.64.0.0/10",  # shared by a provider's customers (CGNAT); some clouds keep their metadata here
            "127.0.0.0/8",
            "169.254.0.0/16",  # link-local, and the metadata of most clouds
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",
            "240.0.0.0/4",  # reserved, and the broadcast address
        ),
    )
)
"""IANA's special-purpose IPv4 blocks that are not ordinary hosts on the internet (RFC 6890)."""

OPEN_6 = ipaddress.IPv6Network("2000::/3")
"""Global unicast. Everything else is closed: loopback, unspecified, link-local, unique-local, site-local, multicast,
and the forms that carry an IPv4 address (mapped, compatible, translated, NAT64)."""

CLOSED_6: tuple[ipaddress.IPv6Network, ...] = tuple(
    map(
        ipaddress.IPv6Network,
        (
            "2001::/23",  # protocol assignments; Teredo carries an IPv4 address
            "2001:db8::/32",
            "2002::/16",  # 6to4 carries an IPv4 address
            "3fff::/20",
        ),
    )
)
"""Parts of global unicast that are no ordinary hosts either."""

_NUMBERS = re.compile(r"(0[xX][0-9a-fA-F]*|[0-9]+)(\.(0[xX][0-9a-fA-F]*|[0-9]+)){0,3}")
_LOCAL_NAMES = ("localhost", "localdomain")


class AddressRefused(Exception):
    """The policy does not let this connection happen. The text names neither host nor address."""


@dataclass(frozen=True, slots=True)
class AddressPolicy:
    """What may be reached. `allowed` is what the operator has opened besides the public internet."""

    allowed: tuple[Network, ...] = ()

    def permits(self, text: str) -> bool:
        """Whether a numeric address may be reached; False for anything that is no such address."""
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return False
        if any(address.version == network.version and address in network for network in self.allowed):
            return True
        if isinstance(address, ipaddress.IPv4Address):
            return not any(address in network for network in CLOSED_4)
        scoped = address.scope_id is not None
        return not scoped and address in OPEN_6 and not any(address in network for network in CLOSED_6)

    def pin(self, host: str, port: int, resolver: Resolver | None = None) -> tuple[str, ...]:
        """Resolve a host once and give the addresses to connect to. Blocks; run it in a thread.

        Args:
            host: a name or a numeric address in any form that a resolver takes; brackets and a trailing dot may be
                there.
            port: where to connect.
            resolver: asked for names only; None for the system's.

        Returns:
            Numeric addresses, at least one. Connect to these and to nothing else.

        Raises:
            AddressRefused: one of the addresses may not be reached. One is enough: an answer that mixes public and
                private addresses is how a name is bent to an inside host.
            OSError: the name has no address.
        """
        literal = numeric(host)
        if literal is not None:
            found: Sequence[str] = (literal,)
        else:
            found = (resolver or look_up)(_name(host), port)
        if not found:
            raise OSError("the name has no address")
        if not all(self.permits(address) for address in found):
            raise AddressRefused("the address may not be reached from here")
        return tuple(dict.fromkeys(found))

    def check_for_proxy(self, host: str) -> None:
        """What is still judged when the operator's proxy makes the connection: hosts that need no look-up.

        Everything else is left to the rules of the proxy (client-mcp.url.proxy-policy).

        Raises:
            AddressRefused: the host is a numeric address that may not be reached, or this machine by name.
        """
        literal = numeric(host)
        local = literal is None and _name(host).rpartition(".")[2].lower() in _LOCAL_NAMES
        if (literal is not None and not self.permits(literal)) or (local and not self.permits("127.0.0.1")):
            raise AddressRefused("the address may not be reached from here")


def numeric(host: str) -> str | None:
    """The address that a host text stands for by itself, in plain form; None for a name.

    Decimal, octal, hexadecimal and short IPv4 forms are read as the C library's resolver reads them.
    """
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    bare = bare[:-1] if bare.endswith(".") else bare
    try:
        return str(ipaddress.ip_address(bare))
    except ValueError:
        pass
    if not _NUMBERS.fullmatch(bare):
        return None
    try:
        return socket.inet_ntoa(socket.inet_aton(bare))
    except OSError:
        return None


def _name(host: str) -> str:
    """The name to look up. Raises OSError for a text that is no name."""
    name = host[:-1] if host.endswith(".") else host
    if not name or ".." in name or name.startswith(".") or any(ord(char) <= 32 or char in "/@%:[]" for char in name):
        raise OSError("no name of a host")
    return name


def look_up(host: str, port: int) -> Sequence[str]:
    """Ask the system. Raises OSError when it knows no address."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError("no name of a host") from error
    return [str(address[0]) for _family, _type, _protocol, _name, address in found]


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Read networks as an operator writes them: `10.1.0.0/16`, `fd00::/8`, or one address.

    Raises:
        ValueError: one of them is no network; the text names it.
    """
    found = []
    for text in texts:
        try:
            found.append(ipaddress.ip_network(text.strip()))
        except ValueError:
            raise ValueError(f"{text!r} is no network, such as 10.1.0.0/16 or ::1") from None
    return tuple(found)


def proxy_for(scheme: str, host: str, env: Mapping[str, str]) -> str | None:
    """The operator's proxy for a request, by the usual variables; None when there is none.

    Args:
        scheme: http or https.
        host: where the request goes.
        env: HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY are looked at, small letters first. HTTP_PROXY in
            capitals is not used where a web server could have set it (REQUEST_METHOD is there).
    """
    skipped = env.get("no_proxy", env.get("NO_PROXY", ""))
    if any(_exempt(entry.strip().lower(), host.lower().rstrip(".")) for entry in skipped.split(",")):
        return None
    names = [f"{scheme}_proxy", f"{scheme}_proxy".upper(), "all_proxy", "ALL_PROXY"]
    if "REQUEST_METHOD" in env:
        names.remove(f"{scheme}_proxy".upper())
    chosen = next((env[name] for name in names if env.get(name)), None)
    return chosen if chosen is None or "://" in chosen else f"http://{chosen}"


def _exempt(entry: str, host: str) -> bool:
    if entry == "*":
        return True
    entry = entry.removeprefix("*").removeprefix(".")
    return bool(entry) and (host == entry or host.endswith(f".{entry}"))
