"""Turns, approvals and interrupts of a chat, with the scripted agent as a real process."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import anyio
import pytest

from sluice.client.errors import ChatStartError, ClientError, NotAdvertised, TurnInProgress
from sluice.client.permissions import Decision
from sluice.client.provider import (
    RUNTIME_MODES,
    ApprovalRequested,
    ApprovalWithdrawn,
    Note,
    RuntimeMode,
    TextDelta,
    TextDone,
    ToolDone,
    TurnAborted,
    TurnDone,
    TurnFailed,
)
from sluice.client.provider.policy import ALLOWED_UNASKED, TURN_ENDS
from tests.client.provider.support import Chatting, Host, chatting, said, tool, turn
from tests.client.support import ask

pytestmark = pytest.mark.anyio

CANCELLED = {"outcome": {"outcome": "cancelled"}}


def chosen(option: str) -> dict[str, Any]:
    return {"outcome": {"outcome": "selected", "optionId": option}}


def asking(kind: str | None, request_id: str = "p", tool_id: str = "c1") -> list[Any]:
    """A permission request for a call of this kind, and the wait for its answer."""
    action = ask(request_id, tool_id)
    if kind is not None:
        action["send"]["params"]["toolCall"]["kind"] = kind
    return [action, {"wait": {"response": request_id}}]


# --- how a turn ends


@pytest.mark.requirement("acp-provider.turn.end-turn", "acp-provider.turn.one-prompt")
async def test_end_turn_is_a_done_turn_and_a_turn_is_one_prompt(tmp_path: Path) -> None:
    async with chatting(tmp_path, turn(said("hi"))) as it:
        assert await it.chat.send("one") == TurnDone("end_turn")
        assert await it.chat.send("two") == TurnDone("end_turn")
        first = [TextDelta("hi"), TextDone("hi"), TurnDone("end_turn")]
        assert it.host.events == first * 2
        prompts = [params["prompt"] for params in it.params("session/prompt")]
        assert prompts == [[{"type": "text", "text": "one"}], [{"type": "text", "text": "two"}]]


@pytest.mark.requirement("acp-provider.turn.cancelled")
async def test_cancelled_is_an_aborted_turn(tmp_path: Path) -> None:
    async with chatting(tmp_path, turn(stop="cancelled")) as it:
        assert await it.chat.send("x") == TurnAborted()
        assert it.host.events == [TurnAborted()]


@pytest.mark.requirement("acp-provider.turn.limits-warn")
@pytest.mark.parametrize(
    ("reason", "words"), [("max_tokens", "output limit"), ("max_turn_requests", "model requests in one turn")]
)
async def test_a_limit_is_a_done_turn_with_a_warning(tmp_path: Path, reason: str, words: str) -> None:
    async with chatting(tmp_path, turn(stop=reason)) as it:
        assert await it.chat.send("x") == TurnDone(reason)
        (note, end) = it.host.events
        assert isinstance(note, Note) and note.level == "warning" and words in note.text
        assert note.text.startswith("Fake ")
        assert end == TurnDone(reason)


@pytest.mark.requirement("acp-provider.turn.refusal")
async def test_refusal_is_an_error_turn(tmp_path: Path) -> None:
    async with chatting(tmp_path, turn(stop="refusal")) as it:
        assert await it.chat.send("x") == TurnFailed("Fake refused to go on")
        assert it.host.events == [TurnFailed("Fake refused to go on")]


@pytest.mark.requirement("acp-provider.turn.unknown-stop-reason")
@pytest.mark.parametrize("answer", [{"stopReason": "tired"}, {"stopReason": None}, None])
async def test_an_unknown_or_missing_stop_reason_is_done_with_a_warning(tmp_path: Path, answer: Any) -> None:
    async with chatting(tmp_path, {"session/prompt": [[{"result": answer}]]}) as it:
        assert isinstance(await it.chat.send("x"), TurnDone)
        (note,) = it.host.of(Note)
        assert note.level == "warning"


def test_the_table_of_stop_reasons_knows_those_of_the_protocol() -> None:
    outcomes = {reason: rule.outcome for reason, rule in TURN_ENDS.items()}
    assert outcomes == {
        "end_turn": "done",
        "cancelled": "aborted",
        "max_tokens": "done",
        "max_turn_requests": "done",
        "refusal": "failed",
    }


@pytest.mark.requirement("acp-provider.turn.failed-request", "acp-provider.spec.kind-and-name")
async def test_a_failed_prompt_is_an_error_turn_that_names_the_agent_and_leaves_the_chat_usable(
    tmp_path: Path,
) -> None:
    failing = [said("half"), {"error": {"code": -32603, "message": "no luck"}}]
    fine = [said("fine"), {"result": {"stopReason": "end_turn"}}]
    async with chatting(tmp_path, {"session/prompt": [failing, fine]}, spec={"name": "Wonder"}) as it:
        process = it.chat.agent.process
        failed = await it.chat.send("x")
        assert isinstance(failed, TurnFailed)
        assert failed.message.startswith("Wonder: ") and "no luck" in failed.message
        assert it.host.events[-2:] == [TextDone("half"), failed]
        assert await it.chat.send("y") == TurnDone("end_turn")
        assert process is not None and process.returncode is None
        assert it.methods().count("session/new") == 1


@pytest.mark.requirement("acp-provider.turn.updates-before-done")
async def test_done_is_told_after_everything_before_the_answer_and_late_updates_still_reach_the_thread(
    tmp_path: Path,
) -> None:
    pieces = [said(f"{n} ") for n in range(200)]
    running = tool("c1", status="in_progress")
    late = {"update": {"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed"}}
    steps = [running, *pieces, {"result": {"stopReason": "end_turn"}}, {"wait": "_test/barrier"}, late]
    async with chatting(tmp_path, {"session/prompt": [steps]}) as it:
        await it.chat.send("x")
        whole = "".join(f"{n} " for n in range(200))
        assert it.host.events[-2:] == [TextDone(whole), TurnDone("end_turn")]
        await it.settled()
        await it.settled()
        last = it.host.events[-1]
        assert isinstance(last, ToolDone) and last.row.status == "completed"


@pytest.mark.requirement("acp-provider.turn.one-prompt")
async def test_a_second_turn_is_refused_while_one_runs_and_nothing_is_sent(tmp_path: Path) -> None:
    steps = [said("busy"), {"wait": "session/cancel"}, {"result": {"stopReason": "cancelled"}}]
    async with chatting(tmp_path, {"session/prompt": [steps]}) as it, anyio.create_task_group() as group:
        group.start_soon(it.chat.send, "one")
        await it.host.next(TextDelta)
        with pytest.raises(TurnInProgress):
            await it.chat.send("two")
        assert it.host.events == [TextDelta("busy")]
        it.chat.interrupt()
        await it.host.next(TurnAborted)
        assert len(it.params("session/prompt")) == 1


async def test_a_block_the_agent_cannot_take_is_refused_here_and_is_no_turn(tmp_path: Path) -> None:
    nothing = {"initialize": [[{"result": {"protocolVersion": 1}}]]}
    async with chatting(tmp_path, nothing, launch={"instructions": "Be kind."}) as it:
        with pytest.raises(NotAdvertised):
            await it.chat.send([{"type": "image", "data": "", "mimeType": "image/png"}])
        assert it.host.events == []
        await it.chat.send("x")
        assert [block["text"] for block in it.params("session/prompt")[0]["prompt"]] == ["Be kind.", "x"]


@pytest.mark.requirement("acp-provider.turn.no-prompt-timeout")
async def test_no_clock_runs_while_a_prompt_is_silent(tmp_path: Path) -> None:
    """The loop's clock is asked what it would ring for: nothing, while the agent keeps silent."""
    steps = [said("thinking"), {"wait": "session/cancel"}, {"result": {"stopReason": "cancelled"}}]
    async with chatting(tmp_path, {"session/prompt": [steps]}) as it, anyio.create_task_group() as group:
        group.start_soon(it.chat.send, "x")
        await it.host.next(TextDelta)
        await anyio.wait_all_tasks_blocked()
        loop: Any = asyncio.get_running_loop()
        # The test's own bound is the only timer there is.
        armed = [timer for timer in loop._scheduled if not timer.cancelled() and timer.when() < math.inf]
        assert len(armed) == 1
        it.chat.interrupt()
        await it.host.next(TurnAborted)


# --- approvals and the runtime modes


KINDS = [
    "read",
    "search",
    "think",
    "edit",
    "move",
    "fetch",
    "delete",
    "execute",
    "switch_mode",
    "other",
    "tree",
    None,
]

UNASKED: dict[RuntimeMode, list[Any]] = {
    "supervised": [],
    "auto-accept-edits": ["read", "search", "think", "edit", "move"],
    "auto": ["read", "search", "think", "edit", "move", "fetch"],
    "full-access": KINDS,
}


async def check_mode(tmp_path: Path, mode: RuntimeMode) -> None:
    """Every kind in one turn: what is not answered unasked becomes an approval, which is denied here."""
    steps = [step for number, kind in enumerate(KINDS) for step in asking(kind, f"p{number}", f"c{number}")]
    async with chatting(tmp_path, turn(*steps), launch={"mode": mode}) as it, anyio.create_task_group() as group:
        group.start_soon(it.chat.send, "x")
        for kind in KINDS:
            if kind not in UNASKED[mode]:
                approval = await it.host.next(ApprovalRequested)
                assert approval.kind == (kind or "other")
                it.chat.answer(approval.id, "reject")
        await it.host.next(TurnDone)
        answers = it.answers()
        expected = [chosen("yes" if kind in UNASKED[mode] else "no") for kind in KINDS]
        assert [answers[f"p{number}"]["result"] for number in range(len(KINDS))] == expected


@pytest.mark.requirement("acp-provider.permission.supervised")
async def test_supervised_answers_nothing_by_itself(tmp_path: Path) -> None:
    await check_mode(tmp_path, "supervised")


@pytest.mark.requirement("acp-provider.permission.auto-accept-edits", "acp-provider.permission.else-approval")
async def test_auto_accept_edits_allows_reading_and_editing_once_and_asks_for_the_rest(tmp_path: Path) -> None:
    await check_mode(tmp_path, "auto-accept-edits")


@pytest.mark.requirement("acp-provider.permission.auto", "acp-provider.permission.else-approval")
async def test_auto_allows_fetching_too(tmp_path: Path) -> None:
    await check_mode(tmp_path, "auto")


@pytest.mark.requirement("acp-provider.permission.full-access")
async def test_full_access_allows_everything_once(tmp_path: Path) -> None:
    await check_mode(tmp_path, "full-access")


def test_the_permission_table_has_a_row_for_every_runtime_mode() -> None:
    assert tuple(ALLOWED_UNASKED) == RUNTIME_MODES == ("supervised", "auto-accept-edits", "auto", "full-access")


@pytest.mark.requirement("acp-provider.permission.else-approval")
async def test_nothing_is_allowed_unasked_where_the_agent_has_no_option_for_once(tmp_path: Path) -> None:
    always = [
        {"optionId": "a", "name": "A", "kind": "allow_always"},
        {"optionId": "n", "name": "N", "kind": "reject_once"},
    ]
    steps = [ask("p", options=always), {"wait": {"response": "p"}}]
    launch = {"mode": "full-access"}
    async with chatting(tmp_path, turn(*steps), launch=launch) as it, anyio.create_task_group() as group:
        group.start_soon(it.chat.send, "x")
        approval = await it.host.next(ApprovalRequested)
        it.chat.answer(approval.id, "allow_always")
        await it.host.next(TurnDone)
        assert it.answers()["p"]["result"] == chosen("a")


@pytest.mark.requirement("acp-provider.permission.else-approval")
async def test_what_an_ended_call_was_says_nothing_of_a_new_one_under_its_id(tmp_path: Path) -> None:
    harmless = tool("c1", kind="read", status="completed")
    launch = {"mode": "auto"}
    async with chatting(tmp_path, turn(harmless, *asking(None)), launch=launch) as it:
        async with anyio.create_task_group() as group:
            group.start_soon(it.chat.send, "x")
            approval = await it.host.next(ApprovalRequested)
            assert approval.kind == "other"
            it.chat.answer(approval.id, "reject")


@pytest.mark.requirement("acp-provider.approval.three-answers")
@pytest.mark.parametrize(
    ("kinds", "answers"),
    [
        (["allow_once", "allow_always", "reject_once"], ("allow_once", "allow_always", "reject")),
        (["allow_once", "reject_once"], ("allow_once", "reject")),
        (["mystery"], ("allow_once", "reject")),
    ],
)
async def test_an_approval_offers_allow_deny_and_always_only_where_the_agent_has_it(
    tmp_path: Path, kinds: list[str], answers: tuple[Decision, ...]
) -> None:
    options = [{"optionId": kind, "name": kind, "kind": kind} for kind in kinds]
    steps = [tool("c1", kind="execute", rawInput={"command": "ls"}), ask("p", options=options)]
    async with chatting(tmp_path, turn(*steps, {"wait": {"response": "p"}})) as it:
        async with anyio.create_task_group() as group:
            group.start_soon(it.chat.send, "x")
            approval = await it.host.next(ApprovalRequested)
            assert approval.answers == answers
            assert (approval.row.name, approval.row.title, approval.row.input) == (
                "Bash",
                "run it",
                {"command": "ls"},
            )
            it.chat.answer(approval.id, "reject")


@pytest.mark.requirement("acp-provider.approval.option-by-kind", "acp-provider.approval.falls-narrower")
@pytest.mark.parametrize(
    ("kinds", "decision", "result"),
    [
        (["reject_once", "allow_always", "allow_once"], "allow_once", chosen("allow_once")),
        (["reject_once", "allow_always", "allow_once"], "allow_always", chosen("allow_always")),
        (["allow_once", "reject_always"], "reject", chosen("reject_always")),
        (["reject_always", "reject_once"], "reject", chosen("reject_once")),
        (["allow_once"], "allow_always", chosen("allow_once")),
        (["allow_always", "reject_once"], "allow_once", chosen("reject_once")),
        (["allow_once", "allow_always"], "reject", CANCELLED),
        (["mystery"], "allow_once", CANCELLED),
    ],
)
async def test_a_decision_is_carried_out_by_the_kind_of_the_option_or_a_stricter_one(
    tmp_path: Path, kinds: list[str], decision: Decision, result: dict[str, Any]
) -> None:
    options = [{"optionId": kind, "name": "?", "kind": kind} for kind in kinds]
    async with chatting(tmp_path, turn(ask("p", options=options), {"wait": {"response": "p"}})) as it:
        async with anyio.create_task_group() as group:
            group.start_soon(it.chat.send, "x")
            it.chat.answer((await it.host.next(ApprovalRequested)).id, decision)
        assert it.answers()["p"]["result"] == result
        assert it.host.of(ApprovalWithdrawn) == []


@pytest.mark.requirement("acp-provider.approval.withdrawn")
async def test_an_approval_the_agent_takes_back_disappears_and_is_answered_once(tmp_path: Path) -> None:
    withdraw = {"send": {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": "p"}}}
    steps = [ask("p"), {"wait": "_test/go"}, withdraw, {"wait": {"response": "p"}}, withdraw]
    async with chatting(tmp_path, {**turn(*steps), "_test/go": [[]]}) as it:
        async with anyio.create_task_group() as group:
            group.start_soon(it.chat.send, "x")
            approval = await it.host.next(ApprovalRequested)
            it.chat.agent._connection.post("_test/go", {})
            assert (await it.host.next(ApprovalWithdrawn)).id == approval.id
            with pytest.raises(ClientError, match="no open approval"):
                it.chat.answer(approval.id, "allow_once")
        answers = [line for line in it.lines() if line.get("id") == "p"]
        assert [answer["error"]["code"] for answer in answers] == [-32800]
        assert len(it.host.of(ApprovalWithdrawn)) == 1


@pytest.mark.requirement("acp-provider.approval.withdrawn")
async def test_an_approval_left_open_at_the_end_of_its_turn_is_withdrawn_before_the_turn_is_done(
    tmp_path: Path,
) -> None:
    steps = [ask("p"), {"wait": "_test/go"}]
    async with chatting(tmp_path, {**turn(*steps), "_test/go": [[]]}) as it:
        async with anyio.create_task_group() as group:
            group.start_soon(it.chat.send, "x")
            approval = await it.host.next(ApprovalRequested)
            it.chat.agent._connection.post("_test/go", {})
        assert it.host.events == [approval, ApprovalWithdrawn(approval.id), TurnDone("end_turn")]
        await it.settled()
        assert it.answers()["p"]["result"] == CANCELLED


# --- interrupts


async def interrupted(it: Chatting, approvals: int = 0) -> None:
    """Start a turn, wait until it is at work, and interrupt it."""
    async with anyio.create_task_group() as group:
        group.start_soon(it.chat.send, "x")
        await it.host.next(TextDelta)
        for _ in range(approvals):
            await it.host.next(ApprovalRequested)
        it.chat.interrupt()
        it.chat.interrupt()


@pytest.mark.requirement("acp-provider.interrupt.order", "acp-provider.interrupt.late-permission")
async def test_an_interrupt_answers_open_approvals_withdraws_them_and_then_cancels_each_once(tmp_path: Path) -> None:
    steps = [
        said("on it"),
        ask("a1", "c1"),
        ask("a2", "c2"),
        {"wait": "session/cancel"},
        ask("a3", "c3"),
        {"wait": {"response": "a3"}},
    ]
    async with chatting(tmp_path, turn(*steps, stop="cancelled")) as it:
        await interrupted(it, approvals=2)
        order = [line.get("id", line.get("method")) for line in it.lines()[3:]]
        assert order == ["a1", "a2", "session/cancel", "a3"]
        assert all(answer["result"] == CANCELLED for answer in it.answers().values())
        assert [type(event) for event in it.host.events] == [
            TextDelta,
            ApprovalRequested,
            ApprovalRequested,
            ApprovalWithdrawn,
            ApprovalWithdrawn,
            TextDone,
            TurnAborted,
        ]


@pytest.mark.requirement("acp-provider.interrupt.waits-for-answer")
@pytest.mark.parametrize(
    "answer",
    [
        {"result": {"stopReason": "cancelled"}},
        {"result": {"stopReason": "end_turn"}},
        {"error": {"code": -32800, "message": "cancelled"}},
    ],
)
async def test_an_interrupted_turn_ends_when_the_prompt_answers_and_is_aborted_whatever_it_says(
    tmp_path: Path, answer: dict[str, Any]
) -> None:
    steps = [tool("c1", status="in_progress"), said("on it"), {"wait": "session/cancel"}, said(", the tail"), answer]
    async with chatting(tmp_path, {"session/prompt": [steps]}) as it:
        await interrupted(it)
        assert it.host.text == "on it, the tail"
        assert it.host.events[-2:] == [TextDone("on it, the tail"), TurnAborted()]
        assert [row.status for row in it.host.rows] == ["in_progress", "cancelled"]
        assert it.methods().count("session/cancel") == 1


@pytest.mark.requirement("acp-provider.interrupt.idle-or-stuck")
async def test_an_interrupt_without_a_turn_sends_nothing(tmp_path: Path) -> None:
    async with chatting(tmp_path) as it:
        it.chat.interrupt()
        await it.chat.send("x")
        it.chat.interrupt()
        await it.settled()
        assert "session/cancel" not in it.methods()


@pytest.mark.requirement("acp-provider.interrupt.idle-or-stuck")
async def test_an_agent_that_never_answers_an_interrupt_is_killed_and_reported(tmp_path: Path) -> None:
    steps = [said("stuck"), {"wait": "nothing"}]
    async with chatting(tmp_path, {"session/prompt": [steps]}, spec={"cancel_grace": 0.05}) as it:
        await interrupted(it)
        (end,) = it.host.of(TurnFailed)
        assert "did not answer the cancelled prompt within 0.05 s" in end.message
        process = it.chat.agent.process
        assert process is not None
        assert await process.wait() == -9


async def test_a_caller_that_stops_waiting_interrupts_the_turn_and_its_end_is_still_told(tmp_path: Path) -> None:
    steps = [said("on it"), {"wait": "session/cancel"}, {"result": {"stopReason": "cancelled"}}]
    async with chatting(tmp_path, {"session/prompt": [steps]}) as it:
        async with anyio.create_task_group() as group:
            group.start_soon(it.chat.send, "x")
            await it.host.next(TextDelta)
            group.cancel_scope.cancel()
        await it.host.next(TurnAborted)


async def test_a_chat_that_is_closed_in_a_turn_tells_its_end(tmp_path: Path) -> None:
    host = Host()
    steps = [said("on it"), {"wait": "session/cancel"}, {"result": {"stopReason": "cancelled"}}]
    async with anyio.create_task_group() as group:
        async with chatting(tmp_path, {"session/prompt": [steps]}, host=host) as it:
            group.start_soon(it.chat.send, "x")
            await host.next(TextDelta)
    assert host.events == [TextDelta("on it"), TextDone("on it"), TurnAborted()]


@pytest.mark.requirement("acp-provider.process.death")
async def test_a_death_in_a_turn_fails_it_with_the_last_words_and_withdraws_its_approvals(tmp_path: Path) -> None:
    steps = [ask("p"), {"wait": "_test/die"}, {"stderr": "out of coffee"}, {"exit": 3}]
    async with chatting(tmp_path, {"session/prompt": [steps], "_test/die": [[]]}) as it:
        async with anyio.create_task_group() as group:
            group.start_soon(it.chat.send, "x")
            approval = await it.host.next(ApprovalRequested)
            it.chat.agent._connection.post("_test/die", {})
        withdrawn, end = it.host.events[1:]
        assert withdrawn == ApprovalWithdrawn(approval.id)
        assert isinstance(end, TurnFailed)
        assert "status 3" in end.message and "out of coffee" in end.message
        assert isinstance(await it.chat.send("anybody there?"), TurnFailed)


@pytest.mark.requirement("acp-provider.process.death")
async def test_a_missing_program_is_a_chat_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(ChatStartError, match="Fake: cannot start no-such-program-here: command not found"):
        async with chatting(tmp_path, spec={"command": "no-such-program-here"}):
            pass


async def test_what_the_host_raises_leaves_a_chat_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="mine"):
        async with chatting(tmp_path):
            raise LookupError("mine")
