"""Opening, closing, deleting and shutting down, where they meet each other and failures."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from sluice.config.environment import Environment
from sluice.wire.outbox import QUEUE_BYTES
from tests.handlers.support import Slow, Stubborn, assistant, history, holding, stored, user
from tests.support.model_server import Finish, ModelServer, Reply, Stall, Text, Wait, text
from tests.support.setup import agent_on, on_stage, scripted_agent
from tests.support.wire import Client, Server, serving

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

LONG = [user(f"{number:04d}" + "x" * 20_000, id=f"u{number}") for number in range(200)]
"""Four megabytes of history: more than the queue and the pipe hold together."""


def cancelling(request: Json) -> Json:
    return {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": request["id"]}}


def reason(answer: Json) -> tuple[int, str]:
    error = answer.get("error", {"code": 0})
    return error["code"], error.get("data", {}).get("reason", "")


BUSY = (-32600, "busy")
FAILED = (-32603, "cleanup_failed")


@asynccontextmanager
async def replaying(tmp_path: Path, live: bool) -> AsyncIterator[tuple[Server, Client, Json]]:
    """A load in the middle of its replay: the client has stopped reading, and everything in between is full."""
    await stored(tmp_path / "s.db", "old", *LONG, cwd=tmp_path)
    where = {"sessionId": "old", "cwd": str(tmp_path), "mcpServers": []}
    async with serving(scripted_agent(tmp_path, {"text": "x"}), tmp_path / "s.db") as server:
        client = server.client
        await client.initialize()
        if live:
            await client.result("session/resume", **where)
        client.pause()
        load = client.request("session/load", **where)
        await client.write(load)
        await client.until(lambda m: "user_message_chunk" in str(m))
        yield server, client, load


# --- replay under way ---------------------------------------------------------------------------------------------


@pytest.mark.requirement("session.load.holds-reservation", "session.resume.busy-reservation")
@pytest.mark.parametrize("live", [False, True], ids=["cold", "live"])
async def test_while_a_load_replays_everything_else_of_the_session_is_busy(tmp_path: Path, live: bool) -> None:
    async with replaying(tmp_path, live) as (_, client, load):
        where = load["params"]
        others = [
            client.send_prompt("old", "hi"),
            client.request("session/load", **where),
            client.request("session/resume", **where),
            client.request("session/set_mode", sessionId="old", modeId="strict"),
        ]
        await client.write(*others)
        client.go_on()
        for other in others:
            assert reason(await client.answer(other["id"])) == BUSY, other["method"]
        assert "result" in await client.answer(load["id"])
        assert len(history(client, "old")) == len(LONG)


@pytest.mark.requirement("session.load.stop.session-cancel-ignored", "cancel.prompt.idle-noop")
@pytest.mark.parametrize("live", [False, True], ids=["cold", "live"])
async def test_session_cancel_does_not_stop_a_load(tmp_path: Path, live: bool) -> None:
    async with replaying(tmp_path, live) as (_, client, load):
        await client.notify("session/cancel", sessionId="old")
        client.go_on()
        assert "result" in await client.answer(load["id"])
        assert len(history(client, "old")) == len(LONG)


@pytest.mark.requirement("session.load.stop.request-cancel", "cancel.request.unknown")
@pytest.mark.parametrize("live", [False, True], ids=["cold", "live"])
async def test_a_cancelled_load_stops_replaying_and_can_be_repeated(tmp_path: Path, live: bool) -> None:
    async with replaying(tmp_path, live) as (server, client, load):
        await client.write(cancelling(load))
        client.go_on()
        assert (await client.answer(load["id"]))["error"]["code"] == -32800
        shown = len(history(client, "old"))
        assert shown < len(LONG)
        prompt = await client.prompt("old", "hi")
        if live:
            assert prompt["result"] == {"stopReason": "end_turn"}  # it was open before, and stays so
        else:
            assert prompt["error"]["code"] == -32002 and "old" not in server.connection.entries
        before = len(history(client, "old"))
        assert "result" in await client.call("session/load", **load["params"])
        assert history(client, "old")[before]["content"]["text"].startswith("0000")
        assert len(history(client, "old")) >= before + len(LONG)


@pytest.mark.requirement("session.load.stop.request-cancel", "session.close.joins-reconnects")
@pytest.mark.parametrize("live", [False, True], ids=["cold", "live"])
async def test_a_close_stops_a_load_and_joins_it(tmp_path: Path, live: bool) -> None:
    async with replaying(tmp_path, live) as (_, client, load):
        close = client.request("session/close", sessionId="old")
        await client.write(close)
        client.go_on()
        closed = await client.answer(close["id"])
        assert closed["result"] == {} and client.log[-1] == closed
        assert (await client.answer(load["id"]))["error"]["code"] == -32800
        assert (await client.prompt("old", "hi"))["error"]["code"] == -32002


@pytest.mark.requirement("session.load.stop.request-cancel", "shutdown.cancel.admitted")
@pytest.mark.parametrize("live", [False, True], ids=["cold", "live"])
async def test_the_end_of_input_stops_a_load(tmp_path: Path, live: bool) -> None:
    async with replaying(tmp_path, live) as (server, client, load):
        client.transport.send_eof()  # type: ignore[attr-defined]
        client.go_on()
        assert (await client.answer(load["id"]))["error"]["code"] == -32800
        with anyio.fail_after(10):
            await client.ended.wait()
    assert server.status == 0


@pytest.mark.requirement("session.load.fresh", "session.resume.live-keeps-runtime", "session.resume.servers-optional")
async def test_a_session_without_a_turn_can_be_loaded_and_resumed_live_and_in_the_next_process(
    tmp_path: Path,
) -> None:
    file = scripted_agent(tmp_path, {"text": "x"})
    async with serving(file, tmp_path / "s.db") as server:
        await server.client.initialize()
        session = await server.client.new(tmp_path)
        runtime = server.connection.entries[session].live
        where: Json = {"sessionId": session, "cwd": str(tmp_path)}
        wanted: list[Json] = [{}, {"mcpServers": None}, {"mcpServers": []}]
        for servers in wanted:
            await server.client.result("session/resume", **where, **servers)
        await server.client.result("session/load", **where, mcpServers=[])
        assert server.connection.entries[session].live is runtime and history(server.client) == []
        for bad in ("rel", "", None, 3):
            assert (await server.client.error("session/resume", sessionId=session, cwd=bad))["code"] == -32602
        assert (await server.client.error("session/resume", sessionId=session))["code"] == -32602
        assert (await server.client.prompt(session, "hi"))["result"] == {"stopReason": "end_turn"}
    async with serving(file, tmp_path / "s.db") as server:
        await server.client.initialize()
        await server.client.result("session/load", **where, mcpServers=[])


@pytest.mark.requirement("session.resume.cwd-required")
@pytest.mark.parametrize("cwd", ["rel", "", "~", None, 3])
async def test_a_resume_needs_an_absolute_cwd(tmp_path: Path, cwd: Any) -> None:
    await stored(tmp_path / "s.db", "old", user("hi"), cwd=tmp_path)
    async with serving(scripted_agent(tmp_path, {"text": "x"}), tmp_path / "s.db") as server:
        await server.client.initialize()
        assert (await server.client.error("session/resume", sessionId="old", cwd=cwd))["code"] == -32602


# --- session/new --------------------------------------------------------------------------------------------------


@pytest.mark.requirement("session.new.default-mode", "session.new.option-order-stable", "config-file.runtime.safety")
@pytest.mark.parametrize(
    ("agent", "file", "mode"),
    [({}, {}, "default"), ({"safety": "strict"}, {"runtime": {"safety": "balanced"}}, "strict")],
    ids=["none", "author"],
)
async def test_a_new_session_is_in_the_default_mode_or_the_authors(
    tmp_path: Path, agent: Json, file: Json, mode: str
) -> None:
    async with serving(scripted_agent(tmp_path, {"text": "x"}, agent=agent, **file), tmp_path / "s.db") as server:
        await server.client.initialize()
        made = [await server.client.result("session/new", cwd=str(tmp_path), mcpServers=[]) for _ in range(3)]
        for one in made:
            assert one["modes"]["currentModeId"] == mode == one["configOptions"][0]["currentValue"]
            assert one["configOptions"][0]["id"] == "mode"
        assert len({str([option["id"] for option in one["configOptions"]]) for one in made}) == 1


@pytest.mark.requirement("session.new.cancel-request", "session.new.failure-leaves-nothing")
async def test_a_cancelled_session_new_leaves_nothing_open(tmp_path: Path) -> None:
    import sys

    odd = Path(__file__).parents[1] / "mcp" / "server_odd.py"
    silent = {"name": "s", "command": sys.executable, "args": [str(odd), "silent"], "env": []}
    async with on_stage(tmp_path) as stage:
        client = stage.client
        new = client.request("session/new", cwd=str(stage.cwd), mcpServers=[silent])
        await client.write(new)
        with anyio.fail_after(10):
            while not any(t.machine == "mcp" for t in stage.server.transitions) and not _children():
                await anyio.sleep(0.01)
        await client.write(cancelling(new))
        assert (await client.answer(new["id"]))["error"]["code"] == -32800
        assert len((await client.result("session/list"))["sessions"]) == 1
        assert list(stage.server.connection.entries) == [stage.session]
        assert _children() == set()


def _children() -> set[int]:
    import os

    from tests.handlers.test_process import descendants

    return descendants(os.getpid())


@pytest.mark.requirement("session.new.only-known-ids", "session.list.entry-shape", "session.list.no-updated-at")
async def test_updates_name_only_sessions_that_were_opened_here_and_entries_say_what_is_known(tmp_path: Path) -> None:
    """The line checker refuses an update for any other id; here every way to open a session is taken."""
    await stored(tmp_path / "session.db", "old", user("hi"), cwd=tmp_path, created=5.0)
    await stored(tmp_path / "session.db", "older", user("hi"), cwd=tmp_path, created=4.0)
    async with on_stage(tmp_path, text("a"), text("b"), text("c")) as stage:
        client = stage.client
        await client.result("session/load", sessionId="old", cwd=str(tmp_path), mcpServers=[])
        await client.result("session/resume", sessionId="older", cwd=str(tmp_path))
        for session in (stage.session, "old", "older"):
            await client.prompt(session, "Name me")
        named = {m["params"]["sessionId"] for m in client.log if m.get("method") == "session/update"}
        assert named == {stage.session, "old", "older"}
        listed = (await client.result("session/list"))["sessions"]
        assert [entry["sessionId"] for entry in listed] == [stage.session, "old", "older"]
        for entry in listed:
            assert set(entry) - {"additionalDirectories"} == {"sessionId", "cwd", "title"}
            assert entry["cwd"].startswith("/") and entry["title"] == "Name me"
        await client.result("session/new", cwd=str(stage.cwd), mcpServers=[])
        assert "title" not in (await client.result("session/list"))["sessions"][0]


# --- close --------------------------------------------------------------------------------------------------------


@pytest.mark.requirement(
    "session.close.failure-returned-and-kept",
    "session.close.toolset-stop-error",
    "session.delete.cleanup-failure-preserves",
    "session.resume.blocked-while-closing",
    "shutdown.errors.toolset-stop",
)
async def test_a_cleanup_that_fails_is_an_error_of_this_and_every_later_call(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Naively the exception is logged, the session forgotten, and the next resume works."""
    async with on_stage(tmp_path, text("hi")) as stage:
        client, where = stage.client, {"sessionId": stage.session}
        await client.prompt(stage.session, "kept")
        holding(stage.server, stage.session, Stubborn())
        at = {**where, "cwd": str(stage.cwd), "mcpServers": []}
        first, joined = client.request("session/close", **where), client.request("session/close", **where)
        await client.write(first, joined)
        assert reason(await client.answer(first["id"])) == FAILED == reason(await client.answer(joined["id"]))
        called: list[tuple[str, Json]] = [
            ("session/close", where),
            ("session/resume", at),
            ("session/load", at),
            ("session/prompt", {**where, "prompt": [{"type": "text", "text": "x"}]}),
            ("session/set_mode", {**where, "modeId": "strict"}),
            ("session/delete", where),
        ]
        for method, params in called:
            assert reason({"error": await client.error(method, **params)}) == FAILED, method
        other = await client.new(stage.cwd)
        assert (await client.result("session/close", sessionId=other)) == {}
        assert len((await client.result("session/list"))["sessions"]) == 2
    assert stage.server.status == 1
    assert "could not be stopped" in caplog.text
    async with serving(scripted_agent(tmp_path, {"text": "x"}), tmp_path / "session.db") as server:
        await server.client.initialize()
        await server.client.result("session/load", **at)
        assert [u["content"]["text"] for u in history(server.client)] == ["kept", "hi"]


@pytest.mark.requirement(
    "session.close.result-means-drained", "session.close.concurrent-joins", "session.close.cancel-stops-wait-only"
)
async def test_a_close_waits_for_its_toolsets_and_a_cancelled_one_leaves_the_cleanup_alone(tmp_path: Path) -> None:
    """Naively the cleanup runs in the request's task and dies with it."""
    async with on_stage(tmp_path) as stage:
        client, slow = stage.client, Slow()
        holding(stage.server, stage.session, slow)
        first = client.request("session/close", sessionId=stage.session)
        second = client.request("session/close", sessionId=stage.session)
        await client.write(first, second)
        await slow.asked.wait()
        resume = {"sessionId": stage.session, "cwd": str(stage.cwd)}
        assert reason({"error": await client.error("session/resume", **resume)}) == BUSY
        await client.write(cancelling(first))
        assert (await client.answer(first["id"]))["error"]["code"] == -32800
        assert reason({"error": await client.error("session/resume", **resume)}) == BUSY
        assert reason(await client.prompt(stage.session, "x")) == BUSY
        slow.gate.set()
        assert (await client.answer(second["id"]))["result"] == {}
        await client.result("session/resume", **resume)


async def test_an_error_nobody_foresaw_in_an_owners_task_ends_that_session_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with on_stage(tmp_path, Reply([Text("half"), Stall()]), text("other"), text("x")) as stage:
        client = stage.client
        prompt = client.send_prompt(stage.session, "1")
        await client.write(prompt)
        await client.until(lambda m: "half" in str(m))
        live = stage.server.connection.entries[stage.session].live
        assert live is not None

        async def burst() -> None:
            raise RuntimeError("nobody foresaw this")

        live.tasks.start_soon(burst)
        assert (await client.answer(prompt["id"]))["result"] == {"stopReason": "cancelled"}
        assert reason(await client.prompt(stage.session, "2")) == FAILED
        assert reason({"error": await client.error("session/close", sessionId=stage.session)}) == FAILED
        other = await client.new(stage.cwd)
        assert (await client.prompt(other, "1"))["result"] == {"stopReason": "end_turn"}
    assert stage.server.status == 1 and "nobody foresaw this" in caplog.text
    async with serving(scripted_agent(tmp_path, {"text": "x"}), tmp_path / "session.db") as server:
        await server.client.initialize()
        where = {"sessionId": stage.session, "cwd": str(stage.cwd), "mcpServers": []}
        await server.client.result("session/load", **where)
        assert [u["content"]["text"] for u in history(server.client)] == ["1", "half"]


# --- delete -------------------------------------------------------------------------------------------------------


@pytest.mark.requirement(
    "session.delete.barrier",
    "session.delete.different-id-busy",
    "session.delete.same-id-joins",
    "session.delete.joiner-cancel",
    "session.delete.unrelated-run-on",
    "session.delete.closes-first",
    "session.close.while-removing",
)
async def test_while_a_session_is_being_deleted_no_other_is_opened_or_deleted(tmp_path: Path) -> None:
    gate = anyio.Event()
    await stored(tmp_path / "session.db", "old", user("hi"), cwd=tmp_path)
    async with on_stage(tmp_path, Reply([Text("on"), Wait(gate), Finish()])) as stage:
        client, slow = stage.client, Slow()
        other = await client.new(stage.cwd)
        running = client.send_prompt(other, "1")
        await client.write(running)
        await client.until(lambda m: "agent_message_chunk" in str(m))
        holding(stage.server, stage.session, slow)
        delete = client.request("session/delete", sessionId=stage.session)
        await client.write(delete)
        await slow.asked.wait()
        old = {"sessionId": "old", "cwd": str(tmp_path), "mcpServers": []}
        called: list[tuple[str, Json]] = [
            ("session/new", {"cwd": str(stage.cwd), "mcpServers": []}),
            ("session/load", old),
            ("session/resume", old),
            ("session/delete", {"sessionId": "old"}),
            ("session/delete", {"sessionId": other}),
        ]
        for method, params in called:
            assert reason({"error": await client.error(method, **params)}) == BUSY, method
        joiner = client.request("session/delete", sessionId=stage.session)
        leaver = client.request("session/delete", sessionId=stage.session)
        closer = client.request("session/close", sessionId=stage.session)
        await client.write(joiner, leaver, closer, cancelling(leaver))
        assert (await client.answer(leaver["id"]))["error"]["code"] == -32800
        gate.set()
        assert (await client.answer(running["id"]))["result"] == {"stopReason": "end_turn"}
        assert len((await client.result("session/list"))["sessions"]) == 3
        slow.gate.set()
        for request in (delete, joiner, closer):
            assert (await client.answer(request["id"]))["result"] == {}
        assert await client.result("session/close", sessionId=stage.session) == {}
        assert len((await client.result("session/list"))["sessions"]) == 2
        assert await client.result("session/delete", sessionId="old") == {}


@pytest.mark.requirement("session.delete.initiator-cancel", "session.delete.barrier")
async def test_a_withdrawn_delete_finishes_the_cleanup_behind_the_barrier_and_removes_nothing(tmp_path: Path) -> None:
    """Naively the cancel kills the cleanup, or the row goes all the same, or the barrier falls at once."""
    async with on_stage(tmp_path) as stage:
        client, slow = stage.client, Slow()
        holding(stage.server, stage.session, slow)
        delete = client.request("session/delete", sessionId=stage.session)
        await client.write(delete)
        await slow.asked.wait()
        await client.write(cancelling(delete))
        assert (await client.answer(delete["id"]))["error"]["code"] == -32800
        new = {"cwd": str(stage.cwd), "mcpServers": []}
        assert reason({"error": await client.error("session/new", **new)}) == BUSY
        slow.gate.set()
        with anyio.fail_after(10):
            while "error" in (made := await client.call("session/new", **new)):
                assert reason(made) == BUSY
        where = {"sessionId": stage.session, "cwd": str(stage.cwd)}
        await client.result("session/resume", **where)
        assert await client.result("session/delete", sessionId=stage.session) == {}
        assert (await client.error("session/resume", **where))["code"] == -32002


@pytest.mark.requirement("session.delete.busy-with-constructor")
async def test_a_delete_is_busy_while_another_session_is_being_made(tmp_path: Path) -> None:
    await stored(tmp_path / "session.db", "old", user("hi"), cwd=tmp_path)
    async with on_stage(tmp_path) as stage:
        client = stage.client
        old = {"sessionId": "old", "cwd": str(tmp_path), "mcpServers": []}
        opening = client.request("session/load", **old)
        delete = client.request("session/delete", sessionId=stage.session)
        await client.write(opening, delete)
        assert reason(await client.answer(delete["id"])) == BUSY
        assert "result" in await client.answer(opening["id"])
        assert await client.result("session/delete", sessionId=stage.session) == {}


async def family(tmp_path: Path) -> Path:
    database = tmp_path / "session.db"
    await stored(database, "root", user("one"), cwd=tmp_path)
    await stored(database, "child", assistant("inside"), cwd=tmp_path, parent="root")
    await stored(database, "leaf", assistant("deeper"), cwd=tmp_path, parent="child")
    return database


def count(database: Path) -> int:
    connection = sqlite3.connect(database)
    try:
        return int(connection.execute("SELECT count(*) FROM sessions").fetchone()[0])
    finally:
        connection.close()


@pytest.mark.requirement(
    "session.delete.child-rejected", "session.delete.loaded-descendant-blocks", "session.delete.removes-tree"
)
async def test_a_tree_is_deleted_by_its_root_once_no_descendant_is_open(tmp_path: Path) -> None:
    database = await family(tmp_path)
    async with serving(scripted_agent(tmp_path, {"text": "x"}), database) as server:
        client = server.client
        await client.initialize()
        error = await client.error("session/delete", sessionId="child")
        assert (error["code"], error["data"]["reason"]) == (-32602, "child_session")
        await client.result("session/resume", sessionId="leaf", cwd=str(tmp_path))
        error = await client.error("session/delete", sessionId="leaf")
        assert (error["code"], error["data"]["reason"]) == (-32602, "child_session")
        assert (await client.prompt("leaf", "still open"))["result"] == {"stopReason": "end_turn"}
        assert reason({"error": await client.error("session/delete", sessionId="root")}) == BUSY
        assert count(database) == 3
        assert await client.result("session/close", sessionId="leaf") == {}
        assert await client.result("session/delete", sessionId="root") == {}
        assert count(database) == 0
        for session in ("root", "child", "leaf"):
            where: Json = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
            assert (await client.error("session/load", **where))["code"] == -32002


@pytest.mark.requirement("session.delete.loaded-descendant-blocks", "session.delete.cleanup-failure-preserves")
async def test_a_descendant_that_could_not_be_closed_keeps_the_whole_tree(tmp_path: Path) -> None:
    database = await family(tmp_path)
    async with serving(scripted_agent(tmp_path, {"text": "x"}), database) as server:
        client = server.client
        await client.initialize()
        await client.result("session/resume", sessionId="child", cwd=str(tmp_path))
        holding(server, "child", Stubborn())
        assert reason({"error": await client.error("session/close", sessionId="child")}) == FAILED
        assert reason({"error": await client.error("session/delete", sessionId="root")}) == FAILED
        assert count(database) == 3


@contextmanager
def locked(database: Path) -> Any:
    connection = sqlite3.connect(database, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()


@pytest.mark.requirement(
    "session.delete.store-error-retryable", "session.close.while-removing", "session.delete.cancel-in-store-call"
)
async def test_a_store_that_is_locked_fails_the_delete_and_loses_nothing(tmp_path: Path) -> None:
    file = scripted_agent(tmp_path, {"text": "x"})
    async with serving(file, tmp_path / "s.db", busy_timeout=0.2) as server:
        client = server.client
        await client.initialize()
        session = await client.new(tmp_path)
        with locked(tmp_path / "s.db"):
            error = await client.error("session/delete", sessionId=session)
            assert (error["code"], error["data"]["reason"]) == (-32603, "store_locked")
            assert (await client.prompt(session, "x"))["error"]["code"] == -32002  # closed it is
            delete = client.request("session/delete", sessionId=session)
            close = client.request("session/close", sessionId=session)
            await client.write(delete, close, cancelling(delete))
            assert (await client.answer(close["id"]))["result"] == {}  # nothing is left to wait for
            assert (await client.answer(delete["id"]))["error"]["code"] == -32800
        with anyio.fail_after(
            10
        ):  # all or nothing, whichever came first: the lock's end or the patience of the store
            while reason(again := await client.call("session/delete", sessionId=session)) == BUSY:
                continue
        assert again.get("result") == {}
        assert await client.result("session/delete", sessionId=session) == {}
        assert count(tmp_path / "s.db") == 0


# --- shutdown -----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("session.delete.shutdown-joins", "shutdown.join.final")
async def test_the_end_of_input_waits_for_a_delete_and_for_a_tool_that_takes_its_time(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        client, slow, other = stage.client, Slow(), Slow()
        second = await client.new(stage.cwd)
        holding(stage.server, stage.session, slow)
        holding(stage.server, second, other)
        delete = client.request("session/delete", sessionId=stage.session)
        await client.write(delete)
        await slow.asked.wait()
        client.transport.send_eof()  # type: ignore[attr-defined]
        await other.asked.wait()
        assert not client.ended.is_set() and count(tmp_path / "session.db") == 2
        slow.gate.set()
        assert (await client.answer(delete["id"]))["result"] == {}
        assert not client.ended.is_set() and count(tmp_path / "session.db") == 1
        other.gate.set()
        with anyio.fail_after(10):
            await client.ended.wait()
    assert stage.server.status == 0


@pytest.mark.requirement("shutdown.refuse.new-work", "shutdown.signal.first-clean")
async def test_what_arrives_during_a_shutdown_is_refused_and_not_left_unanswered(tmp_path: Path) -> None:
    """A signal ends the work while the client can still ask."""
    async with on_stage(tmp_path) as stage:
        client, slow = stage.client, Slow()
        holding(stage.server, stage.session, slow)
        stage.server.connection.end_of_input()
        await slow.asked.wait()
        where = {"sessionId": stage.session}
        called: list[tuple[str, Json]] = [
            ("session/new", {"cwd": str(stage.cwd), "mcpServers": []}),
            ("session/prompt", {**where, "prompt": [{"type": "text", "text": "x"}]}),
            ("session/list", {}),
            ("session/close", where),
            ("session/delete", where),
            ("logout", {}),
            ("authenticate", {"methodId": "host-credentials"}),
            ("initialize", {"protocolVersion": 1}),
        ]
        for method, params in called:
            assert reason({"error": await client.error(method, **params)}) == (-32600, "shutting_down"), method
        await client.notify("session/cancel", sessionId=stage.session)
        slow.gate.set()
        with anyio.fail_after(10):
            await client.ended.wait()
    assert stage.server.status == 0


@pytest.mark.requirement("shutdown.cancel.admitted", "shutdown.refuse.new-work")
async def test_an_initialize_that_takes_too_long_does_not_hold_up_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """End of input while initializing: past its budget what waits is refused, and each is answered once."""
    monkeypatch.setattr("sluice.handlers.connection.INITIALIZE_BUDGET", 0.05)
    release = threading.Event()

    def slow() -> Environment:
        release.wait(20)
        return Environment.read({}, (), None)

    async with serving(scripted_agent(tmp_path, {"text": "x"}), tmp_path / "s.db", slow) as server:
        client = server.client
        first = client.request("initialize", protocolVersion=1)
        held = client.request("session/new", cwd=str(tmp_path), mcpServers=[])
        await client.write(first, held)
        client.transport.send_eof()  # type: ignore[attr-defined]
        assert reason(await client.answer(held["id"])) == (-32600, "shutting_down")
        release.set()
        assert reason(await client.answer(first["id"])) == (-32600, "shutting_down")
        with anyio.fail_after(10):
            await client.ended.wait()
    assert server.status == 0


# --- the client that does not read --------------------------------------------------------------------------------


@pytest.mark.requirement("transport.output.slow-reader", "cancel.prompt.any-wait", "transport.output.single-writer")
async def test_a_client_that_stops_reading_can_still_cancel(tmp_path: Path) -> None:
    """Naively the queue grows without bound, or the blocked write also stops the reading."""
    pieces = [Text(f"{number:05d}" + "y" * 4000) for number in range(2000)]
    async with ModelServer([Reply([*pieces, Stall()]), text("after")]) as model:
        async with serving(agent_on(tmp_path, model.base_url), tmp_path / "s.db") as server:
            client = server.client
            await client.initialize()
            session = await client.new(tmp_path)
            prompt = client.send_prompt(session, "1")
            await client.write(prompt)
            await client.until(lambda m: "agent_message_chunk" in str(m))
            client.pause()
            with anyio.fail_after(10):
                while server.connection.peer._outbox.unsent <= QUEUE_BYTES:
                    await anyio.sleep(0.01)
            await client.notify("session/cancel", sessionId=session)
            await model.wait_for_abort()  # the cancel works although not one more byte is read
            client.go_on()
            assert (await client.answer(prompt["id"]))["result"] == {"stopReason": "cancelled"}
            shown = [u["content"]["text"][:5] for u in client.updates(session, "agent_message_chunk")]
            assert shown == [f"{number:05d}" for number in range(len(shown))] and len(shown) < 600
            assert (await client.prompt(session, "2"))["result"] == {"stopReason": "end_turn"}
