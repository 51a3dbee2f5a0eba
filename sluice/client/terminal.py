"""A session on a plain terminal or in a pipe: streamed text, a line per step of a tool call, plans as check lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import anyio

from sluice.client.permissions import PermissionRequest
from sluice.client.reading import text
from sluice.client.session import SessionUpdate, TurnEnd
from sluice.client.updates import CurrentMode, MessageChunk, Plan, ToolRow, ToolUpdate
from sluice.client.wording import (
    PLAN,
    arguments,
    change_counts,
    one_line,
    output_lines,
    placeholder,
    printable,
    reason_of,
    unusual_end,
)

__all__ = ["TerminalView", "one_line", "printable"]

_DIM, _BOLD, _RED, _GREEN, _YELLOW, _RESET = "\x1b[2m", "\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m"

_STATUS = {
    "pending": ("pending", _DIM),
    "in_progress": ("running", _YELLOW),
    "completed": ("done", _GREEN),
    "failed": ("failed", _RED),
    "cancelled": ("cancelled", _DIM),
}


class TerminalView:
    """Writes what happens in a session to a terminal, line by line.

    Args:
        write: takes text for the terminal.
        colour: whether escape sequences for colours may be used.
    """

    def __init__(self, write: Callable[[str], None], *, colour: bool = False) -> None:
        self._write = write
        self._colour = colour
        self._speaker: str | None = None
        self._message: str | None = None
        self._line_open = ""
        self._shown: dict[str, tuple[str, str]] = {}

    def begin(self) -> None:
        """A turn begins; nothing is shown."""

    def update(self, update: SessionUpdate) -> None:
        """Show one update of the session."""
        match update.update:
            case MessageChunk(role="user") if not update.replay:
                pass
            case MessageChunk() as chunk:
                self._chunk(chunk)
            case ToolUpdate() if update.row is not None:
                self._tool(update.row)
            case Plan(entries) if entries:
                steps = [f"  {PLAN.get(step.status, '[ ]')} {one_line(step.content)}" for step in entries]
                self.note("\n".join(["plan:", *steps]))
            case CurrentMode(mode_id):
                self.note(f"mode: {one_line(mode_id)}", _DIM)
            case _:
                pass

    def question(self, request: PermissionRequest, keys: Mapping[str, str]) -> None:
        """Ask for a permission; the answer is a key.

        Args:
            request: what the agent asks.
            keys: key to meaning, in the order in which they are offered.
        """
        title = one_line(request.row.title or request.row.name or "a tool")
        lines = [self._painted(f"permission: {title}", _BOLD)]
        if request.row.raw_input is not None:
            lines.append(f"  {arguments(request.row.raw_input)}")
        lines += [f"  {line}" for line in _diffs(request.row)]
        offer = "  ".join(f"[{key}] {meaning}" for key, meaning in keys.items())
        self.note("\n".join([*lines, f"  {offer}"]))

    def answer(self, line: str) -> None:
        """Say how the question was answered; "" when it was withdrawn."""
        if line:
            self.note(f"  {line}")

    def end(self, end: TurnEnd) -> None:
        """Show the end of a turn, with a word about it unless it ended as turns do."""
        self._close_line()
        if said := unusual_end(end.stop_reason):
            self.note(said, _YELLOW)

    def close(self) -> None:
        """End the line that is being streamed, if any."""
        self._close_line()

    def note(self, line: str, colour: str = "") -> None:
        """Write lines of our own; what they quote has been made printable by the caller."""
        self._close_line()
        self._write(self._painted(line, colour) + "\n")

    async def animate(self) -> None:
        """Nothing moves here; waits to be cancelled."""
        await anyio.sleep_forever()

    def _chunk(self, chunk: MessageChunk) -> None:
        said = printable(chunk.text) if chunk.content.get("type") == "text" else placeholder(chunk.content)
        if not said:
            return
        another = chunk.message_id is not None and self._message is not None and chunk.message_id != self._message
        if self._speaker != chunk.role or another:
            self._close_line()
        self._speaker, self._message = chunk.role, chunk.message_id
        if chunk.role == "user":
            marked = said.replace("\n", "\n> ")
            self._write(self._painted(marked if self._line_open else f"> {marked}", _BOLD))
        elif chunk.role == "thought":
            # Each line is marked, so that reasoning is told from the answer without colours too.
            marked = said.replace("\n", "\n~ ")
            self._write(self._painted(marked if self._line_open else f"~ {marked}", _DIM))
        else:
            self._write(said)
        self._line_open = "open" if not said.endswith("\n") or chunk.role != "agent" else ""

    def _tool(self, row: ToolRow) -> None:
        word, colour = _STATUS.get(row.status, (one_line(row.status, 20), ""))
        title = one_line(row.title or row.name or row.call_id)
        if self._shown.get(row.call_id) == (word, title):
            return
        self._shown[row.call_id] = (word, title)
        lines = [f"{self._painted(f'[{word}]', colour)} {title}"]
        if row.status == "completed":
            lines += [f"  {line}" for line in _diffs(row)]
            lines += [f"  {line}" for line in output_lines(row)]
        if row.status == "failed" and (reason := one_line(reason_of(row))):
            lines.append(f"  {reason}")
        self.note("\n".join(lines))

    def _close_line(self) -> None:
        if self._line_open:
            self._write("\n")
        self._line_open, self._speaker, self._message = "", None, None

    def _painted(self, line: str, colour: str) -> str:
        return f"{colour}{line}{_RESET}" if self._colour and colour else line


def _diffs(row: ToolRow) -> list[str]:
    """One line per changed file: its path, and how many lines came and went."""
    return [
        f"{one_line(path)} {change_counts(text(entry.get('oldText')), text(entry.get('newText')) or '')}"
        for entry in row.content
        if entry.get("type") == "diff" and (path := text(entry.get("path")))
    ]
