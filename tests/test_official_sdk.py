"""A whole conversation with the official Python SDK's client, on examples/scripted.yaml, over real processes."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import acp
import anyio
import pytest

pytestmark = pytest.mark.anyio

EXAMPLE = Path(__file__).parent.parent / "examples" / "scripted.yaml"


class Editor:
    """What an editor does with the agent's calls: it keeps the updates and allows every tool."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.asked: list[Any] = []
        self.speaking = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)
        if update.session_update == "agent_message_chunk":
            self.speaking.set()

    async def request_permission(self, session_id: str, tool_call: Any, options: list[Any], **_: Any) -> Any:
        self.asked.append(tool_call)
        chosen = next(option for option in options if option.kind == "allow_once")
        outcome = {"outcome": "selected", "optionId": chosen.option_id}
        return acp.RequestPermissionResponse.model_validate({"outcome": outcome})

    def kinds(self) -> list[str]:
        return [update.session_update for update in self.updates]

    def text(self) -> str:
        return "".join(u.content.text for u in self.updates if u.session_update == "agent_message_chunk")


@asynccontextmanager
async def editor(directory: Path) -> AsyncIterator[tuple[Editor, Any]]:
    """An SDK client on a fresh process of the server, all on one database."""
    client: Any = Editor()
    command = ["-m", "sluice", "serve", "acp", str(EXAMPLE), "-s", str(directory / "session.db")]
    root = str(EXAMPLE.parent.parent)
    async with acp.spawn_agent_process(client, sys.executable, *command, env=dict(os.environ), cwd=root) as (
        agent,
        _,
    ):
        await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
        yield client, agent


@pytest.mark.requirement("transport.stdio.plain-child", "cli.serve-acp.agent-file", "models.providers.scripted-fake")
async def test_the_official_client_holds_a_conversation_and_loads_it_in_a_new_process(tmp_path: Path) -> None:
    with anyio.fail_after(60):
        async with editor(tmp_path) as (client, agent):
            session = (await agent.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id
            hello = await agent.prompt(session_id=session, prompt=[acp.text_block("hello")])
            assert hello.stop_reason == "end_turn" and "scripted model" in client.text()

            demo = await agent.prompt(session_id=session, prompt=[acp.text_block("demo")])
            assert demo.stop_reason == "end_turn"
            assert len(client.asked) == 1 and "echo" in client.asked[0].title
            assert [u.status for u in client.updates if "tool_call" in u.session_update][-1] == "completed"

            client.speaking.clear()
            slow = asyncio.ensure_future(agent.prompt(session_id=session, prompt=[acp.text_block("slow")]))
            await client.speaking.wait()
            await agent.cancel(session_id=session)
            assert (await slow).stop_reason == "cancelled"

        async with editor(tmp_path) as (client, agent):
            listed = await agent.list_sessions()
            assert [entry.session_id for entry in listed.sessions] == [session]
            await agent.load_session(cwd=str(tmp_path), session_id=session, mcp_servers=[])
            assert client.kinds()[:2] == ["user_message_chunk", "agent_message_chunk"]
            assert client.kinds().count("user_message_chunk") == 3 and "tool_call" in client.kinds()
            again = await agent.prompt(session_id=session, prompt=[acp.text_block("something else")])
            assert again.stop_reason == "end_turn"
            await agent.close_session(session_id=session)
            deleted = await agent._conn.send_request("session/delete", {"sessionId": session})
            assert deleted == {}
            assert (await agent.list_sessions()).sessions == []
