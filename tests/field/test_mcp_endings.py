"""What is left of MCP servers when something ends while a call is under way and a grandchild of theirs runs."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from sluice.handlers import mcp_servers
from tests.field.test_mcp_servers import END_TURN, ODD, SDK, stdio
from tests.handlers.test_mcp_servers import LOCAL, remote_entry, use_tool
from tests.handlers.test_process import descendants, gone, is_running
from tests.mcp.remote import remote
from tests.mcp.test_servers import until
from tests.support.model_server import Call, ModelServer, calls, text
from tests.support.setup import agent_on, on_stage
from tests.support.wire import spawned

pytestmark = pytest.mark.anyio

CLIENT = str(Path(__file__).parent / "client_process.py")


def in_flight(marker: Path) -> tuple[Any, Any]:
    """Two replies of the model: a call that leaves a grandchild, and one that waits for ever."""

    def wait(recorded: Any) -> Any:
        name = next(tool for tool in recorded.tools if tool.endswith("_wait_g1"))
        return calls(Call(name, {"marker": str(marker)}))

    return use_tool("_leave_child"), wait


@pytest.mark.requirement("client-mcp.life.close-stops-all", "session.close.mcp-first")
@pytest.mark.parametrize("ending", ["close", "delete", "logout", "eof", "sigterm", "resume without"])
async def test_nothing_of_a_server_outlives_its_session_whatever_it_was_doing(tmp_path: Path, ending: str) -> None:
    """Naively only the server's own process is ended, and a call that is under way keeps it or its child alive."""
    marker = tmp_path / "marker"
    async with ModelServer([*in_flight(marker), text("unused")]) as model:
        async with spawned(agent_on(tmp_path, model.base_url), tmp_path / "s.db") as server:
            client = server.client
            await client.initialize()
            session = await client.new(tmp_path, mcpServers=[stdio("s", SDK)])
            await client.result("session/set_mode", sessionId=session, modeId="autonomous")
            prompt = client.send_prompt(session, "go")
            await client.write(prompt)
            await until(marker.exists)
            grandchild = int(model.requests[1].messages[-1]["content"])
            children = descendants(server.process.pid) | {grandchild}
            assert len(children) >= 2 and is_running(grandchild)
            if ending == "close":
                await client.result("session/close", sessionId=session)
            elif ending == "delete":
                await client.result("session/delete", sessionId=session)
            elif ending == "logout":
                await client.result("logout")
            elif ending == "eof":
                await client.transport.aclose()
            elif ending == "sigterm":
                server.process.send_signal(signal.SIGTERM)
            else:
                await client.notify("session/cancel", sessionId=session)
                assert (await client.answer(prompt["id"]))["result"] == {"stopReason": "cancelled"}
                await client.result("session/resume", sessionId=session, cwd=str(tmp_path), mcpServers=[])
            await gone(children)


@pytest.mark.requirement("client-mcp.life.close-stops-all", "shutdown.eof.clean-exit")
async def test_a_client_that_is_killed_takes_everything_with_it(tmp_path: Path) -> None:
    """Naively the agent waits for its turn, the turn for the call, and the call for a client that is no more."""
    marker = tmp_path / "marker"
    async with ModelServer([*in_flight(marker)]) as model:
        file = agent_on(tmp_path, model.base_url)
        command = [sys.executable, CLIENT, str(file), str(tmp_path / "s.db"), SDK, str(tmp_path)]
        async with await anyio.open_process(command, stdin=None, stderr=None) as client:
            assert client.stdout is not None
            with anyio.fail_after(30):
                agent = int(await client.stdout.receive())
            await until(marker.exists)
            grandchild = int(model.requests[1].messages[-1]["content"])
            children = descendants(agent) | {agent, grandchild}
            assert len(children) >= 3
            client.kill()
            await gone(children)


@pytest.mark.requirement("client-mcp.life.no-auto-restart")
async def test_a_server_that_dies_in_a_call_fails_that_call_and_not_the_turn(tmp_path: Path) -> None:
    """Naively the call hangs, the turn fails, or a fresh server is started that nobody asked for."""
    async with on_stage(tmp_path) as stage:
        client = stage.client
        session = await client.new(stage.cwd, mcpServers=[stdio("s", SDK), stdio("other", ODD, "plain")])
        await client.result("session/set_mode", sessionId=session, modeId="autonomous")
        stage.model.add(use_tool("s_die"), text("so be it"), use_tool("other_alpha"), text("fine"))
        assert (await client.prompt(session, "go"))["result"] == END_TURN
        assert "ended during the call" in stage.model.requests[1].messages[-1]["content"]
        statuses = [u["status"] for u in client.updates(session) if "toolCallId" in u]
        assert statuses[-1] == "failed"
        assert (await client.prompt(session, "and the other?"))["result"] == END_TURN
        assert stage.model.requests[3].messages[-1]["content"] == "called alpha"
        started = [t for t in stage.server.transitions if t.machine == "mcp" and t.target == "ready"]
        assert len(started) == 2
        assert await client.result("session/close", sessionId=session) == {}


@pytest.mark.requirement("client-mcp.setup.thirty-seconds", "session.new.failure-leaves-nothing")
@pytest.mark.parametrize("kind", ["stdio", "http", "sse"])
async def test_a_server_that_never_gets_ready_fails_the_whole_setup_within_its_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Naively each server has the whole budget, or the session opens without it."""
    monkeypatch.setattr(mcp_servers, "SETUP_BUDGET", 1.0)
    pids = tmp_path / "pids"
    with remote(tmp_path) as far:
        async with on_stage(tmp_path, allow=LOCAL) as stage:
            slow = (
                stdio("slow", ODD, "silent", str(pids)) if kind == "stdio" else remote_entry(kind, far.url("/hang"))
            )
            error = await stage.client.error(
                "session/new", cwd=str(stage.cwd), mcpServers=[slow, dict(slow, name="b")]
            )
            assert error["code"] == -32603 and "127.0.0.1" not in str(error)
            assert len((await stage.client.result("session/list"))["sessions"]) == 1
            ends = {t.key: t.target for t in stage.server.transitions if t.machine == "mcp"}
            assert set(ends.values()) == {"retired"} and len(ends) == 2
            if kind == "stdio":
                await gone({int(pid) for pid in pids.read_text().split()})


@pytest.mark.requirement("client-mcp.url.same-origin", "client-mcp.errors.generic")
async def test_a_server_that_sends_the_client_elsewhere_fails_the_setup_and_elsewhere_hears_nothing(
    tmp_path: Path,
) -> None:
    """Naively the HTTP library follows the redirect, with the headers that were meant for the first server."""
    with remote(tmp_path) as far, remote(tmp_path, "other") as other:
        async with on_stage(tmp_path, allow=LOCAL) as stage:
            for kind, path in (("http", "/away"), ("sse", "/foreign-sse")):
                entry = remote_entry(kind, far.url(f"{path}?port={other.port}"), authorization="s3cr3t")
                error = await stage.client.error("session/new", cwd=str(stage.cwd), mcpServers=[entry])
                assert error["code"] == -32603 and "origin" in error["data"]["error"]
                assert "s3cr3t" not in str(error) and str(other.port) not in str(error)
            assert other.requests == [] and far.requests != []
