"""What a chat tells its host, in the order in which it happened: frozen values, no plain JSON.

Rows are told whole, so a host keeps the last one of each id; everything else is told once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from sluice.client.permissions import Decision
from sluice.client.provider.policy import RuntimeMode
from sluice.client.updates import Command, PlanEntry

__all__ = [
    "ApprovalRequested",
    "ApprovalWithdrawn",
    "ChatEvent",
    "CommandsChanged",
    "FileChange",
    "FileEdit",
    "ModelChanged",
    "Note",
    "PermissionsChanged",
    "Row",
    "TextDelta",
    "TextDone",
    "ThinkingDelta",
    "ThinkingDone",
    "TitleChanged",
    "ToolDone",
    "ToolStarted",
    "TurnAborted",
    "TurnDone",
    "TurnEvent",
    "TurnFailed",
    "UsageChanged",
]


@dataclass(frozen=True)
class TextDelta:
    """A piece of the message the agent is writing."""

    text: str
    message_id: str | None = None


@dataclass(frozen=True)
class TextDone:
    """The message is complete; `text` is all of it."""

    text: str
    message_id: str | None = None


@dataclass(frozen=True)
class ThinkingDelta:
    """A piece of the agent's reasoning."""

    text: str
    message_id: str | None = None


@dataclass(frozen=True)
class ThinkingDone:
    """The reasoning is complete; `text` is all of it."""

    text: str
    message_id: str | None = None


@dataclass(frozen=True)
class FileEdit:
    """One replacement in a file.

    Attributes:
        old: the text before, or None when the file is new.
    """

    path: str
    old: str | None
    new: str


@dataclass(frozen=True)
class FileChange:
    """All that changed in one of several files, as a unified diff."""

    path: str
    diff: str


@dataclass(frozen=True)
class Row:
    """A tool call, or the plan, as one line of the thread.

    Attributes:
        id: unique in the chat; an agent that uses a call id again gets a row of its own for it.
        name: what kind of row it is: Bash, Read, Grep, WebFetch, WebSearch, Edit, Write, MultiEdit, TodoWrite and
            the others of `rows.ROW_NAMES`.
        title: the agent's words for it.
        status: pending, in_progress, completed, failed, or "cancelled", which only this side says.
        input: the arguments as the agent reports them, of any JSON type; None when it reports none.
        output: the text the call gave, so far.
        edits: the changes of one file, in order (Edit, Write, MultiEdit).
        changes: the changes of several files.
        locations: the paths it touches, exactly as the agent writes them, with a 1-based line or None.
        todos: the whole plan (TodoWrite).
    """

    id: str
    name: str
    title: str = ""
    status: str = "pending"
    input: Any = None
    output: str = ""
    edits: tuple[FileEdit, ...] = ()
    changes: tuple[FileChange, ...] = ()
    locations: tuple[tuple[str, int | None], ...] = ()
    todos: tuple[PlanEntry, ...] = ()


@dataclass(frozen=True)
class ToolStarted:
    """A row is new, or has changed and goes on."""

    row: Row


@dataclass(frozen=True)
class ToolDone:
    """A row has ended: completed, failed or cancelled. Told again when a late update still changes it."""

    row: Row


@dataclass(frozen=True)
class PermissionsChanged:
    """The agent now runs in a mode that is mapped under this runtime mode."""

    mode: RuntimeMode


@dataclass(frozen=True)
class ModelChanged:
    """The agent now uses this model (its own id for it)."""

    model: str


@dataclass(frozen=True)
class UsageChanged:
    """How full the context is, in tokens.

    Attributes:
        cost: what the session has cost so far in US dollars, or None when that is not reported in them.
    """

    context_tokens: int
    window: int
    cost: float | None = None


@dataclass(frozen=True)
class TitleChanged:
    """The session's title; None when it was cleared."""

    title: str | None


@dataclass(frozen=True)
class CommandsChanged:
    """All slash commands the chat has now."""

    commands: tuple[Command, ...]


@dataclass(frozen=True)
class Note:
    """A line of the backend's own in the thread."""

    text: str
    level: Literal["info", "warning"] = "info"


@dataclass(frozen=True)
class ApprovalRequested:
    """The agent waits for a decision; it is given with `Chat.answer`.

    Attributes:
        id: unique in the chat.
        row: the call as it would be run.
        kind: the tool kind the agent names, or None when it names none.
        answers: the decisions on offer, widest last but for the denial.
        raw: the agent's request as plain data.
    """

    id: str
    row: Row
    kind: str | None
    answers: tuple[Decision, ...]
    raw: Mapping[str, Any]


@dataclass(frozen=True)
class ApprovalWithdrawn:
    """Nobody waits for this decision any more."""

    id: str


@dataclass(frozen=True)
class TurnDone:
    """The turn ended by itself."""

    stop_reason: str


@dataclass(frozen=True)
class TurnAborted:
    """The turn was interrupted."""


@dataclass(frozen=True)
class TurnFailed:
    """The turn ended in an error; `message` names the agent and is for a person."""

    message: str


TurnEvent: TypeAlias = TurnDone | TurnAborted | TurnFailed
"""How a turn ended; exactly one of them per turn."""

ChatEvent: TypeAlias = (
    TextDelta
    | TextDone
    | ThinkingDelta
    | ThinkingDone
    | ToolStarted
    | ToolDone
    | PermissionsChanged
    | ModelChanged
    | UsageChanged
    | TitleChanged
    | CommandsChanged
    | Note
    | ApprovalRequested
    | ApprovalWithdrawn
    | TurnEvent
)
"""Everything a chat tells."""
