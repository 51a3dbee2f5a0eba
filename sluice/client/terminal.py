"""A session on a plain terminal: streamed text, one line per step of a tool call, plans as check lists.

Whatever an agent sends is untrusted here: model text may hold escape sequences that move the cursor, rename the
window or hide what a permission is asked for. So a character that a terminal might obey is shown, not sent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from difflib import SequenceMatcher
from typing import Any

from sluice.client.permissions import PermissionRequest
from sluice.client.reading import members, text
from sluice.client.session import SessionUpdate, TurnEnd
from sluice.client.updates import CurrentMode, MessageChunk, Plan, ToolRow, ToolUpdate

__all__ = ["TerminalView", "one_line", "printable"]

PREVIEW = 200
"""Characters shown of a single line that an agent chose."""

ARGUMENTS = 4000
"""Characters of a tool's arguments shown in a question; what is approved should be seen."""

OUTPUT_LINES = 8
"""Lines shown of what a command printed."""

DIFF_LINES = 20_000
"""Lines of a file up to which its changed lines are counted exactly; the comparison of larger ones takes seconds."""

# Everything with a meaning to a terminal: C0 without tab and newline, DEL, C1, and what reorders or hides text.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

_DIM, _BOLD, _RED, _GREEN, _YELLOW, _RESET = "\x1b[2m", "\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m"

_STATUS = {
    "pending": ("pending", _DIM),
    "in_progress": ("running", _YELLOW),
    "completed": ("done", _GREEN),
    "failed": ("failed", _RED),
    "cancelled": ("cancelled", _DIM),
}
_PLAN = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}

_ENDS = {
    "max_tokens": "stopped: the model's output limit is reached",
    "max_turn_requests": "stopped: the limit of model requests in one turn is reached",
    "refusal": "the agent refused to go on",
    "cancelled": "cancelled",
}


def printable(value: str) -> str:
    """Text of several lines without anything a terminal would obey.

    Line ends become plain newlines, tabs stay, every other control character is written as an escape.
    """
    return _UNSAFE.sub(_escaped, value.replace("\r\n", "\n"))


def one_line(value: str, limit: int = PREVIEW) -> str:
    """The same in a single line of at most `limit` characters."""
    line = printable(value).replace("\n", "\\n").replace("\t", " ").strip()
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _escaped(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


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

    def update(self, update: SessionUpdate) -> None:
        """Show one update of the session."""
        match update.update:
            case MessageChunk(role="user"):
                pass
            case MessageChunk() as chunk:
                self._chunk(chunk)
            case ToolUpdate() if update.row is not None:
                self._tool(update.row)
            case Plan(entries) if entries:
                steps = [f"  {_PLAN.get(step.status, '[ ]')} {one_line(step.content)}" for step in entries]
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
            lines.append(f"  {_arguments(request.row.raw_input)}")
        lines += [f"  {line}" for line in _diffs(request.row)]
        offer = "  ".join(f"[{key}] {meaning}" for key, meaning in keys.items())
        self.note("\n".join([*lines, f"  {offer}"]))

    def end(self, end: TurnEnd) -> None:
        """Show the end of a turn, with a word about it unless it ended as turns do."""
        self._close_line()
        if end.stop_reason != "end_turn":
            said = _ENDS.get(end.stop_reason) or f"ended for an unknown reason: {one_line(end.stop_reason) or 'none'}"
            self.note(said, _YELLOW)

    def close(self) -> None:
        """End the line that is being streamed, if any."""
        self._close_line()

    def note(self, line: str, colour: str = "") -> None:
        """Write lines of our own; what they quote has been made printable by the caller."""
        self._close_line()
        self._write(self._painted(line, colour) + "\n")

    def _chunk(self, chunk: MessageChunk) -> None:
        said = printable(chunk.text) if chunk.content.get("type") == "text" else _placeholder(chunk.content)
        if not said:
            return
        another = chunk.message_id is not None and self._message is not None and chunk.message_id != self._message
        if self._speaker != chunk.role or another:
            self._close_line()
        self._speaker, self._message = chunk.role, chunk.message_id
        if chunk.role == "thought":
            # Each line is marked, so that reasoning is told from the answer without colours too.
            marked = said.replace("\n", "\n~ ")
            self._write(self._painted(marked if self._line_open else f"~ {marked}", _DIM))
        else:
            self._write(said)
        self._line_open = "open" if not said.endswith("\n") or chunk.role == "thought" else ""

    def _tool(self, row: ToolRow) -> None:
        word, colour = _STATUS.get(row.status, (one_line(row.status, 20), ""))
        title = one_line(row.title or row.name or row.call_id)
        if self._shown.get(row.call_id) == (word, title):
            return
        self._shown[row.call_id] = (word, title)
        lines = [f"{self._painted(f'[{word}]', colour)} {title}"]
        if row.status == "completed":
            lines += [f"  {line}" for line in _diffs(row)]
            lines += [f"  {line}" for line in _output(row)]
        if row.status == "failed" and (reason := one_line(_text_of(row))):
            lines.append(f"  {reason}")
        self.note("\n".join(lines))

    def _close_line(self) -> None:
        if self._line_open:
            self._write("\n")
        self._line_open, self._speaker, self._message = "", None, None

    def _painted(self, line: str, colour: str) -> str:
        return f"{colour}{line}{_RESET}" if self._colour and colour else line


def _placeholder(content: Mapping[str, Any]) -> str:
    """What stands for content a terminal cannot show."""
    kind = one_line(str(content.get("type")), 20)
    name = (
        text(content.get("uri")) or text(content.get("mimeType")) or text(members(content.get("resource")).get("uri"))
    )
    return f"<{kind} {one_line(name)}>" if name else f"<{kind}>"


def _compact(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def _arguments(value: Any) -> str:
    """The arguments somebody is asked to approve: nearly always whole, else with a word about what is hidden."""
    whole = _compact(value)
    hidden = len(whole) - ARGUMENTS
    return (
        one_line(whole, 8 * ARGUMENTS)
        if hidden <= 0
        else (f"{one_line(whole[:ARGUMENTS], 8 * ARGUMENTS)} … and {hidden} more characters that are not shown")
    )


def _text_of(row: ToolRow) -> str:
    for entry in row.content:
        if said := text(members(entry.get("content")).get("text")):
            return said
    return row.raw_output if isinstance(row.raw_output, str) else ""


def _output(row: ToolRow) -> list[str]:
    """The first lines a command printed; what other tools return is for the model and not shown."""
    if row.kind != "execute":
        return []
    lines = printable(_text_of(row)).rstrip("\n").split("\n")
    shown = [one_line(line) for line in lines[:OUTPUT_LINES]]
    return shown if len(lines) <= OUTPUT_LINES else [*shown, f"… {len(lines) - OUTPUT_LINES} more lines"]


def _diffs(row: ToolRow) -> list[str]:
    """One line per changed file: its path, and how many lines came and went."""
    return [
        f"{one_line(path)} {_counts(text(entry.get('oldText')), text(entry.get('newText')) or '')}"
        for entry in row.content
        if entry.get("type") == "diff" and (path := text(entry.get("path")))
    ]


def _counts(old: str | None, new: str) -> str:
    after = new.splitlines()
    if old is None:
        return f"(new, {len(after)} lines)"
    before = old.splitlines()
    if len(before) + len(after) > DIFF_LINES:
        return f"({len(before)} lines, now {len(after)})"
    added = removed = 0
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, before, after, autojunk=True).get_opcodes():
        if tag != "equal":
            removed += i2 - i1
            added += j2 - j1
    return f"(+{added} -{removed})"
