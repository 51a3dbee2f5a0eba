"""Teams over the wire: tasks for other agents, and conversations that go on with another agent."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.support.model_server import ModelServer, Reply, Stall, Text, Usage, call, calls, failure, text
from tests.support.setup import Stage, agent_on, on_stage
from tests.support.wire import Client, spawned

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

END = {"stopReason": "end_turn"}
SHELL = [{"type": "shell"}]
FREE = {"allow": ["shell"]}
PRICED = {"cost": {"input": 1_000_000, "output": 0}}
"""One USD a token."""


def team(**agents: Json) -> Json:
    """The agents of a file; each says who it is in its instruction."""
    return {
        "agents": {
            name: {"model": "m", "description": f"does {name}", "instruction": f"You are {name}.", **more}
            for name, more in agents.items()
        }
    }


def leading(*names: str, **more: Json) -> Json:
    """A root that leads agents with these names; `more` adds to some of them."""
    return team(root={"sub_agents": list(names), **more.get("root", {})}, **{n: more.get(n, {}) for n in names})


def transfer(agent: str, task: str = "Do it.", **more: str) -> Reply:
    return calls(call("transfer_task", agent=agent, task=task, **more))


def speaker(stage: Stage, request: int) -> str:
    """Whose instruction a request begins with."""
    system = stage.model.requests[request].messages[0]
    assert system["role"] == "system"
    return str(system["content"]).partition("You are ")[2].partition(".")[0]


def results(stage: Stage, request: int) -> list[str]:
    return [m["content"] for m in stage.model.requests[request].messages if m["role"] == "tool"]


def said(stage: Stage) -> list[str]:
    return [u["content"]["text"] for u in stage.client.updates(kind="agent_message_chunk")]


async def prompted(stage: Stage, words: str = "go") -> Any:
    response = await stage.client.prompt(stage.session, words)
    assert "result" in response, response
    return response["result"]


# --- a task ------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("teams.delegate.transfer-task")
async def test_a_task_is_done_by_another_agent_and_its_answer_comes_back(tmp_path: Path) -> None:
    replies = (transfer("maker", "Make tea.", expected_output="One cup."), text("Tea is ready."), text("All done."))
    async with on_stage(tmp_path, *replies, file=leading("maker")) as stage:
        assert await prompted(stage) == END
        assert [speaker(stage, request) for request in range(3)] == ["root", "maker", "root"]
        (task,) = [m["content"] for m in stage.model.requests[1].messages if m["role"] == "user"]
        assert task == "Make tea.\n\nExpected output: One cup."
        assert results(stage, 2) == ["Tea is ready."]
        assert said(stage) == ["Tea is ready.", "All done."]
        calls_ = [u for u in stage.client.updates() if u["sessionUpdate"].startswith("tool_call")]
        assert [(u.get("title"), u["status"]) for u in calls_] == [
            ("transfer_task: maker", "in_progress"),
            (None, "completed"),
        ]


@pytest.mark.requirement("teams.delegate.only-listed")
async def test_only_the_agents_that_are_listed_are_offered_and_taken(tmp_path: Path) -> None:
    file = team(root={"sub_agents": ["maker"]}, maker={}, other={})
    replies = (transfer("other"), text("sorry"))
    async with on_stage(tmp_path, *replies, file=file) as stage:
        assert await prompted(stage) == END
        offered = stage.model.requests[0].body["tools"]
        (spec,) = [tool["function"] for tool in offered if tool["function"]["name"] == "transfer_task"]
        assert spec["parameters"]["properties"]["agent"]["enum"] == ["maker"]
        assert "- maker: does maker" in stage.model.requests[0].messages[0]["content"]
        (refusal,) = results(stage, 1)
        assert "agent" in refusal and "maker" in refusal
        assert len(stage.model.requests) == 2


async def test_an_agent_without_others_is_offered_neither_tool(tmp_path: Path) -> None:
    async with on_stage(tmp_path, transfer("maker"), text("x"), text("y"), file=leading("maker")) as stage:
        assert await prompted(stage) == END
        assert [sorted(stage.model.requests[request].tools) for request in range(2)] == [["transfer_task"], []]


@pytest.mark.requirement("teams.delegate.depth-and-cycles")
async def test_tasks_are_not_given_in_circles(tmp_path: Path) -> None:
    file = team(root={"sub_agents": ["maker"]}, maker={"sub_agents": ["root", "maker"]})
    replies = (transfer("maker"), transfer("root"), text("I cannot."), text("Well."))
    async with on_stage(tmp_path, *replies, file=file) as stage:
        assert await prompted(stage) == END
        assert "not given in circles" in results(stage, 2)[0]
        assert "I cannot." in results(stage, 3)[0]


@pytest.mark.requirement("teams.delegate.depth-and-cycles")
async def test_tasks_stand_at_most_ten_deep(tmp_path: Path) -> None:
    names = ["root", *(f"a{depth}" for depth in range(1, 12))]
    agents = {name: {"sub_agents": [below]} for name, below in pairwise(names)}
    down = [transfer(name) for name in names[1:]]
    async with on_stage(tmp_path, *down, *[text("up")] * 11, file=team(**agents, a11={})) as stage:
        assert await prompted(stage) == END
        assert [speaker(stage, request) for request in range(11)] == names[:11]
        assert results(stage, 11) == ["Tasks stand at most 10 deep below each other."]
        assert speaker(stage, 11) == "a10"


@pytest.mark.requirement("teams.delegate.transfer-task", "prompt.outcome.child-sessions-neutral")
async def test_a_task_that_fails_is_a_failed_call_and_the_turn_goes_on(tmp_path: Path) -> None:
    replies = (transfer("maker"), failure(400, message="no such thing"), text("I do it myself."))
    async with on_stage(tmp_path, *replies, file=leading("maker")) as stage:
        assert await prompted(stage) == END
        assert results(stage, 2)[0].startswith("The task failed: ")
        assert said(stage)[-1] == "I do it myself."


@pytest.mark.requirement("prompt.outcome.child-sessions-neutral")
@pytest.mark.parametrize(("finish", "told"), [("length", "half\n[the answer was cut off"), ("stop", "half")])
async def test_how_a_task_ended_is_not_how_the_turn_ended(tmp_path: Path, finish: str, told: str) -> None:
    replies = (transfer("maker"), text("half", finish=finish), text("done"))
    async with on_stage(tmp_path, *replies, file=leading("maker")) as stage:
        assert await prompted(stage) == END
        assert results(stage, 2)[0].startswith(told)


async def test_a_task_that_reaches_its_limit_says_so(tmp_path: Path) -> None:
    file = leading("maker", maker={"max_iterations": 1, "toolsets": [{"type": "think"}]})
    replies = (transfer("maker"), calls(call("think", thought="hm"), text="First thoughts."), text("done"))
    async with on_stage(tmp_path, *replies, file=file) as stage:
        prompt = stage.client.send_prompt(stage.session, "go")
        await stage.client.write(prompt)
        await stage.client.allow("stop")
        assert (await stage.client.answer(prompt["id"]))["result"] == END
        assert results(stage, 2)[0].startswith("First thoughts.\n[the agent stopped at its limit")


# --- whom it asks, what it may ----------------------------------------------------------------------------------


@pytest.mark.requirement("teams.delegate.permission-owner", "teams.delegate.inherits")
async def test_a_question_of_a_task_comes_under_the_roots_id_and_an_always_holds_for_both(tmp_path: Path) -> None:
    shell = calls(call("shell", cmd="touch a"))
    file = leading("maker", root={"toolsets": SHELL}, maker={"toolsets": SHELL})
    async with on_stage(tmp_path, transfer("maker"), shell, text("x"), shell, text("y"), file=file) as stage:
        prompt = stage.client.send_prompt(stage.session, "go")
        await stage.client.write(prompt)
        question = await stage.client.allow("allow-always")
        assert question["params"]["sessionId"] == stage.session
        assert question["params"]["toolCall"]["title"] == "shell: touch a"
        assert (await stage.client.answer(prompt["id"]))["result"] == END
        assert len(stage.client.requests("session/request_permission")) == 1


@pytest.mark.requirement("teams.delegate.inherits")
@pytest.mark.parametrize(("mode", "ran"), [("autonomous", True), ("restricted", False)])
async def test_a_task_inherits_the_mode_and_the_rules(tmp_path: Path, mode: str, ran: bool) -> None:
    batch = calls(call("shell", cmd="touch a"), call("shell", cmd="rm a"))
    file = {**leading("maker", maker={"toolsets": SHELL}), "permissions": {"deny": ["shell:cmd=rm *"]}}
    async with on_stage(tmp_path, transfer("maker"), batch, text("x"), text("y"), file=file) as stage:
        await stage.client.result("session/set_mode", sessionId=stage.session, modeId=mode)
        assert await prompted(stage) == END
        touched, removed = results(stage, 2)
        assert "not allowed here" in removed and ("not allowed here" not in touched) is ran
        assert (stage.cwd / "a").exists() is ran
        assert stage.client.requests("session/request_permission") == []


@pytest.mark.requirement("teams.delegate.permission-owner")
async def test_whoever_dismisses_a_question_of_a_task_ends_the_turn(tmp_path: Path) -> None:
    file = leading("maker", maker={"toolsets": SHELL})
    async with on_stage(tmp_path, transfer("maker"), calls(call("shell", cmd="touch a")), file=file) as stage:
        prompt = stage.client.send_prompt(stage.session, "go")
        await stage.client.write(prompt)
        asked = await stage.client.until(lambda m: m.get("method") == "session/request_permission")
        await stage.client.respond(asked, {"outcome": {"outcome": "cancelled"}})
        assert (await stage.client.answer(prompt["id"]))["result"] == {"stopReason": "cancelled"}
        assert not (stage.cwd / "a").exists()
        assert _open_calls(stage.client) == {}


def _open_calls(client: Client) -> Json:
    """The calls whose last status is not an end."""
    last: Json = {}
    for update in client.updates():
        if update["sessionUpdate"].startswith("tool_call") and "status" in update:
            last[update["toolCallId"]] = update["status"]
    return {name: status for name, status in last.items() if status not in ("completed", "failed")}


async def test_stop_stops_a_task_and_what_it_runs(tmp_path: Path) -> None:
    wait = calls(call("shell", cmd="touch begun; sleep 600"))
    file = {**leading("maker", maker={"toolsets": SHELL}), "permissions": FREE}
    async with on_stage(tmp_path, transfer("maker"), wait, text("after"), file=file) as stage:
        prompt = stage.client.send_prompt(stage.session, "go")
        await stage.client.write(prompt)
        with anyio.fail_after(20):
            while not (stage.cwd / "begun").exists():
                await anyio.sleep(0.01)
        await stage.client.notify("session/cancel", sessionId=stage.session)
        assert (await stage.client.answer(prompt["id"]))["result"] == {"stopReason": "cancelled"}
        answered = next(i for i, m in enumerate(stage.client.log) if m.get("id") == prompt["id"] and "result" in m)
        assert _open_calls(stage.client) == {}
        assert await prompted(stage) == END  # the history that is left is a valid one
        assert not [m for m in stage.client.log[:answered] if "after" in str(m)]


async def test_two_tasks_of_one_answer_are_done_side_by_side(tmp_path: Path) -> None:
    """Both must have begun before either ends; naively the second waits for the first."""
    both = calls(call("transfer_task", agent="one", task="1"), call("transfer_task", agent="two", task="2"))
    marks = [calls(call("shell", cmd=f"touch {a}; while [ ! -e {b} ]; do sleep 0.05; done")) for a, b in ("xy", "yx")]
    file = {**leading("one", "two", one={"toolsets": SHELL}, two={"toolsets": SHELL}), "permissions": FREE}
    async with on_stage(tmp_path, both, *marks, text("a"), text("b"), text("done"), file=file) as stage:
        assert await prompted(stage) == END
        assert sorted(results(stage, 5)) == ["a", "b"]


# --- what is kept -----------------------------------------------------------------------------------------------


@pytest.mark.requirement("teams.delegate.nested-store")
async def test_a_load_shows_a_task_where_it_was_with_the_ids_it_had(tmp_path: Path) -> None:
    file = {**leading("maker", maker={"toolsets": SHELL}), "permissions": FREE}
    replies = (transfer("maker"), calls(call("shell", cmd="echo hi"), text="I try."), text("Made."), text("Done."))
    async with on_stage(tmp_path, *replies, file=file) as stage:
        assert await prompted(stage) == END
        live = stage.client.updates(kind="agent_message_chunk")
        listed = (await stage.client.result("session/list"))["sessions"]
        assert [entry["sessionId"] for entry in listed] == [stage.session]
        await stage.client.result("session/close", sessionId=stage.session)
        before = len(stage.client.updates())
        await stage.client.result("session/load", sessionId=stage.session, cwd=str(stage.cwd), mcpServers=[])
        shown = stage.client.updates()[before:]
        again = [u for u in shown if u["sessionUpdate"] == "agent_message_chunk"]
        assert [(u["content"]["text"], u["messageId"]) for u in again] == [
            (u["content"]["text"], u["messageId"]) for u in live
        ]
        kinds = [(u["sessionUpdate"], u.get("title") or u["content"]["text"]) for u in shown if "content" in u]
        assert kinds == [
            ("user_message_chunk", "go"),
            ("tool_call", "transfer_task"),
            ("agent_message_chunk", "I try."),
            ("tool_call", "shell"),
            ("agent_message_chunk", "Made."),
            ("agent_message_chunk", "Done."),
        ]


@pytest.mark.requirement("teams.delegate.nested-store")
async def test_deleting_a_session_deletes_its_tasks_and_a_task_is_not_deleted_by_itself(tmp_path: Path) -> None:
    async with on_stage(tmp_path, transfer("maker"), text("x"), text("y"), file=leading("maker")) as stage:
        assert await prompted(stage) == END
        store = await stage.server.connection.assembly.store()
        (below,) = await store.descendants(stage.session)
        await stage.client.result("session/close", sessionId=stage.session)
        await stage.client.result("session/load", sessionId=below, cwd=str(stage.cwd), mcpServers=[])
        error = await stage.client.error("session/delete", sessionId=below)
        assert error["code"] == -32602
        await stage.client.result("session/close", sessionId=below)
        await stage.client.result("session/delete", sessionId=stage.session)
        assert await store.session(below) is None and await store.items(below) == []


async def test_what_a_task_costs_is_the_sessions_and_its_context_is_not(tmp_path: Path) -> None:
    replies = (
        calls(call("transfer_task", agent="maker", task="t"), usage=Usage(10, 1)),
        text("x", usage=Usage(500, 1)),
        text("y", usage=Usage(20, 1)),
    )
    entry = {"provider_opts": {"context_size": 1000}, **PRICED}
    async with on_stage(tmp_path, *replies, file=leading("maker"), entry=entry) as stage:
        assert await prompted(stage) == END
        gauges = [(u["used"], u["cost"]["amount"]) for u in stage.client.updates(kind="usage_update")]
        assert gauges == [(11, 10), (11, 510), (21, 530)]
        await stage.client.result("session/close", sessionId=stage.session)
        before = len(stage.client.updates(kind="usage_update"))
        await stage.client.result("session/load", sessionId=stage.session, cwd=str(stage.cwd), mcpServers=[])
        (gauge,) = stage.client.updates(kind="usage_update")[before:]
        assert (gauge["used"], gauge["cost"]["amount"]) == (21, 530)


async def test_a_budget_is_spent_by_tasks_too_also_after_a_restart(tmp_path: Path) -> None:
    replies = (
        calls(call("transfer_task", agent="maker", task="t"), usage=Usage(10, 0)),
        text("x", usage=Usage(60, 0)),
        text("y", usage=Usage(10, 0)),
        text("z", usage=Usage(30, 0)),
    )
    file = {**leading("maker"), "budget": {"max_tokens": 100}}
    async with on_stage(tmp_path, *replies, file=file) as stage:
        assert await prompted(stage) == END
        await stage.client.result("session/close", sessionId=stage.session)
        await stage.client.result("session/load", sessionId=stage.session, cwd=str(stage.cwd), mcpServers=[])
        assert await prompted(stage) == END
        ended = await stage.client.prompt(stage.session, "more")
        assert "budget" in str(ended["error"])


async def test_a_kill_in_a_task_leaves_a_history_that_goes_on(tmp_path: Path) -> None:
    replies = (transfer("maker"), Reply([Text("half"), Stall()]), text("went on"))
    async with ModelServer(replies) as model:
        file = agent_on(tmp_path, model.base_url, **leading("maker"))
        async with spawned(file, tmp_path / "s.db") as server:
            await server.client.initialize()
            session = await server.client.new(tmp_path)
            await server.client.write(server.client.send_prompt(session, "go"))
            await server.client.until(lambda m: "half" in str(m))
            server.process.kill()
            await server.client.ended.wait()
        async with spawned(file, tmp_path / "s.db") as server:
            await server.client.initialize()
            await server.client.result("session/load", sessionId=session, cwd=str(tmp_path), mcpServers=[])
            assert (await server.client.prompt(session, "again"))["result"] == END
        assert model.refusals == []


# --- a handoff --------------------------------------------------------------------------------------------------


def handing(*names: str, **more: Json) -> Json:
    return team(root={"handoffs": list(names), **more.get("root", {})}, **{n: more.get(n, {}) for n in names})


@pytest.mark.requirement("teams.handoff.same-session", "teams.handoff.current-agent-per-session")
async def test_another_agent_goes_on_with_the_whole_history_and_its_answer_is_the_turns(tmp_path: Path) -> None:
    replies = (
        calls(call("handoff", agent="guide"), text="Wait."),
        text("Here I am."),
        text("Still me."),
        text("root"),
    )
    async with on_stage(tmp_path, *replies, file=handing("guide")) as stage:
        assert await prompted(stage, "hello") == END
        assert said(stage) == ["Wait.", "Here I am."]
        assert [speaker(stage, request) for request in (0, 1)] == ["root", "guide"]
        history = stage.model.requests[1].messages[1:]
        assert [m["role"] for m in history] == ["user", "assistant", "tool"] and history[0]["content"] == "hello"
        await stage.client.result("session/close", sessionId=stage.session)
        await stage.client.result("session/load", sessionId=stage.session, cwd=str(stage.cwd), mcpServers=[])
        assert await prompted(stage) == END
        assert speaker(stage, 2) == "guide"  # this session stays with it, also in a new incarnation
        other = await stage.client.new(stage.cwd)
        assert (await stage.client.prompt(other, "x"))["result"] == END
        assert speaker(stage, 3) == "root"  # and no other does


async def test_an_answer_hands_over_to_one_agent_only(tmp_path: Path) -> None:
    both = calls(call("handoff", agent="one"), call("handoff", agent="two"))
    async with on_stage(tmp_path, both, text("x"), file=handing("one", "two")) as stage:
        assert await prompted(stage) == END
        told = results(stage, 1)
        heir = speaker(stage, 1)
        assert sum("goes on with" in line for line in told) == 1
        assert f"The conversation goes to {heir} already." in told


@pytest.mark.requirement("teams.handoff.forced")
async def test_a_conversation_is_sent_on_behind_each_answer_and_never_in_a_circle(tmp_path: Path) -> None:
    file = team(root={"force_handoff": "checker"}, checker={"force_handoff": "closer"}, closer={"handoffs": ["root"]})
    replies = (text("draft"), text("checked"), calls(call("handoff", agent="root")), text("again"))
    async with on_stage(tmp_path, *replies, file=file) as stage:
        assert await prompted(stage) == END
        assert [speaker(stage, request) for request in range(4)] == ["root", "checker", "closer", "root"]
        assert said(stage) == ["draft", "checked", "again"]
        roles = [m["role"] for m in stage.model.requests[1].messages]
        assert roles == ["system", "user", "assistant", "user"]


@pytest.mark.requirement("teams.handoff.forced")
async def test_what_did_not_end_by_itself_is_not_sent_on(tmp_path: Path) -> None:
    file = team(root={"force_handoff": "checker"}, checker={})
    async with on_stage(tmp_path, text("half", finish="length"), file=file) as stage:
        assert await prompted(stage) == {"stopReason": "max_tokens"}
        assert len(stage.model.requests) == 1


async def test_a_handoff_within_a_task_stays_within_it(tmp_path: Path) -> None:
    file = team(root={"sub_agents": ["maker"]}, maker={"handoffs": ["helper"]}, helper={})
    replies = (transfer("maker"), calls(call("handoff", agent="helper")), text("helped"), text("done"))
    async with on_stage(tmp_path, *replies, file=file) as stage:
        assert await prompted(stage) == END
        assert [speaker(stage, request) for request in range(4)] == ["root", "maker", "helper", "root"]
        assert results(stage, 3) == ["helped"]
