"""How a turn may end: budgets, tools that cannot be listed, the store, and what outranks what."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from sluice.agent.ports import Tool, ToolFailure
from tests.support.model_server import (
    Finish,
    ModelServer,
    Reply,
    Text,
    ToolCalls,
    Usage,
    Wait,
    call,
    calls,
    failure,
    text,
)
from tests.support.setup import agent_on, on_stage
from tests.support.wire import Client, serving

pytestmark = pytest.mark.anyio

Json = dict[str, Any]


async def code_of(client: Client, session: str, prompt: str = "go") -> str:
    error = (await client.prompt(session, prompt))["error"]
    assert error["code"] == -32603 and set(error["data"]) == {"sessionId", "runtimeCode", "error"}
    return str(error["data"]["runtimeCode"])


def think(usage: Usage | None = None, thought: str = "hm") -> Reply:
    return calls(call("think", thought=thought), usage=usage)


@pytest.mark.requirement("prompt.outcome.failure-after-updates", "prompt.outcome.usable-after-failure")
async def test_media_that_is_too_large_is_said_after_what_was_shown(tmp_path: Path) -> None:
    replies = [
        calls(call("think", thought="hm"), text="looking"),
        failure(400, "image exceeds the maximum of 5 MB"),
        text("ok"),
    ]
    async with on_stage(tmp_path, *replies) as stage:
        assert await code_of(stage.client, stage.session) == "media_too_large"
        assert stage.client.text() == "looking"
        assert (await stage.client.prompt(stage.session, "again"))["result"] == {"stopReason": "end_turn"}


@pytest.mark.requirement("prompt.outcome.later-success-wins")
async def test_a_later_good_answer_replaces_an_earlier_stop(tmp_path: Path) -> None:
    cut = Reply([Text("a"), ToolCalls([call("think", thought="x")]), Finish("length")])
    async with on_stage(tmp_path, cut, text("done")) as stage:
        assert (await stage.client.prompt(stage.session, "go"))["result"] == {"stopReason": "end_turn"}


@pytest.mark.requirement("prompt.outcome.cancel-wins", "prompt.outcome.cancelled", "prompt.outcome.after-drain")
@pytest.mark.parametrize("status", [200, 400])
async def test_a_cancel_outranks_the_success_or_failure_of_the_same_moment(tmp_path: Path, status: int) -> None:
    gate = anyio.Event()
    good = Reply([Wait(gate), Text("late"), Finish()])
    bad = Reply(status=400, error={"error": {"message": "no"}}, before=gate)
    async with on_stage(tmp_path, good if status == 200 else bad, text("ok")) as stage:
        client = stage.client
        prompt = await client.send("session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": "x"}])
        await stage.model.wait_for_call()
        await client.notify("session/cancel", sessionId=stage.session)
        gate.set()
        response = await client.answer(prompt)
        assert response["result"] == {"stopReason": "cancelled"} and client.log[-1] == response


async def test_looking_after_background_work_is_no_loop_and_all_else_is(tmp_path: Path) -> None:
    polls = [calls(call("view_background_job", job_id="1")) for _ in range(7)]
    async with on_stage(tmp_path, *polls, text("done"), *[think()] * 5) as stage:
        assert (await stage.client.prompt(stage.session, "wait"))["result"] == {"stopReason": "end_turn"}
        assert await code_of(stage.client, stage.session) == "loop_detected"


class Unlistable:
    """A toolset that cannot say which tools it has."""

    instruction = ""

    async def start(self) -> None:
        """Ready."""

    def tools(self) -> Sequence[Tool]:
        raise ToolFailure("the server is gone")

    async def stop(self) -> None:
        """Nothing is held."""


async def test_tools_that_cannot_be_listed_fail_the_turn_before_the_model_is_asked(tmp_path: Path) -> None:
    async with on_stage(tmp_path, text("ok")) as stage:
        live = stage.server.connection.entries[stage.session].live
        assert live is not None
        agent = live.talk.team.agent
        kept, agent.toolsets = agent.toolsets, (*agent.toolsets, Unlistable())
        assert await code_of(stage.client, stage.session) == "tool_failed"
        assert stage.model.requests == []
        agent.toolsets = kept
        assert (await stage.client.prompt(stage.session, "again"))["result"] == {"stopReason": "end_turn"}


async def test_a_store_that_takes_nothing_is_the_code_error(tmp_path: Path) -> None:
    async with ModelServer([text("ok")]) as model:
        file = agent_on(tmp_path, model.base_url)
        async with serving(file, tmp_path / "s.db", busy_timeout=0.05) as server:
            await server.client.initialize()
            session = await server.client.new(tmp_path)
            other = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            assert await code_of(server.client, session) == "error"
            other.execute("ROLLBACK")
            other.close()
            assert (await server.client.prompt(session, "again"))["result"] == {"stopReason": "end_turn"}


# --- budgets -----------------------------------------------------------------------------------------------------

PRICED = {"cost": {"input": 1000.0, "output": 1000.0}}
"""A tenth of a cent a token."""


def budgeted(directory: Path, model: ModelServer, entry: Json, agent: Json, **file: Any) -> Path:
    models = {"m": {"provider": "openai", "model": "test-model", "base_url": model.base_url, **entry}}
    return agent_on(directory, model.base_url, agent=agent, models=models, **file)


@pytest.mark.requirement("prompt.outcome.budget-is-error", "config-file.budget.limits")
@pytest.mark.parametrize(
    ("file", "agent", "place"),
    [
        ({"budget": {"max_tokens": 30}}, {}, "budget.max_tokens"),
        ({"budget": {"max_cost": 0.03}}, {}, "budget.max_cost"),
        ({"budgets": {"small": {"max_tokens": 30}}}, {"budgets": ["small"]}, "budgets.small.max_tokens"),
        (
            {"budget": {"max_tokens": 9999}, "budgets": {"s": {"max_cost": 0.02}}},
            {"budgets": ["s"]},
            "budgets.s.max_cost",
        ),
    ],
    ids=["tokens", "cost", "named", "both"],
)
async def test_a_used_up_budget_stops_before_the_next_call_and_names_its_place(
    tmp_path: Path, file: Json, agent: Json, place: str
) -> None:
    async with ModelServer([think(thought=str(n)) for n in range(9)]) as model:
        path = budgeted(tmp_path, model, PRICED, agent, **file)
        async with serving(path, tmp_path / "s.db") as server:
            client = server.client
            await client.initialize()
            session = await client.new(tmp_path)
            error = (await client.prompt(session, "go"))["error"]
            assert error["data"]["runtimeCode"] == "budget_exceeded" and place in error["data"]["error"]
            assert place in client.text() and len(model.requests) == 2
            said = client.updates(kind="agent_message_chunk")[-1]
            assert await code_of(client, session, "more") == "budget_exceeded"
            assert len(model.requests) == 2
        async with serving(path, tmp_path / "s.db") as server:
            client = server.client
            await client.initialize()
            await client.result("session/load", sessionId=session, cwd=str(tmp_path), mcpServers=[])
            replayed = client.updates(kind="agent_message_chunk")
            assert said in replayed and len([u for u in replayed if place in str(u)]) == 2
            assert await code_of(client, session, "and now?") == "budget_exceeded"  # what was spent is not forgotten
        assert model.refusals == []


@pytest.mark.requirement("config-file.budget.limits")
async def test_a_budget_of_another_agent_and_a_loose_one_stop_nothing(tmp_path: Path) -> None:
    async with ModelServer([think(), text("done")]) as model:
        path = budgeted(tmp_path, model, PRICED, {}, budget={"max_time": "1h"}, budgets={"s": {"max_tokens": 1}})
        async with serving(path, tmp_path / "s.db") as server:
            await server.client.initialize()
            session = await server.client.new(tmp_path)
            assert (await server.client.prompt(session, "go"))["result"] == {"stopReason": "end_turn"}


@pytest.mark.requirement("config-file.budget.limits")
async def test_time_in_turns_adds_up(tmp_path: Path) -> None:
    async with ModelServer([text("1")]) as model:
        path = budgeted(tmp_path, model, {}, {}, budget={"max_time": 0.0001})
        async with serving(path, tmp_path / "s.db") as server:
            await server.client.initialize()
            session = await server.client.new(tmp_path)
            assert (await server.client.prompt(session, "go"))["result"] == {"stopReason": "end_turn"}
            error = (await server.client.prompt(session, "more"))["error"]
            assert "budget.max_time" in error["data"]["error"]


@pytest.mark.requirement("usage-cost.cost.no-estimate")
async def test_a_call_without_a_price_does_not_count_and_is_warned_of_once(tmp_path: Path) -> None:
    async with ModelServer([think(), text("2"), text("3")]) as model:
        path = budgeted(tmp_path, model, {}, {}, budget={"max_cost": 0.0001})
        async with serving(path, tmp_path / "s.db") as server:
            client = server.client
            await client.initialize(session={"notices": {}})
            session = await client.new(tmp_path)
            for prompt in ("one", "two"):
                assert (await client.prompt(session, prompt))["result"] == {"stopReason": "end_turn"}
            (notice,) = client.updates(kind="notice")
            assert "budget.max_cost" in notice["title"]
