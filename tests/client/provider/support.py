"""What the provider tests share: a host that listens, and a chat with the scripted agent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import anyio

from sluice.client.fake_agent import CAPABILITIES, Script
from sluice.client.provider import (
    AcpAgentSpec,
    Chat,
    ChatEvent,
    Launch,
    Note,
    Row,
    TextDelta,
    ToolDone,
    ToolStarted,
    create_acp_backend,
)
from tests.client.support import BARRIER, QUICK, Line

E = TypeVar("E")


@dataclass
class Host:
    """A host program: it keeps what it is told and lets tests wait for it."""

    events: list[ChatEvent] = field(default_factory=list)
    told: anyio.Event = field(default_factory=anyio.Event)
    read: int = 0

    def __call__(self, event: ChatEvent) -> None:
        self.events.append(event)
        self.told.set()
        self.told = anyio.Event()

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    async def next(self, kind: type[E]) -> E:
        """The next event of a kind, after the one this gave last."""
        while True:
            while self.read < len(self.events):
                event = self.events[self.read]
                self.read += 1
                if isinstance(event, kind):
                    return event
            await self.told.wait()

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.of(TextDelta))

    @property
    def notes(self) -> list[str]:
        return [note.text for note in self.of(Note)]

    @property
    def rows(self) -> list[Row]:
        return [event.row for event in self.events if isinstance(event, ToolStarted | ToolDone)]


@dataclass
class Chatting:
    """An open chat with the scripted agent."""

    chat: Chat
    host: Host
    script: Script

    def lines(self) -> list[Line]:
        return self.script.received()

    def methods(self) -> list[str]:
        return [line["method"] for line in self.lines() if "method" in line]

    def params(self, method: str) -> list[Line]:
        return [line["params"] for line in self.lines() if line.get("method") == method]

    def answers(self) -> dict[Any, Line]:
        return {line["id"]: line for line in self.lines() if "method" not in line and "id" in line}

    async def settled(self) -> None:
        """Wait until the agent has handled everything sent so far, and its words have been taken in."""
        await self.chat.agent._connection.call("_test/barrier", {})


@asynccontextmanager
async def chatting(
    directory: Path,
    on: Mapping[str, Sequence[Sequence[Any]]] | None = None,
    *,
    spec: Mapping[str, Any] | None = None,
    launch: Mapping[str, Any] | None = None,
    host: Host | None = None,
) -> AsyncIterator[Chatting]:
    """A chat with the scripted agent; `spec` and `launch` are members of `AcpAgentSpec` and `Launch`."""
    script = Script(on={**BARRIER, **(on or {})})
    program, *args = script.command(directory)
    given = {"kind": "fake", "name": "Fake", "command": program, "args": args, "ladder": QUICK, **(spec or {})}
    listening = host or Host()
    with anyio.fail_after(30):
        opening = Launch(**{"cwd": directory, "on_event": listening, **(launch or {})})
        async with create_acp_backend(AcpAgentSpec(**given)).start(opening) as chat:
            yield Chatting(chat, listening, script)


def received(directory: Path) -> list[Line]:
    """What the scripted agent of this directory received, for chats that could not be opened."""
    return Script(journal=str(directory / "journal.jsonl")).received()


def advertising(*missing: str, **result: Any) -> dict[str, Any]:
    """An `initialize` that offers everything but these session capabilities ("loadSession" too)."""
    sessions = {k: v for k, v in CAPABILITIES["sessionCapabilities"].items() if k not in missing}
    offered = {k: v for k, v in CAPABILITIES.items() if k not in missing}
    answer = {"protocolVersion": 1, "agentCapabilities": {**offered, "sessionCapabilities": sessions}, **result}
    return {"initialize": [[{"result": answer}]]}


def turn(*actions: Any, stop: str = "end_turn") -> dict[str, Any]:
    """A `session/prompt` that does this and ends."""
    return {"session/prompt": [[*actions, {"result": {"stopReason": stop}}]]}


def tool(call_id: str, **members: Any) -> Line:
    return {"update": {"sessionUpdate": "tool_call", "toolCallId": call_id, "title": call_id, **members}}


def change(call_id: str, **members: Any) -> Line:
    return {"update": {"sessionUpdate": "tool_call_update", "toolCallId": call_id, **members}}


def update(kind: str, **members: Any) -> Line:
    return {"update": {"sessionUpdate": kind, **members}}


def said(text: str, *, thought: bool = False, **members: Any) -> Line:
    kind = "agent_thought_chunk" if thought else "agent_message_chunk"
    return update(kind, content={"type": "text", "text": text}, **members)
