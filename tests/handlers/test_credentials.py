"""authenticate and logout where they meet sessions, other processes and failures."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml

from sluice.config.environment import Environment
from tests.handlers.support import Stubborn, holding
from tests.support.model_server import ModelServer, Reply, Stall, Text, text
from tests.support.setup import agent_on, on_stage
from tests.support.wire import serving, spawned

pytestmark = pytest.mark.anyio

HOST = {"methodId": "host-credentials"}


@pytest.mark.requirement("auth.method.host-credentials", "auth.ambient.no-call-needed")
async def test_the_method_says_that_the_hosts_credentials_are_adopted_and_nobody_needs_it(tmp_path: Path) -> None:
    async with on_stage(tmp_path, text("ok")) as stage:
        result = await stage.client.initialize()
        (method,) = result["authMethods"]
        assert method["id"] == "host-credentials"
        assert "already configured on the agent's host" in method["description"] and method["name"]
        assert (await stage.client.prompt(stage.session, "hi"))["result"] == {"stopReason": "end_turn"}


@pytest.mark.requirement("auth.method.no-secret-accepted", "auth.method.no-provider-probe")
async def test_a_key_in_the_params_goes_nowhere_and_no_provider_is_asked(tmp_path: Path) -> None:
    secret = "zq-VERYSECRETVALUE"
    env_file = tmp_path / "keys.env"
    env_file.write_text("")
    async with ModelServer() as model:
        keyed = {"provider": "openai", "model": "x", "base_url": model.base_url, "token_key": "TEST_KEY"}
        file = agent_on(tmp_path, model.base_url, models={"m": keyed})
        async with spawned(file, tmp_path / "s.db", "--debug", "--env-from-file", str(env_file)) as server:
            await server.client.initialize()
            given = {"apiKey": secret, "_meta": {"apiKey": secret, "TEST_KEY": secret}}
            error = await server.client.error("authenticate", **HOST, **given)
            assert error["code"] == -32000
            env_file.write_text("TEST_KEY=good\n")
            assert await server.client.result("authenticate", **HOST, **given) == {}
            await server.client.new(tmp_path)
            assert [m for m in server.client.log if m.get("method") == "elicitation/create"] == []
        assert model.requests == []
        places = [server.stderr.read_bytes(), *(path.read_bytes() for path in tmp_path.glob("s.db*"))]
        assert not any(secret.encode() in place for place in places)
        assert secret not in json.dumps(server.client.log)


@pytest.mark.requirement("auth.authenticate.live-sessions-block", "auth.authenticate.no-silent-client-swap")
async def test_missing_credentials_found_later_close_the_door_but_not_the_open_session(tmp_path: Path) -> None:
    async with on_stage(tmp_path, text("one"), text("two")) as stage:
        client = stage.client
        file = tmp_path / "agent.yaml"
        good = file.read_text()
        content = yaml.safe_load(good)
        content["models"]["m"]["token_key"] = "KEY_THAT_IS_NOT_SET"
        file.write_text(yaml.safe_dump(content))
        assert (await client.error("session/new", cwd=str(stage.cwd), mcpServers=[]))["code"] == -32000
        assert (await client.prompt(stage.session, "hi"))["result"] == {"stopReason": "end_turn"}
        error = await client.error("authenticate", **HOST)
        assert (error["code"], error["data"]["reason"]) == (-32600, "live_sessions")
        file.write_text(good)
        assert (await client.error("authenticate", **HOST))["code"] == -32600
        assert (await client.prompt(stage.session, "hi"))["result"] == {"stopReason": "end_turn"}
        await client.result("session/close", sessionId=stage.session)
        assert await client.result("authenticate", **HOST) == {}
        await client.result("session/resume", sessionId=stage.session, cwd=str(stage.cwd))


@pytest.mark.requirement("auth.authenticate.wrong-state", "auth.logout.blocks-at-once")
async def test_authenticate_is_refused_while_something_is_authenticated_or_drained(tmp_path: Path) -> None:
    env_file = tmp_path / "keys.env"
    env_file.write_text("")
    async with ModelServer() as model:
        keyed = {"provider": "openai", "model": "x", "base_url": model.base_url, "token_key": "TEST_KEY"}
        file = agent_on(tmp_path, model.base_url, models={"m": keyed})
        read = lambda: Environment.read({}, [env_file], None)  # noqa: E731
        async with serving(file, tmp_path / "s.db", read) as server:
            client = server.client
            assert (await client.error("authenticate", **HOST))["code"] == -32600
            await client.initialize()
            first, second = client.request("authenticate", **HOST), client.request("authenticate", **HOST)
            await client.write(first, second)
            refused = (await client.answer(second["id"]))["error"]
            assert (refused["code"], refused["data"]["reason"]) == (-32600, "authenticating")
            assert (await client.answer(first["id"]))["error"]["code"] == -32000
            out, during = client.request("logout"), client.request("authenticate", **HOST)
            await client.write(out, during)
            assert (await client.answer(during["id"]))["error"]["code"] == -32600
            assert (await client.answer(out["id"]))["result"] == {}


@pytest.mark.requirement("auth.logout.shutdown-waits", "shutdown.cancel.admitted")
async def test_the_end_of_input_waits_for_a_logout_under_way(tmp_path: Path) -> None:
    async with on_stage(tmp_path, Reply([Text("x"), Stall()])) as stage:
        client = stage.client
        prompt = client.send_prompt(stage.session, "1")
        await client.write(prompt)
        await client.until(lambda m: "agent_message_chunk" in str(m))
        logout = client.request("logout")
        await client.write(logout)
        client.transport.send_eof()  # type: ignore[attr-defined]
        assert (await client.answer(logout["id"]))["result"] == {}
        assert (await client.answer(prompt["id"]))["result"] == {"stopReason": "cancelled"}
        with anyio.fail_after(10):
            await client.ended.wait()
    assert stage.server.status == 0


@pytest.mark.requirement("auth.logout.cleanup-failure-sticks", "session.close.toolset-stop-error")
async def test_a_logout_whose_cleanup_fails_stays_failed(tmp_path: Path) -> None:
    """Naively the answer is a success, and the next authenticate opens the door over what was never let go."""
    async with on_stage(tmp_path) as stage:
        client = stage.client
        holding(stage.server, stage.session, Stubborn())
        error = await client.error("logout")
        assert (error["code"], error["data"]["reason"]) == (-32603, "cleanup_failed")
        for method, params in [("logout", {}), ("authenticate", HOST)]:
            error = await client.error(method, **params)
            assert (error["code"], error["data"]["reason"]) == (-32603, "cleanup_failed"), method
        assert (await client.error("session/new", cwd=str(stage.cwd), mcpServers=[]))["code"] == -32000
        assert (await client.error("session/close", sessionId=stage.session))["data"]["reason"] == "cleanup_failed"
    assert stage.server.status == 1


def dump(database: Path) -> list[str]:
    connection = sqlite3.connect(database)
    try:
        return list(connection.iterdump())
    finally:
        connection.close()


@pytest.mark.requirement("auth.logout.deletes-nothing-shared", "auth.logout.connection-local")
async def test_a_logout_touches_nothing_that_others_use(tmp_path: Path) -> None:
    env_file = tmp_path / "keys.env"
    env_file.write_text("TEST_KEY=abc\n")
    async with ModelServer(default=text("ok")) as model:
        keyed = {"provider": "openai", "model": "x", "base_url": model.base_url, "token_key": "TEST_KEY"}
        file, database = agent_on(tmp_path, model.base_url, models={"m": keyed}), tmp_path / "s.db"
        read = lambda: Environment.read({}, [env_file], None)  # noqa: E731
        async with serving(file, database, read) as one, serving(file, database, read) as other:
            await one.client.initialize()
            await other.client.initialize()
            mine, theirs = await one.client.new(tmp_path), await other.client.new(tmp_path)
            await one.client.prompt(mine, "hi")
            before, asked = dump(database), len(model.requests)
            assert await one.client.result("logout") == {}
            assert dump(database) == before and env_file.read_text() == "TEST_KEY=abc\n"
            assert len(model.requests) == asked
            assert (await other.client.prompt(theirs, "hi"))["result"] == {"stopReason": "end_turn"}
            async with serving(file, database, read) as third:
                await third.client.initialize()
                await third.client.result("session/resume", sessionId=mine, cwd=str(tmp_path))


@pytest.mark.requirement("auth.logout.then-close-and-cancel")
async def test_close_and_cancel_are_accepted_after_a_logout(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        client = stage.client
        assert await client.result("logout") == {}
        await client.notify("session/cancel", sessionId=stage.session)
        assert await client.result("session/close", sessionId=stage.session) == {}
        assert (await client.error("session/close", sessionId="never"))["code"] == -32002
        assert (await client.prompt(stage.session, "x"))["error"]["code"] == -32000
        config = {"sessionId": stage.session, "configId": "mode", "value": "strict"}
        assert (await client.error("session/set_config_option", **config))["code"] == -32000
        resume: dict[str, Any] = {"sessionId": stage.session, "cwd": str(stage.cwd)}
        assert (await client.error("session/resume", **resume))["code"] == -32000


@pytest.mark.requirement("auth.logout.admitted-delete-may-commit")
async def test_a_delete_admitted_before_a_logout_happens_wholly_and_can_be_repeated(tmp_path: Path) -> None:
    async with on_stage(tmp_path, Reply([Text("x"), Stall()])) as stage:
        client = stage.client
        await client.write(client.send_prompt(stage.session, "1"))
        await client.until(lambda m: "agent_message_chunk" in str(m))
        delete, logout = client.request("session/delete", sessionId=stage.session), client.request("logout")
        await client.write(delete, logout)
        assert (await client.answer(delete["id"]))["result"] == {}
        assert (await client.answer(logout["id"]))["result"] == {}
        assert 'INSERT INTO "sessions"' not in "\n".join(dump(tmp_path / "session.db"))
        assert await client.result("authenticate", **HOST) == {}
        assert await client.result("session/delete", sessionId=stage.session) == {}
