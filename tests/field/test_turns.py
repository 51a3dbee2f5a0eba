"""Turns that end badly, beside each other, or one after another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from sluice.agent import attempts
from tests.support.model_server import Close, Finish, Reply, Stall, Text, Wait, call, calls, failure, text
from tests.support.setup import Stage, on_stage

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
END_TURN = {"stopReason": "end_turn"}


async def start(stage: Stage, session: str, said: str = "go") -> Json:
    prompt = stage.client.send_prompt(session, said)
    await stage.client.write(prompt)
    return prompt


def after(stage: Stage, response: Json, session: str) -> list[Json]:
    """What the server said of the session behind this response."""
    log = stage.client.log
    return [m for m in log[log.index(response) + 1 :] if (m.get("params") or {}).get("sessionId") == session]


@pytest.mark.requirement(
    "prompt.outcome.failure-shape", "prompt.outcome.failure-text-redacted", "prompt.outcome.usable-after-failure"
)
async def test_a_model_that_fails_for_good_is_an_error_whatever_was_shown_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Naively the failure ends the stream like an answer, and the turn is an `end_turn` without a word."""
    monkeypatch.setattr(attempts, "FIRST_BACKOFF", 0.0)
    down = [failure(500, "synthetic failure key=sk-TESTTESTTESTTEST123")] * 3
    cut = [Reply([Text("Hel"), Close()])] * 3
    async with on_stage(tmp_path, *down, *cut, text("fine now")) as stage:
        for said in ("one", "two"):
            response = await stage.client.prompt(stage.session, said)
            assert "result" not in response
            error = response["error"]
            assert error["code"] == -32603 and error["data"]["sessionId"] == stage.session
            assert isinstance(error["data"]["runtimeCode"], str) and error["data"]["error"]
        assert stage.client.text().startswith("Hel")
        assert (await stage.client.prompt(stage.session, "three"))["result"] == END_TURN
        said_by_user = [m["content"] for m in stage.model.requests[-1].messages if m["role"] == "user"]
        assert said_by_user == ["one", "two", "three"]
        assert "sk-TEST" not in str(stage.client.log)


@pytest.mark.requirement("turn-admission.live.quiet-after-answer", "cancel.prompt.final-updates-first")
@pytest.mark.parametrize("ending", ["text", "tool", "error", "cancel", "cancelled question", "limit"])
async def test_nothing_of_a_session_comes_behind_the_answer_of_its_turn(tmp_path: Path, ending: str) -> None:
    """Naively the response goes out when the loop returns, and chunks, the end of a tool call, the usage or the title
    that other tasks still hold come behind it, where a client takes them for part of the next turn."""
    replies = {
        "text": [text(*["word "] * 50)],
        "tool": [calls(call("shell", cmd="echo out")), text("done")],
        "error": [Reply([*[Text("x")] * 20, Close()]), failure(400)],
        "cancel": [Reply([*[Text("y")] * 50, Stall()])],
        "cancelled question": [calls(call("shell", cmd="true"), call("shell", cmd="true"))],
        "limit": [calls(call("think", thought="hm"))],
    }[ending]
    async with on_stage(tmp_path, *replies, agent={"max_iterations": 1} if ending == "limit" else None) as stage:
        client = stage.client
        prompt = await start(stage, stage.session)
        if ending == "tool":
            await client.allow()
        elif ending == "limit":
            await client.allow("stop")
        elif ending.startswith("cancel"):
            wanted = "session/request_permission" if "question" in ending else "agent_message_chunk"
            await client.until(lambda m: wanted in str(m))
            await client.notify("session/cancel", sessionId=stage.session)
        response = await client.answer(prompt["id"])
        # Two requests answered one after the other: what was still held back would have come between.
        await client.result("session/list")
        other = await client.new(stage.cwd)
        assert after(stage, response, stage.session) == []
        stage.model.add(text("later"))
        assert "result" in await client.prompt(other, "hi")
        assert after(stage, response, stage.session) == []


@pytest.mark.requirement("turn-admission.parallel.other-session", "workspace.cwd.independent-of-launch")
async def test_two_conversations_keep_to_their_own_directory_and_one_is_cancelled_while_the_other_works(
    tmp_path: Path,
) -> None:
    """Naively one lock for all turns, or a reader that waits for a handler, holds up the cancel of the first."""
    second = tmp_path / "second"
    second.mkdir()
    gate = anyio.Event()
    held = Reply([Text("B "), Wait(gate), Text("goes on"), Finish()])
    async with on_stage(tmp_path, calls(call("shell", cmd="touch here")), held, text("A again")) as stage:
        client = stage.client
        parked = await start(stage, stage.session)
        asked = await client.asked("session/request_permission")
        other = await client.new(second)
        busy = await start(stage, other)
        await client.until(lambda m: "B " in str(m))
        await client.notify("session/cancel", sessionId=stage.session)
        assert (await client.answer(parked["id"]))["result"] == {"stopReason": "cancelled"}
        assert (await client.prompt(stage.session, "again"))["result"] == END_TURN
        gate.set()
        assert (await client.answer(busy["id"]))["result"] == END_TURN
        assert client.text(other) == "B goes on" and client.text(stage.session) == "A again"
        assert asked["params"]["sessionId"] == stage.session and not (stage.cwd / "here").exists()
        listed = {e["sessionId"]: e["cwd"] for e in (await client.result("session/list"))["sessions"]}
        assert listed == {stage.session: str(stage.cwd), other: str(second)}


@pytest.mark.requirement("permission.grant.tool-only", "modes.grants.survive-switch")
async def test_always_for_one_tool_tells_of_no_wider_mode_and_outlives_a_change_of_the_mode(tmp_path: Path) -> None:
    """Naively the answer switches the session to autonomous, or is forgotten with the next mode."""
    first, other = calls(call("shell", cmd="echo 1")), calls(call("shell", cmd="echo 2"))
    write = calls(call("write_file", path="b.txt", content="b"))
    fs = {"readTextFile": True, "writeTextFile": True}
    async with on_stage(tmp_path, first, other, write, text("end"), other, text("end"), fs=fs) as stage:
        client = stage.client
        prompt = await start(stage, stage.session)
        await client.allow("allow-always")
        refused = await client.allow("reject")
        assert refused["params"]["toolCall"]["name"] == "write_file"
        assert (await client.answer(prompt["id"]))["result"] == END_TURN
        told = {u["sessionUpdate"] for u in client.updates()}
        assert not told & {"current_mode_update", "config_option_update"}
        assert not client.requests("fs/write") and not (stage.cwd / "b.txt").exists()
        for mode in ("strict", "default"):
            changed = await client.result(
                "session/set_config_option", sessionId=stage.session, configId="mode", value=mode
            )
            assert {o["id"]: o["currentValue"] for o in changed["configOptions"]}["mode"] == mode
        assert (await client.prompt(stage.session, "again"))["result"] == END_TURN
        assert len(client.requests("session/request_permission")) == 2
