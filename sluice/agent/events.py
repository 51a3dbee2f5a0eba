"""What a turn tells its sink, in order. Plain facts: no ACP word order, no wire ids.

The sink is an async callable that is awaited for each event; that await is the back-pressure on the model stream.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = [
    "CompactionChanged",
    "Diff",
    "Event",
    "PlanChanged",
    "PlanEntry",
    "Sink",
    "TextDelta",
    "ThoughtDelta",
    "ToolChanged",
    "UsageChanged",
    "Warned",
]


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of visible answer. `message` is the logical id of the message it belongs to; `text` is not empty."""

    message: str
    text: str


@dataclass(frozen=True, slots=True)
class ThoughtDelta:
    """A piece of the model's reasoning. `message` is the logical id of the message it belongs to."""

    message: str
    text: str


@dataclass(frozen=True, slots=True)
class Diff:
    """Whole-file texts before and after an edit; `old` is None for a new file; `path` is absolute."""

    path: str
    old: str | None
    new: str


@dataclass(frozen=True, slots=True)
class ToolChanged:
    """A step in the life of one tool call; one shape serves the first report and every later one.

    `status` is the state of the tool-call machine on the wire: pending, in_progress, completed or failed. `first`
    is True exactly once per call. `text` is the result, None while there is none. `arguments` is None when they
    are not to be shown.
    """

    call_id: str
    name: str
    title: str
    kind: str
    status: str
    first: bool = False
    arguments: Mapping[str, Any] | None = None
    locations: tuple[tuple[str, int | None], ...] = ()
    text: str | None = None
    diff: Diff | None = None


@dataclass(frozen=True, slots=True)
class PlanEntry:
    """One entry of the plan; `status` is pending, in_progress or completed."""

    content: str
    status: str = "pending"


@dataclass(frozen=True, slots=True)
class PlanChanged:
    """The whole plan, replaced. An empty tuple clears it."""

    entries: tuple[PlanEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class UsageChanged:
    """The root conversation's context after a model call: tokens used, window (None when unknown), cost in USD."""

    used: int
    size: int | None
    cost: float


@dataclass(frozen=True, slots=True)
class Warned:
    """A passing notice for the person: never stored, never fatal."""

    text: str
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CompactionChanged:
    """A step of one compaction. `summary` goes with completed, `error` with failed; both None otherwise."""

    compaction: str
    status: Literal["in_progress", "completed", "failed", "cancelled"]
    summary: str | None = None
    error: str | None = None


Event = TextDelta | ThoughtDelta | ToolChanged | PlanChanged | UsageChanged | Warned | CompactionChanged
Sink = Callable[[Event], Awaitable[None]]
