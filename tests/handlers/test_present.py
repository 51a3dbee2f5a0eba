"""What a session says of itself when it is opened, and commands on the way every prompt takes."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.handlers.support import history
from tests.support.model_server import Finish, ModelServer, Reply, Stall, Text, Usage, Wait, failure, text
from tests.support.setup import agent_on, on_stage
from tests.support.wire import Client, serving

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

LIST, GAUGE = "available_commands_update", "usage_update"

PNG = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
        "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
    )
).decode()
WAV = base64.b64encode(
    b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x80\x3e\0\0\2\0\x10\0data\0\0\0\0"
).decode()


def kinds(client: Client, since: int) -> list[str]:
    return [m["params"]["update"]["sessionUpdate"] if "method" in m else "answer" for m in client.log[since:]]


@pytest.mark.requirement(
    "session.new.commands-after-result", "session.load.no-live-notices", "session.load.commands-before-result"
)
async def test_the_present_follows_the_history_and_precedes_the_answer(tmp_path: Path) -> None:
    async with ModelServer([text("said", usage=Usage(120, 30))]) as model:
        sized = {"provider": "openai", "model": "x", "base_url": model.base_url}
        file = agent_on(tmp_path, model.base_url, models={"m": {**sized, "provider_opts": {"context_size": 1000}}})
        async with serving(file, tmp_path / "s.db") as server:
            client = server.client
            await client.initialize()
            before = len(client.log)
            session = await client.new(tmp_path)
            await client.until(lambda m: LIST in str(m))
            assert kinds(client, before) == ["answer", LIST]
            await client.prompt(session, "hi")
            assert GAUGE in kinds(client, before)
            for method in ("session/load", "session/resume"):
                before = len(client.log)
                await client.result(method, sessionId=session, cwd=str(tmp_path), mcpServers=[])
                replayed = ["user_message_chunk", "agent_message_chunk"] if method == "session/load" else []
                assert kinds(client, before) == [*replayed, LIST, GAUGE, "answer"]
            await client.result("session/list")
            assert kinds(client, before)[-2:] == ["answer", "answer"]


@pytest.mark.requirement("turn-admission.commands.same-path")
async def test_a_command_is_admitted_queued_and_cancelled_as_a_prompt_is(tmp_path: Path) -> None:
    gate = anyio.Event()
    async with on_stage(tmp_path, Reply([Wait(gate), Finish()]), Reply([Text("x"), Stall()])) as stage:
        client, session = stage.client, stage.session
        cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}
        running = client.send_prompt(session, "1")
        await client.write(running)
        await stage.model.wait_for_call()
        assert (await client.prompt(session, "/usage"))["error"]["data"]["reason"] == "busy"
        gate.set()
        await client.answer(running["id"])
        stopped = client.send_prompt(session, "/usage")
        await client.write(stopped, cancel)
        assert (await client.answer(stopped["id"]))["result"] == {"stopReason": "cancelled"}
        draining, queued = client.send_prompt(session, "2"), client.send_prompt(session, "/usage")
        await client.write(draining)
        await client.until(lambda m: "agent_message_chunk" in str(m))
        await client.write(cancel, queued)
        assert (await client.answer(draining["id"]))["result"] == {"stopReason": "cancelled"}
        assert (await client.answer(queued["id"]))["result"] == {"stopReason": "end_turn"}
        await client.result("session/close", sessionId=session)
        assert (await client.prompt(session, "/usage"))["error"]["code"] == -32002
        assert await client.result("logout") == {}
        assert (await client.prompt(session, "/usage"))["error"]["code"] == -32000


@pytest.mark.requirement("message-ids.transient.fresh")
async def test_passing_lines_have_fresh_ids_and_stored_errors_one_from_their_position(tmp_path: Path) -> None:
    async with on_stage(tmp_path, failure(400, "no"), failure(400, "no")) as stage:
        client, session = stage.client, stage.session
        for _ in range(2):
            await client.prompt(session, "/usage")
            assert "error" in await client.prompt(session, "hi")
        passing = [u["messageId"] for u in client.updates(session, "agent_message_chunk")]
        assert len(set(passing)) == len(passing) >= 2
        shown: list[list[str]] = []
        for _ in range(2):
            before = len(history(client))
            await client.result("session/load", sessionId=session, cwd=str(stage.cwd), mcpServers=[])
            replayed = [u for u in history(client)[before:] if u["sessionUpdate"] == "agent_message_chunk"]
            shown.append([u["messageId"] for u in replayed])
        assert shown[0] == shown[1] and len(set(shown[0])) == 2 and not set(shown[0]) & set(passing)


@pytest.mark.requirement("auth.provider-401.not-proof")
async def test_a_401_of_the_provider_fails_the_turn_and_closes_no_door(tmp_path: Path) -> None:
    async with on_stage(tmp_path, failure(401, "no such key"), text("fine now")) as stage:
        client = stage.client
        error = (await client.prompt(stage.session, "1"))["error"]
        assert (error["code"], error["data"]["runtimeCode"]) == (-32603, "model_error")
        before = len(stage.server.transitions)
        other = await client.new(stage.cwd)
        assert (await client.prompt(other, "2"))["result"] == {"stopReason": "end_turn"}
        assert await client.result("authenticate", methodId="host-credentials") == {}
        assert not [t for t in stage.server.transitions[before:] if t.machine == "connection"]


@pytest.mark.requirement("capability-matrix.agent.every-advertised-works")
async def test_everything_that_is_advertised_works(tmp_path: Path) -> None:
    """Read off the answer to initialize, so that a capability cannot be advertised without being tried here."""
    async with on_stage(tmp_path) as stage:
        client = stage.client
        offered = (await client.initialize())["agentCapabilities"]
        where = {"sessionId": stage.session, "cwd": str(stage.cwd)}
        blocks: dict[str, Json] = {
            "embeddedContext": {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "inside"}},
            "image": {"type": "image", "data": PNG, "mimeType": "image/png"},
            "audio": {"type": "audio", "data": WAV, "mimeType": "audio/wav"},
        }
        tried = [name for name, on in offered["promptCapabilities"].items() if on]
        link = {"type": "resource_link", "uri": "file:///b.txt", "name": "b"}
        for block in [{"type": "text", "text": "hi"}, link, *(blocks[name] for name in tried)]:
            stage.model.add(text("ok"))
            response = await client.call("session/prompt", sessionId=stage.session, prompt=[block])
            assert response["result"] == {"stopReason": "end_turn"}, block["type"]
        methods: dict[str, tuple[str, Json]] = {
            "list": ("session/list", {}),
            "resume": ("session/resume", where),
            "close": ("session/close", {"sessionId": stage.session}),
            "delete": ("session/delete", {"sessionId": stage.session}),
            "additionalDirectories": ("session/load", {**where, "mcpServers": [], "additionalDirectories": ["/a"]}),
        }
        assert offered["loadSession"] and offered["auth"] == {"logout": {}}
        await client.result("session/load", **where, mcpServers=[])
        last = ["close", "delete"]
        for name in [*(n for n in offered["sessionCapabilities"] if n not in last), *last]:
            assert name in offered["sessionCapabilities"]
            method, params = methods[name]
            await client.result(method, **params)
        assert await client.result("logout") == {}
        assert await client.result("authenticate", methodId="host-credentials") == {}
