"""Tool calls: what a client is shown of them, and the permission request.

`ToolCall` and `ToolCallProgress` are session updates and carry their tag; `ToolCallUpdate` has the same fields as the
latter without the tag, and describes the call inside a permission request.

Source: ACP "Tool Calls".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec

from sluice.acp.base import Message
from sluice.acp.content import ContentBlock

__all__ = [
    "CancelledPermissionOutcome",
    "Content",
    "Diff",
    "PermissionOption",
    "PermissionOptionKind",
    "RequestPermissionOutcome",
    "RequestPermissionRequest",
    "RequestPermissionResponse",
    "SelectedPermissionOutcome",
    "Terminal",
    "ToolCall",
    "ToolCallContent",
    "ToolCallLocation",
    "ToolCallProgress",
    "ToolCallStatus",
    "ToolCallUpdate",
    "ToolKind",
]

ToolKind = Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"]
ToolCallStatus = Literal["pending", "in_progress", "completed", "failed"]
PermissionOptionKind = Literal["allow_once", "allow_always", "reject_once", "reject_always"]


class Content(Message, frozen=True, tag="content", tag_field="type"):
    """A content block as the output of a tool."""

    content: ContentBlock


class Diff(Message, frozen=True, tag="diff", tag_field="type"):
    """A change of the file at the absolute `path`; `old_text` None means that the file is new."""

    path: str
    new_text: str
    old_text: str | None = None


class Terminal(Message, frozen=True, tag="terminal", tag_field="type"):
    """A client terminal shown inside the tool call."""

    terminal_id: str


ToolCallContent = Content | Diff | Terminal


class ToolCallLocation(Message, frozen=True):
    """A place the tool works on: an absolute path and a line counted from 1."""

    path: str
    line: Annotated[int, msgspec.Meta(ge=0)] | None = None


class ToolCall(Message, frozen=True, tag="tool_call", tag_field="sessionUpdate"):
    """The first report of a tool call; `name` is the tool's exact programmatic name."""

    tool_call_id: str
    title: str
    kind: ToolKind | None = None
    status: ToolCallStatus | None = None
    content: Sequence[ToolCallContent] | None = None
    locations: Sequence[ToolCallLocation] | None = None
    raw_input: Any = None
    raw_output: Any = None
    name: str | None = None


class ToolCallUpdate(Message, frozen=True):
    """What is known of a tool call, without an update's tag. None leaves a field as it was; a list replaces all."""

    tool_call_id: str
    title: str | None = None
    kind: ToolKind | None = None
    status: ToolCallStatus | None = None
    content: Sequence[ToolCallContent] | None = None
    locations: Sequence[ToolCallLocation] | None = None
    raw_input: Any = None
    raw_output: Any = None
    name: str | None = None


class ToolCallProgress(ToolCallUpdate, frozen=True, tag="tool_call_update", tag_field="sessionUpdate"):
    """The session update `tool_call_update`."""


class PermissionOption(Message, frozen=True):
    """One answer a person can give."""

    option_id: str
    name: str
    kind: PermissionOptionKind


class RequestPermissionRequest(Message, frozen=True):
    """Ask whether a tool call may go on."""

    session_id: str
    tool_call: ToolCallUpdate
    options: Sequence[PermissionOption]


class CancelledPermissionOutcome(Message, frozen=True, tag="cancelled", tag_field="outcome"):
    """The turn was cancelled before anybody chose."""


class SelectedPermissionOutcome(Message, frozen=True, tag="selected", tag_field="outcome"):
    """Somebody chose this option."""

    option_id: str


RequestPermissionOutcome = CancelledPermissionOutcome | SelectedPermissionOutcome


class RequestPermissionResponse(Message, frozen=True):
    """The answer to a permission request."""

    outcome: RequestPermissionOutcome
