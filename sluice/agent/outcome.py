"""How a turn ended: a stop reason, or a failure with a runtime code."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CANCELLED", "Failure", "Outcome", "TurnFailure"]


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


class TurnFailure(Exception):
    """Ends the turn as a failure.

    Attributes:
        failure: the code and the text that go to the client.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.failure = Failure(code, text)
