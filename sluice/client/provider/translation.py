"""Updates of a session into events of a chat.

Everything here is called by the reader of the connection, in read order, and never waits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from sluice.client.provider.events import (
    ChatEvent,
    CommandsChanged,
    ModelChanged,
    PermissionsChanged,
    Row,
    TextDelta,
    TextDone,
    ThinkingDelta,
    ThinkingDone,
    TitleChanged,
    ToolDone,
    ToolStarted,
    UsageChanged,
)
from sluice.client.provider.policy import ModeMap, RuntimeMode, runtime_mode_of
from sluice.client.provider.rows import Shown, draw, draw_plan
from sluice.client.session import SessionUpdate
from sluice.client.updates import (
    Commands,
    ConfigOption,
    ConfigOptions,
    CurrentMode,
    MessageChunk,
    Plan,
    SessionInfo,
    ToolUpdate,
    Unchanged,
    Usage,
)

__all__ = ["Translation", "option_of"]

ENDED = frozenset({"completed", "failed", "cancelled"})
"""The statuses of a row that has ended."""

_Delta: TypeAlias = type[TextDelta] | type[ThinkingDelta]
_Done: TypeAlias = type[TextDone] | type[ThinkingDone]

_MESSAGES: Mapping[Literal["user", "agent", "thought"], tuple[_Delta, _Done]] = {
    "agent": (TextDelta, TextDone),
    "thought": (ThinkingDelta, ThinkingDone),
}
"""Who speaks -> the events of it. What the user said is the host's own and is not told back."""


@dataclass
class _Message:
    """A message that is being written."""

    role: str
    done: _Done
    message_id: str | None
    pieces: list[str] = field(default_factory=list)


class Translation:
    """The events of one chat.

    Args:
        emit: takes each event.
        modes: how the agent's modes map to runtime modes.
        present: tells the runtime mode the chat has now.
        shown: what a terminal has said.
    """

    def __init__(
        self, emit: Callable[[ChatEvent], None], modes: ModeMap, present: Callable[[], RuntimeMode], shown: Shown
    ) -> None:
        self.emit = emit
        self._shown = shown
        self._modes = modes
        self._present = present
        self._message: _Message | None = None
        self._rows: dict[str, Row] = {}

    def update(self, update: SessionUpdate) -> None:
        """Translate one update.

        What a load replays of the conversation is dropped, as the thread holds it already; the session's settings
        among the replay are news.
        """
        match update.update:
            case MessageChunk() | ToolUpdate() | Plan() if update.replay:
                pass
            case MessageChunk() as chunk:
                self._chunk(chunk)
            case ToolUpdate() if update.row is not None:
                self._show(draw(update.row, self._shown))
            case Plan() as plan:
                self._show(draw_plan(plan), closes=False)
            case Commands(commands):
                self.emit(CommandsChanged(commands))
            case CurrentMode(mode_id):
                self._permissions(mode_id)
            case ConfigOptions(options):
                self._options(options)
            case Usage() as usage:
                self._usage(usage)
            case SessionInfo(title) if not isinstance(title, Unchanged):
                self.emit(TitleChanged(title))
            case _:
                pass

    def close_message(self) -> None:
        """The message that is being written, if any, is complete."""
        message, self._message = self._message, None
        if message is not None:
            self.emit(message.done("".join(message.pieces), message.message_id))

    def _chunk(self, chunk: MessageChunk) -> None:
        # Pictures, sounds and resources inside a message come with an empty text and are left out.
        if not chunk.text or chunk.role not in _MESSAGES:
            return
        delta, done = _MESSAGES[chunk.role]
        message = self._message
        if message is not None and (message.role != chunk.role or _differs(message.message_id, chunk.message_id)):
            self.close_message()
            message = None
        if message is None:
            message = self._message = _Message(chunk.role, done, chunk.message_id)
        message.message_id = message.message_id or chunk.message_id
        message.pieces.append(chunk.text)
        self.emit(delta(chunk.text, chunk.message_id))

    def _show(self, row: Row, *, closes: bool = True) -> None:
        """Tell a row when it is new or has changed; a new call also ends the message before it."""
        old = self._rows.get(row.id)
        if row == old:
            return
        self._rows[row.id] = row
        if old is None:
            if closes:
                self.close_message()
            self.emit(ToolStarted(row))
        elif row.status not in ENDED:
            self.emit(ToolStarted(row))
        if row.status in ENDED:
            self.emit(ToolDone(row))

    def _permissions(self, mode_id: str) -> None:
        runtime_mode = runtime_mode_of(mode_id, self._modes, self._present())
        if runtime_mode is not None:
            self.emit(PermissionsChanged(runtime_mode))

    def _options(self, options: tuple[ConfigOption, ...]) -> None:
        model, mode = option_of(options, "model"), option_of(options, "mode")
        if model is not None:
            self.emit(ModelChanged(str(model.current)))
        if mode is not None:
            self._permissions(str(mode.current))

    def _usage(self, usage: Usage) -> None:
        amount, currency = usage.cost or (None, "")
        dollars = amount if currency == "USD" and amount is not None and amount >= 0 else None
        self.emit(UsageChanged(min(usage.used, usage.size), usage.size, dollars))


def option_of(options: tuple[ConfigOption, ...], category: str) -> ConfigOption | None:
    """The setting of a category that offers a choice; None without one."""
    return next((one for one in options if one.category == category and isinstance(one.current, str)), None)


def _differs(first: str | None, second: str | None) -> bool:
    return first is not None and second is not None and first != second
