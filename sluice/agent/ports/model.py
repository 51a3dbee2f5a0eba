"""The model as the loop sees it: what is asked, what comes back, how it fails. `models` implements it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from sluice.persistence.records import Message, ToolCallRecord, Usage

__all__ = [
    "AnswerCache",
    "Delta",
    "Model",
    "ModelError",
    "ModelRequest",
    "ModelResponse",
    "ToolSpec",
]


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model sees it. `parameters` is a JSON schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One model call: the whole prompt. `messages` is a valid history (each tool call has exactly one result).

    `max_output_tokens` bounds this one answer, below what the configuration allows; None leaves it at that. `spent`
    is called at most once, when the call ends without an answer, cancelled or failed, after the provider has said
    what it used: that is paid for all the same (usage-cost.drain.keeps-counting).
    """

    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    structured_output: Mapping[str, Any] | None = None
    max_output_tokens: int | None = None
    spent: Callable[[Usage], None] = field(default=lambda usage: None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Delta:
    """A streamed piece; `channel` is content or thought; `text` is never empty."""

    channel: Literal["content", "thought"]
    text: str


@dataclass(frozen=True, slots=True)
class ModelResponse:
    """What one model call ended with.

    `tool_calls` carry the provider's ids; the loop replaces them by its own. `finish_reason` is stop, length, refusal
    or tool_calls. `usage` is None when the provider reported none. `model` is what it says it ran. `carried` is that
    of the message that the answer becomes.
    """

    text: str
    thought: str = ""
    tool_calls: tuple[ToolCallRecord, ...] = ()
    finish_reason: str = "stop"
    usage: Usage | None = None
    model: str = ""
    carried: str = ""


class ModelError(Exception):
    """A model call failed.

    Attributes:
        code: the runtime code: model_error, rate_limited, context_exceeded, request_too_large or media_too_large.
        text: one line for a person that says what to do; holds no credentials.
        retryable: whether the same request may be sent again (5xx, 408, network, truncated stream).
        retry_after: seconds the provider asked to wait, None when it did not.
        status: the HTTP status, None when there was no answer.
    """

    def __init__(
        self,
        code: str,
        text: str,
        *,
        retryable: bool = False,
        retry_after: float | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.retryable = retryable
        self.retry_after = retry_after
        self.status = status


class Model(Protocol):
    """A model that can be asked. One object serves one session and is used by one call at a time."""

    @property
    def ref(self) -> str:
        """The reference shown to people, `provider/model`."""
        ...

    @property
    def context_size(self) -> int | None:
        """The context window in tokens, None when unknown."""
        ...

    async def complete(self, request: ModelRequest, on_delta: Callable[[Delta], Awaitable[None]]) -> ModelResponse:
        """Ask once, without retries. Awaits `on_delta` for each piece (that await is the back-pressure).

        Cancelling the call closes the stream. Raises ModelError for every failure of the provider.
        """
        ...

    async def aclose(self) -> None:
        """Release connections; may be called more than once."""
        ...


class AnswerCache(Protocol):
    """Answers that were given before, by the question. Never raises: what cannot be read was never there."""

    async def get(self, question: str) -> str | None:
        """The answer, None when there is none."""
        ...

    async def put(self, question: str, answer: str) -> None:
        """Keep an answer, if that can be done."""
        ...
