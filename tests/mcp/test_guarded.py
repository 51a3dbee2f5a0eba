"""MCP over HTTP, with a real server on this machine: one origin, pinned addresses, nothing shown, nothing left."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from sluice.agent.ports import ToolContext, ToolFailure, ToolResult
from sluice.machines import McpServer
from sluice.mcp import guarded
from sluice.mcp.servers import McpSetup, McpToolset, RemoteSpec
from sluice.outbound import AddressPolicy, networks
from tests.mcp.remote import Remote, remote
from tests.mcp.test_servers import until

pytestmark = pytest.mark.anyio

HERE = AddressPolicy(networks(["127.0.0.0/8"]))
KINDS = pytest.mark.parametrize("path", ["/mcp", "/sse"])
SECRET = "Bearer q0w9e8r7t6"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remote]:
    with remote(tmp_path_factory.mktemp("remote")) as running:
        yield running


@pytest.fixture
def server(shared: Remote) -> Remote:
    """A server that nobody has asked for anything yet; a test that ends it starts its own."""
    shared.forget()
    return shared


@asynccontextmanager
async def connected(url: str, **more: Any) -> AsyncIterator[McpToolset]:
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            spec = RemoteSpec("srv", url, "sse" in url, more.pop("headers", ()))
            setup = McpSetup(tasks, "/", {}, **{"policy": HERE, **more})
            toolset = McpToolset(spec, setup, McpServer("srv"))
            await toolset.start()
            try:
                yield toolset
            finally:
                await toolset.stop()


async def failing(url: str, **more: Any) -> str:
    """Start a server that cannot be set up; returns the text of the failure."""
    text = ""
    async with anyio.create_task_group() as tasks:
        setup = McpSetup(tasks, "/", {}, **{"policy": HERE, "budget": 10.0, **more})
        toolset = McpToolset(RemoteSpec("srv", url, "sse" in url), setup, McpServer("srv"))
        with pytest.raises(ToolFailure) as failure:
            await toolset.start()
        text = str(failure.value)
    assert toolset.machine.state == "retired"
    return text


async def call(toolset: McpToolset, name: str, /, **arguments: Any) -> ToolResult:
    found = {tool.name: tool for tool in toolset.tools()}
    return await found[f"srv_{name}"].run(arguments, ToolContext("session", "call", "/"))


@KINDS
@pytest.mark.requirement(
    "client-mcp.accept.three-transports",
    "client-mcp.headers.literal",
    "client-mcp.auth.private-cookies",
    "client-mcp.auth.only-given-headers",
)
async def test_a_server_over_http_is_listed_and_called_with_the_headers_and_cookies_of_its_own(
    server: Remote, path: str
) -> None:
    headers = (("Authorization", SECRET), ("X-Note", "${HOME} $HOME {{x}}"))
    async with connected(server.url(path), headers=headers) as toolset:
        assert (await call(toolset, "echo", text="hi")).text == "echo hi"
        assert next(tool for tool in toolset.tools() if tool.name == "srv_echo").read_only
    seen = server.requests
    assert all(r["headers"]["authorization"] == SECRET for r in seen)
    assert all(r["headers"]["x-note"] == "${HOME} $HOME {{x}}" for r in seen)
    assert all(r["headers"]["host"] == f"127.0.0.1:{server.port}" for r in seen)
    assert "cookie" not in seen[0]["headers"] and seen[-1]["headers"]["cookie"] == "kitchen=warm"
    assert not any("well-known" in r["path"] for r in seen)
    async with connected(server.url(path)):
        pass
    assert "cookie" not in server.requests[len(seen)]["headers"]
    assert toolset.machine.state == "retired"


@pytest.mark.requirement("client-mcp.life.http-delete")
async def test_the_session_is_deleted_at_the_end_and_a_server_that_does_not_answer_that_is_cut_off(
    server: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connected(server.url("/mcp")):
        pass
    last = server.requests[-1]
    assert last["method"] == "DELETE" and last["headers"]["mcp-session-id"]
    assert last["headers"]["mcp-protocol-version"] == "2025-11-25"
    monkeypatch.setattr(guarded, "DELETE_SECONDS", 0.2)
    async with connected(server.url("/slow-delete")) as toolset:
        pass
    assert server.requests[-1]["method"] == "DELETE" and toolset.machine.state == "retired"


@KINDS
@pytest.mark.requirement("client-mcp.life.close-stops-all", "client-mcp.replace.running-calls-joined")
async def test_a_call_under_way_is_cancelled_when_the_server_is_stopped(
    server: Remote, tmp_path: Path, path: str
) -> None:
    marker, failures = tmp_path / "marker", list[str]()

    async def wait(toolset: McpToolset) -> None:
        with pytest.raises(ToolFailure) as failure:
            await call(toolset, "wait", marker=str(marker))
        failures.append(str(failure.value))

    async with anyio.create_task_group() as calls:
        async with connected(server.url(path)) as toolset:
            calls.start_soon(wait, toolset)
            await until(marker.exists)
        assert failures == ["the MCP server 'srv' was stopped during the call"]


@KINDS
@pytest.mark.requirement("client-mcp.life.no-auto-restart")
async def test_a_server_that_dies_in_a_call_is_lost_and_stays_lost(tmp_path: Path, path: str) -> None:
    with remote(tmp_path) as server:
        async with connected(server.url(path)) as toolset:
            await _lose(server, toolset)


async def _lose(server: Remote, toolset: McpToolset) -> None:
    with pytest.raises(ToolFailure):
        await call(toolset, "die")
    before = len(server.requests)
    with anyio.fail_after(10):
        while toolset.machine.state == "ready":
            with pytest.raises(ToolFailure):
                await call(toolset, "echo", text="again")
    assert toolset.machine.state == "disconnected" and len(server.requests) == before
    with pytest.raises(ToolFailure, match="not connected any more"):
        await call(toolset, "echo", text="again")


@pytest.mark.requirement("client-mcp.url.same-origin")
async def test_redirects_and_announced_endpoints_stay_on_the_origin(server: Remote, tmp_path: Path) -> None:
    for path in ("/moved", "/moved-sse"):
        async with connected(server.url(path)) as toolset:
            assert (await call(toolset, "echo", text="hi")).text == "echo hi"
    with remote(tmp_path) as other:
        assert "sent the client to another origin" in await failing(server.url(f"/away?port={other.port}"))
        assert "on another origin" in await failing(server.url(f"/foreign-sse?port={other.port}"))
        assert other.requests == []


@pytest.mark.requirement("client-mcp.setup.thirty-seconds")
@pytest.mark.parametrize("path", ["/hang", "/hang?sse"])
async def test_a_server_that_never_answers_is_given_up(server: Remote, path: str) -> None:
    assert "did not get ready within 0.5 seconds" in await failing(server.url(path), budget=0.5)


@KINDS
@pytest.mark.requirement("client-mcp.url.private-blocked")
async def test_an_address_of_this_machine_is_blocked_unless_the_operator_opens_it(server: Remote, path: str) -> None:
    for host in ("127.0.0.1", "localhost", "0x7f.1"):
        text = await failing(f"http://{host}:{server.port}{path}", policy=AddressPolicy())
        assert "may not be reached from here" in text or "could not be" in text
    assert server.requests == []
    async with connected(server.url(path), policy=None) as toolset:  # the operator's own server
        assert toolset.tools()


@KINDS
@pytest.mark.requirement("client-mcp.url.private-blocked")
async def test_a_name_is_looked_up_once_so_it_cannot_be_bent_after_it_was_judged(server: Remote, path: str) -> None:
    answers = [["127.0.0.1"], ["127.0.0.99"], ["10.0.0.1"]]
    asked: list[str] = []

    def rebinding(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return answers[min(len(asked) - 1, 2)]

    url = f"http://changing.example:{server.port}{path}"
    async with connected(url, resolver=rebinding) as toolset:
        assert (await call(toolset, "echo", text="hi")).text == "echo hi"
    assert asked == ["changing.example"] and len(server.requests) > 3
    assert {r["headers"]["host"] for r in server.requests} == {f"changing.example:{server.port}"} or path == "/sse"


async def test_the_next_address_is_tried_when_the_first_cannot_be_connected_to(server: Remote) -> None:
    url = f"http://two.example:{server.port}/mcp"
    async with connected(url, resolver=lambda host, port: ["127.0.0.77", "127.0.0.1"]) as toolset:
        assert toolset.tools()


@pytest.mark.requirement("client-mcp.errors.generic")
async def test_failures_and_the_log_show_neither_address_nor_header(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with remote(tmp_path) as server:
        texts = [
            await failing(server.url("/away?key=k1l2m3n4")),
            await failing(server.url("/nothing-here?key=k1l2m3n4")),
            await failing("http://127.0.0.1:9/mcp?key=k1l2m3n4"),
            await failing("http://no.such.host.invalid/mcp?key=k1l2m3n4"),
            await failing("http://999.1.1.1/mcp?key=k1l2m3n4"),
        ]
        url = server.url("/mcp?key=k1l2m3n4")
        async with connected(url, headers=(("Authorization", SECRET),)) as toolset:
            with pytest.raises(ToolFailure) as failure:
                await call(toolset, "die")
            texts.append(str(failure.value))
    assert texts[1] == "the MCP server 'srv' answered with HTTP status 404"
    assert texts[2] == "the MCP server 'srv' could not be connected to"
    for text in [*texts, caplog.text]:
        for hidden in ("k1l2m3n4", "q0w9e8r7t6", "/away", "nothing-here", "no.such.host"):
            assert hidden not in text, text


@KINDS
async def test_a_changed_list_of_tools_is_fetched_again(server: Remote, path: str) -> None:
    changes: list[int] = []
    async with connected(server.url(path), on_change=lambda: changes.append(1)) as toolset:
        before = {tool.name: tool for tool in toolset.tools()}
        name = f"new{path[1:]}"
        await call(toolset, "grow", name=name)
        await until(lambda: bool(changes))
        after = {tool.name: tool for tool in toolset.tools()}
        assert set(after) - set(before) == {f"srv_{name}"} and after["srv_echo"] is before["srv_echo"]
        assert (await call(toolset, name)).text == "new"


async def test_an_answer_that_is_too_large_or_compressed_is_refused() -> None:
    async def body() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"12345"

    bounded = guarded._Bounded(body(), 12)
    with pytest.raises(httpx2.ReadError):
        [chunk async for chunk in bounded]


@pytest.mark.requirement("client-mcp.url.proxy-policy")
async def test_with_a_proxy_the_request_goes_to_the_proxy_and_names_are_left_to_it() -> None:
    seen: list[str] = []

    async def proxy(stream: Any) -> None:
        async with stream:
            seen.append((await stream.receive()).split(b"\r\n")[0].decode())
            await stream.send(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, proxy)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        env = {"http_proxy": f"http://127.0.0.1:{port}"}

        async def through(url: str) -> str:
            async with anyio.create_task_group() as owners:
                setup = McpSetup(owners, "/", env, policy=AddressPolicy(), resolver=lambda h, p: ["10.0.0.1"])
                toolset = McpToolset(RemoteSpec("srv", url), setup, McpServer("srv"))
                with pytest.raises(ToolFailure) as failure:
                    await toolset.start()
            return str(failure.value)

        assert "HTTP status 403" in await through("http://inside.example/mcp")
        assert seen == ["POST http://inside.example/mcp HTTP/1.1"]
        assert "may not be reached" in await through("http://127.0.0.1/mcp")
        tasks.cancel_scope.cancel()


def test_nothing_of_an_address_or_a_header_is_in_the_representation() -> None:
    spec = RemoteSpec("srv", "https://h.example/p?key=1", headers=(("A", SECRET),))
    endpoint = guarded.Endpoint("srv", spec.url, headers=spec.headers, env=dict(os.environ))
    assert "h.example" not in repr(spec) + repr(endpoint) and "q0w9" not in repr(spec) + json.dumps(repr(endpoint))
