"""A client's stdio MCP servers in a session, over the wire, with real server processes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.handlers.test_process import descendants, gone
from tests.support.model_server import Call as ModelCall
from tests.support.model_server import ModelServer, calls, text
from tests.support.setup import agent_on, on_stage
from tests.support.wire import spawned

pytestmark = pytest.mark.anyio

SERVER = """
import os, sys
from mcp.server import MCPServer
from mcp.types import ToolAnnotations
server = MCPServer("probe", log_level="ERROR")

@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def where() -> str:
    return f"{os.getcwd()} {os.environ.get('PROBE')}"

@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def hang() -> str:
    import anyio
    await anyio.sleep_forever()
    return "never"

server.run("stdio")
"""


def server_entry(directory: Path, name: str = "probe", **env: str) -> dict[str, Any]:
    script = directory / f"{name}_server.py"
    script.write_text(SERVER)
    variables = [{"name": key, "value": value} for key, value in env.items()]
    return {"name": name, "command": sys.executable, "args": [str(script)], "env": variables}


@pytest.mark.requirement(
    "client-mcp.stdio.session-cwd", "client-mcp.stdio.environment", "client-mcp.tools.supplement"
)
async def test_the_tools_of_a_client_server_work_in_a_turn(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        session = await stage.client.new(stage.cwd, mcpServers=[server_entry(tmp_path, PROBE="given")])

        def use(recorded: Any) -> Any:
            name = next(tool for tool in recorded.tools if "where" in tool)
            return calls(ModelCall(name, {}))

        stage.model.add(use, text("ok"))
        assert (await stage.client.prompt(session, "go"))["result"] == {"stopReason": "end_turn"}
        assert f"{stage.cwd} given" in stage.model.requests[1].messages[-1]["content"]
        assert {t.machine for t in stage.server.transitions} >= {"mcp"}


@pytest.mark.requirement(
    "client-mcp.setup.thirty-seconds", "session.new.failure-leaves-nothing", "client-mcp.errors.generic"
)
async def test_a_server_that_cannot_start_fails_the_setup_and_leaves_nothing(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        bad = {"name": "bad", "command": "/nowhere/server", "args": ["--secret=abc"], "env": []}
        servers = [server_entry(tmp_path), bad]
        error = await stage.client.error("session/new", cwd=str(stage.cwd), mcpServers=servers)
        assert error["code"] == -32603 and "abc" not in str(error)
        assert len((await stage.client.result("session/list"))["sessions"]) == 1
        mcp = {t.key: t.target for t in stage.server.transitions if t.machine == "mcp"}
        assert set(mcp.values()) == {"retired"}


@pytest.mark.requirement("client-mcp.accept.unadvertised-transport")
async def test_transports_that_are_not_advertised_are_a_params_error(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        for kind in ("http", "sse"):
            entry: dict[str, Any] = {"type": kind, "name": "x", "url": "https://example.com/mcp", "headers": []}
            error = await stage.client.error("session/new", cwd=str(stage.cwd), mcpServers=[entry])
            assert error["code"] == -32602 and kind in error["message"]


@pytest.mark.requirement("session.close.mcp-first", "client-mcp.life.close-stops-all")
async def test_a_call_that_hangs_in_a_server_does_not_strand_the_close_and_no_process_is_left(tmp_path: Path) -> None:
    def use(recorded: Any) -> Any:
        return calls(ModelCall(next(tool for tool in recorded.tools if "hang" in tool), {}))

    async with ModelServer([use]) as model:
        async with spawned(agent_on(tmp_path, model.base_url), tmp_path / "s.db") as server:
            client = server.client
            await client.initialize()
            session = await client.new(tmp_path, mcpServers=[server_entry(tmp_path)])
            children = descendants(server.process.pid)
            prompt = await client.send("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "x"}])
            await client.until(lambda m: "in_progress" in str(m))
            assert children and await client.result("session/close", sessionId=session) == {}
            assert (await client.answer(prompt))["result"] == {"stopReason": "cancelled"}
            await gone(children)


@pytest.mark.requirement("client-mcp.replace.failed-setup-keeps-old", "workspace.roots.invalid-leaves-state")
async def test_a_resume_replaces_the_servers_and_a_failed_one_keeps_the_old(tmp_path: Path) -> None:
    async with on_stage(tmp_path, text("1"), text("2"), text("3")) as stage:
        client = stage.client
        session = await client.new(stage.cwd, mcpServers=[server_entry(tmp_path)])
        await client.prompt(session, "1")
        bad = [{"name": "bad", "command": "/nowhere/server", "args": [], "env": []}]
        error = await client.error("session/resume", sessionId=session, cwd=str(stage.cwd), mcpServers=bad)
        assert error["code"] == -32603
        await client.prompt(session, "2")
        await client.result("session/resume", sessionId=session, cwd=str(stage.cwd), mcpServers=[])
        await client.prompt(session, "3")
        offered = [[t for t in r.tools if "where" in t] for r in stage.model.requests]
        assert offered[0] == offered[1] != [] and offered[2] == []
