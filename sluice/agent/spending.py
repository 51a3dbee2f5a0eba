"""What a turn does about budgets: it counts its time, and it ends when a pot is used up."""

from __future__ import annotations

from dataclasses import dataclass

import anyio

from sluice.agent.attempts import new_id
from sluice.agent.conversation import Conversation
from sluice.agent.events import Sink, TextDelta
from sluice.agent.history import text_message
from sluice.agent.outcome import TurnFailure
from sluice.persistence.records import Item

__all__ = ["Spending"]


@dataclass(slots=True)
class Spending:
    """The watch of one turn. `counted_until` is the clock at the last look, None before the first."""

    counted_until: float | None = None

    def count_time(self, talk: Conversation) -> None:
        """Take the time since the last look from the pots of the agent that has the conversation."""
        now = anyio.current_time()
        talk.budgets.pass_time(talk.team.current, now - (self.counted_until or now))
        self.counted_until = now

    async def check(self, talk: Conversation, sink: Sink) -> None:
        """End the turn when a pot of the agent is used up: said to the person, stored, and a failure.

        Raises:
            TurnFailure: budget_exceeded.
        """
        self.count_time(talk)
        text = talk.budgets.stop(talk.team.current)
        if text is None:
            return
        message = text_message("assistant", text, id=new_id(), agent=talk.team.current)
        await talk.add(Item(kind="termination", text=text, message=message))
        await sink(TextDelta(message.id, text))
        raise TurnFailure("budget_exceeded", text)
