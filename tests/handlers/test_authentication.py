"""initialize, authenticate and logout over the wire."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from sluice.config.environment import Environment
from tests.support.model_server import ModelServer, Reply, Stall, Text, text
from tests.support.setup import agent_on, on_stage, scripted_agent
from tests.support.wire import serving

pytestmark = pytest.mark.anyio

KEYED = {"provider": "openai", "model": "x", "token_key": "TEST_KEY"}


def keyed(directory: Path, base_url: str) -> Path:
    """An agent whose model needs TEST_KEY."""
    return agent_on(directory, base_url, models={"m": {**KEYED, "base_url": base_url}})


@pytest.mark.requirement("initialize.version.newer-requested", "initialize.version.zero", "initialize.agent.info")
@pytest.mark.parametrize("version", [0, 1, 2, 65535])
async def test_every_version_is_answered_with_one(tmp_path: Path, version: int) -> None:
    async with serving(scripted_agent(tmp_path, {"text": "x"}), tmp_path / "s.db") as server:
        result = await server.client.result("initialize", protocolVersion=version, info={}, capabilities={})
        assert result["protocolVersion"] == 1 and result["agentInfo"]["name"] == "sluice"
        assert [method["id"] for method in result["authMethods"]] == ["host-credentials"]


@pytest.mark.requirement(
    "initialize.order.required-first", "initialize.order.early-notifications", "initialize.version.malformed"
)
async def test_nothing_but_initialize_is_admitted_first(tmp_path: Path) -> None:
    async with serving(scripted_agent(tmp_path, {"text": "x"}), tmp_path / "s.db") as server:
        client = server.client
        await client.notify("session/cancel", sessionId="x")
        refused: list[tuple[str, dict[str, Any]]] = [
            ("session/list", {}),
            ("authenticate", {"methodId": "host-credentials"}),
            ("session/new", {"cwd": str(tmp_path), "mcpServers": []}),
        ]
        for method, params in refused:
            assert (await client.error(method, **params))["code"] == -32600
        for version in [None, "1", 1.5, -1, 65536, True]:
            assert (await client.error("initialize", protocolVersion=version))["code"] == -32602
        await client.initialize()
        again = await client.result("initialize", protocolVersion=1, clientCapabilities={"terminal": True})
        assert again["protocolVersion"] == 1
        assert server.connection.capabilities.terminal is False


@pytest.mark.requirement("initialize.order.pipelined", "transport.framing.split-and-joined-reads")
async def test_requests_in_the_same_write_as_initialize_are_admitted_after_it(tmp_path: Path) -> None:
    async with serving(scripted_agent(tmp_path, {"text": "x"}), tmp_path / "s.db") as server:
        client = server.client
        first = client.request("initialize", protocolVersion=1)
        new = client.request("session/new", cwd=str(tmp_path), mcpServers=[])
        listed = client.request("session/list")
        gone = client.request("session/list")
        withdraw = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": gone["id"]}}
        await client.write(first, new, listed, gone, withdraw)
        assert "result" in await client.answer(new["id"]) and "result" in await client.answer(listed["id"])
        assert (await client.answer(gone["id"]))["error"]["code"] == -32800


@pytest.mark.requirement("initialize.failure.bad-config", "config-file.format.unknown-key")
async def test_a_broken_agent_file_fails_initialize_with_the_place_and_a_mended_one_goes_on(tmp_path: Path) -> None:
    file = scripted_agent(tmp_path, {"text": "x"})
    good = file.read_text()
    file.write_text(good.replace("instruction:", "instructoin:"))
    async with serving(file, tmp_path / "s.db") as server:
        error = await server.client.error("initialize", protocolVersion=1)
        assert error["code"] == -32603
        assert error["data"]["file"].endswith("agent.yaml") and error["data"]["key"] == "agents.root.instructoin"
        assert isinstance(error["data"]["line"], int) and "instruction" in error["data"]["error"]
        assert (await server.client.error("session/list"))["code"] == -32600
        file.write_text(good)
        await server.client.initialize()
        await server.client.new(tmp_path)


@pytest.mark.requirement(
    "auth.required.on-setup",
    "initialize.failure.missing-credentials",
    "auth.authenticate.still-missing",
    "auth.authenticate.reloads-sources",
    "auth.authenticate.validates-team",
)
async def test_missing_credentials_close_the_door_until_they_are_there(tmp_path: Path) -> None:
    """Naively authenticate says yes without looking, or only a new process sees the key."""
    env_file = tmp_path / "keys.env"
    env_file.write_text("# nothing yet\n")
    async with ModelServer([text("hi")]) as model:
        file = keyed(tmp_path, model.base_url)
        reading = lambda: Environment.read({}, [env_file], None)  # noqa: E731
        async with serving(file, tmp_path / "s.db", environment=reading) as server:
            client = server.client
            await client.initialize()
            refused: list[tuple[str, dict[str, Any]]] = [
                ("session/new", {"cwd": str(tmp_path), "mcpServers": []}),
                ("session/load", {"sessionId": "x", "cwd": str(tmp_path), "mcpServers": []}),
                ("session/resume", {"sessionId": "x", "cwd": str(tmp_path)}),
            ]
            for method, params in refused:
                error = await client.error(method, **params)
                assert error["code"] == -32000 and error["data"]["methodId"] == "host-credentials"
            assert (await client.result("session/list"))["sessions"] == []
            error = await client.error("authenticate", methodId="host-credentials")
            assert error["code"] == -32000 and "TEST_KEY" in error["data"]["message"]
            env_file.write_text("TEST_KEY=abc\n")
            assert await client.result("authenticate", methodId="host-credentials") == {}
            session = await client.new(tmp_path)
            assert (await client.prompt(session, "x"))["result"] == {"stopReason": "end_turn"}
            assert model.requests[0].headers["authorization"] == "Bearer abc"


@pytest.mark.requirement("auth.authenticate.unknown-method", "auth.authenticate.healthy-noop")
async def test_authenticate_on_a_healthy_connection_changes_nothing(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        assert await stage.client.result("authenticate", methodId="host-credentials") == {}
        assert await stage.client.result("authenticate", methodId="host-credentials") == {}
        wrong: list[dict[str, Any]] = [{"methodId": "nope"}, {"methodId": ""}, {"methodId": 3}, {}]
        for bad in wrong:
            assert (await stage.client.error("authenticate", **bad))["code"] == -32602


@pytest.mark.requirement(
    "auth.logout.drains-everything",
    "auth.logout.blocks-at-once",
    "auth.logout.joins-repeated",
    "auth.logout.then-gated-calls",
    "auth.logout.then-resume-works",
)
async def test_logout_drains_gates_and_is_undone_by_authenticate(tmp_path: Path) -> None:
    async with on_stage(tmp_path, Reply([Text("x"), Stall()]), text("again")) as stage:
        client = stage.client
        prompt = client.send_prompt(stage.session, "1")
        await client.write(prompt)
        await client.until(lambda m: "agent_message_chunk" in str(m))
        first, second = client.request("logout"), client.request("logout")
        late = client.request("session/list")
        await client.write(first, second, late)
        assert (await client.answer(late["id"]))["error"]["code"] == -32000
        assert (await client.answer(prompt["id"]))["result"] == {"stopReason": "cancelled"}
        assert (await client.answer(first["id"]))["result"] == {} == (await client.answer(second["id"]))["result"]
        where: dict[str, Any] = {"sessionId": stage.session}
        refused: list[tuple[str, dict[str, Any]]] = [
            ("session/new", {"cwd": str(stage.cwd), "mcpServers": []}),
            ("session/load", {**where, "cwd": str(stage.cwd), "mcpServers": []}),
            ("session/prompt", {**where, "prompt": [{"type": "text", "text": "x"}]}),
            ("session/list", {}),
            ("session/delete", where),
            ("session/set_mode", {**where, "modeId": "strict"}),
        ]
        for method, params in refused:
            assert (await client.error(method, **params))["code"] == -32000, method
        assert await client.result("session/close", **where) == {}
        assert await client.result("authenticate", methodId="host-credentials") == {}
        await client.result("session/resume", **where, cwd=str(stage.cwd))
        assert (await client.prompt(stage.session, "2"))["result"] == {"stopReason": "end_turn"}
        assert [m["content"] for m in stage.model.requests[1].messages[1:]] == ["1", "x", "2"]


@pytest.mark.requirement("auth.logout.cancel-keeps-cleanup")
async def test_a_cancelled_logout_only_stops_waiting(tmp_path: Path) -> None:
    async with on_stage(tmp_path, Reply([Text("x"), Stall()])) as stage:
        client = stage.client
        prompt = client.send_prompt(stage.session, "1")
        await client.write(prompt)
        await client.until(lambda m: "agent_message_chunk" in str(m))
        logout = client.request("logout")
        withdraw = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": logout["id"]}}
        await client.write(logout, withdraw)
        assert (await client.answer(logout["id"]))["error"]["code"] == -32800
        assert (await client.answer(prompt["id"]))["result"] == {"stopReason": "cancelled"}
        assert await client.result("logout") == {}
        assert (await client.error("session/list"))["code"] == -32000


@pytest.mark.requirement(
    "shutdown.cancel.admitted", "shutdown.eof.clean-exit", "transport.framing.unterminated-last-line"
)
async def test_end_of_input_answers_every_request_that_was_read(tmp_path: Path) -> None:
    async with on_stage(tmp_path, Reply([Text("x"), Stall()])) as stage:
        prompt = stage.client.send_prompt(stage.session, "1")
        await stage.client.write(prompt)
        await stage.client.until(lambda m: "agent_message_chunk" in str(m))
        stage.client.transport.send_eof()  # type: ignore[attr-defined]
        assert (await stage.client.answer(prompt["id"]))["result"] == {"stopReason": "cancelled"}
        with anyio.fail_after(10):
            await stage.client.ended.wait()
    assert stage.server.status == 0
