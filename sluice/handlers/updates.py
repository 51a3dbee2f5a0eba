"""From what a turn tells its sink to `session/update`: pure functions, no peer, no state.

Specification page: https://agentclientprotocol.com/protocol/prompt-turn; tool calls:
https://agentclientprotocol.com/protocol/tool-calls; plans: https://agentclientprotocol.com/protocol/agent-plan.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from functools import lru_cache
from typing import Any, Literal, cast

from sluice import acp
from sluice.acp.tools import ToolCallStatus, ToolKind
from sluice.acp.updates import PlanEntryStatus
from sluice.agent import events

__all__ = ["MAX_NAME_LENGTH", "content_of", "diff_of", "shown_name", "display_id", "update_of", "welcome"]

NAMESPACE = "sluice/message"
"""First element of what a display id is derived from, so that no other program derives the same ones."""

MAX_NAME_LENGTH = 128
"""Characters; a longer tool name is left out of updates rather than cut (message-ids.tool-name.omitted)."""

MAX_DIFF_JSON = 1 << 20
"""Bytes of both texts as JSON above which a diff is left out (tool-locations-diffs.diff.omitted-cases)."""

Channel = Literal["content", "thought"]


@lru_cache(maxsize=256)
def display_id(owner: str, logical: str, channel: Channel) -> str:
    """The id a client sees: the same live, after a load and in the next process (message-ids.persist.stable-display).

    Args:
        owner: the session that owns the message.
        logical: the message's stored id, or a position for messages stored without one.
        channel: thought and answer of one message differ.
    """
    text = json.dumps([NAMESPACE, owner, logical, channel])
    digest = bytearray(hashlib.sha256(text.encode()).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x80  # version 8, RFC 9562
    digest[8] = digest[8] & 0x3F | 0x80
    return str(uuid.UUID(bytes=bytes(digest)))


def update_of(session_id: str, event: events.Event, owner: str = "") -> acp.SessionNotification | None:
    """The notification for an event, None for one that has none.

    `session_id` is what the client knows; `owner` is the nested session that said it, "" for that session itself.
    """
    owner = owner or session_id
    if isinstance(event, events.TextDelta):
        chunk = acp.AgentMessageChunk(acp.TextContent(event.text), display_id(owner, event.message, "content"))
        return acp.SessionNotification(session_id, chunk)
    if isinstance(event, events.ThoughtDelta):
        thought = acp.AgentThoughtChunk(acp.TextContent(event.text), display_id(owner, event.message, "thought"))
        return acp.SessionNotification(session_id, thought)
    update = _rare(event)
    return acp.SessionNotification(session_id, update) if update is not None else None


def _rare(event: events.Event) -> Any:
    if isinstance(event, events.ToolChanged):
        return _tool(event)
    if isinstance(event, events.PlanChanged):
        # agent-plan: the complete list every time; an empty one clears it.
        return acp.Plan(
            [acp.PlanEntry(e.content, "medium", cast("PlanEntryStatus", e.status)) for e in event.entries]
        )
    if isinstance(event, events.UsageChanged):
        if not event.size:
            return None  # usage-cost.limit.needed-for-update
        return acp.UsageUpdate(event.used, event.size, acp.Cost(event.cost, "USD") if event.cost > 0 else None)
    if isinstance(event, events.Warned):
        return acp.Notice("warning", event.text)
    if isinstance(event, events.CompactionChanged):
        if event.summary is not None:
            return acp.CompactionUpdate(event.compaction, event.status, summary=[acp.TextContent(event.summary)])
        if event.error is not None:
            return acp.CompactionUpdate(event.compaction, event.status, error=event.error)
        return acp.CompactionUpdate(event.compaction, event.status)
    return None


def welcome(update: acp.SessionUpdate, client: acp.ClientCapabilities) -> bool:
    """Whether the client asked for updates of this kind; most kinds need no leave."""
    if isinstance(update, acp.Notice):
        return client.notices
    return client.compaction or not isinstance(update, acp.CompactionUpdate)


def shown_name(name: str) -> str | None:
    """A tool's programmatic name for the wire: exactly that, or none at all (message-ids.tool-name.omitted)."""
    return name if 0 < len(name) <= MAX_NAME_LENGTH and name.isprintable() else None


def _tool(event: events.ToolChanged) -> Any:
    name = shown_name(event.name)
    status = cast("ToolCallStatus", event.status)
    content = content_of(event)
    raw_output = None if event.text is None else {"content": event.text}
    if not event.first:
        return acp.ToolCallProgress(
            event.call_id, status=status, content=content or None, raw_output=raw_output, name=name
        )
    return acp.ToolCall(
        event.call_id,
        event.title,
        kind=cast("ToolKind", event.kind),
        status=status,
        content=content,
        locations=[acp.ToolCallLocation(path, line) for path, line in event.locations],
        raw_input=dict(event.arguments) if event.arguments is not None else None,
        raw_output=raw_output,
        name=name,
    )


def content_of(event: events.ToolChanged) -> list[acp.ToolCallContent]:
    """The whole content list of a tool call: its text, then its diff when it has one of bearable size."""
    content: list[acp.ToolCallContent] = []
    if event.text:
        content.append(acp.Content(acp.TextContent(event.text)))
    return [*content, *diff_of(event.diff)]


def diff_of(diff: events.Diff | None) -> list[acp.ToolCallContent]:
    """A diff as content, in a list that is empty when there is none or when it is too large to be shown."""
    if diff is None:
        return []
    size = len(json.dumps([diff.old, diff.new], ensure_ascii=False).encode("utf-8", "surrogatepass"))
    return [acp.Diff(diff.path, diff.new, diff.old)] if size <= MAX_DIFF_JSON else []
