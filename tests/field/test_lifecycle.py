"""Sessions and connections at the points where several things happen at once or one of them fails."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml

from sluice.config.environment import Environment
from sluice.wire.outbox import QUEUE_BYTES
from tests.handlers.support import Slow, holding, stored, user
from tests.handlers.test_mcp_servers import use_tool
from tests.support.model_server import ModelServer, text
from tests.support.setup import agent_on, on_stage, scripted_agent
from tests.support.wire import serving, spawned

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
SDK = str(Path(__file__).parents[1] / "mcp" / "server_sdk.py")


@pytest.mark.requirement("session.delete.busy-with-constructor")
@pytest.mark.parametrize("method", ["session/new", "session/load", "session/resume"])
async def test_nothing_is_deleted_while_another_session_is_being_made(tmp_path: Path, method: str) -> None:
    """Naively only sessions that are open are looked at, and the delete runs beside a constructor that may be reading
    what it removes."""
    await stored(tmp_path / "session.db", "old", user("hi"), cwd=tmp_path)
    async with on_stage(tmp_path) as stage:
        client = stage.client
        named = {} if method == "session/new" else {"sessionId": "old"}
        made = client.request(method, cwd=str(tmp_path), mcpServers=[], **named)
        delete = client.request("session/delete", sessionId=stage.session)
        await client.write(made, delete)
        error = (await client.answer(delete["id"]))["error"]
        assert (error["code"], error["data"]["reason"]) == (-32600, "busy")
        assert "result" in await client.answer(made["id"])
        assert stage.session in str(await client.result("session/list"))
        assert await client.result("session/delete", sessionId=stage.session) == {}
        assert stage.session not in str(await client.result("session/list"))


@pytest.mark.requirement(
    "client-mcp.replace.failed-setup-keeps-old",
    "workspace.roots.invalid-leaves-state",
    "session.resume.live-keeps-runtime",
)
async def test_a_resume_that_fails_leaves_the_very_server_that_runs_and_the_roots(tmp_path: Path) -> None:
    """Naively the old servers are stopped, or the roots replaced, before the new ones are known to work; or the old
    ones are started again afterwards and have forgotten everything."""
    more = tmp_path / "more"
    more.mkdir()
    (more / "far.txt").write_text("far away")
    server = {"name": "s", "command": sys.executable, "args": [SDK], "env": []}
    bad = {**server, "name": "bad", "command": "/nowhere/server"}
    async with on_stage(tmp_path) as stage:
        client = stage.client
        where: Json = {"cwd": str(stage.cwd), "mcpServers": [server], "additionalDirectories": [str(more)]}
        session = str((await client.result("session/new", **where))["sessionId"])
        pids = []
        for _ in range(2):
            stage.model.add(use_tool("s_env"), text("ok"))
            await client.prompt(session, "who are you?")
            pids.append(json.loads(stage.model.requests[-1].messages[-1]["content"])["pid"])
            wanted = {**where, "sessionId": session, "mcpServers": [server, bad], "additionalDirectories": []}
            for method in ("session/resume", "session/load"):
                assert (await client.error(method, **wanted))["code"] == -32603
            listed = {e["sessionId"]: e for e in (await client.result("session/list"))["sessions"]}
            assert listed[session]["additionalDirectories"] == [str(more)]
        assert pids[0] == pids[1]


class Thorough(Slow):
    """A toolset that tells whether its cleanup came to its end."""

    def __init__(self) -> None:
        super().__init__()
        self.finished = anyio.Event()

    async def stop(self) -> None:
        await super().stop()
        self.finished.set()


@pytest.mark.requirement(
    "session.close.cancel-stops-wait-only", "session.close.concurrent-joins", "session.close.result-means-drained"
)
async def test_a_close_whose_caller_gives_up_is_finished_for_whoever_else_waits(tmp_path: Path) -> None:
    """Naively the cancel kills the cleanup, or ends the close for all: the second caller then hears of success while
    the toolset is still stopping."""
    async with on_stage(tmp_path) as stage:
        client, slow = stage.client, Thorough()
        holding(stage.server, stage.session, slow)
        first, second = (client.request("session/close", sessionId=stage.session) for _ in range(2))
        await client.write(first, second)
        await slow.asked.wait()
        try:
            await client.notify("$/cancel_request", requestId=first["id"])
            assert (await client.answer(first["id"]))["error"]["code"] == -32800
            await client.result("session/list")
            assert not [m for m in client.log if m.get("id") == second["id"]] and not slow.finished.is_set()
        finally:
            slow.gate.set()
        assert (await client.answer(second["id"]))["result"] == {} and slow.finished.is_set()
        await client.result("session/resume", sessionId=stage.session, cwd=str(stage.cwd))


def peak(pid: int) -> int:
    """The most memory the process has ever held, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


@pytest.mark.requirement("transport.limits.inbound-ceiling")
async def test_a_line_of_any_length_is_refused_without_being_held_in_memory(tmp_path: Path) -> None:
    """Naively a line is read to its end and then measured, so that one line takes whatever memory there is."""
    async with spawned(scripted_agent(tmp_path, {"text": "ok"}), tmp_path / "s.db") as server:
        client = server.client
        await client.initialize()
        session = await client.new(tmp_path)
        assert (await client.prompt(session, "hi"))["result"] == {"stopReason": "end_turn"}
        before = peak(server.process.pid)
        await client.transport.send(b'{"jsonrpc":"2.0","id":77,"method":"session/list","params":{"cursor":"')
        for _ in range(200):
            await client.transport.send(b"x" * (1 << 20))
        await client.raw(b'"}}')
        error = (await client.until(lambda m: "error" in m))["error"]
        assert error["code"] == -32600 and error["data"]["limit"] == 10 << 20
        assert peak(server.process.pid) - before < 64 << 20
        assert (await client.prompt(session, "hi"))["result"] == {"stopReason": "end_turn"}


@pytest.mark.requirement(
    "auth.authenticate.still-missing", "auth.authenticate.reloads-sources", "auth.authenticate.validates-team"
)
async def test_authenticate_believes_a_mended_agent_file_and_nothing_before(tmp_path: Path) -> None:
    """Naively authenticate answers yes to whoever asks, or goes by the file and the keys of the start."""
    async with ModelServer([text("hi")]) as model:
        file = agent_on(tmp_path, model.base_url)
        good = yaml.safe_load(file.read_text())
        keyed = {**good, "models": {"m": {**good["models"]["m"], "token_key": "TEST_KEY"}}}
        file.write_text(yaml.safe_dump(keyed))
        bare = lambda: Environment.read({"PATH": os.environ["PATH"]}, (), None)  # noqa: E731
        async with serving(file, tmp_path / "s.db", environment=bare) as server:
            client = server.client
            await client.initialize()
            new: Json = {"cwd": str(tmp_path), "mcpServers": []}
            for _ in range(2):
                assert (await client.error("session/new", **new))["code"] == -32000
                assert (await client.error("authenticate", methodId="host-credentials"))["code"] == -32000
            file.write_text("agents: {root: {modle: m}}")
            error = await client.error("authenticate", methodId="host-credentials")
            assert error["code"] == -32603 and error["data"]["key"] == "agents.root.modle"
            assert (await client.error("session/new", **new))["code"] == -32000
            file.write_text(yaml.safe_dump(good))
            assert await client.result("authenticate", methodId="host-credentials") == {}
            session = await client.new(tmp_path)
            assert (await client.prompt(session, "x"))["result"] == {"stopReason": "end_turn"}


@pytest.mark.requirement("transport.output.slow-reader", "cancel.prompt.any-wait")
async def test_while_nobody_reads_no_more_is_made_than_the_queue_holds(tmp_path: Path) -> None:
    """Naively every update is queued, and a model that goes on talking fills the memory. Here the script is in the
    process and costs no time, so what is not made when every task waits is never made."""
    pieces = [f"{number:05d}" + "y" * 4000 for number in range(900)]
    async with serving(scripted_agent(tmp_path, {"text": pieces}, {"text": "after"}), tmp_path / "s.db") as server:
        client = server.client
        await client.initialize()
        session = await client.new(tmp_path)
        client.pause()
        prompt = client.send_prompt(session, "1")
        await client.write(prompt)
        outbox = server.connection.peer._outbox
        with anyio.fail_after(20):
            while outbox.unsent <= QUEUE_BYTES:
                await anyio.lowlevel.checkpoint()
        await anyio.wait_all_tasks_blocked()
        assert outbox.unsent <= QUEUE_BYTES + 64 * 1024
        await client.notify("session/cancel", sessionId=session)
        with anyio.fail_after(20):
            while [t.target for t in server.transitions if t.machine == "turn"][-1] != "idle":
                await anyio.lowlevel.checkpoint()
        client.go_on()
        assert (await client.answer(prompt["id"]))["result"] == {"stopReason": "cancelled"}
        assert 0 < len(client.updates(session, "agent_message_chunk")) < 500
        assert (await client.prompt(session, "2"))["result"] == {"stopReason": "end_turn"}
