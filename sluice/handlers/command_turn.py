"""A prompt that is a slash command: the built-ins, and the change of agent that a configured one may ask for.

Specification page: https://agentclientprotocol.com/protocol/slash-commands. A built-in says what it has to say in one
transient message: neither the typed command nor the answer becomes part of the conversation
(slash-commands.builtin.not-in-history).
"""

from __future__ import annotations

import logging

from sluice.agent import compaction
from sluice.agent.attempts import new_id
from sluice.agent.books import usage_text
from sluice.agent.compaction import Way
from sluice.agent.conversation import Conversation
from sluice.agent.events import Sink, TextDelta, UsageChanged
from sluice.agent.outcome import Failure, Outcome
from sluice.handlers.session import Incarnation
from sluice.handlers.session_config_options import tell_options
from sluice.handlers.slash_commands import commands_of
from sluice.persistence.errors import StoreError
from sluice.wire.cleanup import shielded

__all__ = ["compact", "keep_books", "switch_agent", "usage"]

log = logging.getLogger(__name__)


async def usage(live: Incarnation, sink: Sink) -> Outcome:
    """/usage: the gauge and a line of text, both from one look at the books."""
    books = live.talk.books
    gauge = UsageChanged(books.context_tokens, books.limit, books.cost)
    line = TextDelta(new_id(), usage_text(books))
    await sink(gauge)
    await sink(line)
    return Outcome()


async def compact(live: Incarnation, way: Way, instructions: str) -> Outcome:
    """/compact: shorten the root's history now, and say in one message what came of it.

    Asked for by a person, so a failure is the turn's failure, unlike that of an automatic one.
    """
    try:
        made = await compaction.compact(live.talk, way, "manual", instructions)
    except StoreError as error:
        log.error("store: %s", error.text)
        return Outcome(failure=Failure("compaction_failed", error.text))
    if made.outcome == "failed":
        return Outcome(failure=Failure("compaction_failed", made.text))
    if made.outcome == "applied":
        books = live.talk.books
        await way.sink(UsageChanged(books.context_tokens, books.limit, books.cost))
    await way.sink(TextDelta(new_id(), made.text))
    return Outcome()


async def keep_books(live: Incarnation) -> None:
    """Store what was spent without an item, what the session's context holds, and what its root has cost.

    When that fails the outcome stands: the books live on, and the next turn stores them.
    """
    books = live.talk.books
    try:
        await live.talk.file()
        await live.keep(context_tokens=books.context_tokens, cost=books.own_cost)
    except StoreError as error:
        log.error("store: %s", error.text)


async def switch_agent(live: Incarnation, talk: Conversation, name: str) -> None:
    """Let another agent hold a conversation from now on: stored, then in force, then told to the client.

    `talk` is the session's own conversation or that of a task below it, of which the client is told nothing.
    """
    if name == talk.team.current:
        return
    store = await live.connection.assembly.store()
    with shielded(None, "who holds the conversation is stored and in force, or neither"):
        await store.update_session(talk.session_id, agent=name)
        talk.switch_agent(name)
    if talk is live.talk:
        await live.notify(commands_of(talk))
        await tell_options(live)
