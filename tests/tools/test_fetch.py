"""Fetching from real servers on the loopback, which a policy opens; names are resolved as the test says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketStream

from sluice.agent.ports import ToolFailure
from sluice.outbound import AddressPolicy, networks
from sluice.tools import build
from sluice.tools.fetch import FetchToolset
from sluice.tools.html_text import readable
from sluice.tools.web import MAX_BYTES, MAX_REDIRECTS, DomainRules, Web
from tests.support.web import Site, site
from tests.tools.support import Config, call, setup

pytestmark = pytest.mark.anyio

LOOPBACK = AddressPolicy(networks(("127.0.0.1/32",)))


@pytest.mark.requirement("tools.fetch.guarded")
@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/",
        "file:///etc/passwd",
        "gopher://example.org",
        "javascript:1",
        "example.org",
        "http://",
        "http:///x",
        "http://me:secret@example.org/",
        "http://example.org\\@127.0.0.1/",
        "http://exa mple.org/",
        "http://example.org:99999/",
        "http://[::1",
        "http://\uff45xample.org/",
        "",
    ],
)
async def test_only_plain_http_and_https_addresses_are_fetched(url: str) -> None:
    with pytest.raises(ToolFailure):
        await Web(LOOPBACK, resolver=lambda host, port: pytest.fail("looked up")).get(url, 5)


@pytest.mark.requirement("tools.fetch.guarded")
@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f.1",
        "0.0.0.0",
        "10.0.0.1",
        "169.254.169.254",
        "[::1]",
        "[::ffff:127.0.0.1]",
    ],
)
async def test_an_address_that_is_not_public_is_refused(host: str) -> None:
    with pytest.raises(ToolFailure, match="may not be reached"):
        await Web(AddressPolicy()).get(f"http://{host}:1/", 5)


@pytest.mark.requirement("tools.fetch.guarded")
@pytest.mark.parametrize("addresses", [["127.0.0.2"], ["127.0.0.1", "10.0.0.1"], ["::ffff:10.0.0.1"]], ids=str)
async def test_a_name_is_judged_by_every_address_it_has(addresses: list[str]) -> None:
    with pytest.raises(ToolFailure, match="may not be reached"):
        await Web(LOOPBACK, resolver=lambda host, port: addresses).get("http://inside.example/", 5)


@pytest.mark.requirement("tools.fetch.guarded")
async def test_a_name_is_looked_up_once_a_hop_and_the_connection_goes_to_what_was_judged() -> None:
    asked: list[str] = []

    def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["10.0.0.1"]

    async with site({"/": b"hello"}) as server:
        page = await Web(LOOPBACK, resolver=resolve).get(f"http://rebound.example:{server.port}/", 5)
    assert (page.text, asked) == ("hello", ["rebound.example"])
    assert server.requests[0]["host"] == f"rebound.example:{server.port}"


@pytest.mark.requirement("tools.fetch.guarded")
@pytest.mark.parametrize(
    "target", ["http://127.0.0.2/", "http://169.254.169.254/latest", "file:///etc/passwd", "//10.0.0.1/"]
)
async def test_each_redirect_is_judged_again(target: str) -> None:
    async with site({"/": target}) as server:
        with pytest.raises(ToolFailure, match=r"may not be reached|only http"):
            await Web(LOOPBACK).get(f"http://127.0.0.1:{server.port}/", 5)


@pytest.mark.requirement("tools.fetch.guarded")
async def test_the_domain_rules_hold_for_redirects_too() -> None:
    web = Web(LOOPBACK, DomainRules(blocked=("bad.example",)), resolver=lambda host, port: ["127.0.0.1"])
    async with site({"/": "http://www.bad.example/"}) as server:
        with pytest.raises(ToolFailure, match=r"domain rules do not let www\.bad\.example"):
            await web.get(f"http://good.example:{server.port}/", 5)


async def test_own_headers_stay_with_the_host_that_was_asked_for() -> None:
    web = Web(LOOPBACK, headers={"x-key": "secret"}, resolver=lambda host, port: ["127.0.0.1"])
    async with site({"/": "/next", "/next": b"same"}) as first, site({"/": b"other"}) as second:
        await web.get(f"http://one.example:{first.port}/", 5)
        first.pages["/"] = f"http://two.example:{second.port}/"
        assert (await web.get(f"http://one.example:{first.port}/", 5)).text == "other"
    assert [request.get("x-key") for request in first.requests] == ["secret"] * 3
    assert [request.get("x-key") for request in second.requests] == [None]


async def test_redirects_end() -> None:
    async with site({"/": "/"}) as server:
        with pytest.raises(ToolFailure, match=f"more than {MAX_REDIRECTS}"):
            await Web(LOOPBACK).get(f"http://127.0.0.1:{server.port}/", 5)
    assert len(server.requests) == MAX_REDIRECTS + 1


@pytest.mark.parametrize("type_", ["image/png", "application/octet-stream", "application/pdf", "video/mp4", ""])
async def test_what_is_not_text_is_not_read(type_: str) -> None:
    async with site({"/": b"x"}, type_=type_) as server:
        with pytest.raises(ToolFailure, match="not text"):
            await Web(LOOPBACK).get(f"http://127.0.0.1:{server.port}/", 5)


@pytest.mark.parametrize(
    ("type_", "data", "said"),
    [
        ("text/plain; charset=latin-1", b"\xe9", "é"),
        ("text/plain; charset=nonsense", "é".encode(), "é"),
        ("text/plain", b"\xff", "\ufffd"),
        ("application/json", b"{}", "{}"),
        ("application/problem+json", b"{}", "{}"),
        ("application/xml", b"<a/>", "<a/>"),
    ],
)
async def test_text_is_read_in_its_character_set(type_: str, data: bytes, said: str) -> None:
    async with site({"/": data}, type_=type_) as server:
        assert (await Web(LOOPBACK).get(f"http://127.0.0.1:{server.port}/", 5)).text == said


async def test_a_long_page_is_cut_a_compressed_one_refused_and_an_error_status_told() -> None:
    async with site({"/": b"x" * (MAX_BYTES + 1)}) as server:
        page = await Web(LOOPBACK).get(f"http://127.0.0.1:{server.port}/", 5)
        assert page.cut and len(page.text) == MAX_BYTES
        with pytest.raises(ToolFailure, match="HTTP status 404"):
            await Web(LOOPBACK).get(f"http://127.0.0.1:{server.port}/none", 5)
    async with site({"/": b"x"}, extra="content-encoding: gzip\r\n") as server:
        with pytest.raises(ToolFailure, match="compressed"):
            await Web(LOOPBACK).get(f"http://127.0.0.1:{server.port}/", 5)


@asynccontextmanager
async def silent() -> AsyncIterator[int]:
    """A server that takes connections and says nothing; its port."""

    async def wait(stream: SocketStream) -> None:
        async with stream:
            await anyio.sleep_forever()

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, wait)
        yield listener.extra(anyio.abc.SocketAttribute.local_port)
        tasks.cancel_scope.cancel()


async def test_a_page_that_does_not_come_fails_when_its_time_is_up() -> None:
    async with silent() as port:
        with pytest.raises(ToolFailure, match=r"longer than 0\.05 seconds"):
            await Web(LOOPBACK).get(f"http://127.0.0.1:{port}/", 0.05)


@pytest.mark.requirement("tools.fetch.guarded")
@pytest.mark.parametrize(
    ("rule", "host", "matches"),
    [
        ("example.org", "example.org", True),
        ("example.org", "EXAMPLE.org.", True),
        ("example.org", "www.example.org", True),
        ("example.org", "badexample.org", False),
        ("example.org", "example.org.evil.test", False),
        (".example.org", "example.org", False),
        (".example.org", "a.example.org", True),
        ("*.example.org", "a.b.example.org", True),
        ("*.example.org", "example.org", False),
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "0x0a010203", True),
        ("10.0.0.0/8", "11.1.2.3", False),
        ("::1", "[::1]", True),
    ],
)
def test_a_domain_rule_means_what_it_says(rule: str, host: str, matches: bool) -> None:
    assert DomainRules(allowed=(rule,)).permits(host) is matches
    assert DomainRules(blocked=(rule,)).permits(host) is not matches
    assert not DomainRules(allowed=(rule,), blocked=(rule,)).permits(host)


async def test_a_blocked_network_holds_for_the_addresses_of_a_name() -> None:
    web = Web(LOOPBACK, DomainRules(blocked=("127.0.0.0/8",)), resolver=lambda host, port: ["127.0.0.1"])
    with pytest.raises(ToolFailure, match="domain rules"):
        await web.get("http://named.example/", 5)


HTML = (
    "<html><head><title>T</title></head><body><h1>Top</h1><script>evil()</script><p>One <b>bold</b> "
    "&amp; <a href='/x'>link</a></p><ul><li>a<li>b</ul><pre>x\n  y</pre></body></html>"
)


def test_html_is_read_as_a_person_sees_it() -> None:
    assert readable(HTML, marks=False) == "Top\n\nOne bold & link\n\na\nb\n\nx\n  y"
    assert readable(HTML, marks=True) == ("# Top\n\nOne **bold** & [link](/x)\n\n- a\n- b\n\n```\nx\n  y\n```")


@pytest.mark.parametrize("broken", ["<", "<a", "</p></p>", "<pre>", "<script>", "&#x110000;", "<![CDATA[", ""])
def test_broken_html_is_still_read(broken: str) -> None:
    assert isinstance(readable(f"before {broken}", marks=True), str)


def fetching(server: Site) -> FetchToolset:
    return FetchToolset(Web(LOOPBACK, resolver=lambda host, port: ["127.0.0.1"]))


async def test_several_pages_come_in_order_and_one_bad_one_spoils_nothing(tmp_path: Path) -> None:
    async with site({"/a": b"first", "/b": HTML.encode()}, type_="text/html") as server:
        base = f"http://127.0.0.1:{server.port}"
        urls = [f"{base}/b", f"{base}/none", f"{base}/a"]
        result = await call(fetching(server), tmp_path, "fetch", urls=urls, format="text")
        assert not result.is_error
        places = [result.text.index(part) for part in ("Top", "could not be fetched: it answered with HTTP", "first")]
        assert places == sorted(places)
        assert "<h1>" in (await call(fetching(server), tmp_path, "fetch", urls=urls[:1], format="html")).text
        assert (await call(fetching(server), tmp_path, "fetch", urls=[f"{base}/none"])).is_error


async def test_long_pages_share_the_room_of_one_result(tmp_path: Path) -> None:
    async with site({"/a": b"a" * 90_000, "/b": b"b" * 90_000}) as server:
        base = f"http://127.0.0.1:{server.port}"
        result = await call(fetching(server), tmp_path, "fetch", urls=[f"{base}/a", f"{base}/b"])
    assert len(result.text.encode()) <= 50 * 1024 and result.text.count("more than the") == 2
    assert result.text.count("b" * 20_000) == 1


@pytest.mark.parametrize(
    "arguments",
    [{"urls": []}, {"urls": [f"http://x/{n}" for n in range(11)]}, {"urls": ["http://x"], "format": "pdf"}]
    + [{"urls": ["http://x"], "timeout": value} for value in (0, 301, True, "5")],
    ids=str,
)
async def test_arguments_out_of_range_are_told(tmp_path: Path, arguments: dict[str, object]) -> None:
    with pytest.raises(ToolFailure, match="argument"):
        await call(FetchToolset(Web(AddressPolicy())), tmp_path, "fetch", **arguments)


async def test_the_operator_may_open_private_addresses_for_this_tool(tmp_path: Path) -> None:
    async with site({"/": b"inside"}) as server:
        url = f"http://127.0.0.1:{server.port}/"
        made = setup(tmp_path)
        closed = build(Config("fetch"), setup=made)
        assert "may not be reached" in (await call(closed, tmp_path, "fetch", urls=[url])).text
        opened = build(Config("fetch", options={"allow_private_ips": True}), setup=made)
        assert "inside" in (await call(opened, tmp_path, "fetch", urls=[url])).text
