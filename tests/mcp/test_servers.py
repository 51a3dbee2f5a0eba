"""MCP servers as toolsets: real child processes from connection to the end of the last grandchild."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import Process, TaskGroup

from sluice.agent.ports import ToolContext, ToolFailure, ToolResult
from sluice.machines import McpServer
from sluice.mcp import group, servers, stdio
from sluice.mcp.servers import McpSetup, McpToolset, ServerSpec

pytestmark = pytest.mark.anyio

HERE = Path(__file__).parent
SDK = str(HERE / "server_sdk.py")
ODD = str(HERE / "server_odd.py")


def make(tasks: TaskGroup, cwd: Path, *args: str, name: str = "srv", **more: Any) -> McpToolset:
    spec = ServerSpec(name, sys.executable, args, more.pop("env", ()))
    return McpToolset(spec, McpSetup(tasks, str(cwd), more.pop("base", dict(os.environ)), **more), McpServer(name))


@asynccontextmanager
async def running(cwd: Path, *args: str, **more: Any) -> AsyncIterator[McpToolset]:
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            toolset = make(tasks, cwd, *args, **more)
            await toolset.start()
            try:
                yield toolset
            finally:
                if toolset.machine.state not in ("retired", "failed"):
                    await toolset.stop()


async def call(toolset: McpToolset, cwd: Path, name: str, /, **arguments: Any) -> ToolResult:
    found = {tool.name: tool for tool in toolset.tools()}
    return await found[f"{toolset.spec.name}_{name}"].run(arguments, ToolContext("session", "call", str(cwd)))


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def until(condition: Any) -> None:
    with anyio.fail_after(10):
        while not condition():
            await anyio.lowlevel.checkpoint()


# --- a well-behaved server


@pytest.mark.requirement(
    "client-mcp.stdio.session-cwd",
    "client-mcp.stdio.literal",
    "client-mcp.stdio.environment",
    "client-mcp.life.close-stops-all",
)
async def test_a_server_gets_its_values_literally_runs_in_the_session_directory_and_ends(tmp_path: Path) -> None:
    env = (("PROJECT_MODE", "first"), ("PROJECT_MODE", "lit-$HOME"))
    async with running(tmp_path, SDK, "--tag", "a b;$HOME", env=env) as toolset:
        assert toolset.machine.state == "ready"
        found = json.loads((await call(toolset, tmp_path, "env")).text)
    pid = found.pop("pid")
    assert found == {
        "PROJECT_MODE": "lit-$HOME",
        "PATH": os.environ["PATH"],
        "cwd": str(tmp_path),
        "argv": ["--tag", "a b;$HOME"],
    }
    assert toolset.machine.state == "retired"
    assert not alive(pid)


async def test_hints_titles_errors_and_broken_arguments_come_through(tmp_path: Path) -> None:
    async with running(tmp_path, SDK) as toolset:
        tools = {tool.name: tool for tool in toolset.tools()}
        assert (tools["srv_env"].title, tools["srv_env"].read_only) == ("Surroundings", True)
        assert (tools["srv_refuse"].title, tools["srv_refuse"].read_only) == ("Refuse", False)
        assert tools["srv_refuse"].destructive is True
        assert tools["srv_wait"].destructive is None
        assert tools["srv_refuse"].spec.parameters["required"] == ["reason"]
        assert "reason" in tools["srv_refuse"].spec.description
        refused = await call(toolset, tmp_path, "refuse", reason="too late")
        assert refused.is_error and "too late" in refused.text
        assert (await call(toolset, tmp_path, "refuse")).is_error


async def test_cancelling_a_call_cancels_it_at_the_server_which_serves_on(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    async with running(tmp_path, SDK) as toolset:
        async with anyio.create_task_group() as calls:
            calls.start_soon(lambda: call(toolset, tmp_path, "wait", marker=str(marker)))
            await until(marker.exists)
            calls.cancel_scope.cancel()
        await until(lambda: marker.read_text() == "cancelled\n")
        assert (await call(toolset, tmp_path, "env")).text


@pytest.mark.requirement("client-mcp.replace.running-calls-joined", "client-mcp.replace.retired-calls-fail")
async def test_stopping_cancels_and_joins_running_calls_and_later_ones_fail(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    failures: list[str] = []

    async def wait(toolset: McpToolset) -> None:
        try:
            await call(toolset, tmp_path, "wait", marker=str(marker))
        except ToolFailure as failure:
            failures.append(str(failure))

    async with running(tmp_path, SDK) as toolset, anyio.create_task_group() as calls:
        calls.start_soon(wait, toolset)
        await until(marker.exists)
        await toolset.stop()
        assert failures == ["the MCP server 'srv' was stopped during the call"]
    with pytest.raises(ToolFailure, match="not connected any more"):
        await call(toolset, tmp_path, "env")


@pytest.mark.requirement("client-mcp.life.close-stops-all")
async def test_a_grandchild_that_outlives_a_polite_server_is_ended_too(tmp_path: Path) -> None:
    async with running(tmp_path, SDK) as toolset:
        pid = int((await call(toolset, tmp_path, "leave_child")).text)
        assert alive(pid)
    assert not alive(pid)
    assert toolset.machine.state == "retired"


@pytest.mark.requirement("client-mcp.life.no-auto-restart")
async def test_a_server_that_dies_during_a_call_fails_it_and_stays_disconnected(tmp_path: Path) -> None:
    async with running(tmp_path, SDK) as toolset:
        grandchild = int((await call(toolset, tmp_path, "leave_child")).text)  # holds the pipes open
        with pytest.raises(ToolFailure, match="ended during the call"):
            await call(toolset, tmp_path, "die")
        assert toolset.machine.state == "disconnected"
        with pytest.raises(ToolFailure, match="not connected any more"):
            await call(toolset, tmp_path, "env")
        await until(lambda: not alive(grandchild))
        await toolset.stop()
        assert toolset.machine.state == "retired"


async def test_stderr_goes_to_the_log_and_never_to_our_outputs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.INFO, "sluice.mcp"):
        async with running(tmp_path, SDK) as toolset:
            await call(toolset, tmp_path, "env")
    assert "MCP server srv: to stderr" in caplog.messages
    assert "to stderr" not in "".join(capfd.readouterr())


# --- odd ones


@pytest.mark.requirement("tools.mcp.toolset", "client-mcp.tools.generation-aliases")
async def test_all_pages_are_listed_once_and_every_name_suits_every_provider(tmp_path: Path) -> None:
    async with running(tmp_path, ODD, "paged", name="my server") as toolset:
        names = [tool.name for tool in toolset.tools()]
        assert len(names) == len(set(names)) == 5
        assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names)
        long = "n" * 79
        given = {}
        for tool in toolset.tools():
            result = await tool.run({}, ToolContext("s", "c", str(tmp_path)))
            given[tool.name] = result.text.removeprefix("called ")
        assert list(given.values()) == ["alpha", "beta.v2/run", long + "a", long + "b", "omega"]


async def test_two_servers_that_share_a_set_of_names_share_no_name(tmp_path: Path) -> None:
    taken = {"srv_alpha"}
    async with (
        running(tmp_path, ODD, "plain", taken=taken) as one,
        running(tmp_path, ODD, "plain", taken=taken) as two,
    ):
        names = {tool.name for toolset in (one, two) for tool in toolset.tools()}
        assert len(names) == 2
        assert "srv_alpha" not in names


@pytest.mark.requirement("client-mcp.setup.thirty-seconds")
@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("silent", "did not get ready within 1 seconds"),
        ("early", "could not be started"),
        ("missing", "No such file"),
    ],
)
async def test_a_server_that_does_not_get_ready_fails_the_start_and_leaves_nothing(
    tmp_path: Path, how: str, reason: str
) -> None:
    pids = tmp_path / "pids"
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            toolset = make(tasks, tmp_path, ODD, how, str(pids), budget=1 if how == "silent" else 15)
            if how == "missing":
                spec = ServerSpec("srv", str(tmp_path / "nowhere"))
                toolset = McpToolset(spec, McpSetup(tasks, str(tmp_path), {}), McpServer("srv"))
            with pytest.raises(ToolFailure, match=reason):
                await toolset.start()
            assert toolset.machine.state == "retired"
            assert toolset.tools() == ()
    if how == "silent":
        assert not any(alive(int(pid)) for pid in pids.read_text().split())


async def test_cancelling_the_start_leaves_nothing(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            toolset = make(tasks, tmp_path, ODD, "silent", str(pids))
            async with anyio.create_task_group() as starting:
                starting.start_soon(toolset.start)
                await until(lambda: pids.exists() and pids.read_text().endswith("\n"))
                starting.cancel_scope.cancel()
            assert toolset.machine.state == "retired"
            assert not alive(int(pids.read_text()))


async def test_stopping_during_the_start_ends_both(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    failures: list[str] = []
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            toolset = make(tasks, tmp_path, ODD, "silent", str(pids))

            async def start() -> None:
                try:
                    await toolset.start()
                except ToolFailure as failure:
                    failures.append(str(failure))

            tasks.start_soon(start)
            await until(lambda: pids.exists() and pids.read_text().endswith("\n"))
            toolset.machine.fire("retire")
            await toolset.stop()
    assert failures
    assert toolset.machine.state == "retired"
    assert not alive(int(pids.read_text()))


async def test_a_server_that_ends_right_after_listing_is_not_taken_for_ready(tmp_path: Path) -> None:
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            toolset = make(tasks, tmp_path, ODD, "brief")
            try:
                await toolset.start()
            except ToolFailure:
                assert toolset.machine.state == "retired"
            else:
                await until(lambda: toolset.machine.state == "disconnected")
                await toolset.stop()


@pytest.mark.requirement("client-mcp.life.close-stops-all")
async def test_a_stubborn_server_is_killed_in_a_bounded_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "POLITE_SECONDS", 0.1)
    monkeypatch.setattr(group, "TERM_SECONDS", 0.1)
    pids = tmp_path / "pids"
    async with running(tmp_path, ODD, "stubborn", str(pids)) as toolset:
        pass
    assert toolset.machine.state == "retired"
    assert not alive(int(pids.read_text()))


@pytest.mark.requirement("client-mcp.replace.cleanup-failure-kept")
async def test_a_server_that_cannot_be_ended_is_an_error_of_the_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in ((servers, "POLITE_SECONDS"), (group, "TERM_SECONDS"), (group, "KILL_SECONDS")):
        monkeypatch.setattr(module, name, 0.1)
    pids = tmp_path / "pids"
    leaders: list[Process] = []

    async def end(leader: Process, polite: float) -> bool:
        leaders.append(leader)
        return await real_end(leader, polite)

    real_end = group.end
    monkeypatch.setattr(group, "end", end)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            toolset = make(tasks, tmp_path, ODD, "stubborn", str(pids))
            await toolset.start()
            monkeypatch.setattr(group, "send", lambda group, number: None)
            with pytest.raises(ToolFailure, match="could not be ended"):
                await toolset.stop()
            assert toolset.machine.state == "failed"
        os.killpg(int(pids.read_text()), signal.SIGKILL)
        await leaders[0].wait()


async def test_noise_on_stdout_is_passed_over(tmp_path: Path) -> None:
    async with running(tmp_path, ODD, "noisy") as toolset:
        assert (await call(toolset, tmp_path, "alpha")).text == "called alpha"


async def test_a_server_that_knows_only_the_newer_handshake_is_met_there(tmp_path: Path) -> None:
    async with running(tmp_path, ODD, "modern") as toolset:
        assert (await call(toolset, tmp_path, "alpha")).text == "called alpha"


async def test_a_line_without_end_loses_the_server_and_not_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio, "LINE_BYTES", 200_000)
    async with running(tmp_path, ODD, "flood") as toolset:
        with pytest.raises(ToolFailure, match="ended during the call"):
            await call(toolset, tmp_path, "alpha")
        assert toolset.machine.state == "disconnected"


async def test_media_are_named_and_texts_are_joined(tmp_path: Path) -> None:
    async with running(tmp_path, ODD, "media") as toolset:
        result = await call(toolset, tmp_path, "alpha")
    assert result.text.split("\n") == [
        "words",
        "[image image/png left out]",
        "[audio audio/wav left out]",
        "[doc: file:///a]",
        "inside",
        "[resource file:///c left out: not a text]",
    ]


async def test_environment_values_are_in_no_representation() -> None:
    spec = ServerSpec("srv", "/bin/x", (), (("TOKEN", "hush"),))
    assert "hush" not in repr(spec)


async def test_a_server_that_was_never_started_can_be_stopped(tmp_path: Path) -> None:
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            toolset = make(tasks, tmp_path, ODD, "plain")
            await toolset.stop()
    assert toolset.machine.state == "retired"
