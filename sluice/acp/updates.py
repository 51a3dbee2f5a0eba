"""`session/update`: everything an agent reports while it works.

Source: ACP "Prompt Turn", "Agent Plan", "Slash Commands", "Session Usage", "Notices" and "Compaction".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from sluice.acp.base import Message
from sluice.acp.content import ContentBlock, TextContent
from sluice.acp.session_config import SessionConfigOption
from sluice.acp.tools import ToolCall, ToolCallProgress

__all__ = [
    "AgentMessageChunk",
    "AgentThoughtChunk",
    "AvailableCommand",
    "AvailableCommandsUpdate",
    "CompactionSummaryChunk",
    "CompactionUpdate",
    "ConfigOptionUpdate",
    "ContentChunk",
    "Cost",
    "CurrentModeUpdate",
    "Notice",
    "Plan",
    "PlanEntry",
    "PlanEntryPriority",
    "PlanEntryStatus",
    "SessionInfoUpdate",
    "SessionNotification",
    "SessionUpdate",
    "UnstructuredCommandInput",
    "UsageUpdate",
    "UserMessageChunk",
    "text_chunk",
]

PlanEntryPriority = Literal["high", "medium", "low"]
PlanEntryStatus = Literal["pending", "in_progress", "completed"]
Natural = Annotated[int, msgspec.Meta(ge=0)]


class ContentChunk(Message, frozen=True):
    """A piece of a message; pieces with the same `message_id` belong to the same message."""

    content: ContentBlock
    message_id: str | None = None


class UserMessageChunk(ContentChunk, frozen=True, tag="user_message_chunk", tag_field="sessionUpdate"):
    """A piece of what the user said; sent while history is replayed."""


class AgentMessageChunk(ContentChunk, frozen=True, tag="agent_message_chunk", tag_field="sessionUpdate"):
    """A piece of the agent's answer."""


class AgentThoughtChunk(ContentChunk, frozen=True, tag="agent_thought_chunk", tag_field="sessionUpdate"):
    """A piece of the agent's reasoning."""


class PlanEntry(Message, frozen=True):
    """One step of a plan."""

    content: str
    priority: PlanEntryPriority
    status: PlanEntryStatus


class Plan(Message, frozen=True, tag="plan", tag_field="sessionUpdate"):
    """The whole plan; an empty list clears it."""

    entries: Sequence[PlanEntry]


class UnstructuredCommandInput(Message, frozen=True):
    """A command takes free text; `hint` is shown while there is none."""

    hint: str


class AvailableCommand(Message, frozen=True):
    """A slash command; the name has no slash."""

    name: str
    description: str
    input: UnstructuredCommandInput | None = None


class AvailableCommandsUpdate(Message, frozen=True, tag="available_commands_update", tag_field="sessionUpdate"):
    """All commands of the session; replaces the list before."""

    available_commands: Sequence[AvailableCommand]


class CurrentModeUpdate(Message, frozen=True, tag="current_mode_update", tag_field="sessionUpdate"):
    """The session is now in this mode."""

    current_mode_id: str


class ConfigOptionUpdate(Message, frozen=True, tag="config_option_update", tag_field="sessionUpdate"):
    """All config options of the session, with their values."""

    config_options: Sequence[SessionConfigOption]


class SessionInfoUpdate(Message, frozen=True, tag="session_info_update", tag_field="sessionUpdate"):
    """Changed metadata: UNSET leaves a field as it was, None clears it; `updated_at` is ISO 8601."""

    title: str | UnsetType | None = UNSET
    updated_at: str | UnsetType | None = UNSET


class Cost(Message, frozen=True):
    """What the session has cost so far, in an ISO 4217 currency."""

    amount: float
    currency: str


class UsageUpdate(Message, frozen=True, tag="usage_update", tag_field="sessionUpdate"):
    """How much of the context window is used; both numbers are tokens."""

    used: Natural
    size: Natural
    cost: Cost | None = None


class Notice(Message, frozen=True, tag="notice", tag_field="sessionUpdate"):
    """Something for the user to know that is no part of the history; needs `session.notices`.

    `severity` is info, warning or error, or a word the client may not know.
    """

    severity: str
    title: Annotated[str, msgspec.Meta(min_length=1)]
    description: str | None = None


class CompactionUpdate(Message, frozen=True, tag="compaction_update", tag_field="sessionUpdate"):
    """The state of one compaction; needs `session.compaction`. UNSET leaves a field as it was, None clears it.

    `status` is in_progress, completed, failed or cancelled, or a word the client may not know. A summary goes with
    completed only, an error with failed only.
    """

    compaction_id: str
    status: str
    summary: Sequence[ContentBlock] | UnsetType | None = UNSET
    error: str | UnsetType | None = UNSET


class CompactionSummaryChunk(Message, frozen=True, tag="compaction_summary_chunk", tag_field="sessionUpdate"):
    """A piece of the summary while the compaction is in progress; needs `session.compaction`."""

    compaction_id: str
    content: ContentBlock


SessionUpdate = (
    UserMessageChunk
    | AgentMessageChunk
    | AgentThoughtChunk
    | ToolCall
    | ToolCallProgress
    | Plan
    | AvailableCommandsUpdate
    | CurrentModeUpdate
    | ConfigOptionUpdate
    | SessionInfoUpdate
    | UsageUpdate
    | Notice
    | CompactionUpdate
    | CompactionSummaryChunk
)


class SessionNotification(Message, frozen=True):
    """The params of `session/update`."""

    session_id: str
    update: SessionUpdate


def text_chunk(
    session_id: str,
    text: str,
    *,
    kind: type[ContentChunk] = AgentMessageChunk,
    message_id: str | None = None,
    meta: dict[str, Any] | None = None,
) -> SessionNotification:
    """The params of an update with one piece of text: four small structs, no dictionary, ready for the encoder.

    Args:
        session_id: the session.
        text: the piece; never empty, since an empty piece says nothing and must not be sent.
        kind: which of the three chunk updates.
        message_id: the message the piece belongs to, or None when messages are not told apart.
        meta: the notification's `_meta`, such as the trace context.
    """
    update: Any = kind(TextContent(text), message_id)
    return SessionNotification(session_id, update, meta=meta)
