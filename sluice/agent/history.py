"""From stored items to a history that every model service accepts.

What is stored is what happened; what is sent must be valid. A crash or a cancel can leave a call without a result
and a reply without text. Both are repaired here, when the history is sent, so no stored row is ever rewritten.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sluice.persistence.records import Item, Message, Part

__all__ = ["UNKNOWN_OUTCOME", "after_summary", "conversation", "text_message"]

UNKNOWN_OUTCOME = "The call was interrupted and its outcome is unknown: it may have had side effects."
"""What stands for a result that never came (session.load.tools.missing-result)."""


def text_message(role: str, text: str, **fields: object) -> Message:
    """A message of one text part."""
    return replace(Message(role=role, parts=(Part(type="text", text=text),)), **fields)  # type: ignore[arg-type]


def conversation(items: Iterable[Item]) -> list[Message]:
    """The messages of a session as a model may see them.

    Each assistant message with tool calls is followed by exactly one result per call, in the order of the calls;
    results of unknown calls are dropped; empty replies are dropped. Items before the last summary's first kept item
    are replaced by the summary.
    """
    kept = _messages(after_summary(list(items)))
    results = {m.tool_call_id: m for m in kept if m.role == "tool"}
    history: list[Message] = []
    for message in kept:
        if message.role == "tool" or not _says_something(message):
            continue
        history.append(message)
        for call in message.tool_calls:
            history.append(
                results.get(call.id)
                or text_message("tool", UNKNOWN_OUTCOME, tool_call_id=call.id, tool_name=call.name, status="failed")
            )
    return history


def _messages(items: Sequence[Item]) -> list[Message]:
    return [item.message for item in items if item.kind == "message" and item.message is not None]


def _says_something(message: Message) -> bool:
    return bool(message.tool_calls) or any(map(_holds_something, message.parts))


def _holds_something(part: Part) -> bool:
    return bool(part.text or part.data)


def after_summary(items: Sequence[Item]) -> Sequence[Item]:
    """The items from the last compaction on: its summary as a user message (at no position), then what it kept."""
    for index in range(len(items) - 1, -1, -1):
        summary = items[index]
        if summary.kind != "summary":
            continue
        first = summary.first_kept
        tail = [i for i in items[:index] if first is not None and i.position >= first]
        note = text_message("user", f"Summary of the conversation so far:\n\n{summary.text}", implicit=True)
        return [Item(kind="message", message=note), *tail, *items[index + 1 :]]
    return items
