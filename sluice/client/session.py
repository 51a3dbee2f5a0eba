"""What a client knows of one session: its settings, its tool rows, and the turn that runs.

Source: https://agentclientprotocol.com/protocol/session-setup
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio

from sluice.client.reading import items, members, text
from sluice.client.updates import (
    Commands,
    ConfigOption,
    ConfigOptions,
    CurrentMode,
    Plan,
    SessionInfo,
    ToolRow,
    ToolRows,
    ToolUpdate,
    Unchanged,
    Update,
    Usage,
    read_config_options,
)

__all__ = [
    "STOP_REASONS",
    "Choice",
    "Session",
    "SessionEntry",
    "SessionUpdate",
    "Turn",
    "TurnEnd",
    "read_session_entry",
]

STOP_REASONS = frozenset({"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"})
"""The stop reasons of ACP version 1."""


@dataclass(frozen=True)
class SessionUpdate:
    """One update of a session, as it is handed to the program that uses this library.

    Attributes:
        update: what changed.
        row: for a tool update, the whole row as it is now; else None.
        raw: the update as plain data; empty when this side made it (a call it marked as cancelled).
        replay: whether a `session/load` is replaying history.
    """

    session_id: str
    update: Update
    row: ToolRow | None
    raw: Mapping[str, Any]
    replay: bool = False


@dataclass(frozen=True)
class TurnEnd:
    """How a turn ended.

    Attributes:
        stop_reason: the agent's word; "cancelled" for every interrupted turn, whatever the agent answered; empty
            when it gave none.
        answered: the agent's word as it came, or None when it gave none or answered an interrupted turn with an
            error.
    """

    stop_reason: str
    answered: str | None

    @property
    def known(self) -> bool:
        """Whether the stop reason is one of ACP version 1."""
        return self.stop_reason in STOP_REASONS


@dataclass(eq=False)
class Turn:
    """A `session/prompt` without an answer yet.

    Attributes:
        interrupted: set once the user has stopped it.
        ended: set once the agent has answered or is gone; `end` or `error` says how.
    """

    interrupted: anyio.Event = field(default_factory=anyio.Event)
    ended: anyio.Event = field(default_factory=anyio.Event)
    end: TurnEnd | None = None
    error: Exception | None = None


@dataclass(frozen=True)
class Choice:
    """A mode or a model on offer."""

    id: str
    name: str
    description: str | None = None


@dataclass(eq=False)
class Session:
    """One open session.

    Attributes:
        setup: the answer that opened it, as plain data.
        modes: the modes on offer; empty when the agent offers none.
        mode: the id of the current mode, or None.
        models: the models of the field that agents sent before there were settings; empty without it.
        model: the id of the current one of `models`, or None.
        turn: the prompt in flight; None when the session is idle.
    """

    id: str
    cwd: str
    setup: Mapping[str, Any] = field(default_factory=dict)
    modes: tuple[Choice, ...] = ()
    mode: str | None = None
    models: tuple[Choice, ...] = ()
    model: str | None = None
    options: tuple[ConfigOption, ...] = ()
    commands: Commands = field(default_factory=lambda: Commands(()))
    plan: Plan = field(default_factory=lambda: Plan(()))
    usage: Usage | None = None
    title: str | None = None
    updated_at: str | None = None
    rows: ToolRows = field(default_factory=ToolRows)
    turn: Turn | None = None

    def take_setup(self, answer: object) -> None:
        """Read what the answer to new, load or resume offers; null and missing parts offer nothing."""
        self.setup = members(answer)
        modes, models = members(self.setup.get("modes")), members(self.setup.get("models"))
        self.mode, self.modes = text(modes.get("currentModeId")), _choices(modes.get("availableModes"), "id")
        self.model = text(models.get("currentModelId"))
        self.models = _choices(models.get("availableModels"), "modelId")
        self.options = read_config_options(self.setup.get("configOptions"))

    def apply(self, update: Update) -> ToolRow | None:
        """Fold an update in.

        Returns:
            The row a tool update changed, else None.
        """
        match update:
            case ToolUpdate():
                return self.rows.apply(update)
            case Plan():
                self.plan = update
            case Commands():
                self.commands = update
            case CurrentMode():
                self.mode = update.mode_id
            case ConfigOptions():
                self.options = update.options
            case Usage():
                self.usage = update
            case SessionInfo():
                self._take_info(update)
            case _:
                pass
        return None

    def option(self, option_id: str) -> ConfigOption | None:
        """The setting with this id, or None when the session has no such setting."""
        return next((option for option in self.options if option.id == option_id), None)

    def _take_info(self, info: SessionInfo) -> None:
        if not isinstance(info.title, Unchanged):
            self.title = info.title
        if not isinstance(info.updated_at, Unchanged):
            self.updated_at = info.updated_at


def _choices(value: object, key: str) -> tuple[Choice, ...]:
    return tuple(
        Choice(found, text(entry.get("name")) or found, text(entry.get("description")))
        for entry in items(value)
        if (found := text(entry.get(key)))
    )


@dataclass(frozen=True)
class SessionEntry:
    """A session as `session/list` shows it.

    Attributes:
        additional_directories: the roots this entry names; empty when it names none (nothing is remembered from
            earlier listings).
    """

    session_id: str
    cwd: str
    title: str | None = None
    updated_at: str | None = None
    additional_directories: tuple[str, ...] = ()


def read_session_entry(fields: Mapping[str, Any]) -> SessionEntry | None:
    """Read one entry of a listing; None without an id or a directory."""
    session_id, cwd, roots = (
        text(fields.get("sessionId")),
        text(fields.get("cwd")),
        fields.get("additionalDirectories"),
    )
    if not session_id or not cwd:
        return None
    return SessionEntry(
        session_id,
        cwd,
        text(fields.get("title")),
        text(fields.get("updatedAt")),
        tuple(root for root in roots if isinstance(root, str)) if isinstance(roots, list) else (),
    )
