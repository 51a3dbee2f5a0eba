"""The server as a real process: bad input, signals, kill -9, a client that goes away, a store that fails."""

from __future__ import annotations

import json
import signal
import sqlite3
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.support.model_server import ModelServer, Reply, Stall, Text, Wait, call, calls, text
from tests.support.setup import agent_on, scripted_agent
from tests.support.wire import ProcessServer, serving, spawned

pytestmark = pytest.mark.anyio


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def descendants(pid: int) -> set[int]:
    found: set[int] = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            if parent == pid:
                found |= {int(entry.name)} | descendants(int(entry.name))
    return found


async def gone(pids: set[int]) -> None:
    """Wait until no process of the set runs; the wait is on the process table, bounded."""
    with anyio.fail_after(10):
        while any(is_running(pid) for pid in pids):
            await anyio.sleep(0.01)


@pytest.mark.requirement(
    "jsonrpc.envelope.parse-error",
    "jsonrpc.envelope.not-a-request",
    "jsonrpc.robust.survives-errors",
    "transport.limits.inbound-ceiling",
    "transport.limits.large-lines",
    "transport.framing.invalid-utf8",
    "transport.limits.deep-nesting",
)
async def test_bad_lines_are_answered_and_the_process_lives(tmp_path: Path) -> None:
    async with spawned(scripted_agent(tmp_path, {"text": "ok"}), tmp_path / "s.db") as server:
        client = server.client
        await client.initialize()
        session = await client.new(tmp_path)
        for line, code in [
            (b'{"id":1,', -32700),
            (b"\xff\xfe", -32700),
            (b"NaN", -32700),
            (b"1", -32600),
            (b"[]", -32600),
            (b'[{"jsonrpc":"2.0","id":1,"method":"session/list"}]', -32600),
            (b'{"jsonrpc":"2.0","id":{},"method":"session/list"}', -32600),
            (b"[" * 200_000, -32700),
            (b'{"jsonrpc":"2.0","id":5,"method":"x","params":"' + b"y" * (11 << 20) + b'"}', -32600),
        ]:
            await client.raw(line)
            answer = await client.until(lambda m: "id" in m and m["id"] is None)
            assert answer["error"]["code"] == code, line[:40]
        long = "z" * (9 << 20)
        assert (await client.prompt(session, long))["result"] == {"stopReason": "end_turn"}
        assert (await client.error("nope/x"))["code"] == -32601
    assert server.process.returncode == 0


@pytest.mark.requirement(
    "session.load.includes-failed-turns", "store.items.saved-during-turn", "shutdown.restart.sessions-survive"
)
async def test_a_kill_in_the_middle_of_a_streamed_turn_loses_nothing_that_was_complete(tmp_path: Path) -> None:
    replies = [
        calls(call("think", thought="done before the kill")),
        Reply([Text("half an ans"), Stall()]),
        text("after"),
    ]
    async with ModelServer(replies) as model:
        file = agent_on(tmp_path, model.base_url)
        async with spawned(file, tmp_path / "s.db") as server:
            await server.client.initialize()
            session = await server.client.new(tmp_path)
            await server.client.send("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "do it"}])
            await server.client.until(lambda m: "half an ans" in str(m))
            server.kill()
            await server.wait()
        async with spawned(file, tmp_path / "s.db") as server:
            client = server.client
            await client.initialize()
            await client.result("session/load", sessionId=session, cwd=str(tmp_path), mcpServers=[])
            assert [u["sessionUpdate"] for u in client.told()] == ["user_message_chunk", "tool_call"]
            assert client.told()[1]["status"] == "completed"
            assert (await client.prompt(session, "go on"))["result"] == {"stopReason": "end_turn"}
            roles = [m["role"] for m in model.requests[2].messages[1:]]
            assert roles == ["user", "assistant", "tool", "user"]
        assert model.refusals == []


async def _turn_with_a_running_command(server: ProcessServer, cwd: Path) -> tuple[str, int, set[int]]:
    await server.client.initialize()
    session = await server.client.new(cwd)
    prompt = await server.client.send("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "x"}])
    await server.client.allow()
    with anyio.fail_after(10):
        while len(children := descendants(server.process.pid)) < 3:  # the shell and both its commands
            await anyio.sleep(0.01)
    return session, prompt, children


RUNNING = calls(call("shell", cmd="touch started; sleep 600 & sleep 600", timeout=900))


@pytest.mark.requirement("shutdown.eof.clean-exit", "shutdown.signal.first-clean")
@pytest.mark.parametrize("how", ["eof", "SIGTERM", "SIGINT", "SIGHUP"])
async def test_the_end_of_input_and_signals_end_everything_and_exit_cleanly(tmp_path: Path, how: str) -> None:
    async with ModelServer([RUNNING]) as model:
        async with spawned(agent_on(tmp_path, model.base_url), tmp_path / "s.db") as server:
            _, prompt, children = await _turn_with_a_running_command(server, tmp_path)
            assert len(children) >= 2
            if how == "eof":
                assert server.process.stdin is not None
                await server.process.stdin.aclose()
            else:
                server.process.send_signal(getattr(signal, how))
            assert (await server.client.answer(prompt))["result"] == {"stopReason": "cancelled"}
            assert await server.wait() == 0
            await gone(children)


@pytest.mark.requirement("transport.output.broken-pipe")
async def test_a_client_that_dies_in_a_turn_takes_the_command_with_it(tmp_path: Path) -> None:
    async with ModelServer([RUNNING]) as model:
        async with spawned(agent_on(tmp_path, model.base_url), tmp_path / "s.db") as server:
            _, _, children = await _turn_with_a_running_command(server, tmp_path)
            assert server.process.stdout is not None and server.process.stdin is not None
            await server.process.stdin.aclose()
            await server.process.stdout.aclose()
            await server.wait()
            await gone(children)
            assert "Traceback" not in server.stderr.read_text()


@pytest.mark.requirement(
    "transport.stdio.stdout-pure", "transport.logging.stderr-clean", "transport.stdio.children-detached"
)
async def test_debug_logs_go_to_stderr_without_secrets_and_children_cannot_reach_the_wire(tmp_path: Path) -> None:
    leak = calls(call("shell", cmd="echo leak; cat; echo leak >&2; cat /proc/self/fdinfo/0"))
    async with ModelServer([leak, text("ok")]) as model:
        file = agent_on(
            tmp_path,
            model.base_url,
            models={"m": {"provider": "openai", "model": "x", "base_url": model.base_url, "token_key": "TEST_KEY"}},
        )
        secret = {"TEST_KEY": "sk-SECRETSECRETSECRET42"}
        async with spawned(file, tmp_path / "s.db", "--debug", environment=secret) as server:
            await server.client.initialize()
            session = await server.client.new(tmp_path)
            prompt = await server.client.send(
                "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "x"}]
            )
            await server.client.allow()
            assert (await server.client.answer(prompt))["result"] == {"stopReason": "end_turn"}
            assert (await server.client.result("session/list"))["sessions"]
        log = server.stderr.read_text(encoding="utf-8")
        assert "sk-SECRET" not in log and "sk-SECRET" not in json.dumps(server.client.log)


async def _store_error(file: Path, database: Path, method: str = "session/new", **params: Any) -> Any:
    async with spawned(file, database) as server:
        await server.client.initialize()
        error = await server.client.error(method, **(params or {"cwd": str(file.parent), "mcpServers": []}))
        assert (await server.client.error("nope"))["code"] == -32601
    return error


@pytest.mark.requirement("jsonrpc.envelope.error-shape")
async def test_a_store_that_is_no_store_says_so_and_the_process_lives(tmp_path: Path) -> None:
    database = tmp_path / "s.db"
    database.write_bytes(b"this is not a database, and long enough to be sure of it" * 100)
    error = await _store_error(scripted_agent(tmp_path, {"text": "x"}), database)
    assert error["code"] == -32603 and str(database) in error["data"]["error"]


async def test_a_locked_store_fails_the_turn_and_not_the_session(tmp_path: Path) -> None:
    file = scripted_agent(tmp_path, {"text": "x"})
    async with serving(file, tmp_path / "s.db", busy_timeout=0.1) as server:
        await server.client.initialize()
        session = await server.client.new(tmp_path)
        lock = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")
        error = (await server.client.prompt(session, "one"))["error"]
        assert error["code"] == -32603 and "locked" in error["data"]["error"]
        lock.execute("ROLLBACK")
        lock.close()
        assert (await server.client.prompt(session, "two"))["result"] == {"stopReason": "end_turn"}


async def test_a_model_that_says_nothing_can_still_be_cancelled(tmp_path: Path) -> None:
    gate = anyio.Event()
    async with ModelServer([Reply([Wait(gate)]), text("next")]) as model:
        async with spawned(agent_on(tmp_path, model.base_url), tmp_path / "s.db") as server:
            client = server.client
            await client.initialize()
            session = await client.new(tmp_path)
            prompt = await client.send("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "x"}])
            await model.wait_for_call()
            await client.notify("session/cancel", sessionId=session)
            assert (await client.answer(prompt))["result"] == {"stopReason": "cancelled"}
            assert (await client.prompt(session, "y"))["result"] == {"stopReason": "end_turn"}
