"""Compaction over the wire: when it runs, what it leaves, and how each outcome is told."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.model_server import ModelServer, Reply, Scripted, Stall, Text, Usage, call, calls, failure, text
from tests.support.setup import Stage, agent_on
from tests.support.wire import serving

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

LONG = "a long question " * 200
"""About 900 tokens."""

WINDOW = {"provider_opts": {"context_size": 1000}, "cost": {"input": 10.0, "output": 10.0}}

OVERFLOW = failure(400, "too long", code="context_length_exceeded")


@asynccontextmanager
async def staged(
    directory: Path, *replies: Scripted, model: Json | None = None, agent: Json | None = None, **capabilities: Any
) -> AsyncIterator[Stage]:
    async with ModelServer(replies) as server_model:
        entry: Json = {"provider": "openai", "model": "test-model", "base_url": server_model.base_url}
        entry |= WINDOW if model is None else model
        file = agent_on(
            directory, server_model.base_url, agent=agent, models={"m": entry, "other": {**entry, "model": "o"}}
        )
        async with serving(file, directory / "s.db") as server:
            await server.client.initialize(**capabilities)
            session = await server.client.new(directory)
            yield Stage(server_model, server, server.client, session, directory)
        assert server_model.refusals == []


def stored(directory: Path) -> list[str]:
    connection = sqlite3.connect(directory / "s.db")
    kinds = [row[0] for row in connection.execute("SELECT kind FROM session_items ORDER BY position")]
    connection.close()
    return kinds


def contents(stage: Stage, number: int) -> list[str]:
    """The texts of the `number`-th request behind the system text."""
    return [str(m["content"]) for m in stage.model.requests[number - 1].messages[1:]]


@pytest.mark.requirement(
    "compaction.trigger.threshold",
    "compaction.result.summary-item",
    "compaction.result.prompt-rebuild",
    "compaction.result.bounds",
    "compaction.cost.counted",
    "usage-cost.gauge.handoff-and-compaction",
    "prompt.outcome.recoverable-neutral",
)
async def test_a_nearly_full_window_is_compacted_before_the_next_turn(tmp_path: Path) -> None:
    replies = [
        text("short", usage=Usage(900, 50)),
        text("SUMMARY", usage=Usage(800, 100)),
        text("two", usage=Usage(150, 5)),
    ]
    async with staged(tmp_path, *replies) as stage:
        client = stage.client
        await client.prompt(stage.session, LONG)
        assert (await client.prompt(stage.session, "next"))["result"] == {"stopReason": "end_turn"}
        asked = stage.model.requests[1].body
        assert "tools" not in asked and asked["max_tokens"] == 250 and LONG[:200] in str(asked["messages"])
        summary, *rest = contents(stage, 3)
        assert "SUMMARY" in summary and LONG not in summary and rest == ["short", "next"]
        assert stored(tmp_path) == ["message", "message", "message", "summary", "message"]
        gauges = [(u["used"], u["size"], round(u["cost"]["amount"], 4)) for u in client.updates(kind="usage_update")]
        assert gauges[0] == (950, 1000, 0.0095) and gauges[2] == (155, 1000, 0.0200)
        assert gauges[1][0] < 500 and gauges[1][2] == 0.0185
        assert client.text() == "shorttwo"


@pytest.mark.requirement("compaction.trigger.threshold")
@pytest.mark.parametrize(
    ("model", "agent"),
    [({}, {}), (WINDOW, {"session_compaction": False}), (WINDOW, {"compaction_threshold": 1.0})],
    ids=["unknown", "off", "higher"],
)
async def test_it_does_not_run_without_a_known_limit_or_when_switched_off(
    tmp_path: Path, model: Json, agent: Json
) -> None:
    async with staged(tmp_path, text("1", usage=Usage(900, 50)), text("2"), model=model, agent=agent) as stage:
        await stage.client.prompt(stage.session, LONG)
        await stage.client.prompt(stage.session, "next")
        assert contents(stage, 2) == [LONG, "1", "next"]


@pytest.mark.requirement("compaction.trigger.overflow-once", "models.fallback.overflow")
async def test_an_overflow_is_compacted_and_tried_again_once(tmp_path: Path) -> None:
    replies = [text("1"), OVERFLOW, text("SUMMARY"), text("fine"), OVERFLOW, text("AGAIN"), OVERFLOW, text("usable")]
    async with staged(tmp_path, *replies, model={}) as stage:
        client = stage.client
        await client.prompt(stage.session, "first")
        assert (await client.prompt(stage.session, "second"))["result"] == {"stopReason": "end_turn"}
        assert contents(stage, 4)[-1] == "second" and "SUMMARY" in contents(stage, 4)[0]
        error = (await client.prompt(stage.session, "third"))["error"]
        assert error["data"]["runtimeCode"] == "context_exceeded" and len(stage.model.requests) == 7
        assert (await client.prompt(stage.session, "fourth"))["result"] == {"stopReason": "end_turn"}
        assert "AGAIN" in contents(stage, 8)[0] and contents(stage, 8)[1:] == ["third", "fourth"]


@pytest.mark.requirement("compaction.trigger.overflow-once")
async def test_an_overflow_with_compaction_switched_off_is_an_error_at_once(tmp_path: Path) -> None:
    async with staged(tmp_path, text("1"), OVERFLOW, model={}, agent={"session_compaction": False}) as stage:
        await stage.client.prompt(stage.session, "first")
        error = (await stage.client.prompt(stage.session, "second"))["error"]
        assert error["data"]["runtimeCode"] == "context_exceeded" and len(stage.model.requests) == 2


@pytest.mark.requirement(
    "compaction.trigger.manual-any-time",
    "compaction.outcome.three",
    "slash-commands.compact.success",
    "slash-commands.builtin.not-in-history",
)
async def test_a_person_can_ask_for_it_and_it_lasts(tmp_path: Path) -> None:
    replies = [text("answer"), text("SUMMARY", usage=Usage(100, 10)), text("more"), text("even more")]
    async with staged(tmp_path, *replies, agent={"session_compaction": False}) as stage:
        client = stage.client
        assert "compact" in client.commands() if client.updates(kind="available_commands_update") else True
        await client.prompt(stage.session, "question")
        before = len(client.log)
        response = await client.prompt(stage.session, "/compact mind the tests")
        assert response["result"] == {"stopReason": "end_turn"}
        chunks = [m for m in client.log[before:] if "agent_message_chunk" in str(m)]
        assert len(chunks) == 1 and "compacted" in str(chunks[0]) and "SUMMARY" not in str(client.log)
        assert "mind the tests" in str(contents(stage, 2))
        await client.prompt(stage.session, "next")
        summary, *rest = contents(stage, 3)
        assert "SUMMARY" in summary and rest == ["next"] and "/compact" not in str(contents(stage, 3))
        await client.result("session/close", sessionId=stage.session)
        before = len(client.log)
        await client.result("session/load", sessionId=stage.session, cwd=str(tmp_path), mcpServers=[])
        replayed = [m["params"]["update"]["content"]["text"] for m in client.log[before:] if "chunk" in str(m)]
        assert replayed == ["question", "answer", "next", "more"]
        await client.prompt(stage.session, "last")
        assert "SUMMARY" in contents(stage, 4)[0] and contents(stage, 4)[1:] == ["next", "more", "last"]


@pytest.mark.requirement("slash-commands.compact.skipped", "compaction.outcome.three")
async def test_with_nothing_to_compact_it_says_so_and_asks_no_model(tmp_path: Path) -> None:
    async with staged(tmp_path, text("1"), text("SUMMARY")) as stage:
        client = stage.client
        await client.prompt(stage.session, "/compact")
        assert "nothing to compact" in client.text() and stored(tmp_path) == [] and stage.model.requests == []
        await client.prompt(stage.session, "q")
        await client.prompt(stage.session, "/compact")
        await client.prompt(stage.session, "/compact")
        assert len(stage.model.requests) == 2 and stored(tmp_path).count("summary") == 1


@pytest.mark.requirement(
    "slash-commands.compact.failure", "compaction.outcome.three", "prompt.outcome.recoverable-neutral"
)
@pytest.mark.parametrize(
    "reply", [failure(400, "no sk-TESTTESTTESTTEST123"), text("  "), text("x", finish="content_filter")]
)
async def test_a_failure_is_fatal_when_asked_for_and_recovered_when_automatic(tmp_path: Path, reply: Reply) -> None:
    full = text("1", usage=Usage(900, 50))
    async with staged(tmp_path, full, reply, reply, text("2"), session={"notices": {}}) as stage:
        client = stage.client
        await client.prompt(stage.session, LONG)
        error = (await client.prompt(stage.session, "/compact"))["error"]
        assert error["code"] == -32603 and error["data"]["runtimeCode"] == "compaction_failed"
        assert client.updates(kind="notice") == []
        assert (await client.prompt(stage.session, "next"))["result"] == {"stopReason": "end_turn"}
        assert contents(stage, 4) == [LONG, "1", "next"] and "summary" not in stored(tmp_path)
        (notice,) = client.updates(kind="notice")
        assert notice["severity"] == "warning" and "compacted" in notice["title"]
        assert "sk-TEST" not in str(client.log)


@pytest.mark.requirement("slash-commands.compact.success")
async def test_a_client_that_follows_compactions_sees_each_one_begin_and_end(tmp_path: Path) -> None:
    replies = [text("1"), text("SUMMARY"), text("2"), failure(400), Reply([Text("half"), Stall()])]
    async with staged(tmp_path, *replies, session={"compaction": {}}) as stage:
        client = stage.client
        await client.prompt(stage.session, "q")
        await client.prompt(stage.session, "/compact")
        await client.prompt(stage.session, "r")
        await client.prompt(stage.session, "/compact")
        prompt = await client.send(
            "session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": "/compact"}]
        )
        await stage.model.wait_for_call(5)
        await client.notify("session/cancel", sessionId=stage.session)
        assert (await client.answer(prompt))["result"] == {"stopReason": "cancelled"}
        steps = [(u["status"], u.get("summary"), "error" in u) for u in client.updates(kind="compaction_update")]
        said = [{"type": "text", "text": "SUMMARY"}]
        begin = ("in_progress", None, False)
        assert steps == [
            begin,
            ("completed", said, False),
            begin,
            ("failed", None, True),
            begin,
            ("cancelled", None, False),
        ]
        ids = [u["compactionId"] for u in client.updates(kind="compaction_update")]
        assert len(set(ids)) == 3 and stored(tmp_path).count("summary") == 1


@pytest.mark.requirement("compaction.concurrency.with-turn")
async def test_while_it_runs_the_session_is_busy(tmp_path: Path) -> None:
    async with staged(tmp_path, text("1"), Reply([Text("half"), Stall()])) as stage:
        client = stage.client
        await client.prompt(stage.session, "q")
        compacting = await client.send(
            "session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": "/compact"}]
        )
        await stage.model.wait_for_call(2)
        assert (await client.prompt(stage.session, "now?"))["error"]["data"]["reason"] == "busy"
        await client.result("session/close", sessionId=stage.session)
        assert (await client.answer(compacting))["result"] == {"stopReason": "cancelled"}
        assert "summary" not in stored(tmp_path)


@pytest.mark.requirement("compaction.result.prompt-rebuild", "compaction.trigger.threshold")
async def test_in_the_middle_of_a_turn_the_cut_keeps_a_call_with_its_result(tmp_path: Path) -> None:
    think = calls(call("think", thought="hm"), usage=Usage(940, 10))
    async with staged(tmp_path, think, text("SUMMARY"), text("done")) as stage:
        await stage.client.prompt(stage.session, LONG)
        messages = stage.model.requests[2].messages
        assert [m["role"] for m in messages] == ["system", "user", "assistant", "tool"]
        assert "SUMMARY" in messages[1]["content"]


async def test_another_model_can_do_the_compaction_and_the_smaller_window_counts(tmp_path: Path) -> None:
    agent = {"compaction_model": "other", "compaction_threshold": 0.5}
    async with staged(tmp_path, text("1", usage=Usage(600, 10)), text("SUMMARY"), text("2"), agent=agent) as stage:
        await stage.client.prompt(stage.session, LONG)
        await stage.client.prompt(stage.session, "next")
        assert [request.body["model"] for request in stage.model.requests] == ["test-model", "o", "test-model"]
