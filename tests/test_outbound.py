"""Which addresses may be reached: a table, and names that change between two look-ups."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.outbound import AddressPolicy, AddressRefused, networks, numeric, proxy_for

BLOCKED = (
    # loopback, in every form a resolver takes
    "127.0.0.1",
    "127.255.255.254",
    "127.1",
    "2130706433",
    "0177.0.0.1",
    "017700000001",
    "0x7f.0.0.1",
    "0x7f000001",
    "127.0.0.1.",
    "[::1]",
    "::1",
    "0:0:0:0:0:0:0:1",
    # this host
    "0.0.0.0",
    "0",
    "::",
    # private, shared, link-local
    "10.0.0.1",
    "0x0a000001",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "3232235777",
    "100.64.0.1",
    "100.127.255.255",
    "169.254.169.254",
    "0xa9fea9fe",
    "169.254.43518",
    "fe80::1",
    "fe80::1%eth0",
    "2606:4700::1111%eth0",
    "fc00::1",
    "fd12:3456::1",
    "fec0::1",
    # multicast, broadcast, reserved, documentation, benchmarks
    "224.0.0.1",
    "239.255.255.250",
    "255.255.255.255",
    "240.0.0.1",
    "192.0.2.1",
    "198.51.100.7",
    "203.0.113.9",
    "198.18.0.1",
    "192.0.0.170",
    "192.88.99.1",
    "ff02::1",
    "2001:db8::1",
    "3fff::1",
    "100::1",
    # IPv6 forms that carry an IPv4 address
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "[::ffff:10.0.0.1]",
    "::ffff:8.8.8.8",
    "::127.0.0.1",
    "::ffff:0:127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::8.8.8.8",
    "64:ff9b:1::1",
    "2002:7f00:1::",
    "2001:0:7f00:1::",
)

ALLOWED = (
    "8.8.8.8",
    "134744072",
    "010.8.8.8",  # octal eight
    "0x08080808",
    "8.8.8.8.",
    "172.15.255.255",
    "172.32.0.1",
    "100.63.255.255",
    "100.128.0.1",
    "169.253.0.1",
    "192.167.1.1",
    "223.255.255.254",
    "1.1.1.1",
    "2606:4700:4700::1111",
    "[2001:4860:4860::8888]",
    "2a00:1450:4001:81b::200e",
)


def never(host: str, port: int) -> Sequence[str]:
    raise AssertionError(f"{host} was looked up")


@pytest.mark.requirement("client-mcp.url.private-blocked")
@pytest.mark.parametrize("host", BLOCKED)
def test_a_number_that_means_an_inside_address_is_refused_without_a_look_up(host: str) -> None:
    with pytest.raises(AddressRefused):
        AddressPolicy().pin(host, 80, never)


@pytest.mark.requirement("client-mcp.url.private-blocked")
@pytest.mark.parametrize("host", ALLOWED)
def test_a_number_that_means_a_public_address_is_connected_to_as_it_is(host: str) -> None:
    (pinned,) = AddressPolicy().pin(host, 80, never)
    assert pinned == numeric(host) and ipaddress.ip_address(pinned).is_global


NAMES: dict[str, tuple[Sequence[str], bool]] = {
    "example.com": (["93.184.216.34"], True),
    "example.com.": (["93.184.216.34"], True),
    "both.example": (["2606:4700::1111", "104.16.0.1"], True),
    "localhost": (["127.0.0.1"], False),
    "localhost.": (["::1", "127.0.0.1"], False),
    "metadata.google.internal": (["169.254.169.254"], False),
    "127.0.0.1.nip.io": (["127.0.0.1"], False),
    "mixed.example": (["93.184.216.34", "10.0.0.1"], False),
    "mapped.example": (["::ffff:127.0.0.1"], False),
    "nat64.example": (["64:ff9b::a00:1"], False),
    "scoped.example": (["fe80::1%2"], False),
    "rubbish.example": (["not an address"], False),
}


@pytest.mark.requirement("client-mcp.url.private-blocked")
@pytest.mark.parametrize("name", NAMES)
def test_every_address_of_a_name_is_judged(name: str) -> None:
    addresses, allowed = NAMES[name]
    asked: list[str] = []

    def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return addresses

    if allowed:
        assert AddressPolicy().pin(name, 443, resolve) == tuple(addresses)
    else:
        with pytest.raises(AddressRefused):
            AddressPolicy().pin(name, 443, resolve)
    assert asked == [name.rstrip(".")]


@pytest.mark.parametrize("name", ["", ".", "..", "a..b", "a b", "a/b", "a@b", "a%b", ".a"])
def test_what_is_no_name_is_not_looked_up(name: str) -> None:
    with pytest.raises(OSError):
        AddressPolicy().pin(name, 80, never)


def test_a_name_without_addresses_cannot_be_connected_to() -> None:
    with pytest.raises(OSError, match="no address"):
        AddressPolicy().pin("empty.example", 80, lambda host, port: [])


def test_the_operator_opens_networks_and_nothing_else() -> None:
    policy = AddressPolicy(networks(["127.0.0.0/8", " fd00::/8", "10.1.2.3"]))
    assert policy.permits("127.0.0.1") and policy.permits("fd00::1") and policy.permits("10.1.2.3")
    assert not policy.permits("10.1.2.4") and not policy.permits("::1") and not policy.permits("::ffff:127.0.0.1")
    with pytest.raises(ValueError, match=r"'10\.0\.0\.1/8' is no network"):
        networks(["10.0.0.1/8"])


@given(st.ip_addresses())
def test_what_is_allowed_is_global_whatever_the_address(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if AddressPolicy().permits(str(address)):
        assert address.is_global and not address.is_multicast and getattr(address, "ipv4_mapped", None) is None


@pytest.mark.requirement("client-mcp.url.proxy-policy")
def test_a_proxy_of_the_operator_keeps_its_own_rules() -> None:
    env = {"https_proxy": "proxy.example:3128", "NO_PROXY": "inside.example, .corp.example"}
    assert proxy_for("https", "api.example", env) == "http://proxy.example:3128"
    assert proxy_for("http", "api.example", env) is None
    assert proxy_for("https", "inside.example", env) is None
    assert proxy_for("https", "a.corp.example", env) is None
    assert proxy_for("https", "notinside.example", env) == "http://proxy.example:3128"
    assert proxy_for("http", "a", {"HTTP_PROXY": "http://p", "REQUEST_METHOD": "GET"}) is None
    assert proxy_for("http", "a", {"ALL_PROXY": "socks5://p"}) == "socks5://p"
    AddressPolicy().check_for_proxy("anything.internal")
    for host in ("127.0.0.1", "0x7f.1", "localhost", "LOCALHOST.", "a.localhost", "[::1]"):
        with pytest.raises(AddressRefused):
            AddressPolicy().check_for_proxy(host)
