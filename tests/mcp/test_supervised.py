"""Configured MCP servers: started under their profile, started again when lost, ended with the session."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from sluice.agent.ports import ToolContext, ToolFailure, ToolResult
from sluice.config.schema import Backoff, Lifecycle, RemoteMcp, ToolsetConfig
from sluice.machines import Transition
from sluice.mcp.supervised import Host, SupervisedToolset, build, seconds
from tests.mcp.remote import remote
from tests.mcp.test_servers import alive, until

pytestmark = pytest.mark.anyio

HERE = Path(__file__).parent
QUICK = Backoff(initial="1ms", max="2ms")


def config(*args: str, name: str = "", tools: Any = None, **options: Any) -> ToolsetConfig:
    return ToolsetConfig("mcp", name=name, tools=tools, options={"command": sys.executable, "args": args, **options})


@asynccontextmanager
async def started(given: ToolsetConfig, cwd: Path, **more: Any) -> AsyncIterator[SupervisedToolset]:
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            toolset = build(given, Host(tasks, str(cwd), dict(os.environ), more.pop("config_dir", cwd), **more))
            try:
                await toolset.start()
                yield toolset
            finally:
                await toolset.stop()


async def call(toolset: SupervisedToolset, name: str, /, **arguments: Any) -> ToolResult:
    found = {tool.name: tool for tool in toolset.tools()}
    return await found[name].run(arguments, ToolContext("session", "call", "/"))


@pytest.mark.requirement("tools.mcp.toolset")
async def test_a_lost_server_is_started_again_and_its_tools_keep_their_names(tmp_path: Path) -> None:
    changes: list[int] = []
    moves: list[Transition] = []
    given = config(str(HERE / "server_sdk.py"), name="probe", lifecycle=Lifecycle(backoff=QUICK))
    async with started(given, tmp_path, on_change=lambda: changes.append(1), record=moves.append) as toolset:
        before = {tool.name: tool for tool in toolset.tools()}
        assert "probe_env" in before
        with pytest.raises(ToolFailure, match="ended during the call"):
            await call(toolset, "probe_die")
        await until(lambda: bool(changes))
        assert [tool.name for tool in toolset.tools()] == list(before)
        # A tool that somebody still holds reaches the server that runs now.
        assert (await before["probe_env"].run({}, ToolContext("s", "c", "/"))).text
    assert [m.target for m in moves if m.target in ("ready", "disconnected", "retired")] == [
        *("ready", "disconnected", "retired"),
        *("ready", "retired"),
    ]


@pytest.mark.requirement("tools.mcp.toolset")
async def test_a_server_that_is_lost_too_often_stays_lost(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    life = Lifecycle(max_restarts=2, backoff=QUICK)
    given = config(str(HERE / "server_odd.py"), "brief", str(pids), name="brief", lifecycle=life)
    async with started(given, tmp_path) as toolset:
        await until(lambda: pids.exists() and len(pids.read_text().splitlines()) >= 3)
        with anyio.fail_after(10):
            assert toolset._watched is not None
            await toolset._watched.wait()
    assert len(pids.read_text().splitlines()) == 3
    assert not any(alive(int(pid)) for pid in pids.read_text().split())


@pytest.mark.requirement("tools.mcp.toolset")
async def test_the_profile_says_what_a_server_that_cannot_be_started_means(tmp_path: Path) -> None:
    strict = config(str(HERE / "server_odd.py"), "early", name="x", lifecycle=Lifecycle("strict"))
    with pytest.raises(ToolFailure, match=r"could not be started|ended"):
        try:
            async with started(strict, tmp_path):
                pass
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from group
    lax = config(str(HERE / "server_odd.py"), "early", name="x", lifecycle=Lifecycle("best-effort"))
    async with started(lax, tmp_path) as toolset:
        assert toolset.tools() == ()
    required = config("no-such-script.py", name="x", lifecycle=Lifecycle(required=True, restart=False))
    with pytest.raises(BaseExceptionGroup):
        async with started(required, tmp_path):
            pass


async def test_a_call_without_progress_ends_at_its_timeout(tmp_path: Path) -> None:
    life = Lifecycle(call_timeout="200ms")
    async with started(config(str(HERE / "server_sdk.py"), name="p", lifecycle=life), tmp_path) as toolset:
        with pytest.raises(ToolFailure, match=r"no progress for 0\.2 seconds"):
            await call(toolset, "p_wait", marker=str(tmp_path / "marker"))
        assert (await call(toolset, "p_env")).text


@pytest.mark.requirement("tools.mcp.toolset")
async def test_names_filters_directories_and_remote_servers(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    given = config(str(HERE / "server_sdk.py"), tools=("env", "python_refuse"), working_dir="work")
    given = ToolsetConfig("mcp", tools=given.tools, name="python", options=given.options)
    async with started(given, tmp_path) as toolset:
        assert [tool.name for tool in toolset.tools()] == ["python_env", "python_refuse"]
        assert f'"cwd": "{tmp_path}/work"' in (await call(toolset, "python_env")).text
    program = tmp_path / "serve.sh"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} {HERE / 'server_odd.py'} plain\n")
    program.chmod(0o755)
    relative = ToolsetConfig("mcp", options={"command": "./serve.sh"})
    async with started(relative, Path("/"), config_dir=tmp_path) as toolset:
        assert [tool.name for tool in toolset.tools()] == ["serve_alpha"]
    with remote(tmp_path) as server:  # on this machine: the policy for addresses is not for the operator
        for path, kind in (("/mcp", "streamable"), ("/sse", "sse")):
            far = RemoteMcp(server.url(path), kind, {"X-Key": "k"})  # type: ignore[arg-type]  # two literals
            async with started(ToolsetConfig("mcp", options={"remote": far}), tmp_path) as toolset:
                assert (await call(toolset, "mcp_echo", text="a")).text == "echo a"
        assert all(request["headers"]["x-key"] == "k" for request in server.requests)


def test_durations() -> None:
    assert [seconds(text) for text in ("500ms", "30s", "1.5m", "1h")] == [0.5, 30.0, 90.0, 3600.0]
