"""Compaction: what was said so far becomes a summary, and the newest part stays as it was.

It runs inside the turn or the command that needs it, so never beside a turn (compaction.concurrency.with-turn). The
outcome is one stored item, the summary with the position of the first item that stays; nothing is deleted, and
`history` makes the next prompt of both. The cut lies between messages and never parts a call from its result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

import anyio

from sluice.agent.attempts import Attempts, new_id
from sluice.agent.conversation import Conversation
from sluice.agent.events import CompactionChanged, Event, Sink
from sluice.agent.history import after_summary, text_message
from sluice.agent.history import conversation as valid_history
from sluice.agent.outcome import TurnFailure
from sluice.agent.ports import ModelRequest
from sluice.agent.redaction import masked_message
from sluice.agent.team import Agent
from sluice.agent.tokens import CHARACTERS_PER_TOKEN, estimate
from sluice.persistence.records import Item, Message

__all__ = ["Compacted", "Reason", "Way", "compact", "due", "occupied", "window"]

Reason = Literal["threshold", "overflow", "manual"]

SOURCES: Mapping[Reason, str] = {"threshold": "auto", "overflow": "overflow", "manual": "manual"}
"""What hooks are told of the reason."""

MAX_SUMMARY = 16_000
"""Tokens of a summary, and no more than a quarter of the window."""

MAX_TAIL = 20_000
"""Tokens that stay as they were, and no more than a fifth of the window."""

MAX_RESULT = 4_000
"""Characters of one tool result in the text that is summarised: results are long, and what they led to matters."""

RESERVE = 500
"""Tokens of the window that are left for the instructions around the text to be summarised."""

_SYSTEM = (
    "You take over the minutes of a conversation between a person and an assistant that works with tools. Write a"
    " hand-over: whoever reads only your notes must be able to go on without asking anything again. Keep to what was"
    " said and done; invent nothing, judge nothing, and answer no question that stands in the conversation."
)
_ASK = (
    "Write the hand-over of the conversation above now. Say what the person wants, what has been done and found out,"
    " which files and commands matter, which decisions were taken and why, what is under way, and what comes next."
    " Names, paths, numbers and error messages stay exact."
)


@dataclass(frozen=True, slots=True)
class Compacted:
    """How it ended: applied, skipped (there was nothing to do) or failed; `text` says it to a person."""

    outcome: Literal["applied", "skipped", "failed"]
    text: str


@dataclass(frozen=True, slots=True)
class Way:
    """The way out: `sink` waits for room, `post` never waits."""

    sink: Sink
    post: Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class _Cut:
    """What is summarised, and the position of the first item that stays (None: none does)."""

    summarised: Sequence[Message]
    first_kept: int | None


@dataclass(frozen=True, slots=True)
class _Heard:
    """What people and hooks want of a compaction: `wish` is the person's, `context` for whoever writes the summary,
    `summary` stands for it, "" each for nothing. `vetoed` says why there is to be none, None when nobody minds.
    """

    wish: str = ""
    context: str = ""
    summary: str = ""
    vetoed: str | None = None


def window(agent: Agent) -> int | None:
    """The window that counts, in tokens: the smaller of the agent's model and of the one that compacts; None when
    either is unknown.
    """
    sizes = [model.context_size for model in (agent.model, agent.compaction_model) if model is not None]
    known = [size for size in sizes if size]
    return min(known) if known and len(known) == len(sizes) else None


def occupied(talk: Conversation) -> int:
    """Tokens the next call will carry: what the last call since the last compaction reported, and an estimate of what
    came after it; all of it estimated when there was no such call.
    """
    items = talk.items
    for index in range(len(items) - 1, -1, -1):
        message = items[index].message
        if items[index].kind == "summary":
            break
        if message is not None and message.role == "assistant" and message.usage is not None:
            used = message.usage.input_tokens + message.usage.output_tokens
            return used + estimate(later.message for later in items[index + 1 :] if later.message is not None)
    return estimate([text_message("system", talk.team.agent.system_prompt()), *valid_history(items)])


def due(talk: Conversation) -> bool:
    """Whether the next call would be above the agent's share of a known window (compaction.trigger.threshold)."""
    agent = talk.team.agent
    limit = window(agent)
    return bool(agent.config.session_compaction and limit and occupied(talk) > agent.threshold * limit)


async def compact(talk: Conversation, way: Way, reason: Reason, instructions: str = "") -> Compacted:
    """Summarise, store the summary, and replace the gauge of the books.

    Args:
        talk: the conversation; nobody else works on it.
        way: where a client that follows compactions is told.
        reason: on `manual` and `overflow` something is summarised even when all of it would fit into the tail.
        instructions: what a person wants of the summary besides.

    Returns:
        The outcome. A failure of the model is an outcome too.

    Raises:
        Exception: what the store raises; nothing has changed then.
    """
    agent = talk.team.agent
    limit = window(agent)
    cut = _cut(talk, limit, reason)
    if cut is None:
        return Compacted("skipped", "There is nothing to compact.")
    heard = await _hear(talk, reason)
    if heard.vetoed is not None:
        return Compacted("skipped", heard.vetoed)
    identity = new_id()
    await way.sink(CompactionChanged(identity, "in_progress"))
    try:
        summary = await _summarise(talk, cut, limit, replace(heard, wish=instructions))
        await talk.add(summary)
    except TurnFailure as failed:
        await way.sink(CompactionChanged(identity, "failed", error=failed.failure.text))
        return Compacted("failed", failed.failure.text)
    except BaseException as ended:
        cancelled = isinstance(ended, anyio.get_cancelled_exc_class())
        with suppress(Exception):
            status: Literal["cancelled", "failed"] = "cancelled" if cancelled else "failed"
            way.post(CompactionChanged(identity, status, error=None if cancelled else "it could not be stored"))
        raise
    talk.books.context_tokens = occupied(talk)
    await way.sink(CompactionChanged(identity, "completed", summary=summary.text))
    for hook in agent.hooks.of("after_compaction"):
        await agent.hooks.ask(hook, talk.place, {"source": SOURCES[reason], "summary": summary.text})
    return Compacted("applied", f"{len(cut.summarised)} messages were compacted into a summary.")


async def _hear(talk: Conversation, reason: Reason) -> _Heard:
    """Ask the hooks of a compaction: the first that blocks is a veto, the first summary is taken."""
    hooks, heard = talk.team.agent.hooks, _Heard()
    told = {
        "source": SOURCES[reason],
        "input_tokens": occupied(talk),
        "context_limit": window(talk.team.agent) or 0,
    }
    for hook in (*hooks.of("pre_compact"), *hooks.of("before_compaction")):
        answer = await hooks.ask(hook, talk.place, told)
        if answer.verdict == "deny":
            because = f": {answer.reason}" if answer.reason else "."
            return _Heard(vetoed=f"A hook has forbidden the compaction{because}")
        context = "\n\n".join(text for text in (heard.context, answer.context) if text)
        given = answer.summary if hook.event == "before_compaction" else ""
        heard = replace(heard, context=context, summary=heard.summary or given)
    return heard


async def _summarise(talk: Conversation, cut: _Cut, limit: int | None, heard: _Heard) -> Item:
    """The summary as an item that is not stored yet. Its tokens are charged whatever comes of it."""
    agent = talk.team.agent
    room = min(MAX_SUMMARY, limit // 4) if limit else MAX_SUMMARY
    if heard.summary:
        return Item(kind="summary", text=_bounded(heard.summary, room), first_kept=cut.first_kept)
    wish = f"\n\nThe person asks for this in particular: {heard.wish}" if heard.wish else ""
    wish += f"\n\nMind this too: {heard.context}" if heard.context else ""
    messages = [masked_message(one) for one in cut.summarised] if agent.config.redact_secrets else cut.summarised
    text = _transcript(messages, None if limit is None else limit - room - RESERVE)
    request = ModelRequest(
        messages=[text_message("system", _SYSTEM), text_message("user", f"{text}\n\n---\n\n{_ASK}{wish}")],
        max_output_tokens=room,
        spent=talk.spent,
    )
    model = agent.compaction_model or agent.model
    fallback = agent.fallback if agent.compaction_model is None else None
    response = await Attempts(model, _nowhere, fallback).complete(request)
    if response.usage is not None:
        talk.spent(response.usage)
    summary = _bounded(response.text.strip(), room)
    if not summary or response.finish_reason == "refusal":
        raise TurnFailure("compaction_failed", "the model wrote no summary")
    return Item(kind="summary", text=summary, first_kept=cut.first_kept)


def _bounded(summary: str, tokens: int) -> str:
    return summary[: round(tokens * CHARACTERS_PER_TOKEN)]


async def _nowhere(event: Event) -> None:
    """What the summary's stream says is shown to nobody before it is whole."""


# --- where to cut ------------------------------------------------------------------------------------------------


def _cut(talk: Conversation, limit: int | None, reason: Reason) -> _Cut | None:
    """The longest tail of whole groups within its bound; None when nothing is left to summarise."""
    items = after_summary(talk.items)
    groups = _groups(items)
    if not groups:
        return None
    bound = min(MAX_TAIL, limit // 5) if limit else MAX_TAIL
    # The prompt that waits for its answer must reach the model as it is.
    waiting = reason != "manual" and _role(groups[-1][0]) == "user"
    start = len(groups) - 1 if waiting else len(groups)
    room = bound - sum(_size(group) for group in groups[start:])
    while start > 0 and _size(groups[start - 1]) <= room:
        start -= 1
        room -= _size(groups[start])
    if start == 0 and reason != "threshold":
        start = len(groups) - 1 if waiting else len(groups)
    if start == 0:
        return None
    first = groups[start][0].position if start < len(groups) else None
    older = [item for item in items if first is None or item.position < first]
    return _Cut(valid_history(older), first)


def _groups(items: Sequence[Item]) -> list[list[Item]]:
    """What may not be parted: a user's message alone, an answer with the results of its calls. Without the note that
    stands for an earlier summary.
    """
    groups: list[list[Item]] = []
    for item in items:
        if item.kind != "message" or item.position < 0:
            continue
        if _role(item) == "tool" and groups:
            groups[-1].append(item)
        else:
            groups.append([item])
    return groups


def _role(item: Item) -> str:
    return item.message.role if item.message is not None else ""


def _size(group: Sequence[Item]) -> int:
    return estimate(item.message for item in group if item.message is not None)


# --- what is summarised ------------------------------------------------------------------------------------------


def _transcript(messages: Sequence[Message], tokens: int | None) -> str:
    """The conversation as one text, which every provider takes; its middle is left out when it is too long.

    `tokens` is the room there is, None when it is unknown.
    """
    text = "\n\n".join(_told(message) for message in messages)
    room = None if tokens is None else max(1000, round(tokens * CHARACTERS_PER_TOKEN))
    if room is None or len(text) <= room:
        return text
    half = room // 2
    return f"{text[:half]}\n\n[{len(text) - 2 * half} characters left out]\n\n{text[-half:]}"


def _told(message: Message) -> str:
    parts = [part.text or f"[{part.type} {part.name or part.mime_type}]" for part in message.parts]
    said = "\n".join(part for part in parts if part)
    if message.role == "tool":
        cut = said if len(said) <= MAX_RESULT else f"{said[:MAX_RESULT]}\n[{len(said) - MAX_RESULT} characters more]"
        return f"[Result of {message.tool_name}, {message.status}]\n{cut}"
    calls = "".join(f"\n[Calls {call.name} with {call.arguments[:MAX_RESULT]}]" for call in message.tool_calls)
    return f"[{message.role.capitalize()}]\n{said}{calls}"
