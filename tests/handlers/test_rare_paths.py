"""Transitions that need exact timing: work that was overtaken, over the wire, with credential sources that wait.

The sources are read in a worker thread, so a test can hold them there; what the thread finds arrives after the
machine has moved on, which is what rows that stay are for.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from sluice.config.environment import Environment
from sluice.handlers import connection as connection_module
from sluice.persistence.connection import Reader, Writer
from sluice.wire import peer as peer_module
from tests.support.model_server import Reply, Stall, Text
from tests.support.setup import agent_on, on_stage, scripted_agent
from tests.support.wire import BOUND, Client, Server, serving

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

KEY = {"TEST_KEY": "abc"}


def keyed(directory: Path) -> Path:
    model = {"provider": "openai", "model": "x", "base_url": "http://127.0.0.1:9/v1", "token_key": "TEST_KEY"}
    return agent_on(directory, "", models={"m": model})


class Sources:
    """Credential sources that a test opens, closes and holds."""

    def __init__(self, variables: dict[str, str] | None = None) -> None:
        self.variables = variables if variables is not None else dict(KEY)
        self.free = threading.Event()
        self.asked = threading.Event()
        self.free.set()

    def read(self) -> Environment:
        return HeldEnvironment((), {}, held=self)

    async def wait_until_asked(self) -> None:
        with anyio.fail_after(BOUND):
            await anyio.to_thread.run_sync(self.asked.wait, abandon_on_cancel=True)


class HeldEnvironment(Environment, frozen=True, kw_only=True):
    """Every look-up waits while the sources are held."""

    held: Sources

    def get(self, name: str, /) -> str | None:
        self.held.asked.set()
        assert self.held.free.wait(BOUND)
        return self.held.variables.get(name)

    def reload(self) -> Environment:
        return self


@pytest.fixture
def sources() -> Iterator[Sources]:
    held = Sources()
    yield held
    held.free.set()


def taken(server: Server, *row: str) -> bool:
    return any((t.machine, t.event, t.source, t.target) == row for t in server.transitions)


async def moved(server: Server, *row: str) -> None:
    """Wait for a transition, at the loop's own pace."""
    with anyio.fail_after(BOUND):
        while not taken(server, *row):
            await anyio.sleep(0.005)


def hold(sources: Sources) -> None:
    sources.asked.clear()
    sources.free.clear()


async def test_the_input_may_end_before_initialize(tmp_path: Path) -> None:
    async with serving(scripted_agent(tmp_path, {"text": "x"}), tmp_path / "s.db") as server:
        pass
    assert taken(server, "connection", "end_of_input", "opened", "shutting_down") and server.status == 0


async def test_the_input_may_end_while_credentials_are_missing(tmp_path: Path) -> None:
    async with serving(keyed(tmp_path), tmp_path / "s.db") as server:
        await server.client.initialize()
    assert taken(server, "connection", "end_of_input", "auth_required", "shutting_down") and server.status == 0


@pytest.mark.parametrize(("variables", "event"), [(KEY, "credentials_found"), ({}, "credentials_missing")])
async def test_what_initialize_finds_after_its_deadline_changes_nothing(
    tmp_path: Path, sources: Sources, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], event: str
) -> None:
    monkeypatch.setattr(connection_module, "INITIALIZE_BUDGET", 0.05)
    sources.variables = variables
    hold(sources)
    async with serving(keyed(tmp_path), tmp_path / "s.db", sources.read) as server:
        first = await server.client.send("initialize", protocolVersion=1)
        held = await server.client.send("session/list")
        await sources.wait_until_asked()
        server.client.transport.send_eof()  # type: ignore[attr-defined]
        assert (await server.client.answer(held))["error"]["data"]["reason"] == "shutting_down"
        sources.free.set()
        assert (await server.client.answer(first))["error"]["data"]["reason"] == "shutting_down"
    assert taken(server, "connection", event, "shutting_down", "shutting_down")


async def test_two_setups_that_find_credentials_missing_ask_for_them_once(tmp_path: Path, sources: Sources) -> None:
    async with serving(keyed(tmp_path), tmp_path / "s.db", sources.read) as server:
        client = server.client
        await client.initialize()
        sources.variables = {}
        new = [client.request("session/new", cwd=str(tmp_path), mcpServers=[]) for _ in range(2)]
        await client.write(*new)
        for message in new:
            assert (await client.answer(message["id"]))["error"]["code"] == -32000
    assert taken(server, "connection", "credentials_missing", "auth_required", "auth_required")


async def test_a_setup_that_finds_credentials_missing_does_not_undo_a_logout(
    tmp_path: Path, sources: Sources
) -> None:
    async with serving(keyed(tmp_path), tmp_path / "s.db", sources.read) as server:
        client = server.client
        await client.initialize()
        sources.variables = {}
        hold(sources)
        new = await client.send("session/new", cwd=str(tmp_path), mcpServers=[])
        await sources.wait_until_asked()
        logout = await client.send("logout")
        await moved(server, "connection", "logout", "ready", "logging_out")
        sources.free.set()
        assert (await client.answer(new))["error"]["code"] in (-32000, -32800)
        assert (await client.answer(logout))["result"] == {}
        assert (await client.error("session/list"))["code"] == -32000
    assert taken(server, "connection", "credentials_missing", "logging_out", "logging_out")


@pytest.mark.parametrize(("variables", "event"), [(KEY, "authenticated"), ({}, "authentication_failed")])
@pytest.mark.parametrize("origin", ["auth_required", "logged_out"])
async def test_logout_overtakes_authenticate(
    tmp_path: Path, sources: Sources, variables: dict[str, str], event: str, origin: str
) -> None:
    sources.variables = {} if origin == "auth_required" else dict(KEY)
    async with serving(keyed(tmp_path), tmp_path / "s.db", sources.read) as server:
        client = server.client
        await client.initialize()
        if origin == "logged_out":
            await client.result("logout")
        sources.variables = variables
        hold(sources)
        authenticate = await client.send("authenticate", methodId="host-credentials")
        await sources.wait_until_asked()
        logout = await client.send("logout")
        state = "authenticating" if origin == "auth_required" else "reauthenticating"
        await moved(server, "connection", "logout", state, "logging_out")
        sources.free.set()
        assert ("result" in await client.answer(authenticate)) == (event == "authenticated")
        assert (await client.answer(logout))["result"] == {}
        assert (await client.error("session/list"))["code"] == -32000
    assert taken(server, "connection", event, "logging_out", "logging_out")


async def test_authenticate_after_logout_fails_back_to_logged_out(tmp_path: Path, sources: Sources) -> None:
    async with serving(keyed(tmp_path), tmp_path / "s.db", sources.read) as server:
        client = server.client
        await client.initialize()
        await client.result("logout")
        sources.variables = {}
        assert (await client.error("authenticate", methodId="host-credentials"))["code"] == -32000
        assert (await client.error("session/delete", sessionId="x"))["code"] == -32000
    assert taken(server, "connection", "authentication_failed", "reauthenticating", "logged_out")


@pytest.mark.parametrize(("variables", "event"), [(KEY, "authenticated"), ({}, "authentication_failed")])
@pytest.mark.parametrize("origin", ["auth_required", "logged_out"])
async def test_the_end_of_input_overtakes_authenticate(
    tmp_path: Path, sources: Sources, variables: dict[str, str], event: str, origin: str
) -> None:
    sources.variables = {} if origin == "auth_required" else dict(KEY)
    async with serving(keyed(tmp_path), tmp_path / "s.db", sources.read) as server:
        client = server.client
        await client.initialize()
        if origin == "logged_out":
            await client.result("logout")
        sources.variables = variables
        hold(sources)
        authenticate = await client.send("authenticate", methodId="host-credentials")
        await sources.wait_until_asked()
        client.transport.send_eof()  # type: ignore[attr-defined]
        state = "authenticating" if origin == "auth_required" else "reauthenticating"
        await moved(server, "connection", "end_of_input", state, "shutting_down")
        sources.free.set()
        assert ("result" in await client.answer(authenticate)) == (event == "authenticated")
    assert taken(server, "connection", event, "shutting_down", "shutting_down") and server.status == 0


async def test_a_delete_takes_over_from_a_close_and_from_a_constructor(tmp_path: Path, sources: Sources) -> None:
    async with on_stage(tmp_path, Reply([Text("x"), Stall()])) as stage:
        client = stage.client
        prompt = client.send_prompt(stage.session, "1")
        await client.write(prompt)
        await client.until(lambda m: "agent_message_chunk" in str(m))
        close = client.request("session/close", sessionId=stage.session)
        delete = client.request("session/delete", sessionId=stage.session)
        await client.write(close, delete)
        assert (await client.answer(close["id"]))["result"] == {} == (await client.answer(delete["id"]))["result"]
        assert taken(stage.server, "session", "session/delete", "closing", "deleting")


@asynccontextmanager
async def held(connection: Writer | Reader, client: Client, message: Json) -> AsyncIterator[None]:
    """Send a message and hold the store's thread at the work it hands over, until the block ends."""
    with connection._one_thread:
        await client.write(message)
        with anyio.fail_after(BOUND):
            while not connection._thread.borrowed_tokens:
                await anyio.sleep(0.005)
        yield


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize(("method", "state"), [("session/close", "closing"), ("session/delete", "deleting")])
async def test_an_end_overtakes_a_load_that_is_looking_for_its_session(
    tmp_path: Path, there: bool, method: str, state: str
) -> None:
    async with serving(scripted_agent(tmp_path, {"text": "x"}), tmp_path / "s.db") as server:
        client = server.client
        await client.initialize()
        session = await client.new(tmp_path) if there else "nobody"
        if there:
            await client.result("session/close", sessionId=session)
        store = await server.connection.assembly.store()
        load = client.request("session/load", sessionId=session, cwd=str(tmp_path), mcpServers=[])
        end = client.request(method, sessionId=session)
        async with held(store._reader, client, load):
            await client.write(end)
            await moved(server, "session", method, "constructing", state)
        assert (await client.answer(load["id"]))["error"]["code"] == -32800
        assert (await client.answer(end["id"]))["result"] == {}
        assert taken(server, "session", "setup_failed" if there else "not_found", state, state)


async def test_a_logout_overtakes_a_session_that_is_being_stored_and_no_row_stays(tmp_path: Path) -> None:
    async with serving(scripted_agent(tmp_path, {"text": "x"}), tmp_path / "s.db") as server:
        client = server.client
        await client.initialize()
        store = await server.connection.assembly.store()
        new = client.request("session/new", cwd=str(tmp_path), mcpServers=[])
        async with held(store._writer, client, new):
            logout = await client.send("logout")
            await moved(server, "connection", "logout", "ready", "logging_out")
        assert (await client.answer(new["id"]))["error"]["code"] == -32800
        assert (await client.answer(logout))["result"] == {}
        assert taken(server, "session", "constructed", "closing", "closing")
        await client.result("authenticate", methodId="host-credentials")
        assert (await client.result("session/list"))["sessions"] == []


@pytest.mark.parametrize("queued", [False, True])
async def test_a_close_overtakes_a_turn_that_is_draining(tmp_path: Path, queued: bool) -> None:
    async with on_stage(tmp_path, Reply([Text("x"), Stall()])) as stage:
        client = stage.client
        prompt = client.send_prompt(stage.session, "1")
        await client.write(prompt)
        await client.until(lambda m: "agent_message_chunk" in str(m))
        cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": stage.session}}
        second = client.send_prompt(stage.session, "2")
        close = client.request("session/close", sessionId=stage.session)
        await client.write(cancel, *([second] if queued else []), close)
        assert (await client.answer(prompt["id"]))["result"] == {"stopReason": "cancelled"}
        if queued:
            assert (await client.answer(second["id"]))["result"] == {"stopReason": "cancelled"}
        assert (await client.answer(close["id"]))["result"] == {}
        assert taken(stage.server, "turn", "close", "queued" if queued else "draining", "closing")


async def test_a_client_that_asks_without_end_is_refused_beyond_a_bound_and_the_rest_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_module, "MAX_IN_FLIGHT", 5)
    async with serving(scripted_agent(tmp_path, {"text": "x"}), tmp_path / "s.db") as server:
        client = server.client
        await client.initialize()
        store = await server.connection.assembly.store()
        first = client.request("session/list")
        async with held(store._reader, client, first):
            more = [client.request("session/list") for _ in range(7)]
            await client.write(*more)
            for message in more[4:]:
                error = (await client.answer(message["id"]))["error"]
                assert (error["code"], error["data"]["limit"]) == (-32603, 5)
        for message in (first, *more[:4]):
            assert (await client.answer(message["id"]))["result"]["sessions"] == []
        assert (await client.result("session/list"))["sessions"] == []
