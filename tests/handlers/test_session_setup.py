"""session/new, load, resume, list, close and delete over the wire."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.support.model_server import ModelServer, Reply, Stall, Text, call, calls, text
from tests.support.setup import agent_on, on_stage, scripted_agent
from tests.support.wire import serving

pytestmark = pytest.mark.anyio

Json = dict[str, Any]


@pytest.mark.requirement("session.new.result-shape", "session.new.distinct-ids", "session.new.persisted-at-once")
async def test_new_sessions_have_distinct_ids_and_are_listed_at_once(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        result = await stage.client.result("session/new", cwd=str(stage.cwd), mcpServers=[])
        assert set(result) == {"sessionId", "modes", "configOptions"} and result["sessionId"] != stage.session
        assert result["modes"]["currentModeId"] == "default" == result["configOptions"][0]["currentValue"]
        listed = await stage.client.result("session/list")
        assert [s["sessionId"] for s in listed["sessions"]] == [result["sessionId"], stage.session]
        assert "nextCursor" not in listed


@pytest.mark.requirement(
    "session.new.cwd-must-exist", "session.new.cwd-required", "session.new.failure-leaves-nothing"
)
@pytest.mark.parametrize("cwd", ["/nowhere/at/all", "rel", "~", "", None, 3])
async def test_a_bad_cwd_creates_nothing(tmp_path: Path, cwd: Any) -> None:
    async with on_stage(tmp_path) as stage:
        error = await stage.client.error("session/new", cwd=cwd, mcpServers=[])
        assert error["code"] == -32602 and error["data"]["path"] == "$.cwd"
        assert len((await stage.client.result("session/list"))["sessions"]) == 1


@pytest.mark.requirement(
    "session.load.replay-before-result",
    "session.load.order.stored-order",
    "session.load.tools.fresh-ids",
    "session.load.tools.no-arguments",
    "message-ids.persist.stable-display",
    "shutdown.restart.sessions-survive",
    "store.engine.sqlite",
)
async def test_a_load_in_a_new_process_replays_the_conversation_and_goes_on_with_it(tmp_path: Path) -> None:
    replies = [calls(call("think", thought="hm"), text="first "), text("second"), text("third")]
    async with ModelServer(replies) as model:
        file = agent_on(tmp_path, model.base_url)
        async with serving(file, tmp_path / "s.db") as server:
            await server.client.initialize()
            session = await server.client.new(tmp_path)
            await server.client.prompt(session, "hello")
            live = server.client.updates(session)
        async with serving(file, tmp_path / "s.db") as server:
            client = server.client
            await client.initialize()
            response = await client.call("session/load", sessionId=session, cwd=str(tmp_path), mcpServers=[])
            assert set(response["result"]) == {"modes", "configOptions"} and client.log[-1] == response
            kinds = [u["sessionUpdate"] for u in client.told(session)]
            assert kinds == ["user_message_chunk", "agent_message_chunk", "tool_call", "agent_message_chunk"]
            texts = [u["content"]["text"] for u in client.updates(session) if u["sessionUpdate"].endswith("chunk")]
            assert texts == ["hello", "first ", "second"]
            tool = client.updates(session, "tool_call")[0]
            assert tool["status"] == "completed" and "rawInput" not in tool and tool["name"] == "think"
            assert tool["toolCallId"] not in {u.get("toolCallId") for u in live}
            ids = [u["messageId"] for u in client.updates(session, "agent_message_chunk")]
            assert ids == [u["messageId"] for u in live if u["sessionUpdate"] == "agent_message_chunk"]
            assert (await client.prompt(session, "more"))["result"] == {"stopReason": "end_turn"}
            assert [m["role"] for m in model.requests[2].messages[1:]] == [
                "user",
                "assistant",
                "tool",
                "assistant",
                "user",
            ]
        assert model.refusals == []


@pytest.mark.requirement("session.resume.no-replay", "session.resume.cold-rebuilds")
async def test_a_resume_sends_no_history_and_keeps_the_context(tmp_path: Path) -> None:
    async with ModelServer([text("one"), text("two")]) as model:
        file = agent_on(tmp_path, model.base_url)
        async with serving(file, tmp_path / "s.db") as server:
            await server.client.initialize()
            session = await server.client.new(tmp_path)
            await server.client.prompt(session, "hello")
        async with serving(file, tmp_path / "s.db") as server:
            await server.client.initialize()
            await server.client.result("session/resume", sessionId=session, cwd=str(tmp_path))
            assert server.client.told() == []
            await server.client.prompt(session, "again")
            assert [m["content"] for m in model.requests[1].messages[1:]] == ["hello", "one", "again"]


@pytest.mark.requirement(
    "session.load.unknown-id", "prompt.outcome.missing-session", "turn-admission.params.session-id"
)
async def test_unknown_sessions_are_not_found_and_say_which(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        block = [{"type": "text", "text": "x"}]
        refused: list[tuple[str, dict[str, Any]]] = [
            ("session/load", {"cwd": str(tmp_path), "mcpServers": []}),
            ("session/resume", {"cwd": str(tmp_path)}),
            ("session/prompt", {"prompt": block}),
            ("session/set_mode", {"modeId": "strict"}),
            ("session/set_config_option", {"configId": "mode", "value": "strict"}),
            ("session/close", {}),
        ]
        for method, params in refused:
            error = await stage.client.error(method, sessionId="nobody", **params)
            assert error["code"] == -32002 and error["data"]["sessionId"] == "nobody", method
        assert stage.client.updates("nobody") == []


@pytest.mark.requirement(
    "workspace.match.same-directory", "workspace.match.aliases-accepted", "workspace.roots.invalid-leaves-state"
)
async def test_a_load_needs_the_directory_of_the_session_or_an_alias_of_it(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        alias = tmp_path / "alias"
        alias.symlink_to(stage.cwd)
        error = await stage.client.error("session/load", sessionId=stage.session, cwd=str(tmp_path), mcpServers=[])
        assert error["code"] == -32602
        await stage.client.result("session/load", sessionId=stage.session, cwd=str(alias), mcpServers=[])
        assert (await stage.client.result("session/list"))["sessions"][0]["cwd"] == str(stage.cwd)


@pytest.mark.requirement(
    "session.close.ends-prompt-cancelled",
    "session.close.result-means-drained",
    "session.close.then-unknown",
    "session.close.then-no-update",
    "session.close.reload-afterwards",
    "session.close.never-seen-id",
)
async def test_close_ends_the_turn_first_and_leaves_the_session_in_the_store(tmp_path: Path) -> None:
    async with on_stage(tmp_path, Reply([Text("x"), Stall()])) as stage:
        client = stage.client
        prompt = await client.send("session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": "1"}])
        await client.until(lambda m: "agent_message_chunk" in str(m))
        closed = await client.call("session/close", sessionId=stage.session)
        assert closed["result"] == {} and client.log[-1] == closed
        assert (await client.answer(prompt))["result"] == {"stopReason": "cancelled"}
        assert (await client.prompt(stage.session, "2"))["error"]["code"] == -32002
        assert await client.result("session/close", sessionId=stage.session) == {}
        await client.result("session/load", sessionId=stage.session, cwd=str(stage.cwd), mcpServers=[])


@pytest.mark.requirement("session.close.concurrent-joins", "session.close.cancel-stops-wait-only")
async def test_a_second_close_joins_and_a_cancelled_one_only_stops_waiting(tmp_path: Path) -> None:
    async with on_stage(tmp_path, Reply([Text("x"), Stall()])) as stage:
        client = stage.client
        await client.send("session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": "1"}])
        await client.until(lambda m: "agent_message_chunk" in str(m))
        first = client.request("session/close", sessionId=stage.session)
        second = client.request("session/close", sessionId=stage.session)
        withdraw = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": first["id"]}}
        await client.write(first, second, withdraw)
        assert (await client.answer(first["id"]))["error"]["code"] == -32800
        assert (await client.answer(second["id"]))["result"] == {}


@pytest.mark.requirement(
    "session.delete.closes-first",
    "session.delete.then-not-found",
    "session.delete.unknown-id-succeeds",
    "session.delete.workspace-untouched",
    "session.delete.empty-id",
)
async def test_delete_closes_then_removes_and_repeats_harmlessly(tmp_path: Path) -> None:
    async with on_stage(tmp_path, Reply([Text("x"), Stall()])) as stage:
        client = stage.client
        (stage.cwd / "mine.txt").write_text("kept")
        prompt = await client.send("session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": "1"}])
        await client.until(lambda m: "agent_message_chunk" in str(m))
        assert await client.result("session/delete", sessionId=stage.session) == {}
        assert (await client.answer(prompt))["result"] == {"stopReason": "cancelled"}
        assert (await client.result("session/list"))["sessions"] == []
        assert await client.result("session/delete", sessionId=stage.session) == {}
        assert await client.result("session/delete", sessionId="never") == {}
        assert (await client.error("session/delete", sessionId=""))["code"] == -32602
        error = await client.error("session/load", sessionId=stage.session, cwd=str(stage.cwd), mcpServers=[])
        assert error["code"] == -32002
        assert (stage.cwd / "mine.txt").read_text() == "kept"


@pytest.mark.requirement("session.delete.initiator-cancel", "session.delete.barrier")
async def test_the_initiator_of_a_delete_can_withdraw_it_until_the_storage_step(tmp_path: Path) -> None:
    """Naively the cancel kills the cleanup, or the row is removed all the same, or the barrier falls too early."""
    async with on_stage(tmp_path, Reply([Text("x"), Stall()])) as stage:
        client = stage.client
        await client.send("session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": "1"}])
        await client.until(lambda m: "agent_message_chunk" in str(m))
        delete = client.request("session/delete", sessionId=stage.session)
        joiner = client.request("session/delete", sessionId=stage.session)
        withdraw = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": delete["id"]}}
        new = client.request("session/new", cwd=str(stage.cwd), mcpServers=[])
        await client.write(delete, joiner, withdraw, new)
        assert (await client.answer(delete["id"]))["error"]["code"] == -32800
        assert (await client.answer(new["id"]))["error"]["data"]["reason"] == "busy"
        assert (await client.answer(joiner["id"]))["error"]["data"]["reason"] == "busy"
        assert len((await client.result("session/list"))["sessions"]) == 1
        assert await client.result("session/delete", sessionId=stage.session) == {}


@pytest.mark.requirement(
    "session.list.page-size", "session.list.order", "session.list.bad-cursor", "session.list.filter-absolute"
)
async def test_listing_pages_through_the_sessions_newest_first(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        ids = [stage.session, *[await stage.client.new(stage.cwd) for _ in range(51)]]
        first = await stage.client.result("session/list")
        second = await stage.client.result("session/list", cursor=first["nextCursor"])
        listed = [s["sessionId"] for s in first["sessions"] + second["sessions"]]
        assert len(first["sessions"]) == 50 and listed == ids[::-1] and "nextCursor" not in second
        wrong: list[dict[str, Any]] = [
            {"cursor": "x"},
            {"cursor": 3},
            {"cwd": "rel"},
            {"cwd": "/else", "cursor": first["nextCursor"]},
        ]
        for bad in wrong:
            assert (await stage.client.error("session/list", **bad))["code"] == -32602
        assert (await stage.client.result("session/list", cwd=str(stage.cwd.parent)))["sessions"] == []


@pytest.mark.requirement(
    "modes.set.both-updates",
    "modes.set.update-key",
    "config-options.set.complete-list",
    "config-options.persist.model-and-safety",
)
async def test_a_mode_change_is_told_stored_and_in_force(tmp_path: Path) -> None:
    async with on_stage(tmp_path, calls(call("think", thought="x")), text("ok")) as stage:
        client = stage.client
        assert await client.result("session/set_mode", sessionId=stage.session, modeId="strict") == {}
        kinds = [u["sessionUpdate"] for u in client.told()]
        assert kinds == ["current_mode_update", "config_option_update"]
        await client.result("session/set_mode", sessionId=stage.session, modeId="strict")
        assert len(client.told()) == 2
        prompt = await client.send("session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": "1"}])
        await client.allow()
        await client.answer(prompt)
        result = await client.result(
            "session/set_config_option", sessionId=stage.session, configId="mode", value="autonomous"
        )
        assert result["configOptions"][0]["currentValue"] == "autonomous"
        await client.result("session/close", sessionId=stage.session)
        loaded = await client.result("session/resume", sessionId=stage.session, cwd=str(stage.cwd))
        assert loaded["modes"]["currentModeId"] == "autonomous"
        wrong: list[dict[str, Any]] = [
            {"configId": "nope", "value": "x"},
            {"configId": "mode", "value": "yolo"},
            {"configId": "mode", "value": True, "type": "boolean"},
            {"configId": "mode", "value": 3},
        ]
        for bad in wrong:
            error = await client.error("session/set_config_option", sessionId=stage.session, **bad)
            assert error["code"] == -32602
        assert (await client.error("session/set_mode", sessionId=stage.session, modeId="nope"))["code"] == -32602


@pytest.mark.requirement(
    "config-options.idle.busy-foreground", "session.load.busy-when-turn-live", "session.resume.busy-turn"
)
async def test_a_running_turn_makes_configuration_and_reopening_busy(tmp_path: Path) -> None:
    gate = anyio.Event()
    from tests.support.model_server import Finish, Wait

    async with on_stage(tmp_path, Reply([Wait(gate), Finish()])) as stage:
        client = stage.client
        prompt = await client.send("session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": "1"}])
        await stage.model.wait_for_call()
        refused: list[tuple[str, dict[str, Any]]] = [
            ("session/set_mode", {"modeId": "strict"}),
            ("session/set_config_option", {"configId": "mode", "value": "strict"}),
            ("session/load", {"cwd": str(stage.cwd), "mcpServers": []}),
            ("session/resume", {"cwd": str(stage.cwd)}),
        ]
        for method, params in refused:
            error = await client.error(method, sessionId=stage.session, **params)
            assert (error["code"], error["data"]["reason"]) == (-32600, "busy"), method
        gate.set()
        assert (await client.answer(prompt))["result"] == {"stopReason": "end_turn"}
        await client.result("session/resume", sessionId=stage.session, cwd=str(stage.cwd))


@pytest.mark.requirement("session.new.independent-team", "workspace.config.reloaded-per-session")
async def test_an_edited_agent_file_reaches_the_next_session_only(tmp_path: Path) -> None:
    file = scripted_agent(tmp_path, {"text": "x"})
    async with serving(file, tmp_path / "s.db") as server:
        await server.client.initialize()
        old = await server.client.new(tmp_path)
        file.write_text("agents: {root: {modle: x}}")
        error = await server.client.error("session/new", cwd=str(tmp_path), mcpServers=[])
        assert error["code"] == -32603 and error["data"]["key"] == "agents.root.modle" and error["data"]["line"] == 1
        assert (await server.client.prompt(old, "hi"))["result"] == {"stopReason": "end_turn"}


@pytest.mark.parametrize("cwd", ["/" + "a" * 300, "/" + "a/" * 3000, "/a\x01b"])
async def test_a_cwd_that_no_file_system_has_is_a_params_error(tmp_path: Path, cwd: str) -> None:
    async with on_stage(tmp_path) as stage:
        error = await stage.client.error("session/new", cwd=cwd, mcpServers=[])
        assert error["code"] == -32602 and error["data"]["path"] == "$.cwd"
