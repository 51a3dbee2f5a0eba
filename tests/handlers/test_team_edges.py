"""Where a task meets the turn that it belongs to: what ends with it, what is counted, what is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from sluice.models import remote
from sluice.models.http import new_client
from sluice.persistence.records import SessionRecord
from sluice.persistence.store import Store
from tests.handlers.test_teams import END, SHELL, leading, results, transfer
from tests.support.model_server import ModelServer, Recorded, Reply, ToolCalls, Usage, call, calls, failure, text
from tests.support.setup import agent_on, on_stage
from tests.support.wire import serving

pytestmark = pytest.mark.anyio

THINK = [{"type": "think"}]
CANCELLED = {"stopReason": "cancelled"}


@pytest.mark.requirement("machines.coupling.table", "cancel.prompt.final-updates-first")
@pytest.mark.parametrize("whose", ["the turn's own", "of a task", "of a task of a task"])
async def test_a_call_that_was_allowed_in_the_moment_of_the_stop_does_not_start(tmp_path: Path, whose: str) -> None:
    """The leave and the stop come in one read. Naively only the turn's own calls hear of the stop, and one of a task
    starts although the turn drains."""
    names = {"the turn's own": ["root"], "of a task": ["root", "one"]}.get(whose, ["root", "one", "two"])
    more: dict[str, Any] = {"one": {"sub_agents": ["two"]}, names[-1]: {"toolsets": SHELL}}
    replies = [*(transfer(name) for name in names[1:]), calls(call("shell", cmd="touch begun"))]
    async with on_stage(tmp_path, *replies, text("after"), file=leading("one", "two", **more)) as stage:
        client, transitions = stage.client, stage.server.transitions
        prompt = client.send_prompt(stage.session, "go")
        await client.write(prompt)
        asked = await client.asked("session/request_permission")
        leave = {"outcome": {"outcome": "selected", "optionId": "allow"}}
        stop = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": stage.session}}
        await client.write({"jsonrpc": "2.0", "id": asked["id"], "result": leave}, stop)
        assert (await client.answer(prompt["id"]))["result"] == CANCELLED
        assert client.log[-1]["id"] == prompt["id"]
        (stopped,) = [number for number, step in enumerate(transitions) if step.event == "session/cancel"]
        assert (transitions[stopped + 1].machine, transitions[stopped + 1].event) == ("tool", "interrupted")
        assert "start" not in [step.event for step in transitions[stopped:]]
        assert not list(stage.cwd.iterdir())
        assert (await client.prompt(stage.session, "and now?"))["result"] == END


async def test_a_stop_while_a_task_is_stored_leaves_no_session_that_stands_in_no_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, store_session = anyio.Event(), Store.add_session
    go_on = anyio.Event()

    async def add_session(store: Store, record: SessionRecord) -> None:
        await store_session(store, record)
        if record.parent_id is not None:
            made.set()
            await go_on.wait()

    monkeypatch.setattr(Store, "add_session", add_session)
    async with on_stage(tmp_path, transfer("maker"), file=leading("maker")) as stage:
        prompt = stage.client.send_prompt(stage.session, "go")
        await stage.client.write(prompt)
        await made.wait()
        await stage.client.notify("session/cancel", sessionId=stage.session)
        # Read behind the cancel, so the cancel has been taken when it is answered.
        await stage.client.result("session/list")
        go_on.set()
        assert (await stage.client.answer(prompt["id"]))["result"] == CANCELLED
        store = await stage.server.connection.assembly.store()
        shown = [item.session_id for item in await store.items(stage.session) if item.kind == "sub_session"]
        assert shown == await store.descendants(stage.session) != []


@pytest.mark.requirement("usage-cost.gauge.root-only")
async def test_the_compaction_of_a_task_is_not_told_as_one_of_the_conversation(tmp_path: Path) -> None:
    """It shortens what the other agent sees; a client would take it for the conversation that it shows."""
    replies = (
        transfer("maker", "a long task " * 200),
        calls(call("think", thought="hm"), usage=Usage(990, 5)),
        text("THE SUMMARY", usage=Usage(50, 5)),
        text("made", usage=Usage(100, 5)),
        text("done"),
    )
    entry = {"provider_opts": {"context_size": 1000}}
    file = leading("maker", maker={"toolsets": THINK})
    async with on_stage(tmp_path, *replies, file=file, entry=entry, session={"compaction": {}}) as stage:
        assert (await stage.client.prompt(stage.session, "go"))["result"] == END
        assert "THE SUMMARY" in json.dumps(stage.model.requests[3].messages)
        assert results(stage, 4) == ["made"]
        assert stage.client.updates(kind="compaction_update") == []
        assert "THE SUMMARY" not in json.dumps(stage.client.log)
        assert {update["used"] for update in stage.client.updates(kind="usage_update")} == {15}


@pytest.mark.requirement("turn-admission.live.full-runtime", "config-options.notify.no-delegated-values")
async def test_tools_a_task_and_a_fallback_model_are_all_seen_and_no_option_speaks_of_them(tmp_path: Path) -> None:
    fallback = {"models": ["spare"], "retries": 0}
    more: dict[str, Any] = {
        "root": {"toolsets": THINK},
        "maker": {"model": "far", "fallback": fallback, "toolsets": THINK},
    }
    replies = (
        calls(call("think", thought="first"), call("transfer_task", agent="maker", task="t")),
        failure(500, "down"),
        calls(call("think", thought="second")),
        text("found"),
        text("done"),
    )
    async with ModelServer(replies) as model:
        entry = {"provider": "openai", "base_url": model.base_url}
        models = {name: {**entry, "model": f"model-{name}"} for name in ("m", "far", "spare")}
        file = agent_on(tmp_path, model.base_url, models=models, **leading("maker", **more))
        async with serving(file, tmp_path / "session.db") as server:
            client = server.client
            await client.initialize(session={"notices": {}})
            session = await client.new(tmp_path)
            before = len(client.log)
            assert (await client.prompt(session, "go"))["result"] == END
            asked = [recorded.body["model"] for recorded in model.requests]
            assert asked == ["model-m", "model-far", "model-spare", "model-spare", "model-m"]
            titles = [update["title"] for update in client.updates(session, "tool_call")]
            assert titles == ["think", "transfer_task: maker", "think"]
            kinds = {update["sessionUpdate"] for update in client.told(session)}
            assert {"tool_call", "tool_call_update", "agent_message_chunk"} <= kinds
            assert "config" not in json.dumps(client.log[before:])
        assert model.refusals == []


async def test_calls_of_one_model_that_begin_at_the_same_time_share_its_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Naively each makes one, and only the last is closed."""
    made = []

    def counted(url: str, idle_timeout: float) -> Any:
        made.append(url)
        return new_client(url, idle_timeout)

    monkeypatch.setattr(remote, "new_client", counted)
    both = calls(*(call("transfer_task", agent="maker", task="t") for _ in range(4)))
    async with ModelServer([both, *[text("made")] * 4, text("done")]) as model:
        entry = {"provider": "openai", "base_url": model.base_url}
        models = {name: {**entry, "model": name} for name in ("m", "far")}
        file = agent_on(tmp_path, model.base_url, models=models, **leading("maker", maker={"model": "far"}))
        async with serving(file, tmp_path / "session.db") as server:
            await server.client.initialize()
            session = await server.client.new(tmp_path)
            assert (await server.client.prompt(session, "go"))["result"] == END
        assert len(made) == 2


@pytest.mark.requirement("models.ref.alloy")
async def test_each_task_stays_with_the_member_of_an_alloy_that_it_began_with(tmp_path: Path) -> None:
    """Naively the pick belongs to the agent, and a task that begins takes the others of that agent along with it."""
    tasks, begun = [f"task {number}" for number in range(8)], anyio.Event()
    asked: dict[str, list[str]] = {task: [] for task in tasks}

    def answer(recorded: Recorded) -> Reply:
        task = next((task for task in tasks if recorded.messages[1]["content"] == task), None)
        results = [message for message in recorded.messages if message["role"] == "tool"]
        if task is None:
            each = [call("transfer_task", agent="maker", task=task) for task in tasks]
            return text("done") if results else calls(*each)
        asked[task].append(recorded.body["model"])
        if results:
            return text("made")
        if all(asked.values()):
            begun.set()
        return Reply([ToolCalls((call("think", thought="hm"),))], before=begun)

    async with ModelServer(default=answer) as model:
        entry = {"provider": "openai", "base_url": model.base_url}
        models = {name: {**entry, "model": name} for name in ("m", "one", "two")}
        more: dict[str, Any] = {"maker": {"model": "one,two", "toolsets": THINK}}
        file = agent_on(tmp_path, model.base_url, models=models, **leading("maker", **more))
        async with serving(file, tmp_path / "session.db") as server:
            await server.client.initialize()
            session = await server.client.new(tmp_path)
            assert (await server.client.prompt(session, "go"))["result"] == END
        assert {len(models) for models in asked.values()} == {2}
        assert [models for models in asked.values() if len(set(models)) != 1] == []
        assert model.refusals == []
