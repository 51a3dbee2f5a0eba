"""What a provider says a call has used is paid for, whether or not the call came to an answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sluice.agent import attempts
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
