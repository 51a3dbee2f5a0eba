"""One answer of the model, over as many attempts as it takes.

A failed attempt may have shown text already. The next one is another message with a fresh id, so nothing is doubled
(message-ids.chunk.fresh-per-attempt), and only the attempt that succeeded is stored.
"""

from __future__ import annotations

import random
import uuid

import anyio

from sluice.agent.events import Sink, TextDelta, ThoughtDelta
from sluice.agent.outcome import TurnFailure
from sluice.agent.ports import Delta, Model, ModelError, ModelRequest, ModelResponse
from sluice.persistence.records import Message, Part, ToolCallRecord

__all__ = ["RETRIES", "Attempts", "backoff", "new_id"]

RETRIES = 2
"""How often a retryable failure is tried again before the turn fails."""

FIRST_BACKOFF = 0.2
"""Seconds before the first retry; doubled for each further one."""

MAX_BACKOFF = 2.0
"""Seconds that no wait between attempts exceeds (before jitter)."""


def new_id() -> str:
    """A fresh opaque id for a message or a call."""
    return uuid.uuid4().hex


def backoff(attempt: int) -> float:
    """Seconds to wait after the failed attempt `attempt` (from 1), with 10 % jitter."""
    return float(min(FIRST_BACKOFF * 2 ** (attempt - 1), MAX_BACKOFF) * random.uniform(0.9, 1.1))


class Attempts:
    """Asks one model until it answers or may not be asked again.

    Attributes:
        message_id: the logical id of the message that is being streamed.
        text, thought: what that message has shown so far, in pieces.
    """

    def __init__(self, model: Model, sink: Sink, retries: int = RETRIES) -> None:
        self.model = model
        self.sink = sink
        self.retries = retries
        self.message_id = new_id()
        self.text: list[str] = []
        self.thought: list[str] = []

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """The first successful response. Raises TurnFailure when the model failed for good."""
        attempt = 0
        while True:
            attempt += 1
            self.message_id, self.text, self.thought = new_id(), [], []
            try:
                return await self.model.complete(request, self._show)
            except ModelError as error:
                if not error.retryable or attempt > self.retries:
                    raise TurnFailure(error.code, error.text) from error
                await anyio.sleep(error.retry_after or backoff(attempt))

    async def _show(self, delta: Delta) -> None:
        if not delta.text:
            return
        if delta.channel == "content":
            self.text.append(delta.text)
            await self.sink(TextDelta(self.message_id, delta.text))
        else:
            self.thought.append(delta.text)
            await self.sink(ThoughtDelta(self.message_id, delta.text))

    def message(self, response: ModelResponse, agent: str) -> Message:
        """The finished reply as it is stored. Its calls get ids of ours: providers reuse theirs.

        Source: requirement tool-lifecycle.id.fresh.
        """
        calls = tuple(ToolCallRecord(new_id(), call.name, call.arguments) for call in response.tool_calls)
        return Message(
            role="assistant",
            parts=(Part(type="text", text=response.text),) if response.text else (),
            id=self.message_id,
            agent=agent,
            model=response.model or self.model.ref,
            thought=response.thought,
            tool_calls=calls,
            finish_reason=response.finish_reason,
            usage=response.usage,
        )

    def partial(self, agent: str) -> Message | None:
        """What was shown of a reply that never ended, None when nothing was."""
        text, thought = "".join(self.text), "".join(self.thought)
        if not text and not thought:
            return None
        return Message(
            role="assistant",
            parts=(Part(type="text", text=text),) if text else (),
            id=self.message_id,
            agent=agent,
            model=self.model.ref,
            thought=thought,
            finish_reason="interrupted",
        )
