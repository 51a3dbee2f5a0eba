"""Who holds the foreground slot of a session, and how it is answered.

The turn machine says who holds the slot; the table ANSWERS says what the holder is told when it leaves.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import anyio

from sluice import acp
from sluice.agent.loop import Run
from sluice.agent.outcome import Outcome
from sluice.handlers.answers import turn_failure
from sluice.machines import answers
from sluice.wire import tracing
from sluice.wire.errors import RequestCancelled
from sluice.wire.peer import IncomingRequest

__all__ = ["Holder"]


class Holder:
    """Who holds the foreground slot: a prompt, a load or resume, or a change of configuration.

    Attributes:
        work: what is done while the slot is held; returns the result of the request.
        settle: what must still be done afterwards, shielded, whatever ended the work.
        scope: cancelled when the holder is cancelled; made in `admit`, so that a cancel can never come too early.
        trace: the trace of its request; a queued prompt is started by the turn before it, and must not go on there.
        outcome: what the work ended with, an exception included; None when it was cancelled.
    """

    def __init__(self, request: IncomingRequest, method: str, work: Callable[[Holder], Awaitable[Any]]) -> None:
        self.request = request
        self.method = method
        self.work = work
        self.scope = anyio.CancelScope()
        self.run: Run | None = None
        self.settle: Callable[[], Awaitable[None]] | None = None
        self.outcome: Any = None
        self.trace = tracing.current()

    def respond(self, session_id: str, how: answers.HolderAnswer) -> None:
        """Answer as the table ANSWERS says: cancelled, -32800, or with what the work ended with."""
        outcome = self.outcome
        if how == "cancelled":
            self.request.answer(acp.PromptResponse("cancelled"))
        elif how == "request_cancelled" or outcome is None:
            # None in any other case: the client cancelled a load, a resume or a change by its request id.
            self.request.fail(RequestCancelled("Request cancelled"))
        elif isinstance(outcome, BaseException):
            self.request.fail(outcome)
        elif isinstance(outcome, Outcome) and outcome.failure is not None:
            self.request.fail(turn_failure(session_id, outcome.failure))
        elif isinstance(outcome, Outcome):
            self.request.answer(acp.PromptResponse(cast("acp.StopReason", outcome.stop_reason)))
        else:
            self.request.answer(outcome)
