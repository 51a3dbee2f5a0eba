"""Session modes and config options.

Source: ACP "Session Modes" and "Session Config Options".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sluice.acp.base import Message, Untagged

__all__ = [
    "SessionConfigBoolean",
    "SessionConfigOption",
    "SessionConfigSelect",
    "SessionConfigSelectEntry",
    "SessionConfigSelectGroup",
    "SessionConfigSelectOption",
    "SessionMode",
    "SessionModeState",
    "SetSessionConfigOptionRequest",
    "SetSessionConfigOptionResponse",
    "SetSessionModeRequest",
    "SetSessionModeResponse",
]


class SessionMode(Message, frozen=True):
    """One mode a session can be in."""

    id: str
    name: str
    description: str | None = None


class SessionModeState(Message, frozen=True):
    """The current mode and all that can be chosen."""

    current_mode_id: str
    available_modes: Sequence[SessionMode]


class SessionConfigSelectEntry(Untagged):
    """One entry of a select: a `SessionConfigSelectOption`, or a `SessionConfigSelectGroup` of them."""

    __slots__ = ()

    @staticmethod
    def select(value: Mapping[str, Any]) -> type[Any]:
        """A group is what has the key `group`."""
        return SessionConfigSelectGroup if "group" in value else SessionConfigSelectOption


class SessionConfigSelectOption(Message, SessionConfigSelectEntry, frozen=True):
    """One value that can be chosen."""

    value: str
    name: str
    description: str | None = None


class SessionConfigSelectGroup(Message, SessionConfigSelectEntry, frozen=True):
    """Options under one heading."""

    group: str
    name: str
    options: Sequence[SessionConfigSelectOption]


class SessionConfigSelect(Message, frozen=True, tag="select", tag_field="type"):
    """An option with one of several values; `category` is a hint for display (mode, model, thought_level, ...)."""

    id: str
    name: str
    current_value: str
    options: Sequence[SessionConfigSelectEntry]
    description: str | None = None
    category: str | None = None


class SessionConfigBoolean(Message, frozen=True, tag="boolean", tag_field="type"):
    """A switch; only for clients with `session.configOptions.boolean`."""

    id: str
    name: str
    current_value: bool
    description: str | None = None
    category: str | None = None


SessionConfigOption = SessionConfigSelect | SessionConfigBoolean


class SetSessionModeRequest(Message, frozen=True):
    """Switch the session to another mode."""

    session_id: str
    mode_id: str


class SetSessionModeResponse(Message, frozen=True):
    """The mode is set."""


class SetSessionConfigOptionRequest(Message, frozen=True):
    """Give one option another value.

    Attributes:
        value: the id of a select's value, or a bool in the boolean form.
        type: "boolean" in the boolean form; any other string is ignored, as the schema says.
    """

    session_id: str
    config_id: str
    value: str | bool
    type: str | None = None


class SetSessionConfigOptionResponse(Message, frozen=True):
    """Every option of the session after the change, not only the changed one."""

    config_options: Sequence[SessionConfigOption]
