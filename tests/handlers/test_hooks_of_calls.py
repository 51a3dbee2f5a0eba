"""Hooks that decide about tool calls, over the wire, with real scripts."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.handlers.test_mcp_server import over_stdio
from tests.handlers.test_permissions import END, asked, set_mode, start, statuses
from tests.handlers.test_process import gone
from tests.support.hooks import Script, answering, group, script
from tests.support.model_server import ModelServer, call, calls, text
from tests.support.setup import Stage, agent_on, on_stage
from tests.support.wire import BOUND

pytestmark = pytest.mark.anyio

TOUCH = calls(call("shell", cmd="touch ran"))


def hooked(**events: Any) -> dict[str, Any]:
    return {"hooks": events}


def results(stage: Stage, request: int = 1) -> list[str]:
    return [m["content"] for m in stage.model.requests[request].messages if m["role"] == "tool"]


@pytest.mark.requirement("hooks.contract.stdin-json")
async def test_a_hook_is_told_one_object_and_may_answer_one(tmp_path: Path) -> None:
    hook = answering(tmp_path, "deny", permission_decision="deny", permission_decision_reason="not today")
    agent = hooked(pre_tool_use=group(hook))
    async with on_stage(tmp_path, TOUCH, text("end"), agent=agent) as stage:
        assert (await stage.client.prompt(stage.session, "go"))["result"] == END
        assert statuses(stage) == ["failed"] and asked(stage) == []
        assert results(stage) == ["A hook denied this call: not today"]
        (shown,) = {u["toolCallId"] for u in stage.client.updates(kind="tool_call")}
        assert hook.told == [
            {
                "session_id": stage.session,
                "cwd": str(stage.cwd),
                "agent_name": "root",
                "hook_event_name": "pre_tool_use",
                "tool_name": "shell",
                "tool_use_id": shown,
                "tool_input": {"cmd": "touch ran"},
            }
        ]
        assert list(stage.cwd.iterdir()) == []


@pytest.mark.requirement("hooks.contract.exit-codes", "hooks.guard.fail-closed")
@pytest.mark.parametrize(
    ("event", "body", "verdict"),
    [
        ("tool_guard", "exit 0", "ran"),
        ("tool_guard", "echo no pushing; exit 2", "A hook denied this call: no pushing"),
        ("tool_guard", """echo '{"reason": "no"}'; exit 2""", "A hook denied this call: no"),
        ("tool_guard", """echo '{"decision": "block", "reason": "no"}'""", "A hook denied this call: no"),
        ("tool_guard", "echo '{broken'; exit 2", "A hook denied this call."),
        ("tool_guard", "exit 1", "failed"),
        ("tool_guard", "kill -9 $$", "failed"),
        ("tool_guard", "echo '{broken'", "failed"),
        ("tool_guard", """echo '{"decision": "perhaps"}'""", "failed"),
        ("tool_guard", """echo '{"hook_specific_output": 3}'""", "failed"),
        ("tool_guard", "head -c 2000000 /dev/zero | tr '\\\\0' x", "failed"),
        ("pre_tool_use", "exit 1", "failed"),
        ("permission_request", "exit 2", "A hook denied this call."),
        ("permission_request", "exit 1", "ran"),
        ("tool_input_transform", "exit 2", "A hook denied this call."),
        ("tool_input_transform", "exit 1", "ran"),
    ],
)
async def test_the_exit_code_of_a_hook_speaks_and_a_guard_that_fails_denies(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, event: str, body: str, verdict: str
) -> None:
    hook = script(tmp_path, "guard", body)
    async with on_stage(tmp_path, TOUCH, text("end"), agent=hooked(**{event: group(hook)})) as stage:
        prompt = await start(stage)
        if verdict == "ran":
            await stage.client.allow()
        assert (await stage.client.answer(prompt))["result"] == END
        assert (stage.cwd / "ran").exists() is (verdict == "ran")
        (result,) = results(stage)
        if verdict == "failed":
            assert result == (
                "A hook denied this call: A hook that has to agree failed; the agent's log has the details."
            )
        elif verdict != "ran":
            assert result == verdict
        failed = [r.message for r in caplog.records if r.levelno == logging.WARNING and "hook guard" in r.message]
        assert bool(failed) is (verdict == "failed" or "exit 1" in body)


@pytest.mark.requirement("hooks.guard.fail-closed")
async def test_a_guard_that_cannot_be_started_denies_and_on_error_chooses_for_the_others(tmp_path: Path) -> None:
    missing = {"type": "command", "command": str(tmp_path / "none"), "args": ["x"]}
    lenient = {**script(tmp_path, "lenient", "exit 1").entry, "on_error": "ignore"}
    strict = {**script(tmp_path, "strict", "exit 1").entry, "on_error": "block"}
    for event, hook, runs in (
        ("tool_guard", missing, False),
        ("tool_guard", lenient, False),
        ("tool_input_transform", lenient, True),
        ("tool_input_transform", strict, False),
    ):
        agent = {**hooked(**{event: [{"hooks": [hook]}]}), "safety": "autonomous"}
        async with on_stage(tmp_path, TOUCH, text("end"), agent=agent) as stage:
            assert (await stage.client.prompt(stage.session, "go"))["result"] == END
            assert (stage.cwd / "ran").exists() is runs
            (stage.cwd / "ran").unlink(missing_ok=True)


@pytest.mark.requirement("hooks.contract.timeout")
async def test_a_hook_that_takes_too_long_is_ended_with_all_it_started(tmp_path: Path) -> None:
    hook = script(tmp_path, "slow", "sleep 300 & echo $! > child; echo $$ > leader; wait", timeout="300ms")
    async with on_stage(tmp_path, TOUCH, text("end"), agent=hooked(tool_guard=group(hook))) as stage:
        assert (await stage.client.prompt(stage.session, "go"))["result"] == END
        assert "has to agree failed" in results(stage)[0]
        await gone({int((stage.cwd / name).read_text()) for name in ("child", "leader")})


async def test_a_cancel_ends_a_hook_with_all_it_started(tmp_path: Path) -> None:
    hook = script(tmp_path, "slow", "mkfifo told; sleep 300 & echo $! $$ > told; wait")
    async with on_stage(tmp_path, TOUCH, agent=hooked(tool_guard=group(hook))) as stage:
        prompt = await start(stage)
        with anyio.fail_after(BOUND):
            while not (stage.cwd / "told").exists():
                await anyio.wait_all_tasks_blocked()
            pids = (await anyio.Path(stage.cwd / "told").read_text()).split()
        await stage.client.notify("session/cancel", sessionId=stage.session)
        assert (await stage.client.answer(prompt))["result"] == {"stopReason": "cancelled"}
        assert statuses(stage) == ["failed"]
        await gone({int(pid) for pid in pids})


@pytest.mark.requirement("hooks.guard.matcher")
@pytest.mark.parametrize(
    ("matcher", "stopped"),
    [
        ("*", {"shell", "think"}),
        ("", {"shell", "think"}),
        ("sh.*", {"shell"}),
        ("think|edit_file", {"think"}),
        ("she", set()),
    ],
)
async def test_a_hook_is_asked_about_the_tools_whose_whole_name_fits(
    tmp_path: Path, matcher: str, stopped: set[str]
) -> None:
    hook = script(tmp_path, "guard", "exit 2")
    agent = {**hooked(tool_guard=group(hook, matcher=matcher)), "safety": "autonomous"}
    batch = calls(call("shell", cmd="true"), call("think", thought="hm"))
    async with on_stage(tmp_path, batch, text("end"), agent=agent) as stage:
        assert (await stage.client.prompt(stage.session, "go"))["result"] == END
        assert {told["tool_name"] for told in hook.told} == stopped
        assert sum("denied" in result for result in results(stage)) == len(stopped)


@pytest.mark.requirement("hooks.pre.preempting", "modes.precedence.kept")
async def test_a_preempting_hook_denies_or_has_a_person_asked_whatever_the_mode(tmp_path: Path) -> None:
    deny = script(tmp_path, "deny", f"! tail -1 {tmp_path}/deny.told | grep -q forbidden || exit 2")
    ask = answering(tmp_path, "ask", permission_decision="ask")
    agent = {**hooked(pre_tool_use=group(deny, ask, preempt_yolo=True)), "safety": "autonomous"}
    forbidden = calls(call("shell", cmd="touch forbidden"))
    async with on_stage(tmp_path, forbidden, TOUCH, TOUCH, text("end"), agent=agent) as stage:
        prompt = await start(stage)
        await stage.client.allow("allow-always")  # the grant covers the next call
        assert (await stage.client.answer(prompt))["result"] == END
        assert len(asked(stage)) == 1 and len(ask.told) == 2
        assert [path.name for path in stage.cwd.iterdir()] == ["ran"]
        assert statuses(stage) == ["failed", "completed", "completed"]


async def test_a_guard_that_asks_wants_the_person_each_time_and_a_denial_outranks_it(tmp_path: Path) -> None:
    guard = answering(tmp_path, "guard", permission_decision="ask")
    eager = answering(tmp_path, "eager", permission_decision="allow")
    agent = {
        **hooked(tool_guard=group(guard), permission_request=group(eager), pre_tool_use=group(eager)),
        "safety": "autonomous",
    }
    denied = calls(call("shell", cmd="rm x"))
    rules = {"permissions": {"deny": ["shell:cmd=rm *"]}}
    async with on_stage(tmp_path, TOUCH, TOUCH, denied, text("end"), agent=agent, file=rules) as stage:
        prompt = await start(stage)
        await stage.client.allow("allow-always")
        await stage.client.allow("reject")
        assert (await stage.client.answer(prompt))["result"] == END
        assert len(asked(stage)) == 2
        assert statuses(stage) == ["completed", "failed", "failed"]
        assert "a rule or the safety mode denies it" in results(stage, 3)[-1]


@pytest.mark.requirement("modes.precedence.team-ask-yields")
async def test_an_ordinary_hook_has_its_say_where_the_mode_would_ask_and_nowhere_else(tmp_path: Path) -> None:
    hook = answering(tmp_path, "ask", permission_decision="ask")
    rules = {"permissions": {"allow": ["shell:cmd=true"]}}
    look, ruled = calls(call("list_directory", path=".")), calls(call("shell", cmd="true"))
    agent = hooked(pre_tool_use=group(hook))
    async with on_stage(tmp_path, TOUCH, look, ruled, text("1"), look, text("2"), agent=agent, file=rules) as stage:
        await set_mode(stage, "autonomous")
        assert (await stage.client.prompt(stage.session, "go"))["result"] == END
        assert hook.told == [] and asked(stage) == []
        await set_mode(stage, "default")
        prompt = await start(stage)
        await stage.client.allow()
        assert (await stage.client.answer(prompt))["result"] == END
        assert [told["tool_name"] for told in hook.told] == ["list_directory"]


async def test_hooks_that_allow_spare_the_person_and_the_strictest_of_several_counts(tmp_path: Path) -> None:
    allow = answering(tmp_path, "allow", permission_decision="allow")
    deny = answering(tmp_path, "deny", permission_decision="deny")
    for events, runs in (
        ({"pre_tool_use": group(allow)}, True),
        ({"permission_request": group(allow)}, True),
        ({"pre_tool_use": group(allow, deny)}, False),
        ({"pre_tool_use": group(allow), "tool_guard": group(deny)}, False),
    ):
        async with on_stage(tmp_path, TOUCH, text("end"), agent=hooked(**events)) as stage:
            assert (await stage.client.prompt(stage.session, "go"))["result"] == END
            assert asked(stage) == []
            assert (stage.cwd / "ran").exists() is runs
            (stage.cwd / "ran").unlink(missing_ok=True)


def rewriting(directory: Path, name: str, **to: Any) -> Script:
    return answering(directory, name, permission_decision="allow", updated_input=to)


@pytest.mark.requirement("hooks.pre.updated-input", "permission.order.decision-chain")
async def test_changed_input_is_what_runs_and_is_checked_again(tmp_path: Path) -> None:
    first, second = rewriting(tmp_path, "first", cmd="touch other"), rewriting(tmp_path, "second", cmd="touch third")
    guard = script(tmp_path, "guard", f"! tail -1 {tmp_path}/guard.told | grep -q wicked || exit 2")
    bad, worse = rewriting(tmp_path, "bad", cmd="touch wicked"), rewriting(tmp_path, "worse", cmd="rm -r .")
    wrong = rewriting(tmp_path, "wrong", cmd=3, nothing=4)
    rules = {"permissions": {"deny": ["shell:cmd=rm *"]}}
    for hooks, made, told in (
        (group(first, second), ["other"], ["touch ran", "touch other"]),
        (group(bad), [], ["touch ran", "touch wicked"]),
        (group(worse), [], ["touch ran", "rm -r ."]),
        (group(wrong), [], ["touch ran"]),
    ):
        before = len(guard.told)
        agent = hooked(pre_tool_use=hooks, tool_guard=group(guard))
        async with on_stage(tmp_path, TOUCH, text("end"), agent=agent, file=rules) as stage:
            assert (await stage.client.prompt(stage.session, "go"))["result"] == END
            assert asked(stage) == []
            assert [path.name for path in stage.cwd.iterdir()] == made
            assert [one["tool_input"]["cmd"] for one in guard.told[before:]] == told
            for path in stage.cwd.iterdir():
                path.unlink()
    assert [one["tool_input"]["cmd"] for one in second.told] == ["touch other"]


@pytest.mark.requirement("hooks.pre.updated-input")
async def test_a_transform_changes_the_input_before_anybody_judges_or_sees_it(tmp_path: Path) -> None:
    change = answering(tmp_path, "change", updated_input={"cmd": "touch other"})
    guard = script(tmp_path, "guard")
    agent = hooked(tool_input_transform=group(change), tool_guard=group(guard))
    async with on_stage(tmp_path, TOUCH, text("end"), agent=agent) as stage:
        prompt = await start(stage)
        question = await stage.client.allow()
        assert question["params"]["toolCall"]["rawInput"] == {"cmd": "touch other"}
        assert (await stage.client.answer(prompt))["result"] == END
        assert [told["tool_input"] for told in guard.told] == [{"cmd": "touch other"}]
        assert [path.name for path in stage.cwd.iterdir()] == ["other"]


async def test_stderr_goes_to_the_log_and_a_hook_gets_its_own_environment_and_directory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    body = """echo "hunter2 $WHO" >&2; echo "$WHO in $(pwd)"; exit 2"""
    hook = script(tmp_path, "loud", body, env={"WHO": "me"}, working_dir="below")
    async with on_stage(tmp_path, TOUCH, text("end"), agent=hooked(tool_guard=group(hook))) as stage:
        (stage.cwd / "below").mkdir()
        assert (await stage.client.prompt(stage.session, "go"))["result"] == END
        assert results(stage) == [f"A hook denied this call: me in {stage.cwd}/below"]
        assert "hunter2" not in str(stage.client.log) and "hunter2" not in str(stage.model.requests)
        assert "hook loud says: 'hunter2 me'" in caplog.text


@pytest.mark.requirement("permission.non-interactive.denies")
async def test_where_nobody_can_be_asked_a_guard_that_asks_denies(tmp_path: Path) -> None:
    guard = answering(tmp_path, "guard", permission_decision="ask")
    agent = {**hooked(tool_guard=group(guard)), "safety": "autonomous"}
    async with ModelServer([TOUCH, text("end")]) as model:
        async with over_stdio(agent_on(tmp_path, model.base_url, agent=agent)) as client:
            assert "end" in str((await client.call_tool("root", {"message": "go"})).content)
        (result,) = [m["content"] for m in model.requests[1].messages if m["role"] == "tool"]
    assert "there is nobody to ask" in result and len(guard.told) == 1
    assert not (tmp_path / "ran").exists()
