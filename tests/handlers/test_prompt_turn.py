"""session/prompt and session/cancel over the wire, with a real model server on loopback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.support.model_server import Close, Finish, Reply, Stall, Text, Wait, call, calls, failure, text
from tests.support.setup import on_stage

pytestmark = pytest.mark.anyio

Json = dict[str, Any]


def statuses(updates: list[Json]) -> list[str]:
    return [u["status"] for u in updates if u["sessionUpdate"] in ("tool_call", "tool_call_update")]


def is_permission(message: Json) -> bool:
    return message.get("method") == "session/request_permission"


@pytest.mark.requirement(
    "prompt.outcome.end-turn", "turn-admission.live.incremental-order", "turn-admission.live.deltas"
)
async def test_a_text_answer_is_streamed_before_the_stop_reason(tmp_path: Path) -> None:
    async with on_stage(tmp_path, text("Hel", "", "lo")) as stage:
        response = await stage.client.prompt(stage.session, "hi")
        assert response["result"] == {"stopReason": "end_turn"}
        chunks = stage.client.updates(stage.session, "agent_message_chunk")
        assert [chunk["content"]["text"] for chunk in chunks] == ["Hel", "lo"]
        assert len({chunk["messageId"] for chunk in chunks}) == 1
        assert stage.client.log[-1] == response


@pytest.mark.requirement("turn-admission.live.no-user-echo", "transport.stdio.streams-events")
async def test_chunks_arrive_while_the_model_is_still_speaking(tmp_path: Path) -> None:
    gate = anyio.Event()
    async with on_stage(tmp_path, Reply([Text("first"), Wait(gate), Text("second"), Finish()])) as stage:
        client = stage.client
        prompt = await client.send("session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": "hi"}])
        await client.until(lambda m: "first" in str(m))
        gate.set()
        assert (await client.answer(prompt))["result"] == {"stopReason": "end_turn"}
        assert client.text() == "firstsecond"
        assert client.updates(kind="user_message_chunk") == []


@pytest.mark.requirement(
    "permission.request.shape",
    "permission.request.three-choices",
    "permission.request.enough-to-decide",
    "tool-lifecycle.status.in-progress",
    "tool-lifecycle.id.one-per-call",
    "message-ids.tool-name.everywhere",
)
async def test_a_tool_call_asks_runs_and_reports_under_one_id(tmp_path: Path) -> None:
    async with on_stage(tmp_path, calls(call("shell", cmd="echo out")), text("done")) as stage:
        client = stage.client
        prompt = await client.send("session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": "go"}])
        asked = await client.allow()
        assert (await client.answer(prompt))["result"] == {"stopReason": "end_turn"}
        tools = [u for u in client.updates() if u["sessionUpdate"].startswith("tool_call")]
        assert statuses(tools) == ["pending", "in_progress", "completed"]
        assert {u["toolCallId"] for u in tools} == {asked["params"]["toolCall"]["toolCallId"]}
        assert "echo out" in asked["params"]["toolCall"]["title"]
        assert {u["name"] for u in tools} == {"shell"} == {asked["params"]["toolCall"]["name"]}
        assert [o["kind"] for o in asked["params"]["options"]] == ["allow_once", "allow_always", "reject_once"]
        assert tools[-1]["rawOutput"] == {"content": "out\n"}
        assert stage.model.requests[1].messages[-1]["content"] == "out\n"


@pytest.mark.requirement("permission.answer.reject", "tool-lifecycle.status.refused-to-failed")
async def test_a_rejected_call_fails_without_running_and_the_turn_goes_on(tmp_path: Path) -> None:
    async with on_stage(tmp_path, calls(call("shell", cmd="touch ran")), text("ok")) as stage:
        prompt = await stage.client.send(
            "session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": "go"}]
        )
        await stage.client.allow("reject")
        assert (await stage.client.answer(prompt))["result"] == {"stopReason": "end_turn"}
        assert statuses(stage.client.updates()) == ["pending", "failed"]
        assert not (stage.cwd / "ran").exists()


@pytest.mark.requirement("permission.answer.fail-closed")
@pytest.mark.parametrize(
    "answer",
    [
        {"result": None},
        {"result": {}},
        {"result": {"outcome": "allow"}},
        {"result": {"outcome": {"outcome": "selected", "optionId": "yes"}}},
        {"result": {"outcome": {"outcome": "selected"}}},
        {"error": {"code": -32601, "message": "no"}},
        {"error": {"code": -32800, "message": "cancelled"}},
    ],
    ids=str,
)
async def test_whatever_is_no_clear_yes_is_a_no(tmp_path: Path, answer: Json) -> None:
    async with on_stage(tmp_path, calls(call("shell", cmd="touch ran")), text("ok")) as stage:
        prompt = await stage.client.send(
            "session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": "go"}]
        )
        asked = await stage.client.until(is_permission)
        await stage.client.write({"jsonrpc": "2.0", "id": asked["id"], **answer})
        assert (await stage.client.answer(prompt))["result"] == {"stopReason": "end_turn"}
        assert statuses(stage.client.updates())[-1] == "failed"
        assert not (stage.cwd / "ran").exists()


@pytest.mark.requirement("permission.grant.tool-only", "modes.grants.survive-switch")
async def test_allow_always_covers_that_tool_in_that_session_and_nothing_else(tmp_path: Path) -> None:
    shell = calls(call("shell", cmd="true"))
    write = calls(call("write_file", path="a.txt", content="x"))
    fs = {"writeTextFile": True}
    async with on_stage(tmp_path, shell, shell, write, text("end"), shell, text("end"), fs=fs) as stage:
        client = stage.client
        prompt = await client.send("session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": "go"}])
        await client.allow("allow-always")
        second = await client.until(is_permission)
        assert second["params"]["toolCall"]["name"] == "write_file"
        await client.respond(second, {"outcome": {"outcome": "selected", "optionId": "reject"}})
        await client.answer(prompt)
        await client.result("session/set_mode", sessionId=stage.session, modeId="strict")
        assert (await client.prompt(stage.session, "again"))["result"] == {"stopReason": "end_turn"}
        assert len([m for m in client.log if is_permission(m)]) == 2
        other = await client.new(stage.cwd)
        stage.model.add(shell, text("end"))
        prompt = await client.send("session/prompt", sessionId=other, prompt=[{"type": "text", "text": "go"}])
        assert (await client.allow())["params"]["sessionId"] == other
        await client.answer(prompt)


@pytest.mark.requirement("permission.order.serialised", "tools.registry.parallel")
async def test_parallel_calls_ask_one_at_a_time(tmp_path: Path) -> None:
    batch = calls(*(call("shell", cmd=f"echo {n}") for n in range(3)))
    async with on_stage(tmp_path, batch, text("done")) as stage:
        client = stage.client
        prompt = await client.send("session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": "go"}])
        for answered in range(3):
            asked = await client.until(is_permission)
            assert len([m for m in client.log if is_permission(m)]) == answered + 1
            await client.respond(asked, {"outcome": {"outcome": "selected", "optionId": "allow"}})
        assert (await client.answer(prompt))["result"] == {"stopReason": "end_turn"}
        results = [m["content"] for m in stage.model.requests[1].messages if m["role"] == "tool"]
        assert results == ["0\n", "1\n", "2\n"]


@pytest.mark.requirement("turn-admission.busy.second-prompt", "auth.required.only-for-auth")
async def test_a_second_prompt_while_busy_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    gate = anyio.Event()
    async with on_stage(tmp_path, Reply([Text("a"), Wait(gate), Finish()])) as stage:
        first = await stage.client.send(
            "session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": "1"}]
        )
        await stage.model.wait_for_call()
        second = await stage.client.prompt(stage.session, "2")
        assert second["error"]["code"] == -32600
        assert second["error"]["data"] == {"sessionId": stage.session, "reason": "busy"}
        gate.set()
        assert (await stage.client.answer(first))["result"] == {"stopReason": "end_turn"}
        assert len(stage.model.requests) == 1


@pytest.mark.requirement("turn-admission.parallel.other-session")
async def test_another_session_runs_beside_a_busy_one(tmp_path: Path) -> None:
    gate = anyio.Event()
    async with on_stage(tmp_path, Reply([Wait(gate), Text("slow"), Finish()]), text("fast")) as stage:
        first = await stage.client.send(
            "session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": "1"}]
        )
        await stage.model.wait_for_call()
        other = await stage.client.new(stage.cwd)
        assert (await stage.client.prompt(other, "2"))["result"] == {"stopReason": "end_turn"}
        assert stage.client.text(other) == "fast"
        gate.set()
        await stage.client.answer(first)
        assert stage.client.text(stage.session) == "slow"


@pytest.mark.requirement(
    "cancel.prompt.answers-cancelled", "cancel.prompt.any-wait", "cancel.prompt.history-consistent"
)
async def test_cancel_while_the_model_streams_answers_cancelled_and_the_next_prompt_knows_what_was_said(
    tmp_path: Path,
) -> None:
    async with on_stage(tmp_path, Reply([Text("half"), Stall()]), text("whole")) as stage:
        client = stage.client
        prompt = await client.send("session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": "1"}])
        await client.until(lambda m: "half" in str(m))
        await client.notify("session/cancel", sessionId=stage.session)
        assert (await client.answer(prompt))["result"] == {"stopReason": "cancelled"}
        await stage.model.wait_for_abort()
        assert (await client.prompt(stage.session, "2"))["result"] == {"stopReason": "end_turn"}
        said = [(m["role"], m["content"]) for m in stage.model.requests[1].messages[1:]]
        assert said == [("user", "1"), ("assistant", "half"), ("user", "2")]


@pytest.mark.requirement("jsonrpc.dispatch.admit-in-read-order")
async def test_a_cancel_in_the_same_write_as_its_prompt_cancels_it(tmp_path: Path) -> None:
    async with on_stage(tmp_path, text("never")) as stage:
        prompt = stage.client.send_prompt(stage.session, "1")
        cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": stage.session}}
        await stage.client.write(prompt, cancel)
        assert (await stage.client.answer(prompt["id"]))["result"] == {"stopReason": "cancelled"}


@pytest.mark.requirement("cancel.request.prompt", "cancel.request.unknown")
async def test_cancel_request_ends_the_prompt_it_names_with_its_json_type(tmp_path: Path) -> None:
    async with on_stage(tmp_path, Reply([Text("x"), Stall()])) as stage:
        prompt = await stage.client.send(
            "session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": "1"}]
        )
        await stage.client.until(lambda m: "agent_message_chunk" in str(m))
        await stage.client.notify("$/cancel_request", requestId=str(prompt))
        await stage.client.notify("$/cancel_request", requestId=999)
        assert (await stage.client.result("session/list"))["sessions"] != []
        assert stage.server.connection.entries[stage.session].live.turn.state == "busy"  # type: ignore[union-attr]
        await stage.client.notify("$/cancel_request", requestId=prompt)
        assert (await stage.client.answer(prompt))["result"] == {"stopReason": "cancelled"}


@pytest.mark.requirement(
    "cancel.permission.unanswered", "cancel.prompt.final-updates-first", "tool-lifecycle.interrupt.unknown-results"
)
async def test_an_unanswered_permission_is_withdrawn_when_the_turn_is_cancelled(tmp_path: Path) -> None:
    """Naively the turn waits for the dialog for ever, or the late yes still runs the command."""
    async with on_stage(tmp_path, calls(call("shell", cmd="touch ran")), text("ok again")) as stage:
        client = stage.client
        prompt = await client.send("session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": "1"}])
        asked = await client.until(is_permission)
        await client.notify("session/cancel", sessionId=stage.session)
        response = await client.answer(prompt)
        assert response["result"] == {"stopReason": "cancelled"}
        withdrawn = [m for m in client.log if m.get("method") == "$/cancel_request"]
        assert [m["params"]["requestId"] for m in withdrawn] == [asked["id"]]
        assert statuses(client.updates())[-1] == "failed"
        assert client.log[-1] == response
        await client.respond(asked, {"outcome": {"outcome": "selected", "optionId": "allow"}})  # too late
        assert (await client.prompt(stage.session, "2"))["result"] == {"stopReason": "end_turn"}
        assert not (stage.cwd / "ran").exists()
        assert len(stage.model.requests) == 2


@pytest.mark.requirement("cancel.permission.cancelled-alone", "cancel.permission.answered-first")
async def test_a_dismissed_permission_runs_nothing_and_ends_the_turn_cancelled(tmp_path: Path) -> None:
    async with on_stage(tmp_path, calls(call("shell", cmd="touch ran"), call("shell", cmd="touch two"))) as stage:
        client = stage.client
        prompt = await client.send("session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": "1"}])
        asked = await client.until(is_permission)
        await client.respond(asked, {"outcome": {"outcome": "cancelled"}})
        assert (await client.answer(prompt))["result"] == {"stopReason": "cancelled"}
        assert list(stage.cwd.iterdir()) == []
        assert len(stage.model.requests) == 1


@pytest.mark.requirement(
    "cancel.prompt.any-wait", "tools.shell.cancel-kills-group", "tool-lifecycle.interrupt.known-results"
)
async def test_cancel_while_a_tool_runs_keeps_the_result_that_was_there(tmp_path: Path) -> None:
    batch = calls(call("shell", cmd="echo first"), call("shell", cmd="sleep 600"))
    async with on_stage(tmp_path, batch, text("after")) as stage:
        client = stage.client
        prompt = await client.send("session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": "1"}])
        await client.allow("allow-always")
        await client.until(lambda m: "completed" in str(m))
        await client.notify("session/cancel", sessionId=stage.session)
        assert (await client.answer(prompt))["result"] == {"stopReason": "cancelled"}
        last = {u["toolCallId"]: u["status"] for u in client.updates() if u["sessionUpdate"].startswith("tool_call")}
        assert list(last.values()) == ["completed", "failed"]
        assert (await client.prompt(stage.session, "2"))["result"] == {"stopReason": "end_turn"}
        results = [m["content"] for m in stage.model.requests[1].messages if m["role"] == "tool"]
        assert results[0] == "first\n" and "side effects" in results[1]


@pytest.mark.requirement("cancel.prompt.idle-noop", "jsonrpc.dispatch.notification-silent")
async def test_cancel_without_a_turn_is_silent_and_does_not_stick(tmp_path: Path) -> None:
    async with on_stage(tmp_path, text("ok")) as stage:
        before = len(stage.client.log)
        await stage.client.notify("session/cancel", sessionId=stage.session)
        await stage.client.notify("session/cancel", sessionId="nobody")
        await stage.client.notify("session/cancel")
        await stage.client.notify("session/cancel", sessionId=3)
        response = await stage.client.prompt(stage.session, "1")
        assert response["result"] == {"stopReason": "end_turn"}
        assert all(m.get("method") == "session/update" for m in stage.client.log[before:-1])


@pytest.mark.requirement("turn-admission.queued.while-draining")
async def test_one_prompt_is_queued_while_a_cancelled_turn_drains_and_a_further_one_is_busy(tmp_path: Path) -> None:
    async with on_stage(tmp_path, Reply([Text("x"), Stall()]), text("second")) as stage:
        client = stage.client
        first = await client.send("session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": "1"}])
        await client.until(lambda m: "agent_message_chunk" in str(m))
        cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": stage.session}}
        second, third = client.send_prompt(stage.session, "2"), client.send_prompt(stage.session, "3")
        await client.write(cancel, second, third)
        assert (await client.answer(third["id"]))["error"]["data"]["reason"] == "busy"
        assert (await client.answer(first))["result"] == {"stopReason": "cancelled"}
        assert (await client.answer(second["id"]))["result"] == {"stopReason": "end_turn"}
        said = [(m["role"], m["content"]) for m in stage.model.requests[1].messages[1:]]
        assert said == [("user", "1"), ("assistant", "x"), ("user", "2")]


@pytest.mark.requirement("turn-admission.queued.while-draining")
async def test_a_cancelled_queued_prompt_leaves_nothing_in_the_history(tmp_path: Path) -> None:
    async with on_stage(tmp_path, Reply([Text("x"), Stall()]), text("third")) as stage:
        client = stage.client
        first = await client.send("session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": "1"}])
        await client.until(lambda m: "agent_message_chunk" in str(m))
        cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": stage.session}}
        second = client.send_prompt(stage.session, "2")
        await client.write(cancel, second, cancel)
        assert (await client.answer(second["id"]))["result"] == {"stopReason": "cancelled"}
        assert (await client.answer(first))["result"] == {"stopReason": "cancelled"}
        assert (await client.prompt(stage.session, "3"))["result"] == {"stopReason": "end_turn"}
        assert "2" not in [m["content"] for m in stage.model.requests[1].messages]


@pytest.mark.requirement(
    "prompt.outcome.failure-shape", "prompt.outcome.usable-after-failure", "prompt.outcome.failure-text-redacted"
)
@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (failure(400, "bad sk-TESTTESTTESTTEST123"), "model_error"),
        (failure(401, "bad key sk-TESTTESTTESTTEST123"), "model_error"),
        (failure(429, "slow down"), "rate_limited"),
        (failure(400, "too long", code="context_length_exceeded"), "context_exceeded"),
        (failure(413, "too large"), "request_too_large"),
    ],
    ids=["400", "401", "429", "context", "413"],
)
async def test_a_failing_model_is_a_turn_failure_that_frees_the_session(
    tmp_path: Path, reply: Reply, code: str
) -> None:
    async with on_stage(tmp_path, reply, text("fine now")) as stage:
        error = (await stage.client.prompt(stage.session, "one"))["error"]
        assert error["code"] == -32603
        assert set(error["data"]) == {"sessionId", "runtimeCode", "error"}
        assert error["data"]["runtimeCode"] == code and error["data"]["sessionId"] == stage.session
        assert "sk-TEST" not in str(stage.client.log)
        assert (await stage.client.prompt(stage.session, "two"))["result"] == {"stopReason": "end_turn"}
        assert [m["content"] for m in stage.model.requests[1].messages if m["role"] == "user"] == ["one", "two"]


@pytest.mark.requirement(
    "models.fallback.retryable", "message-ids.chunk.fresh-per-attempt", "prompt.outcome.later-success-wins"
)
async def test_a_stream_that_breaks_is_tried_again_under_a_new_message_id(tmp_path: Path) -> None:
    broken = Reply([Text("Hel"), Close()])
    async with on_stage(tmp_path, broken, failure(500), text("Hello"), text("next")) as stage:
        assert (await stage.client.prompt(stage.session, "1"))["result"] == {"stopReason": "end_turn"}
        chunks = stage.client.updates(kind="agent_message_chunk")
        assert [c["content"]["text"] for c in chunks] == ["Hel", "Hello"]
        assert chunks[0]["messageId"] != chunks[1]["messageId"]
        await stage.client.prompt(stage.session, "2")
        assert [m["content"] for m in stage.model.requests[3].messages if m["role"] == "assistant"] == ["Hello"]


@pytest.mark.requirement("prompt.outcome.max-tokens", "prompt.outcome.refusal")
@pytest.mark.parametrize(("finish", "stop"), [("length", "max_tokens"), ("content_filter", "refusal")])
async def test_the_last_finish_reason_becomes_the_stop_reason(tmp_path: Path, finish: str, stop: str) -> None:
    async with on_stage(tmp_path, text("cut", finish=finish)) as stage:
        assert (await stage.client.prompt(stage.session, "1"))["result"] == {"stopReason": stop}


@pytest.mark.requirement("prompt.outcome.max-turn-requests", "permission.iteration-limit.exact-continue")
@pytest.mark.parametrize(("option", "stop", "asked"), [("continue", "end_turn", 1), ("stop", "max_turn_requests", 1)])
async def test_the_iteration_limit_asks_and_only_continue_goes_on(
    tmp_path: Path, option: str, stop: str, asked: int
) -> None:
    think = calls(call("think", thought="hm"))
    async with on_stage(tmp_path, think, text("end"), agent={"max_iterations": 1}) as stage:
        prompt = await stage.client.send(
            "session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": "1"}]
        )
        await stage.client.allow(option)
        assert (await stage.client.answer(prompt))["result"] == {"stopReason": stop}


async def test_the_same_batch_again_and_again_ends_as_loop_detected(tmp_path: Path) -> None:
    think = calls(call("think", thought="hm"))
    async with on_stage(tmp_path, *[think] * 5) as stage:
        error = (await stage.client.prompt(stage.session, "1"))["error"]
        assert error["data"]["runtimeCode"] == "loop_detected"


@pytest.mark.requirement("tool-lifecycle.status.errors", "tools.unknown.name", "tool-lifecycle.title.always")
async def test_an_unknown_tool_and_broken_arguments_fail_the_call_and_not_the_turn(tmp_path: Path) -> None:
    from tests.support.model_server import Call

    batch = calls(Call("nope", {}), Call("shell", "{}"), Call("read_file", {"path": "missing"}))
    async with on_stage(tmp_path, batch, text("ok")) as stage:
        assert (await stage.client.prompt(stage.session, "1"))["result"] == {"stopReason": "end_turn"}
        first = [u for u in stage.client.updates() if u["sessionUpdate"] == "tool_call"]
        assert len(first) == 3 and all(u["title"] for u in first)
        last = {u["toolCallId"]: u["status"] for u in stage.client.updates() if "toolCallId" in u}
        assert list(last.values()) == ["failed"] * 3


@pytest.mark.requirement("plan.source.typed-metadata", "plan.form.stable-update")
async def test_todos_become_the_whole_plan_each_time(tmp_path: Path) -> None:
    make = calls(call("create_todos", descriptions=["one", "two"]))
    async with on_stage(tmp_path, make, text("ok"), agent={}) as stage:
        prompt = await stage.client.send(
            "session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": "1"}]
        )
        await stage.client.answer(prompt)
        plans = stage.client.updates(kind="plan")
        assert [[e["content"] for e in plan["entries"]] for plan in plans] == [["one", "two"]]


@pytest.mark.requirement("tool-lifecycle.id.fresh")
async def test_ids_that_the_provider_reuses_are_told_apart(tmp_path: Path) -> None:
    from tests.support.model_server import Call

    again = calls(Call("think", {"thought": "a"}, "call_1"))
    async with on_stage(
        tmp_path, again, text("1"), calls(Call("think", {"thought": "b"}, "call_1")), text("2")
    ) as stage:
        await stage.client.prompt(stage.session, "1")
        await stage.client.prompt(stage.session, "2")
        ids = [u["toolCallId"] for u in stage.client.updates(kind="tool_call")]
        assert len(ids) == 2 == len(set(ids))


@pytest.mark.requirement("store.title.update", "turn-admission.live.quiet-after-answer")
async def test_the_title_comes_before_the_first_answer_and_nothing_after_it(tmp_path: Path) -> None:
    async with on_stage(tmp_path, text("1"), text("2")) as stage:
        await stage.client.prompt(stage.session, "\n  Fix the " + "very " * 30 + "long thing\nplease")
        response = await stage.client.prompt(stage.session, "more")
        titles = stage.client.updates(kind="session_info_update")
        assert len(titles) == 1 and len(titles[0]["title"]) <= 50 and titles[0]["title"].startswith("Fix the very")
        assert stage.client.log[-1] == response
        assert (await stage.client.result("session/list"))["sessions"][0]["title"] == titles[0]["title"]
