"""What a provider says a call has used is paid for, whether or not the call came to an answer."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from sluice.agent import attempts, compaction
from sluice.agent.events import Event
from tests.support.model_server import Close, ModelServer, Raw, Reply, Stall, Step, Text, Usage, text
from tests.support.setup import agent_on
from tests.support.wire import Client, serving

pytestmark = pytest.mark.anyio

PRICED = {"provider": "openai", "model": "x", "cost": {"input": 100.0, "output": 0.0}}
SIZED = {**PRICED, "provider_opts": {"context_size": 9000}}
BROKEN = Raw(b"data: " + json.dumps({"error": {"message": "no such thing", "code": 400}}).encode() + b"\n\n")


async def figure(client: Client, session: str) -> tuple[int, float]:
    await client.prompt(session, "/usage")
    update = client.updates(session, kind="usage_update")[-1]
    return update["used"], round(update["cost"]["amount"], 6)


@pytest.mark.requirement("usage-cost.drain.keeps-counting")
@pytest.mark.parametrize("ending", ["cancelled", "failed", "failed without a word", "tried again"])
async def test_a_call_without_an_answer_counts_and_nobody_is_told_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.setattr(attempts, "backoff", lambda attempt: 0.0)
    spent = Usage(1000, 7)
    unfinished: dict[str, list[Step]] = {
        "cancelled": [spent, Text("half"), Stall()],
        "failed": [spent, Text("half"), BROKEN],
        "failed without a word": [spent, BROKEN],
        "tried again": [spent, Close()],
    }
    replies = [text("1", usage=Usage(500, 1)), Reply(unfinished[ending]), text("2", usage=Usage(2000, 1))]
    async with ModelServer(replies) as model:
        path = agent_on(tmp_path, model.base_url, models={"m": {**SIZED, "base_url": model.base_url}})
        async with serving(path, tmp_path / "s.db") as server:
            client = server.client
            await client.initialize()
            session = await client.new(tmp_path)
            await client.prompt(session, "one")
            before = len(client.updates(kind="usage_update"))
            prompt = client.send_prompt(session, "two")
            await client.write(prompt)
            if ending == "cancelled":
                await client.until(lambda message: "half" in str(message))
                await client.notify("session/cancel", sessionId=session)
            answer = await client.answer(prompt["id"])
            if ending == "tried again":
                assert answer["result"] == {"stopReason": "end_turn"}
                assert await figure(client, session) == (2001, 0.35)
            else:
                outcome = answer["result"]["stopReason"] if "result" in answer else answer["error"]["message"]
                assert outcome == ("cancelled" if ending == "cancelled" else "The turn failed")
                assert len(client.updates(kind="usage_update")) == before
                # The gauge stands where the last answer left it; only the money has gone on.
                assert await figure(client, session) == (501, 0.15)
                await client.prompt(session, "three")
                assert await figure(client, session) == (2001, 0.35)
        async with serving(path, tmp_path / "s.db") as server:
            await server.client.initialize()
            await server.client.result("session/load", sessionId=session, cwd=str(tmp_path), mcpServers=[])
            assert await figure(server.client, session) == (2001, 0.35)


TOO_LONG = {"error": {"message": "the maximum context length is exceeded", "code": "context_length_exceeded"}}
SPENT = Usage(1000, 7)
OVERFLOW = Reply([SPENT, Text("half"), Raw(b"data: " + json.dumps(TOO_LONG).encode() + b"\n\n")])
SUMMARY = text("SUMMARY", usage=Usage(300, 3))
LAST = text("2", usage=Usage(2000, 0))


@pytest.mark.requirement("usage-cost.drain.keeps-counting", "compaction.cost.counted")
@pytest.mark.parametrize(
    ("script", "cost", "tokens"),
    [
        pytest.param([SUMMARY, LAST], 0.38, 3811, id="answered after it"),
        pytest.param([Reply([SPENT, Close()]), SUMMARY, LAST], 0.48, 4818, id="summary at the second attempt"),
        pytest.param([Reply([SPENT, Text("SUM"), BROKEN])], 0.25, 2515, id="summary fails"),
        pytest.param([text("", usage=Usage(300, 2))], 0.18, 1810, id="summary is empty"),
        pytest.param([Reply([SPENT, Text("SUM"), Stall()])], 0.25, 2515, id="summary is cancelled"),
    ],
)
async def test_what_an_overflow_and_its_compaction_have_used_is_counted_and_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: list[Reply], cost: float, tokens: int
) -> None:
    """Naively the compaction's calls take the place of the call that overflowed, and its use is forgotten with it.
    What is stored shows in a new process, in the agent's pot."""
    monkeypatch.setattr(attempts, "backoff", lambda attempt: 0.0)
    heard = anyio.Event()

    async def hear(event: Event) -> None:
        heard.set()

    monkeypatch.setattr(compaction, "_nowhere", hear)
    async with ModelServer([text("1", usage=Usage(500, 1)), OVERFLOW, *script]) as model:
        models = {"m": {**SIZED, "base_url": model.base_url}}
        budgets = {"pot": {"max_tokens": tokens}}
        path = agent_on(tmp_path, model.base_url, agent={"budgets": ["pot"]}, models=models, budgets=budgets)
        async with serving(path, tmp_path / "s.db") as server:
            client = server.client
            await client.initialize()
            session = await client.new(tmp_path)
            await client.prompt(session, "one")
            prompt = client.send_prompt(session, "two")
            await client.write(prompt)
            if isinstance(script[-1].steps[-1], Stall):
                await heard.wait()
                await client.notify("session/cancel", sessionId=session)
            answer = await client.answer(prompt["id"])
            assert ("result" in answer) == (script[-1] is LAST or isinstance(script[-1].steps[-1], Stall))
            assert (await figure(client, session))[1] == cost
        async with serving(path, tmp_path / "s.db") as server:
            client = server.client
            await client.initialize()
            await client.result("session/load", sessionId=session, cwd=str(tmp_path), mcpServers=[])
            assert (await figure(client, session))[1] == cost
            error = (await client.prompt(session, "three"))["error"]
            assert f"{tokens:,} tokens of {tokens:,} tokens" in error["data"]["error"]


@pytest.mark.requirement("usage-cost.drain.keeps-counting", "compaction.cost.counted")
async def test_what_a_compaction_that_a_person_asked_for_has_used_is_stored_when_it_fails(tmp_path: Path) -> None:
    """Naively only a compaction that is applied is stored, and with it the one record of what it has used."""
    async with ModelServer([text("1", usage=Usage(500, 1)), text("", usage=Usage(300, 2))]) as model:
        models, budgets = {"m": {**SIZED, "base_url": model.base_url}}, {"pot": {"max_tokens": 803}}
        path = agent_on(tmp_path, model.base_url, agent={"budgets": ["pot"]}, models=models, budgets=budgets)
        async with serving(path, tmp_path / "s.db") as server:
            await server.client.initialize()
            session = await server.client.new(tmp_path)
            await server.client.prompt(session, "one")
            assert "error" in await server.client.prompt(session, "/compact")
        async with serving(path, tmp_path / "s.db") as server:
            await server.client.initialize()
            await server.client.result("session/load", sessionId=session, cwd=str(tmp_path), mcpServers=[])
            error = (await server.client.prompt(session, "two"))["error"]
            assert "803 tokens of 803 tokens" in error["data"]["error"]
