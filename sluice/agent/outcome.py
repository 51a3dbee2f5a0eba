"""How a turn ended: a stop reason, or a failure with a runtime code."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CANCELLED", "Failure", "Outcome", "TurnFailure", "in_words"]

UNUSUAL_ENDS = {
    "cancelled": "[The turn was cancelled before its end.]",
    "max_tokens": "[The answer ends at the model's output limit.]",
    "max_turn_requests": "[The agent stopped at its limit of model requests in one turn; work may be unfinished.]",
    "refusal": "[The model refused to go on.]",
}
"""What a reader of nothing but the text has to be told, by stop reason."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A fatal end. `code` is the runtime code of the wire's `data.runtimeCode`; `text` holds no credentials."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """`stop_reason` is ACP's word; it means nothing when `failure` is set."""

    stop_reason: str = "end_turn"
    failure: Failure | None = None


CANCELLED = Outcome("cancelled")


def in_words(said: str, stop_reason: str) -> str:
    """The last words of a turn for somebody who gets no stop reason, such as a client of MCP.

    Args:
        said: what the agent said last, "" when it said nothing.
        stop_reason: how the turn ended.

    Returns:
        `said`, and below it how the turn ended unless that was by itself; "" when there is nothing to tell.
    """
    return "\n\n".join(part for part in (said, UNUSUAL_ENDS.get(stop_reason, "")) if part)


class TurnFailure(Exception):
    """Ends the turn as a failure.

    Attributes:
        failure: the code and the text that go to the client.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.failure = Failure(code, text)
