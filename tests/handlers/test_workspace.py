"""Where a session works, and what is stored of that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from sluice.config.environment import Environment
from sluice.handlers.assembly import Options
from sluice.handlers.embedding import EmbeddedAgent, embedded
from sluice.wire.errors import InvalidParams, RpcError
from tests.handlers.support import Stubborn, holding, stored, user
from tests.support.model_server import ModelServer, call, calls, text
from tests.support.setup import agent_on, on_stage, scripted_agent
from tests.support.wire import Client, serving, spawned

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("workspace.cwd.independent-of-launch", "workspace.cwd.no-sandbox")
async def test_tools_work_in_the_sessions_directory_wherever_the_process_was_started(tmp_path: Path) -> None:
    """Field case B03: two sessions of one process resolve one relative path to two files. And nobody is confined."""
    one, two, elsewhere = tmp_path / "one", tmp_path / "two", tmp_path / "elsewhere"
    for directory in (one, two, elsewhere):
        directory.mkdir()
    (elsewhere / "outside.txt").write_text("reachable")
    look = calls(call("shell", cmd="pwd"), call("create_directory", paths=["made"]))
    reach = calls(call("shell", cmd=f"cat {elsewhere}/outside.txt"))
    async with ModelServer([look, text("ok"), look, reach, text("ok")]) as model:
        file = agent_on(tmp_path, model.base_url)
        async with spawned(file, tmp_path / "s.db", cwd=elsewhere) as server:
            await server.client.initialize()
            for directory in (one, two):
                session = await server.client.new(directory)
                await server.client.result("session/set_mode", sessionId=session, modeId="autonomous")
                assert (await server.client.prompt(session, "go"))["result"] == {"stopReason": "end_turn"}
        seen = [m["content"] for m in model.requests[1].messages if m["role"] == "tool"]
        assert seen[0] == f"{one}\n"
        seen = [m["content"] for m in model.requests[-1].messages if m["role"] == "tool"]
        assert seen[0] == f"{two}\n" and seen[2] == "reachable"
    assert (one / "made").is_dir() and (two / "made").is_dir()
    assert not (elsewhere / "made").exists()


@pytest.mark.requirement("workspace.match.saved-path-kept", "workspace.match.aliases-accepted")
@pytest.mark.parametrize("method", ["session/load", "session/resume"])
async def test_opening_through_an_alias_leaves_the_stored_path(tmp_path: Path, method: str) -> None:
    real, alias = tmp_path / "real", tmp_path / "alias"
    real.mkdir()
    alias.symlink_to(real)
    await stored(tmp_path / "s.db", "old", user("hi"), cwd=real)
    async with serving(scripted_agent(tmp_path, {"text": "x"}), tmp_path / "s.db") as server:
        await server.client.initialize()
        for given in (alias, f"{real}/../real/"):
            await server.client.result(method, sessionId="old", cwd=str(given), mcpServers=[])
        assert (await server.client.result("session/list"))["sessions"][0]["cwd"] == str(real)


@pytest.mark.requirement("workspace.match.legacy-without-path", "session.list.unknown-workspace-hidden")
async def test_a_session_stored_without_a_workspace_takes_none(tmp_path: Path) -> None:
    await stored(tmp_path / "s.db", "old", user("hi"), cwd=None)
    async with serving(scripted_agent(tmp_path, {"text": "x"}), tmp_path / "s.db") as server:
        client = server.client
        await client.initialize()
        for _ in range(2):
            error = await client.error("session/load", sessionId="old", cwd=str(tmp_path), mcpServers=[])
            assert (error["code"], error["data"]["path"]) == (-32602, "$.cwd")
        assert (await client.result("session/list"))["sessions"] == []


@pytest.mark.requirement(
    "workspace.roots.full-replacement",
    "workspace.roots.invalid-leaves-state",
    "session.list.roots-of-live-only",
    "session.load.replaces-servers-and-roots",
    "session.new.extra-roots-optional",
)
async def test_load_and_resume_replace_the_extra_directories_as_a_whole(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        client, cwd = stage.client, str(stage.cwd)
        session = await client.new(stage.cwd, additionalDirectories=["/b", "/a", "/b"])

        async def roots() -> Any:
            listed = (await client.result("session/list"))["sessions"]
            return next(entry for entry in listed if entry["sessionId"] == session).get("additionalDirectories")

        assert await roots() == ["/b", "/a", "/b"]
        for method in ("session/load", "session/resume"):
            again = {"sessionId": session, "cwd": cwd, "mcpServers": []}
            await client.result(method, **again, additionalDirectories=["/c"])
            assert await roots() == ["/c"]
            elsewhere: dict[str, Any] = {"cwd": str(tmp_path), "additionalDirectories": ["/d"]}
            for bad in ({"additionalDirectories": ["rel"]}, elsewhere):
                assert (await client.error(method, **{**again, **bad}))["code"] == -32602
            assert await roots() == ["/c"]
            broken = [{"name": "m", "command": "/nowhere/server", "args": [], "env": []}]
            wanted = {**again, "mcpServers": broken, "additionalDirectories": ["/d"]}
            assert (await client.error(method, **wanted))["code"] == -32603
            assert await roots() == ["/c"]
            await client.result(method, **again, additionalDirectories=None)
            assert not await roots()
        await client.result("session/resume", sessionId=session, cwd=cwd, additionalDirectories=["/e"])
        await client.result("session/close", sessionId=session)
        assert not await roots()
        await client.result("session/resume", sessionId=session, cwd=cwd)
        assert not await roots()


async def attached(agent: EmbeddedAgent, tasks: anyio.abc.TaskGroup) -> Client:
    client = Client(agent.transport)
    client.checker.any_session = True
    tasks.start_soon(client.read)
    await client.initialize()
    return client


@pytest.mark.requirement("workspace.cwd.embedder-fallback-new")
async def test_a_program_may_open_a_session_without_a_directory(tmp_path: Path) -> None:
    here, stated = tmp_path / "here", tmp_path / "stated"
    here.mkdir()
    stated.mkdir()
    pwd = calls(call("shell", cmd="pwd"))
    async with ModelServer([pwd, text("ok"), pwd, text("ok"), pwd, text("ok")]) as model:
        options = Options(
            agent_on(tmp_path, model.base_url), tmp_path / "s.db", lambda: Environment.read({}, (), None)
        )

        async def where(client: Client, session: str) -> str:
            await client.result("session/set_mode", sessionId=session, modeId="autonomous")
            assert (await client.prompt(session, "go"))["result"] == {"stopReason": "end_turn"}
            return str([m for m in model.requests[-1].messages if m["role"] == "tool"][-1]["content"]).strip()

        async with anyio.create_task_group() as tasks:
            async with embedded(options, here) as agent:
                client = await attached(agent, tasks)
                free = (await agent.new_session()).session_id
                bound = (await agent.new_session(cwd=str(stated))).session_id
                assert await where(client, free) == str(here)
                listed = (await client.result("session/list"))["sessions"]
                assert [entry["sessionId"] for entry in listed] == [bound]
                error = await client.error("session/resume", sessionId=free, cwd=str(here))
                assert error["code"] == -32602
                with pytest.raises(InvalidParams):
                    await agent.new_session(cwd="relative")
            async with embedded(options, tmp_path) as agent:
                client = await attached(agent, tasks)
                await agent.resume_session(bound)
                assert await where(client, bound) == str(stated)
                await agent.resume_session(free)
                assert await where(client, free) == str(tmp_path)
                await agent.resume_session(free)
                with pytest.raises(RpcError) as caught:
                    await agent.resume_session("nobody")
                assert caught.value.code == -32002
                with anyio.CancelScope() as scope:
                    scope.cancel()
                    await agent.new_session()
            tasks.cancel_scope.cancel()


async def test_an_embedded_agent_ends_when_its_block_is_left_whatever_is_open(tmp_path: Path) -> None:
    options = Options(
        scripted_agent(tmp_path, {"text": "x"}), tmp_path / "s.db", lambda: Environment.read({}, (), None)
    )
    async with anyio.create_task_group() as tasks:
        with anyio.fail_after(10):
            async with embedded(options, tmp_path) as agent:
                client = await attached(agent, tasks)
                session = (await agent.new_session()).session_id
            await client.ended.wait()
    assert session


async def test_a_directory_that_fails_does_not_hide_a_cleanup_failure(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        holding(stage.server, stage.session, Stubborn())
        error = await stage.client.error("session/close", sessionId=stage.session)
        assert error["data"]["reason"] == "cleanup_failed"
        error = await stage.client.error("session/resume", sessionId=stage.session, cwd="/nowhere/at/all")
        assert error["data"]["reason"] == "cleanup_failed"
