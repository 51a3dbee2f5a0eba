"""One answer of the model, over as many attempts and as many models as it takes.

A failed attempt may have shown text already. The next one is another message with a fresh id, so nothing is doubled
(message-ids.chunk.fresh-per-attempt), and only the attempt that succeeded is stored.
"""

from __future__ import annotations

import logging
import random
import uuid

import anyio

from sluice.agent.events import Sink, TextDelta, ThoughtDelta, Warned
from sluice.agent.lineup import Fallback, in_turn
from sluice.agent.outcome import TurnFailure
from sluice.agent.ports import Delta, Model, ModelError, ModelRequest, ModelResponse
from sluice.persistence.records import Message, Part, ToolCallRecord

__all__ = ["Attempts", "backoff", "new_id"]

log = logging.getLogger(__name__)

FIRST_BACKOFF = 0.2
"""Seconds before the first retry; doubled for each further one."""

MAX_BACKOFF = 2.0
"""Seconds that no wait between attempts exceeds (before jitter)."""


LONGEST_WAIT = 60.0
"""Seconds that are waited at most when a provider says how long to wait; it could say anything."""

OVERFLOWS = frozenset({"context_exceeded", "request_too_large", "media_too_large"})
"""What no other attempt cures: less has to be sent (models.fallback.overflow)."""


def new_id() -> str:
    """A fresh opaque id for a message or a call."""
    return uuid.uuid4().hex


def backoff(attempt: int) -> float:
    """Seconds to wait after the failed attempt `attempt` (from 1), with 10 % jitter."""
    return float(min(FIRST_BACKOFF * 2 ** (attempt - 1), MAX_BACKOFF) * random.uniform(0.9, 1.1))


class Attempts:
    """Asks a model, then its fallbacks, until one answers or none may be asked again.

    Attributes:
        model: the one that is asked now; an alloy's member, not the alloy.
        message_id: the logical id of the message that is being streamed.
        text, thought: what that message has shown so far, in pieces.
    """

    def __init__(self, model: Model, sink: Sink, fallback: Fallback | None = None) -> None:
        self.model = self._first = in_turn(model)
        self.sink = sink
        self.fallback = fallback or Fallback()
        self.message_id = new_id()
        self.text: list[str] = []
        self.thought: list[str] = []

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """The first successful response. Raises TurnFailure when every model failed for good."""
        failed: ModelError | None = None
        order = self.fallback.order(self._first)
        for position, model in enumerate(order):
            self.model = model
            try:
                response = await self._ask(request)
            except ModelError as error:
                if error.code in OVERFLOWS or len(order) == 1:
                    raise TurnFailure(error.code, error.text) from error
                failed = failed or error
                await self._tell(error, order[position + 1 :])
            else:
                self.fallback.answered(self._first, model, failed=failed is not None)
                return response
        assert failed is not None, "there is at least one model"
        raise TurnFailure(failed.code, f"{failed.text} (and the other models of this agent failed too)") from failed

    async def _tell(self, error: ModelError, rest: list[Model]) -> None:
        """Say that the next model goes on; what was shown of a broken answer stays, under an id of its own."""
        if rest:
            text = f"{self.model.ref} failed: {error.text}; going on with {rest[0].ref}"
            log.warning("%s", text)
            await self.sink(Warned(text))

    async def _ask(self, request: ModelRequest) -> ModelResponse:
        """The answer of one model. Raises its last ModelError."""
        attempt = 0
        while True:
            attempt += 1
            self.message_id, self.text, self.thought = new_id(), [], []
            try:
                return await self.model.complete(request, self._show)
            except ModelError as error:
                if not error.retryable or error.code in OVERFLOWS or attempt > self.fallback.retries:
                    raise
                wait = backoff(attempt) if error.retry_after is None else min(error.retry_after, LONGEST_WAIT)
                await anyio.sleep(wait)

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
            carried=response.carried,
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
