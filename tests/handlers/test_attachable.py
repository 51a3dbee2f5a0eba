"""`serve mcp --attach`: a session of a running editor, reached by another process of the same user."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from sluice.handlers.runs import registrations
from tests.support.model_server import Call as ModelCall
from tests.support.model_server import ModelServer, calls, text
from tests.support.setup import agent_on
from tests.support.wire import ProcessServer, spawned

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def attached(data: Path, *which: str) -> AsyncIterator[Client]:
    arguments = ["-m", "sluice", "serve", "mcp", "--data-dir", str(data), "--attach", *which]
    parameters = StdioServerParameters(command=sys.executable, args=arguments)
    with anyio.fail_after(40):
        async with Client(stdio_client(parameters), mode="legacy", cache=None) as client:
            yield client


async def registered(data: Path) -> None:
    with anyio.fail_after(20):
        while not registrations(data) or not Path(registrations(data)[0].address).exists():
            await anyio.sleep(0.02)


@asynccontextmanager
async def editor(directory: Path, model: ModelServer) -> AsyncIterator[ProcessServer]:
    flags = ("--attachable", "--data-dir", str(directory / "d"))
    async with spawned(agent_on(directory, model.base_url), directory / "s.db", *flags) as server:
        await server.client.initialize()
        await registered(directory / "d")
        yield server


@pytest.mark.requirement("serve-mcp.attach.running-session")
async def test_a_session_is_found_by_each_of_its_names_and_goes_on_there(tmp_path: Path) -> None:
    data = tmp_path / "d"
    shell = calls(ModelCall("shell", {"cmd": "echo hi > made.txt"}))
    async with ModelServer([text("first"), text("second"), shell, text("third")]) as model:
        async with editor(tmp_path, model) as server:
            client = server.client
            session = await client.new(tmp_path)
            await client.prompt(session, "from the editor")
            (own,) = registrations(data)
            assert own.pid == server.process.pid
            for path in (Path(own.address), data / "runs" / f"{own.pid}.json"):
                assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert stat.S_IMODE((data / "runs").stat().st_mode) == 0o700
            async with attached(data) as guest:
                assert [tool.name for tool in (await guest.list_tools()).tools] == ["send", "transcript"]
                answer = await guest.call_tool("send", {"message": "from outside"})
                assert answer.structured_content == {"response": "second"}
                said = (await guest.call_tool("transcript", {})).content[0]
                assert said.type == "text" and said.text.split("\n\n") == [
                    *("user: from the editor", "assistant: first"),
                    *("user: from outside", "assistant: second"),
                ]
            # The editor saw it, and is the one that is asked.
            await client.until(lambda m: "second" in json.dumps(m))
            assert any("from outside" in json.dumps(update) for update in client.updates(session))
            for which in (str(own.pid), own.address, session):
                async with attached(data, which) as guest:
                    assert "from the editor" in str(await guest.call_tool("transcript", {}))
            async with attached(data, session) as guest, anyio.create_task_group() as tasks:
                tasks.start_soon(guest.call_tool, "send", {"message": "make it"})
                await client.allow()
            assert (tmp_path / "made.txt").exists()
        assert registrations(data) == [] and list((data / "runs").iterdir()) == []


@pytest.mark.requirement("serve-mcp.attach.running-session")
async def test_what_is_not_there_cannot_be_attached_to(tmp_path: Path) -> None:
    async with ModelServer([]) as model, editor(tmp_path, model) as server:
        for which in ((), ("1",), ("0" * 32,)):  # no session is open yet
            command = [sys.executable, "-m", "sluice", "serve", "mcp", "--data-dir", str(tmp_path / "d"), "--attach"]
            run = await anyio.run_process([*command, *which], check=False, stdin=subprocess.DEVNULL)
            assert run.returncode == 1 and b"can be attached to" in run.stderr and run.stdout == b""
        server.kill()
        with anyio.fail_after(10):
            await server.process.wait()
        assert registrations(tmp_path / "d") == []  # what a killed process left is taken away
