"""A stored session as JSON, for programs, and as Markdown, for people. Both are made from the records alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sluice.persistence.codec import to_dict
from sluice.persistence.records import Item, Message, Part, SessionRecord

__all__ = ["FORMAT_VERSION", "Stored", "as_json", "as_markdown", "when"]

FORMAT_VERSION = 1
"""Of the JSON form: raised when a field changes its meaning; fields may be added without."""

Stored = Sequence[tuple[SessionRecord, Sequence[Item]]]
"""A session with its items, then every session below it, parents before children."""

_HEADINGS = {"user": "You", "system": "System"}


def when(seconds: float) -> str:
    """A point in time (seconds since the epoch), in ISO 8601, UTC, to the second."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def as_json(stored: Stored) -> str:
    """The whole session as one JSON object; nothing is left out, binaries are base64."""
    (record, items), *below = stored
    return json.dumps(
        {
            "format": "sluice-session",
            "version": FORMAT_VERSION,
            **_session(record, items),
            "sub_sessions": [_session(child, its) for child, its in below],
        },
        ensure_ascii=False,
        indent=2,
    )


def _session(record: SessionRecord, items: Sequence[Item]) -> dict[str, Any]:
    return {
        "session": {**to_dict(record), "created": when(record.created_at)},
        "items": [_lean(to_dict(item)) for item in items],
    }


def _lean(value: Any) -> Any:
    """Without what says nothing: null, and empty texts and lists, of the records' many optional fields."""
    if isinstance(value, dict):
        return {key: _lean(member) for key, member in value.items() if member not in (None, "", [], ())}
    if isinstance(value, list | tuple):
        return [_lean(entry) for entry in value]
    return value


def as_markdown(stored: Stored) -> str:
    """The conversation as a person would read it: who said what, what was called, and what came of it."""
    below = {record.id: (record, items) for record, items in stored[1:]}
    record, items = stored[0]
    lines = [f"# {_inline(record.title or 'Untitled session')}", "", *_about(record), ""]
    lines += _conversation(items, below, 2)
    return "\n".join(lines).rstrip("\n") + "\n"


def _about(record: SessionRecord) -> Iterator[str]:
    yield f"- session: `{record.id}`"
    yield f"- begun: {when(record.created_at)}"
    if record.cwd:
        yield f"- directory: {_code(record.cwd)}"
    if record.agent:
        yield f"- agent: {_inline(record.agent)}"
    if record.mode:
        yield f"- mode: {_inline(record.mode)}"
    if record.cost:
        yield f"- cost: ${record.cost:.4f}"


def _conversation(
    items: Sequence[Item], below: Mapping[str, tuple[SessionRecord, Sequence[Item]]], depth: int
) -> Iterator[str]:
    hashes = "#" * min(depth, 6)
    for item in items:
        if item.kind == "message" and item.message is not None:
            yield from _message(item.message, hashes)
        elif item.kind == "error":
            yield from (f"**The turn failed** ({_inline(item.code or 'error')}): {_inline(item.text)}", "")
        elif item.kind == "termination":
            yield from (f"*{_inline(item.text or 'The turn was ended.')}*", "")
        elif item.kind == "summary":
            yield from (f"{hashes} Summary of what came before", "", item.text, "")
        elif item.kind == "sub_session" and item.session_id in below:
            record, its = below[item.session_id]
            yield from (f"{hashes} Sub-session {_inline(record.title or record.agent or record.id)}", "")
            others = {key: value for key, value in below.items() if key != item.session_id}
            yield from _conversation(its, others, depth + 1)


def _message(message: Message, hashes: str) -> Iterator[str]:
    if message.implicit:
        return
    if message.role == "tool":
        failed = " (failed)" if message.status == "failed" else ""
        yield from (f"Result of {_code(message.tool_name or 'a tool')}{failed}:", "", *_fenced(message.text), "")
        yield from _attachments(part for part in message.parts if part.type != "text")
        return
    name = _HEADINGS.get(message.role) or message.agent or "Agent"
    model = f" · {_code(message.model)}" if message.model and message.role == "assistant" else ""
    yield from (f"{hashes} {_inline(name)}{model}", "")
    if message.thought:
        yield from (*(f"> {line}" for line in message.thought.strip().split("\n")), "")
    if message.text.strip():
        yield from (message.text.strip("\n"), "")
    yield from _attachments(part for part in message.parts if part.type != "text")
    for call in message.tool_calls:
        yield from (f"Calls {_code(call.name)}:", "", *_fenced(_pretty(call.arguments), "json"), "")


def _attachments(parts: Iterator[Part]) -> Iterator[str]:
    for part in parts:
        name = _inline(part.name or part.mime_type or part.type)
        if part.text:
            yield from (f"Attached: {name}", "", *_fenced(part.text), "")
        else:
            yield from (f"Attached: {name} ({part.size} bytes)", "")


def _pretty(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments), ensure_ascii=False, indent=2)
    except ValueError:
        return arguments


def _fenced(said: str, language: str = "") -> list[str]:
    """A code block that nothing within can end."""
    longest = max((len(run) for run in re.findall("`{3,}", said)), default=2)
    fence = "`" * max(3, longest + 1)
    return [fence + language, *said.rstrip("\n").split("\n"), fence]


def _code(said: str) -> str:
    said = " ".join(said.split())
    fence = "`" * (max((len(run) for run in re.findall("`+", said)), default=0) + 1)
    blank = " " if said.startswith("`") or said.endswith("`") else ""
    return f"{fence}{blank}{said}{blank}{fence}"


def _inline(said: str) -> str:
    """One line in which nothing is Markdown."""
    return re.sub(r"([\\`*_\[\]<>#|])", r"\\\1", " ".join(said.split()))
