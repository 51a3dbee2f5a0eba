"""What a reply of a model server is made of, whatever its API."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio

__all__ = [
    "Call",
    "Close",
    "Finish",
    "Raw",
    "Stall",
    "Step",
    "Text",
    "Thought",
    "ToolCalls",
    "Usage",
    "Wait",
]


@dataclass(frozen=True)
class Text:
    """A visible delta."""

    text: str


@dataclass(frozen=True)
class Thought:
    """A reasoning delta; `key` is the field it stands in."""

    text: str
    key: str = "reasoning_content"


@dataclass(frozen=True)
class Call:
    """A tool call. `arguments` is an object, or the JSON text as it is to be sent."""

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str = ""

    @property
    def json(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@dataclass(frozen=True)
class ToolCalls:
    """Tool calls, streamed as services do: a head with the name, then the arguments in two pieces."""

    calls: Sequence[Call]


@dataclass(frozen=True)
class Finish:
    """The finish reason; None closes the stream without one."""

    reason: str | None = "stop"


@dataclass(frozen=True)
class Usage:
    """Token counts, sent when the request asked for them."""

    input: int = 10
    output: int = 5
    cached: int = 0
    reasoning: int = 0
    written: int = 0


@dataclass(frozen=True)
class Wait:
    """Holds the reply until the test sets the event."""

    event: anyio.Event


@dataclass(frozen=True)
class Raw:
    """Bytes of the event stream as they are."""

    data: bytes


@dataclass(frozen=True)
class Close:
    """Cuts the connection: `done` False leaves the body unfinished."""

    done: bool = False


@dataclass(frozen=True)
class Stall:
    """Says nothing until the caller goes away."""


Step = Text | Thought | ToolCalls | Finish | Usage | Wait | Raw | Close | Stall
