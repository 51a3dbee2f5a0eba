"""Ways to make a session hard to end, and histories that no turn of today would write."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio

from sluice.agent.ports import Tool
from sluice.persistence.records import Item, Message, Part, SessionRecord
from sluice.persistence.store import Store
from tests.support.wire import Client, Server

__all__ = ["Slow", "Stubborn", "assistant", "history", "holding", "item", "stored", "user"]


class Stubborn:
    """A toolset that cannot be stopped."""

    instruction = ""

    async def start(self) -> None: ...

    def tools(self) -> Sequence[Tool]:
        return ()

    async def stop(self) -> None:
        raise RuntimeError("it will not stop")


class Slow(Stubborn):
    """A toolset that stops when the test says so."""

    def __init__(self) -> None:
        self.asked, self.gate = anyio.Event(), anyio.Event()

    async def stop(self) -> None:
        self.asked.set()
        await self.gate.wait()


def holding(server: Server, session: str, toolset: Stubborn) -> None:
    """Give an open session one more toolset, as if its agent file had named it."""
    live = server.connection.entries[session].live
    assert live is not None and live.team is not None
    live.team.started.append(toolset)


async def stored(
    database: Path, session: str, *items: Item, cwd: Path | None, parent: str | None = None, created: float = 1.0
) -> None:
    """Write a session as an earlier process may have left it."""
    store = await Store.open(database)
    try:
        await store.add_session(SessionRecord(session, created, cwd=str(cwd) if cwd else None, parent_id=parent))
        if items:
            await store.append(session, items)
    finally:
        await store.aclose()


def item(role: str, *parts: Part, **fields: object) -> Item:
    return Item(kind="message", message=Message(role=role, parts=parts, **fields))  # type: ignore[arg-type]


def user(text: str, **fields: object) -> Item:
    return item("user", Part(type="text", text=text), **fields)


def assistant(text: str, **fields: object) -> Item:
    return item("assistant", Part(type="text", text=text), **fields)


HISTORY = {"user_message_chunk", "agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update"}


def history(client: Client, session: str | None = None) -> list[dict[str, Any]]:
    """The updates that show what was said and done, without those that say how the session stands."""
    return [update for update in client.updates(session) if update["sessionUpdate"] in HISTORY]
