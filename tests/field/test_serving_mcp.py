"""`sluice serve mcp` spoken to line by line: cancels, approvals nobody can give, calls side by side."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.handlers.test_attachable import attached, editor
from tests.handlers.test_mcp_server import command, initialize, rpc
from tests.support.model_server import ModelServer, Recorded, Reply, Stall, Text, call, calls, text
from tests.support.setup import agent_on

pytestmark = pytest.mark.anyio

Json = dict[str, Any]


class Lines:
    """The two pipes of a server, and every message it has written."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None and process.stdout is not None
        self._process, self._in = process, process.stdin
        self._out = BufferedByteReceiveStream(process.stdout)
        self.log: list[Json] = []

    async def send(self, *messages: Json) -> None:
        """In one write."""
        await self._in.send("".join(json.dumps(message) + "\n" for message in messages).encode())

    async def _next(self) -> Json:
        message: Json = json.loads(await self._out.receive_until(b"\n", 1 << 20))
        assert message["jsonrpc"] == "2.0"
        self.log.append(message)
        return message

    async def answer(self, number: int) -> Json:
        with anyio.fail_after(30):
            while not (found := self.answers(number)):
                await self._next()
        return found[0]

    def answers(self, number: int) -> list[Json]:
        return [m for m in self.log if m.get("id") == number and "method" not in m]

    async def end(self) -> int:
        """End the input, read the rest; the exit status."""
        await self._in.aclose()
        with anyio.fail_after(30):
            try:
                while True:
                    await self._next()
            except (anyio.EndOfStream, anyio.IncompleteRead):
                return await self._process.wait()


@asynccontextmanager
async def lines(file: Path, version: str) -> AsyncIterator[Lines]:
    async with await anyio.open_process(command(file), stderr=subprocess.DEVNULL, cwd=file.parent) as process:
        spoken = Lines(process)
        await spoken.send(initialize(version), rpc("notifications/initialized", None))
        assert (await spoken.answer(1))["result"]["protocolVersion"] == version
        yield spoken


def ask(number: int, message: str | None, **more: Any) -> Json:
    arguments = {} if message is None else {"message": message}
    return rpc("tools/call", number, name="root", arguments=arguments, **more)


def cancelled(number: int | str) -> Json:
    return rpc("notifications/cancelled", None, requestId=number, reason="user")


def response(answer: Json) -> str:
    structured = answer["result"]["structuredContent"]
    assert [json.loads(block["text"]) for block in answer["result"]["content"]] == [structured]
    return str(structured["response"])


@pytest.mark.requirement("serve-mcp.call.failure", "serve-mcp.tools.output")
@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
async def test_a_cancelled_call_has_no_result_and_late_cancels_harm_nobody(tmp_path: Path, version: str) -> None:
    """Naively both the cancel and the handler answer, which ends the server, or the agent goes on unseen."""
    slow = Reply([Text("a"), Text("b"), Stall()])
    async with ModelServer([slow, text("second"), text("third")]) as model:
        async with lines(agent_on(tmp_path, model.base_url), version) as server:
            await server.send(ask(5, "slow", _meta={"progressToken": "p"}))
            await model.wait_for_call(1)
            await server.send(cancelled(5), ask(6, "fast"))
            await model.wait_for_abort(1)
            assert response(await server.answer(6)) == "second"
            await server.send(cancelled(6), cancelled("unknown"), cancelled(6), ask(7, "again"))
            assert response(await server.answer(7)) == "third"
            await server.send(ask(8, None), rpc("tools/call", 9, name="nobody", arguments={"message": "x"}))
            wrong = await server.answer(8)
            assert "error" in wrong or wrong["result"]["isError"]
            assert "error" in await server.answer(9)
            assert await server.end() == 0
            assert not any("result" in m for m in server.answers(5))
            assert all(len(server.answers(number)) == 1 for number in (6, 7, 8, 9))


@pytest.mark.requirement(
    "serve-mcp.safety.stdio", "serve-mcp.call.fresh-session", "permission.non-interactive.denies"
)
@pytest.mark.parametrize("safety", [None, "strict"])
async def test_what_would_ask_somebody_is_decided_without_and_calls_side_by_side_share_nothing(
    tmp_path: Path, safety: str | None
) -> None:
    """Naively the question of the tool or of the limit waits for an answer nobody can give, and one conversation
    serves all calls."""
    touch = calls(call("shell", cmd="touch ran.txt"))
    async with ModelServer([touch, text("finished")]) as model:
        agent: Json = {"max_iterations": 2, **({"safety": safety} if safety else {})}
        async with lines(agent_on(tmp_path, model.base_url, agent=agent), "2025-11-25") as server:
            await server.send(ask(2, "do it"))
            assert response(await server.answer(2)) == "finished"
            assert (tmp_path / "ran.txt").exists() is (safety is None)
            told = model.requests[1].messages[-1]["content"]
            assert ("nobody" in told) is (safety is not None), told
            # The limit: somebody would be asked whether to go on.
            model.add(*(calls(call("think", thought=str(n))) for n in range(2)))
            await server.send(ask(3, "loop"))
            assert "limit of model requests" in response(await server.answer(3))
            assert len(model.requests) == 4

            def own_word(recorded: Recorded) -> Reply:
                (said,) = [m["content"] for m in recorded.messages if m["role"] == "user"]
                return text(said.removeprefix("my word is "))

            model.add(own_word, own_word)
            await server.send(ask(4, "my word is KIWI"), ask(5, "my word is PLUM"))
            assert response(await server.answer(4)) == "KIWI" and response(await server.answer(5)) == "PLUM"
            assert await server.end() == 0


@pytest.mark.requirement("serve-mcp.call.failure")
@pytest.mark.parametrize(
    ("finish", "words"), [("length", "output limit"), ("content_filter", "refused"), ("stop", "")]
)
async def test_an_answer_that_is_cut_says_so(tmp_path: Path, finish: str, words: str) -> None:
    """Naively the caller takes half an answer for the whole, since MCP has no stop reason."""
    async with ModelServer([text("Half an", finish=finish)]) as model:
        async with lines(agent_on(tmp_path, model.base_url), "2025-11-25") as server:
            await server.send(ask(2, "tell me"))
            said = response(await server.answer(2))
            assert said.startswith("Half an") and words in said and (said == "Half an") is (finish == "stop")


@pytest.mark.requirement("serve-mcp.attach.running-session")
async def test_who_is_attached_is_told_that_the_editor_cancelled_the_turn(tmp_path: Path) -> None:
    """Naively the first half of the answer looks like all of it."""
    async with ModelServer([Reply([Text("half"), Stall()])]) as model, editor(tmp_path, model) as server:
        session = await server.client.new(tmp_path)
        told: list[Any] = []
        async with attached(tmp_path / "d") as guest, anyio.create_task_group() as tasks:

            async def send() -> None:
                told.append((await guest.call_tool("send", {"message": "go"})).structured_content)

            tasks.start_soon(send)
            await server.client.until(lambda m: "half" in str(m))
            await server.client.notify("session/cancel", sessionId=session)
        assert "cancelled" in told[0]["response"]
