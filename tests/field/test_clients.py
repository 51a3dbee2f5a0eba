"""The client library against an agent that is newer than it, or careless."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.client.support import chunk, playing

pytestmark = pytest.mark.anyio

Json = dict[str, Any]


@pytest.mark.requirement("acp-provider.update.unknown-ignored", "acp-provider.update.unhandled-request")
async def test_what_a_newer_agent_sends_fails_no_turn(tmp_path: Path) -> None:
    """Naively a closed union refuses the unknown update and the whole run with it, or the agent's own unknown request
    is left without an answer and it waits for ever."""
    odd = {"sessionUpdate": "agent_message_chunk", "content": {"type": "hologram", "data": "?"}}
    unknown = {"send": {"jsonrpc": "2.0", "id": "srv-1", "method": "vendor/unknown", "params": {}}}
    turn: list[Json] = [
        {"update": {"sessionUpdate": "shiny_future_update", "x": 1}},
        {"update": odd},
        {"update": {"sessionUpdate": "usage_update", "used": 5, "size": 10}},
        unknown,
        {"wait": {"response": "srv-1"}},
        {"update": chunk("2")},
        {"result": {"stopReason": "end_turn"}},
    ]
    methods = [{"id": "m", "name": "M", "type": "retina_scan"}]
    on: Json = {
        "initialize": [
            [{"result": {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}, "authMethods": methods}}]
        ],
        "session/new": [[{"result": {"sessionId": "s1", "modes": None, "configOptions": None, "future": {}}}]],
        "session/prompt": [turn, [{"result": {"stopReason": "tired_of_it"}}]],
        "session/load": [[{"result": None}], [{"result": {}}]],
    }
    async with playing(tmp_path, on) as played:
        agent = played.agent
        await agent.initialize()
        await agent.new_session(tmp_path)
        assert (await agent.prompt("s1", "x")).stop_reason == "end_turn"
        assert played.said.endswith("2")
        assert played.answers()["srv-1"]["error"]["code"] == -32601
        assert (await agent.prompt("s1", "y")).stop_reason == "tired_of_it"
        for session in ("old", "older"):
            assert (await agent.load_session(session, tmp_path)).id == session


async def test_capabilities_that_are_null_are_none_and_nothing_optional_is_called(tmp_path: Path) -> None:
    answer = {"protocolVersion": 1, "agentCapabilities": None, "authMethods": None, "extra": 1}
    async with playing(tmp_path, {"initialize": [[{"result": answer}]]}) as played:
        await played.agent.initialize()
        await played.agent.new_session(tmp_path)
        with pytest.raises(Exception, match="session/load"):
            await played.agent.load_session("old", tmp_path)
        assert (await played.agent.prompt("s1", "x")).stop_reason == "end_turn"
        assert "session/load" not in played.methods()
