"""What the client tests share: a scripted agent process with a client connected to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from sluice.client.agent import Agent, connect
from sluice.client.connection import ClientHandlers, ClientOptions
from sluice.client.fake_agent import Script
from sluice.client.permissions import PermissionHandler
from sluice.client.process import AgentCommand, Ladder
from sluice.client.session import SessionUpdate
from sluice.client.updates import MessageChunk

QUICK = Ladder(after_close=5.0, after_term=0.3, after_kill=5.0)
"""Agents that behave get all the time they need; those that ignore SIGTERM do not hold the test up."""

Line = dict[str, Any]


@dataclass
class Played:
    """A client connected to a scripted agent, and everything it was shown."""

    agent: Agent
    script: Script
    updates: list[SessionUpdate] = field(default_factory=list)

    @property
    def said(self) -> str:
        return "".join(u.update.text for u in self.updates if isinstance(u.update, MessageChunk))

    def methods(self) -> list[str]:
        """The methods the agent received, in order."""
        return [line["method"] for line in self.script.received() if "method" in line]

    def params(self, method: str) -> list[Line]:
        return [line["params"] for line in self.script.received() if line.get("method") == method]

    def answers(self) -> dict[Any, Line]:
        """What the client answered, by request id."""
        return {line["id"]: line for line in self.script.received() if "method" not in line and "id" in line}

    async def settled(self) -> None:
        """Wait until the agent has handled everything sent so far."""
        await self.agent._connection.call("_test/barrier", {"nothing": True})


BARRIER: dict[str, Any] = {"_test/barrier": [[{"result": {}}]]}


@asynccontextmanager
async def playing(
    tmp_path: Path,
    on: dict[str, Sequence[Sequence[Any]]] | None = None,
    *,
    permission: PermissionHandler | None = None,
    options: ClientOptions | None = None,
    **script: Any,
) -> AsyncIterator[Played]:
    """Run a scripted agent; `on` and `script` are those of `Script`."""
    played = Script(on={**BARRIER, **(on or {})}, **script)
    updates: list[SessionUpdate] = []
    handlers = ClientHandlers(on_update=updates.append, on_permission=permission)
    with anyio.fail_after(20):
        async with connect(AgentCommand(played.command(tmp_path), ladder=QUICK), handlers, options) as agent:
            yield Played(agent, played, updates)


@asynccontextmanager
async def in_session(tmp_path: Path, on: dict[str, Any] | None = None, **more: Any) -> AsyncIterator[Played]:
    """The same with an initialized agent and the session "s1" open."""
    async with playing(tmp_path, on, **more) as played:
        await played.agent.initialize()
        await played.agent.new_session(tmp_path)
        yield played


def chunk(text: str, **more: Any) -> Line:
    return {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}, **more}


def ask(request_id: Any, tool: str = "c1", options: list[Line] | None = None, session: str = "s1") -> Line:
    """A permission request as an action."""
    if options is None:
        options = [
            {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
            {"optionId": "always", "name": "Always", "kind": "allow_always"},
            {"optionId": "no", "name": "Reject", "kind": "reject_once"},
        ]
    params = {"sessionId": session, "toolCall": {"toolCallId": tool, "title": "run it"}, "options": options}
    return {"send": {"jsonrpc": "2.0", "id": request_id, "method": "session/request_permission", "params": params}}
