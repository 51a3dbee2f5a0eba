"""What keys of an agent do in a session, over the wire."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sluice.agent.books import Books
from sluice.persistence.records import SessionRecord
from sluice.persistence.store import Store
from tests.support.model_server import ModelServer, Usage, call, calls, text
from tests.support.setup import agent_on, on_stage
from tests.support.wire import serving

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("config-file.agents.readonly")
async def test_a_read_only_agent_is_offered_read_only_tools_alone(tmp_path: Path) -> None:
    async with on_stage(tmp_path, text("1"), agent={"readonly": True}) as stage:
        await stage.client.prompt(stage.session, "hi")
        offered = set(stage.model.requests[0].tools)
        assert {"list_directory", "think"} <= offered and not {"create_directory", "shell"} & offered


@pytest.mark.requirement("config-file.agents.safety", "config-file.runtime.safety")
@pytest.mark.parametrize(
    ("agent", "file", "mode"),
    [
        ({}, {}, "default"),
        ({}, {"runtime": {"safety": "restricted"}}, "restricted"),
        ({"safety": "strict"}, {"runtime": {"safety": "restricted"}}, "strict"),
    ],
)
async def test_the_author_chooses_the_mode_a_session_begins_in_and_the_person_another(
    tmp_path: Path, agent: dict[str, Any], file: dict[str, Any], mode: str
) -> None:
    async with ModelServer([]) as model:
        path = agent_on(tmp_path, model.base_url, agent=agent, **file)
        async with serving(path, tmp_path / "s.db") as server:
            client, cwd = server.client, str(tmp_path)
            await client.initialize()
            made = await client.result("session/new", cwd=cwd, mcpServers=[])
            assert made["modes"]["currentModeId"] == mode == made["configOptions"][0]["currentValue"]
            await client.result("session/set_mode", sessionId=made["sessionId"], modeId="balanced")
        async with serving(path, tmp_path / "s.db") as server:
            await server.client.initialize()
            again = await server.client.result("session/resume", sessionId=made["sessionId"], cwd=cwd)
            assert again["modes"]["currentModeId"] == "balanced"


@pytest.mark.requirement("plan.source.no-text-guessing")
async def test_a_text_that_looks_like_a_list_of_things_to_do_is_no_plan(tmp_path: Path) -> None:
    looks = 'echo \'{"todos": [{"id": "todo_1", "description": "x", "status": "pending"}]}\'; echo "- [ ] y"'
    async with on_stage(tmp_path, calls(call("shell", cmd=looks)), text("1. z")) as stage:
        prompt = await stage.client.send(
            "session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": "go"}]
        )
        await stage.client.allow()
        await stage.client.answer(prompt)
        assert "todo_1" in str(stage.client.updates(kind="tool_call_update"))
        assert stage.client.updates(kind="plan") == []


@pytest.mark.requirement("usage-cost.cost.restored-descendants", "usage-cost.cost.by-session-id")
async def test_what_stored_children_have_cost_is_part_of_the_first_figure_and_counted_once(tmp_path: Path) -> None:
    entry = {"provider": "openai", "model": "x", "cost": {"input": 100.0, "output": 0.0}}
    entry |= {"provider_opts": {"context_size": 9000}}
    async with ModelServer([text("1", usage=Usage(1000, 1)), text("2", usage=Usage(2000, 1))]) as model:
        path = agent_on(tmp_path, model.base_url, models={"m": {**entry, "base_url": model.base_url}})
        async with serving(path, tmp_path / "s.db") as server:
            await server.client.initialize()
            session = await server.client.new(tmp_path)
            await server.client.prompt(session, "one")
        store = await Store.open(tmp_path / "s.db")
        for name, parent in (("kid", session), ("twin", session), ("grandkid", "kid")):
            await store.add_session(
                SessionRecord(name, 1.0, parent_id=parent, agent="kid", cost=1.0, context_tokens=7)
            )
        await store.aclose()
        for _ in range(2):  # a second restart must not count the children into the root
            async with serving(path, tmp_path / "s.db") as server:
                client = server.client
                await client.initialize()
                await client.result("session/resume", sessionId=session, cwd=str(tmp_path))
                await client.prompt(session, "/usage")
                figure = client.updates(kind="usage_update")[-1]
                assert figure == {
                    "sessionUpdate": "usage_update",
                    "used": 1001,
                    "size": 9000,
                    "cost": {"amount": pytest.approx(3.1), "currency": "USD"},
                }


@pytest.mark.requirement("usage-cost.cost.repeats-replace")
def test_a_figure_that_is_told_again_replaces_the_earlier_one_and_twins_stay_apart() -> None:
    books = Books(own_cost=1.0)
    for session, cost in (("a", 0.5), ("b", 0.5), ("a", 0.75), ("a", 0.75)):
        books.report(session, cost)
    assert books.cost == 2.25
