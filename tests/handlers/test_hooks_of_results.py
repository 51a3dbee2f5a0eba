"""Hooks that see, and change, what a tool gave; secrets that are masked; over the wire, with real scripts."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.handlers.test_file_system import blocks, edited, last, results
from tests.handlers.test_permissions import END, start, statuses
from tests.handlers.test_process import gone
from tests.support.hooks import answering, group, script
from tests.support.model_server import call, calls, text
from tests.support.setup import on_stage
from tests.support.wire import BOUND

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

ECHO = calls(call("shell", cmd="echo original"))
KEY = "ghp_" + "a1B2" * 9


def free(**events: Any) -> Json:
    return {"safety": "autonomous", "hooks": events}


def database(directory: Path) -> str:
    """Everything the store holds, as text."""
    with sqlite3.connect(directory / "session.db") as connection:
        return "\n".join(connection.iterdump())


@pytest.mark.requirement("hooks.post.transform-output", "tool-locations-diffs.diff.not-transformed")
async def test_a_transform_rewrites_the_text_for_everybody_and_not_the_diff(tmp_path: Path) -> None:
    first = answering(tmp_path, "first", updated_tool_response="rewritten once")
    second = answering(tmp_path, "second", updated_tool_response="rewritten twice")
    batch = calls(call("edit_file", path="a", edits=[{"oldText": "A", "newText": "B"}]))
    hooks = {"tool_response_transform": group(first, second, matcher="edit_file")}
    async with edited(tmp_path, batch, texts={"a": "A"}, hooks=hooks) as (stage, _):
        await stage.client.prompt(stage.session, "go")
        (update,) = last(stage)
        assert update["status"] == "completed"
        assert blocks(update, "diff") == [
            {"type": "diff", "path": str(stage.cwd / "a"), "oldText": "A", "newText": "B"}
        ]
        assert update["rawOutput"] == {"content": "rewritten twice"} and results(stage) == ["rewritten twice"]
        (told,) = second.told
        assert (told["tool_response"], told["tool_error"]) == ("rewritten once", False)
        original = first.told[0]["tool_response"]
        assert original and original not in str(stage.client.log) + str(stage.model.requests)
    assert original not in database(tmp_path) and "rewritten twice" in database(tmp_path)


async def test_a_transform_may_withhold_a_result_and_one_that_fails_leaves_it(tmp_path: Path) -> None:
    for body, more, result in (
        ("echo too much; exit 2", {}, "A hook has withheld this result: too much"),
        ("exit 2", {}, "A hook has withheld it."),
        ("exit 1", {}, "original\n"),
        ("exit 1", {"on_error": "block"}, "A hook has withheld this result: "),
    ):
        agent = free(tool_response_transform=group(script(tmp_path, "transform", body, **more)))
        async with on_stage(tmp_path, ECHO, text("end"), agent=agent) as stage:
            assert (await stage.client.prompt(stage.session, "go"))["result"] == END
            assert statuses(stage) == ["completed"]
            assert results(stage)[0].startswith(result)


async def test_a_cancel_while_hooks_change_a_result_leaves_its_text_out(tmp_path: Path) -> None:
    hook = script(tmp_path, "slow", "mkfifo told; sleep 300 & echo $! $$ > told; wait")
    agent = free(tool_response_transform=group(hook))
    async with on_stage(tmp_path, ECHO, text("more"), agent=agent) as stage:
        prompt = await start(stage)
        with anyio.fail_after(BOUND):
            while not (stage.cwd / "told").exists():
                await anyio.wait_all_tasks_blocked()
            pids = (await anyio.Path(stage.cwd / "told").read_text()).split()
        await stage.client.notify("session/cancel", sessionId=stage.session)
        assert (await stage.client.answer(prompt))["result"] == {"stopReason": "cancelled"}
        (update,) = last(stage)
        assert update["status"] == "completed"
        assert "its output is left out" in update["rawOutput"]["content"]
        await gone({int(pid) for pid in pids})
        assert (await stage.client.prompt(stage.session, "and?"))["result"] == END
        assert "its output is left out" in results(stage)[0]
        assert "original\n" not in str(stage.client.updates()) + str(stage.model.requests)


@pytest.mark.requirement("hooks.context.transient")
async def test_what_a_hook_adds_after_a_call_goes_to_the_model_in_this_turn_and_is_not_stored(tmp_path: Path) -> None:
    spoken = script(tmp_path, "spoken", "echo mind the gap")
    answered = answering(tmp_path, "answered", additional_context="stand clear")
    agent = free(post_tool_use=group(spoken, answered))
    async with on_stage(tmp_path, ECHO, text("1"), text("2"), agent=agent) as stage:
        assert (await stage.client.prompt(stage.session, "go"))["result"] == END
        assert spoken.told[0]["tool_response"] == "original\n" and spoken.told[0]["tool_error"] is False
        before, after = (request.messages[0]["content"] for request in stage.model.requests)
        assert "gap" not in before and after.endswith("mind the gap\n\nstand clear")
        await stage.client.prompt(stage.session, "again")
        assert "gap" not in str(stage.model.requests[2].messages)
    assert "mind the gap" not in database(tmp_path) and "stand clear" not in database(tmp_path)


@pytest.mark.requirement("hooks.stop.blocked-outcome", "prompt.outcome.failure-codes")
@pytest.mark.parametrize(
    ("event", "answer", "code", "completed"),
    [
        ("post_tool_use", {"reason": "enough"}, 2, True),
        ("post_tool_use", {"continue": False, "stop_reason": "enough"}, 0, True),
        ("tool_response_transform", {"continue": False, "stop_reason": "enough"}, 0, True),
        ("tool_guard", {"continue": False, "stop_reason": "enough"}, 0, False),
    ],
)
async def test_a_hook_can_stop_the_run_and_the_session_goes_on(
    tmp_path: Path, event: str, answer: Json, code: int, completed: bool
) -> None:
    hook = answering(tmp_path, "stop", answer, code)
    async with on_stage(tmp_path, ECHO, text("fine"), agent=free(**{event: group(hook)})) as stage:
        error = (await stage.client.prompt(stage.session, "go"))["error"]
        assert error["code"] == -32603 and error["data"]["runtimeCode"] == "hook_blocked"
        assert error["data"]["error"].startswith("A hook stopped the turn: ") and "enough" in error["data"]["error"]
        assert len(stage.model.requests) == 1
        assert statuses(stage) == ["completed" if completed else "failed"]
        assert (await stage.client.prompt(stage.session, "and now?"))["result"] == END
        assert results(stage)  # the next call carries the result of the one that was stopped


@pytest.mark.requirement("hooks.builtin.redact-secrets")
async def test_secrets_are_masked_on_the_way_to_tools_from_tools_and_to_the_model(tmp_path: Path) -> None:
    pem = "-----BEGIN PRIVATE KEY-----\nMIIabc\n-----END PRIVATE KEY-----"
    batch = calls(
        call("shell", cmd=f"echo {KEY} > in"),
        call("shell", cmd="printf 'token %s%s' ghp_ a1B2a1B2a1B2a1B2a1B2a1B2a1B2a1B2a1B2"),
        call("think", thought=pem),
    )
    async with on_stage(tmp_path, batch, text("end"), agent=free()) as stage:
        assert (await stage.client.prompt(stage.session, f"my key is {KEY}"))["result"] == END
        assert (stage.cwd / "in").read_text() == "[redacted]\n"
        sent = str(stage.model.requests[1].messages)
        assert "my key is [redacted]" in sent and "token [redacted]" in sent
        assert KEY not in sent and "MIIabc" not in sent
        assert KEY not in str(stage.client.updates(kind="tool_call_update"))
    stored = database(tmp_path)
    assert f"my key is {KEY}" in stored  # what was said is kept as it was said
    assert "token [redacted]" in stored and "token ghp_" not in stored


@pytest.mark.requirement("hooks.builtin.redact-secrets")
async def test_an_agent_file_can_switch_the_masking_off(tmp_path: Path) -> None:
    batch = calls(call("shell", cmd=f"echo {KEY} | tee in"))
    agent = {**free(), "redact_secrets": False}
    async with on_stage(tmp_path, batch, text("end"), agent=agent) as stage:
        assert (await stage.client.prompt(stage.session, f"my key is {KEY}"))["result"] == END
        assert (stage.cwd / "in").read_text() == f"{KEY}\n" and results(stage) == [f"{KEY}\n"]
        assert f"my key is {KEY}" in str(stage.model.requests[0].messages)
