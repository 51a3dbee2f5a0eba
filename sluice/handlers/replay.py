"""The history of a session as `session/update` notifications, for session/load.

Specification page: https://agentclientprotocol.com/protocol/session-setup (loading sessions). A replay is a view of
the stored transcript: it calls no model, runs no tool, fetches nothing. Left out, each time visibly: arguments,
locations and diffs of old tool calls, tool output above 64 KiB, binaries above 512 KiB.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from sluice import acp
from sluice.acp.tools import ToolCallStatus, ToolKind
from sluice.agent import presentation
from sluice.agent.attempts import new_id
from sluice.agent.history import UNKNOWN_OUTCOME
from sluice.handlers.updates import Channel, display_id, shown_name
from sluice.persistence.records import Item, Message, Part, ToolCallRecord

__all__ = ["MAX_TOOL_OUTPUT", "nested_ids", "replay"]

MAX_TEXT = 128 << 10
"""Bytes of text in one notification; longer texts are split. JSON may need six bytes for one, and each notification
stays within 1 MiB (session.load.bounds.notification-1mib)."""

MAX_TOOL_OUTPUT = 64 << 10
"""Bytes of a tool's output that are replayed (session.load.bounds.tool-output-64k)."""

MAX_LABEL = 256
"""Characters of a stored name or type that are shown; whatever is longer is no name."""

MAX_INLINE = 512 << 10
"""Decoded bytes of a stored binary that is replayed (session.load.bounds.inline-512k)."""


def nested_ids(items: Sequence[Item]) -> list[str]:
    """The child sessions that stand in a history."""
    return [item.session_id for item in items if item.kind == "sub_session"]


def replay(
    session_id: str, items: Sequence[Item], nested: Mapping[str, Sequence[Item]]
) -> Iterator[acp.SessionNotification]:
    """The updates of a captured copy of the items, in stored order.

    A nested session is shown where it was stored, under the root's id; its messages keep the ids they have as
    messages of the child (message-ids.persist.nested-owner).

    Args:
        session_id: the session that is loaded.
        items: its items.
        nested: the items of all sessions below it, by id.
    """
    for update in _history(session_id, items, dict(nested)):
        yield acp.SessionNotification(session_id, update)


def _history(owner: str, items: Sequence[Item], nested: dict[str, Sequence[Item]]) -> Iterator[Any]:
    results = {
        item.message.tool_call_id: item.message
        for item in items
        if item.message is not None and item.message.role == "tool"
    }
    for index, item in enumerate(items):
        if item.kind == "sub_session":
            # Taken out once shown: a damaged store must not send a replay round in circles.
            yield from _history(item.session_id, nested.pop(item.session_id, ()), nested)
        else:
            yield from _item(owner, index, item, results)


def _item(owner: str, index: int, item: Item, results: dict[str, Message]) -> Iterator[Any]:
    position = f"position:{item.position if item.position >= 0 else index}"
    message = item.message
    if item.kind == "error":
        text = f"The turn failed ({item.code}): {item.text}"
        yield from _texts(acp.AgentMessageChunk, text, display_id(owner, position, "content"))
    elif item.kind == "termination" and message is not None:
        # What a budget said to the person when it stopped a turn; a marker without a message was shown to nobody.
        yield from _parts(acp.AgentMessageChunk, message, _id(owner, message, position, "content"))
    elif item.kind == "message" and message is not None and not message.implicit:
        if message.role == "user":
            yield from _parts(acp.UserMessageChunk, message, _id(owner, message, position, "content"))
        elif message.role == "assistant":
            yield from _texts(acp.AgentThoughtChunk, message.thought, _id(owner, message, position, "thought"))
            yield from _parts(acp.AgentMessageChunk, message, _id(owner, message, position, "content"))
            for call in message.tool_calls:
                yield _tool(call, results.get(call.id))


def _id(owner: str, message: Message, position: str, channel: Channel) -> str:
    """Messages stored without an id get one from their position (message-ids.legacy.position-based)."""
    return display_id(owner, message.id or position, channel)


def _parts(kind: type[acp.ContentChunk], message: Message, message_id: str) -> Iterator[Any]:
    for part in message.parts:
        if part.type == "text":
            yield from _texts(kind, part.text, message_id)
        elif part.type == "document" and not part.data:
            contents = acp.TextResourceContents(f"attachment:///{part.name}", part.text, part.mime_type)
            if len(part.text.encode("utf-8", "replace")) <= MAX_TEXT and len(part.name) <= MAX_LABEL:
                yield cast("Any", kind)(acp.EmbeddedResource(contents), message_id)
            else:
                yield from _texts(kind, _unavailable(part), message_id)
        else:
            yield _binary(kind, part, message_id)


def _binary(kind: type[acp.ContentChunk], part: Part, message_id: str) -> Any:
    block: Any = acp.TextContent(_unavailable(part))
    small = part.data and part.size <= MAX_INLINE and len(part.data) <= MAX_INLINE * 3 // 2
    small = small and len(part.mime_type) <= MAX_LABEL and len(part.name) <= MAX_LABEL
    if small and part.type == "image":
        block = acp.ImageContent(part.data, part.mime_type)
    elif small and part.type == "audio" and kind is acp.UserMessageChunk:
        block = acp.AudioContent(part.data, part.mime_type)
    elif small and part.type == "document":
        block = acp.EmbeddedResource(
            acp.BlobResourceContents(f"attachment:///{part.name}", part.data, part.mime_type)
        )
    return cast("Any", kind)(block, message_id)


def _unavailable(part: Part) -> str:
    label = (part.name or part.mime_type or "unnamed")[:MAX_LABEL]
    return f"[{part.type} not replayed: {label}, {part.size} bytes]"


def _tool(call: ToolCallRecord, result: Message | None) -> acp.ToolCall:
    """A finished call under a fresh id: its arguments and places belong to the past and are not shown again."""
    output = result.text if result is not None else UNKNOWN_OUTCOME
    cut = split_utf8(output, MAX_TOOL_OUTPUT)
    shown = cut[0] if cut else ""
    if len(cut) > 1:
        shown += f"\n[output truncated: the first {MAX_TOOL_OUTPUT >> 10} KiB are shown]"
    status = result.status if result is not None and result.status in ("completed", "failed") else "failed"
    return acp.ToolCall(
        new_id(),
        call.name or "unknown tool",
        kind=cast("ToolKind", presentation.kind(call.name, False)),
        status=cast("ToolCallStatus", status),
        content=[acp.Content(acp.TextContent(shown))] if shown else [],
        name=shown_name(call.name),
    )


def _texts(kind: type[acp.ContentChunk], text: str, message_id: str) -> Iterator[Any]:
    for piece in split_utf8(text, MAX_TEXT):
        yield cast("Any", kind)(acp.TextContent(piece), message_id)


def split_utf8(text: str, limit: int) -> list[str]:
    """Pieces of at most `limit` bytes as UTF-8, never cut inside a character; [] for the empty text."""
    if len(text) * 4 <= limit:
        return [text] if text else []
    pieces, data = [], text.encode("utf-8", "surrogatepass")
    while data:
        end = min(limit, len(data))
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end -= 1
        pieces.append(data[:end].decode("utf-8", "surrogatepass"))
        data = data[end:]
    return pieces
