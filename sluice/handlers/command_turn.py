"""A prompt that is a slash command: the built-ins, and the change of agent that a configured one may ask for.

Specification page: https://agentclientprotocol.com/protocol/slash-commands. A built-in says what it has to say in one
transient message: neither the typed command nor the answer becomes part of the conversation
(slash-commands.builtin.not-in-history).
"""

from __future__ import annotations

from sluice.agent.attempts import new_id
from sluice.agent.books import usage_text
from sluice.agent.events import Sink, TextDelta, UsageChanged
from sluice.agent.outcome import Outcome
from sluice.handlers.session import Incarnation
from sluice.handlers.session_config_options import tell_options
from sluice.handlers.slash_commands import commands_of
from sluice.wire.cleanup import shielded

__all__ = ["switch_agent", "usage"]


async def usage(live: Incarnation, sink: Sink) -> Outcome:
    """/usage: the gauge and a line of text, both from one look at the books."""
    books = live.talk.books
    gauge = UsageChanged(books.context_tokens, books.limit, books.cost)
    line = TextDelta(new_id(), usage_text(books))
    await sink(gauge)
    await sink(line)
    return Outcome()


async def switch_agent(live: Incarnation, name: str) -> None:
    """Let another agent hold the conversation from now on: stored, then in force, then told to the client."""
    if name == live.talk.team.current:
        return
    store = await live.connection.assembly.store()
    with shielded(None, "who holds the conversation is stored and in force, or neither"):
        await store.update_session(live.id, agent=name)
        live.talk.switch_agent(name)
    await live.notify(commands_of(live.talk))
    await tell_options(live)
