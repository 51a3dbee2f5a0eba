"""Hooks at the events of sessions, turns, model calls and compactions, over the wire, with real scripts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from sluice.agent.compaction import SOURCES
from sluice.handlers import session as session_module
from tests.handlers.test_hooks_of_results import database
from tests.handlers.test_permissions import END, start
from tests.handlers.test_process import gone
from tests.handlers.test_teams import leading, results, transfer
from tests.support.hooks import Script, answering, group, script
from tests.support.model_server import Usage, call, calls, failure, text
from tests.support.setup import Stage, on_stage
from tests.support.wire import BOUND

pytestmark = pytest.mark.anyio

Json = dict[str, Any]


def hooked(**events: Script) -> Json:
    return {"safety": "autonomous", "hooks": {event: [hook.entry] for event, hook in events.items()}}


def system(stage: Stage, request: int = -1) -> str:
    return str(stage.model.requests[request].messages[0]["content"])


def told(directory: Path) -> list[Json]:
    """What one script was told at several events, without the place."""
    place = {"session_id", "cwd", "agent_name"}
    return [{k: v for k, v in one.items() if k not in place} for one in Script(directory / "all.sh", {}).told]


@pytest.mark.requirement("hooks.events.core-set")
async def test_the_events_of_a_session_come_in_their_order_with_what_they_have_to_say(tmp_path: Path) -> None:
    one = script(tmp_path, "all")
    events = "session_start user_prompt_submit turn_start before_llm_call after_llm_call stop turn_end session_end"
    tools = "tool_input_transform tool_guard pre_tool_use permission_request tool_response_transform post_tool_use"
    agent = {"hooks": {**{e: [one.entry] for e in events.split()}, **{e: group(one) for e in tools.split()}}}
    ran = calls(call("shell", cmd="echo hi"), usage=Usage(7, 3))
    async with on_stage(tmp_path, ran, text("done"), agent=agent) as stage:
        prompt = await start(stage, "go on")
        await stage.client.allow()
        assert (await stage.client.answer(prompt))["result"] == END
        await stage.client.result("session/close", sessionId=stage.session)
        before = told(tmp_path)
        assert [one["hook_event_name"] for one in before] == [
            *("session_start", "user_prompt_submit", "turn_start", "before_llm_call", "after_llm_call"),
            *("tool_input_transform", "tool_guard", "pre_tool_use", "permission_request"),
            *("tool_response_transform", "post_tool_use"),
            *("before_llm_call", "after_llm_call", "stop", "turn_end", "session_end"),
        ]
        by_name = {one.pop("hook_event_name"): one for one in reversed(before)}
        assert by_name["session_start"] == {"source": "startup"}
        assert by_name["user_prompt_submit"] == {"prompt": "go on"}
        assert by_name["turn_start"] == {}
        assert by_name["before_llm_call"] == {"model_id": "openai/test-model", "iteration": 1}
        after = by_name["after_llm_call"]
        assert (after["model_id"], after["stop_response"]) == ("openai/test-model", "")
        assert (after["usage"]["input_tokens"], after["usage"]["output_tokens"]) == (7, 3)
        assert by_name["stop"] == {"stop_response": "done", "last_user_message": "go on"}
        assert by_name["turn_end"] == {"reason": "normal"} and by_name["session_end"] == {"reason": "other"}


@pytest.mark.requirement("hooks.events.core-set")
async def test_a_failure_is_told_with_its_code_and_then_the_end(tmp_path: Path) -> None:
    one = script(tmp_path, "all", "exit 2")  # there is nothing left to block
    async with on_stage(
        tmp_path, failure(401, "no"), text("fine"), agent=hooked(on_error=one, turn_end=one)
    ) as stage:
        error = (await stage.client.prompt(stage.session, "go"))["error"]
        assert error["data"]["runtimeCode"] == "model_error"
        first, last = told(tmp_path)
        assert (first["hook_event_name"], first["error_code"]) == ("on_error", "model_error")
        assert first["error"] == error["data"]["error"]
        assert last == {"hook_event_name": "turn_end", "reason": "error"}
        assert (await stage.client.prompt(stage.session, "go"))["result"] == END


@pytest.mark.requirement("hooks.context.transient")
async def test_context_is_said_in_its_turn_and_stored_only_from_the_session_start(tmp_path: Path) -> None:
    agent = hooked(
        session_start=script(tmp_path, "s", "echo always"),
        user_prompt_submit=answering(tmp_path, "p", additional_context="for this prompt"),
        turn_start=script(tmp_path, "t", "echo for this turn"),
        before_llm_call=script(tmp_path, "b", "echo for this call"),
    )
    async with on_stage(tmp_path, text("1"), text("2"), agent=agent) as stage:
        await stage.client.prompt(stage.session, "one")
        assert system(stage).endswith("for this prompt\n\nfor this turn\n\nfor this call")
        (tmp_path / "p.json").write_text("{}", encoding="utf-8")
        await stage.client.prompt(stage.session, "two")
        assert "for this prompt" not in system(stage) and system(stage).count("for this turn") == 1
        said = [m["content"] for m in stage.model.requests[1].messages if m["role"] == "user"]
        assert said == ["always", "one", "two"]
        stored = database(tmp_path)
        assert "always" in stored and "for this" not in stored
        await stage.client.result("session/close", sessionId=stage.session)
        mark = len(stage.client.log)
        await stage.client.result("session/load", sessionId=stage.session, cwd=str(stage.cwd), mcpServers=[])
        assert "always" not in str(stage.client.log[mark:])  # it is for the model
    assert len(Script(tmp_path / "s.sh", {}).told) == 1


@pytest.mark.requirement("hooks.stop.blocked-outcome", "prompt.outcome.usable-after-failure")
@pytest.mark.parametrize(
    ("event", "requests"),
    [
        ("session_start", 0),
        ("user_prompt_submit", 0),
        ("turn_start", 0),
        ("before_llm_call", 0),
        ("after_llm_call", 1),
        ("stop", 1),
    ],
)
async def test_a_hook_that_blocks_fails_the_turn(tmp_path: Path, event: str, requests: int) -> None:
    hook = script(tmp_path, "block", "test -e go && exit 0; echo not now; exit 2")
    async with on_stage(tmp_path, text("1"), text("2"), agent=hooked(**{event: hook})) as stage:
        error = (await stage.client.prompt(stage.session, "the magic word"))["error"]
        assert error["data"] == {
            "sessionId": stage.session,
            "runtimeCode": "hook_blocked",
            "error": "A hook stopped the turn: not now",
        }
        assert len(stage.model.requests) == requests
        stored = "the magic word" in database(tmp_path)
        assert stored is (event not in ("session_start", "user_prompt_submit"))
        (stage.cwd / "go").touch()
        assert (await stage.client.prompt(stage.session, "again"))["result"] == END
        assert ("the magic word" in str(stage.model.requests[-1].messages)) is stored


async def test_a_cancel_ends_a_hook_of_the_turn_and_closing_waits_a_bounded_time_for_the_last_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "SESSION_END_SECONDS", 0.2)
    body = "mkfifo $1; sleep 300 & echo $! $$ > $1; wait"
    slow, last = script(tmp_path, "slow", body.replace("$1", "a")), script(tmp_path, "last", "sleep 300")
    agent = hooked(before_llm_call=slow, session_end=last)
    async with on_stage(tmp_path, agent=agent) as stage:
        prompt = await start(stage)
        with anyio.fail_after(BOUND):
            while not (stage.cwd / "a").exists():
                await anyio.wait_all_tasks_blocked()
            pids = (await anyio.Path(stage.cwd / "a").read_text()).split()
        await stage.client.notify("session/cancel", sessionId=stage.session)
        assert (await stage.client.answer(prompt))["result"] == {"stopReason": "cancelled"}
        await gone({int(pid) for pid in pids})
        assert await stage.client.result("session/close", sessionId=stage.session) == {}
        assert [one["reason"] for one in last.told] == ["other"]


@pytest.mark.requirement("compaction.hooks.veto-or-supply")
async def test_hooks_may_veto_a_compaction_add_to_it_or_write_the_summary(tmp_path: Path) -> None:
    veto = script(tmp_path, "veto", "test -e go && exit 0; echo not yet; exit 2")
    add = script(tmp_path, "add", "echo the colour is blue")
    supply, after = answering(tmp_path, "supply"), script(tmp_path, "after")
    agent = hooked(before_compaction=supply, after_compaction=after)
    agent["hooks"]["pre_compact"] = [veto.entry, add.entry]
    async with on_stage(tmp_path, text("1"), text("written by a model"), text("2"), text("3"), agent=agent) as stage:
        await stage.client.prompt(stage.session, "one")
        assert (await stage.client.prompt(stage.session, "/compact"))["result"] == END
        assert "A hook has forbidden the compaction: not yet" in stage.client.text(stage.session)
        assert len(stage.model.requests) == 1 and supply.told == after.told == []
        (stage.cwd / "go").touch()
        await stage.client.prompt(stage.session, "/compact keep names")
        asked = str(stage.model.requests[1].messages)
        assert "in particular: keep names" in asked and "Mind this too: the colour is blue" in asked
        assert after.told[0]["summary"] == "written by a model"
        assert veto.told[1]["source"] == "manual" and veto.told[1]["context_limit"] == 0
        (tmp_path / "supply.json").write_text('{"hook_specific_output": {"summary": "by hand"}}', encoding="utf-8")
        await stage.client.prompt(stage.session, "two")
        before = len(stage.model.requests)
        await stage.client.prompt(stage.session, "/compact")
        assert len(stage.model.requests) == before and after.told[1]["summary"] == "by hand"
        await stage.client.prompt(stage.session, "three")
        assert "by hand" in str(stage.model.requests[-1].messages)
        assert "written by a model" not in str(stage.model.requests[-1].messages)


@pytest.mark.requirement("compaction.hooks.veto-or-supply")
async def test_a_veto_leaves_an_automatic_compaction_undone_and_an_overflow_a_failure(tmp_path: Path) -> None:
    veto = script(tmp_path, "veto", "exit 2")
    overflow = failure(400, "too long", code="context_length_exceeded")
    entry = {"provider_opts": {"context_size": 1000}}
    full = text("1", usage=Usage(950, 10))
    async with on_stage(tmp_path, full, text("2"), overflow, agent=hooked(pre_compact=veto), entry=entry) as stage:
        await stage.client.prompt(stage.session, "one " * 1000)
        assert (await stage.client.prompt(stage.session, "two"))["result"] == END
        assert [one["source"] for one in veto.told] == [SOURCES["threshold"]] == ["auto"]
        error = (await stage.client.prompt(stage.session, "three"))["error"]
        assert error["data"]["runtimeCode"] == "context_exceeded"
        assert [one["source"] for one in veto.told][-1] == "overflow"


async def test_a_task_has_the_hooks_of_the_agent_that_does_it_and_a_stopped_one_is_a_failed_call(
    tmp_path: Path,
) -> None:
    own, began = script(tmp_path, "own", "echo too hot; exit 2"), script(tmp_path, "began")
    taken = {event: [began.entry] for event in ("session_start", "user_prompt_submit", "turn_start")}
    file = leading("maker", maker={"hooks": {"after_llm_call": [own.entry], **taken}})
    async with on_stage(tmp_path, transfer("maker"), text("tea"), text("end"), file=file) as stage:
        assert (await stage.client.prompt(stage.session, "go"))["result"] == END
        assert results(stage, 2) == ["The task failed: A hook stopped the turn: too hot"]
        assert [(told["agent_name"], told["stop_response"]) for told in own.told] == [("maker", "tea")]
        assert [told["hook_event_name"] for told in began.told] == ["turn_start"]
        assert own.told[0]["session_id"] != stage.session
