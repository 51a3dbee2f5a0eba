"""`session/update` read tolerantly into frozen values, and tool calls folded into rows.

Absent and null fields of a tool update keep the old value, lists replace the old list, a reused id starts a new row.

Source: https://agentclientprotocol.com/protocol/prompt-turn, https://agentclientprotocol.com/protocol/tool-calls
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from sluice.client.reading import integer, items, members, number, text

__all__ = [
    "Command",
    "Commands",
    "ConfigOption",
    "ConfigOptions",
    "CurrentMode",
    "MessageChunk",
    "Plan",
    "PlanEntry",
    "SessionInfo",
    "ToolRow",
    "ToolRows",
    "ToolUpdate",
    "Unchanged",
    "Update",
    "Usage",
    "parse_update",
    "read_config_options",
    "read_tool_update",
]


@dataclass(frozen=True)
class Unchanged:
    """The value of a field an update did not mention, where null would mean "clear"."""


UNCHANGED = Unchanged()


@dataclass(frozen=True)
class MessageChunk:
    """A piece of a message.

    Attributes:
        role: who speaks; a thought is the agent's reasoning.
        text: the piece when it is text, else an empty string.
        content: the content block as plain data, of any type.
        message_id: pieces with one id are one message; None when the agent sends none.
    """

    role: Literal["user", "agent", "thought"]
    text: str
    content: Mapping[str, Any]
    message_id: str | None = None


@dataclass(frozen=True)
class ToolUpdate:
    """A tool call's first report or a change of it; None means unchanged.

    Attributes:
        announced: whether this is the `tool_call` that announces the call.
    """

    call_id: str
    announced: bool = False
    title: str | None = None
    name: str | None = None
    kind: str | None = None
    status: str | None = None
    content: tuple[Mapping[str, Any], ...] | None = None
    locations: tuple[Mapping[str, Any], ...] | None = None
    raw_input: Any = None
    raw_output: Any = None


@dataclass(frozen=True)
class PlanEntry:
    """One step of a plan."""

    content: str
    status: str = "pending"
    priority: str = "medium"


@dataclass(frozen=True)
class Plan:
    """The whole plan; an empty one clears it."""

    entries: tuple[PlanEntry, ...]


@dataclass(frozen=True)
class Command:
    """A slash command on offer.

    Attributes:
        hint: what its argument is about; None when it takes none.
    """

    name: str
    description: str = ""
    hint: str | None = None


@dataclass(frozen=True)
class Commands:
    """All slash commands on offer."""

    commands: tuple[Command, ...]


@dataclass(frozen=True)
class CurrentMode:
    """The session's mode is now this one."""

    mode_id: str


@dataclass(frozen=True)
class ConfigOption:
    """A setting of the session.

    Attributes:
        category: mode, model, thought_level or any other word; None for none.
        current: the present value: an id, or a bool for a boolean option.
        values: what may be chosen, as (id, name) in order; empty for a boolean option.
    """

    id: str
    name: str
    category: str | None
    current: str | bool
    values: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class ConfigOptions:
    """All settings of the session."""

    options: tuple[ConfigOption, ...]


@dataclass(frozen=True)
class SessionInfo:
    """The session's title and time of last change; `Unchanged` when not mentioned, None when cleared."""

    title: str | Unchanged | None = UNCHANGED
    updated_at: str | Unchanged | None = UNCHANGED


@dataclass(frozen=True)
class Usage:
    """How full the context is.

    Attributes:
        used: tokens in the context.
        size: tokens the context holds.
        cost: (amount, currency code), or None when not reported.
    """

    used: int
    size: int
    cost: tuple[float, str] | None = None


Update = MessageChunk | ToolUpdate | Plan | Commands | CurrentMode | ConfigOptions | SessionInfo | Usage
"""Every update this client understands."""


def parse_update(update: object) -> Update | None:
    """Read the `update` member of a `session/update`; never raises.

    Returns:
        The update, or None when its kind is unknown or it lacks what its kind cannot do without.
    """
    fields = members(update)
    kind = text(fields.get("sessionUpdate"))
    reader = _READERS.get(kind or "")
    return reader(fields) if reader else None


def read_tool_update(fields: Mapping[str, Any], *, announced: bool = False) -> ToolUpdate | None:
    """Read a tool call or a change of one; None without a usable id."""
    call_id = text(fields.get("toolCallId"))
    if not call_id:
        return None
    return ToolUpdate(
        call_id=call_id,
        announced=announced,
        title=text(fields.get("title")),
        name=text(fields.get("name")),
        kind=text(fields.get("kind")),
        status=text(fields.get("status")),
        content=_list(fields.get("content")),
        locations=_list(fields.get("locations")),
        raw_input=fields.get("rawInput"),
        raw_output=fields.get("rawOutput"),
    )


def read_config_options(value: object) -> tuple[ConfigOption, ...]:
    """Read a list of config options, flat or grouped; options of unknown types are left out."""
    return tuple(option for entry in items(value) if (option := _config_option(entry)) is not None)


@dataclass(frozen=True)
class ToolRow:
    """A tool call with everything reported so far.

    Attributes:
        status: pending, in_progress, completed, failed, or "cancelled", which only this side says.
        generation: 1 for the first call of this id, 2 for the next call that is announced under it, and so on.
    """

    call_id: str
    title: str = ""
    name: str | None = None
    kind: str = "other"
    status: str = "pending"
    content: tuple[Mapping[str, Any], ...] = ()
    locations: tuple[Mapping[str, Any], ...] = ()
    raw_input: Any = None
    raw_output: Any = None
    generation: int = 1

    @property
    def ended(self) -> bool:
        """Whether the call is over."""
        return self.status in ("completed", "failed", "cancelled")


@dataclass
class ToolRows:
    """The latest row of every tool call id of a session.

    Attributes:
        earlier: the ids whose latest row belongs to a turn before the present one.
    """

    latest: dict[str, ToolRow] = field(default_factory=dict)
    earlier: set[str] = field(default_factory=set)

    def begin_turn(self) -> None:
        """A turn begins: a call announced from now on is another one than any before, whatever its id."""
        self.earlier = set(self.latest)

    def apply(self, update: ToolUpdate) -> ToolRow:
        """Fold an update in.

        A call that is announced again after its end or in a later turn is another call under a reused id; an update
        for a call that was never announced makes a row all the same.

        Returns:
            The row as it is now.
        """
        row = self.latest[update.call_id] = self.preview(update)
        if update.announced:
            self.earlier.discard(update.call_id)
        return row

    def preview(self, update: ToolUpdate) -> ToolRow:
        """The row as it would be with this update, without keeping it."""
        old = self.latest.get(update.call_id)
        if old is None or (update.announced and (old.ended or update.call_id in self.earlier)):
            generation = 1 if old is None else old.generation + 1
            old = ToolRow(update.call_id, title=update.name or update.call_id, generation=generation)
        changes = {
            name: value
            for name in ("title", "name", "kind", "status", "content", "locations", "raw_input", "raw_output")
            if (value := getattr(update, name)) is not None
        }
        return replace(old, **changes)

    def cancel_open(self) -> tuple[ToolRow, ...]:
        """Mark every call that has not ended as cancelled, as a client does when the user interrupts.

        Returns:
            The rows that changed.
        """
        rows = tuple(replace(row, status="cancelled") for row in self.latest.values() if not row.ended)
        self.latest.update({row.call_id: row for row in rows})
        return rows


def _list(value: object) -> tuple[Mapping[str, Any], ...] | None:
    return tuple(items(value)) if isinstance(value, list) else None


def _chunk(role: Literal["user", "agent", "thought"]) -> Callable[[Mapping[str, Any]], MessageChunk | None]:
    def read(fields: Mapping[str, Any]) -> MessageChunk | None:
        content = members(fields.get("content"))
        if not content:
            return None
        said = text(content.get("text")) if content.get("type") == "text" else None
        return MessageChunk(role, said or "", content, text(fields.get("messageId")))

    return read


def _plan(fields: Mapping[str, Any]) -> Plan | None:
    if not isinstance(fields.get("entries"), list):
        return None
    return Plan(
        tuple(
            PlanEntry(content, text(entry.get("status")) or "pending", text(entry.get("priority")) or "medium")
            for entry in items(fields.get("entries"))
            if (content := text(entry.get("content"))) is not None
        )
    )


def _commands(fields: Mapping[str, Any]) -> Commands | None:
    if not isinstance(fields.get("availableCommands"), list):
        return None
    return Commands(
        tuple(
            Command(name, text(entry.get("description")) or "", text(members(entry.get("input")).get("hint")))
            for entry in items(fields.get("availableCommands"))
            if (name := text(entry.get("name")))
        )
    )


def _current_mode(fields: Mapping[str, Any]) -> CurrentMode | None:
    # One example of the specification writes `modeId`, and agents were written after it.
    mode_id = text(fields.get("currentModeId")) or text(fields.get("modeId"))
    return CurrentMode(mode_id) if mode_id else None


def _config_options(fields: Mapping[str, Any]) -> ConfigOptions | None:
    options = fields.get("configOptions")
    return ConfigOptions(read_config_options(options)) if isinstance(options, list) else None


def _config_option(entry: Mapping[str, Any]) -> ConfigOption | None:
    option_id, kind, current = text(entry.get("id")), entry.get("type"), entry.get("currentValue")
    if not option_id:
        return None
    name, category = text(entry.get("name")) or option_id, text(entry.get("category"))
    if kind == "boolean" and isinstance(current, bool):
        return ConfigOption(option_id, name, category, current)
    if kind == "select" and isinstance(current, str):
        return ConfigOption(option_id, name, category, current, _choices(entry.get("options")))
    return None


def _choices(value: object) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    for entry in items(value):
        if isinstance(entry.get("options"), list):
            found += _choices(entry["options"])
        elif (choice := text(entry.get("value"))) is not None:
            found.append((choice, text(entry.get("name")) or choice))
    return tuple(found)


def _session_info(fields: Mapping[str, Any]) -> SessionInfo:
    def read(key: str) -> str | Unchanged | None:
        value = fields.get(key, UNCHANGED)
        return value if value is None or isinstance(value, str) else UNCHANGED

    return SessionInfo(read("title"), read("updatedAt"))


def _usage(fields: Mapping[str, Any]) -> Usage | None:
    used, size = integer(fields.get("used")), integer(fields.get("size"))
    if used is None or size is None or used < 0 or size <= 0:
        return None
    cost = members(fields.get("cost"))
    amount, currency = number(cost.get("amount")), text(cost.get("currency"))
    return Usage(used, size, (amount, currency) if amount is not None and currency else None)


_READERS: Mapping[str, Callable[[Mapping[str, Any]], Update | None]] = {
    "user_message_chunk": _chunk("user"),
    "agent_message_chunk": _chunk("agent"),
    "agent_thought_chunk": _chunk("thought"),
    "tool_call": lambda fields: read_tool_update(fields, announced=True),
    "tool_call_update": read_tool_update,
    "plan": _plan,
    "available_commands_update": _commands,
    "current_mode_update": _current_mode,
    "config_option_update": _config_options,
    "session_info_update": _session_info,
    "usage_update": _usage,
}
