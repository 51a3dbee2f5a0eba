"""A session on a colour terminal: Markdown as it streams, tool calls that change in place, diffs, a status line.

What is final goes above a small region at the bottom and stays in the scrollback; the region holds what may still
change: the last block of the message, the tool calls that run, the plan, the status line. It is redrawn by `animate`
at most some twelve times a second, however fast updates come, and not at all while nothing happens.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import anyio
from rich.console import Group, RenderableType
from rich.text import Text

from sluice.client.painting import Painter, argument_texts, blocks, diff_lines, markdown
from sluice.client.permissions import PermissionRequest
from sluice.client.region import Region, Size
from sluice.client.session import SessionUpdate, TurnEnd
from sluice.client.updates import MessageChunk, Plan, PlanEntry, ToolRow, ToolUpdate
from sluice.client.wording import (
    PLAN,
    one_line,
    output_lines,
    placeholder,
    printable,
    reason_of,
    unusual_end,
)

__all__ = ["RichView"]

FRAME = 0.08
"""Seconds between two drawings at least."""

DIFF_SHOWN, DIFF_ASKED = 30, 300
"""Lines of a file's diff after an edit, and in the question whether it may be made."""

PREVIEW = 4000
"""Characters of a growing block that is laid out as Markdown; of a longer one the end is shown as it came."""

_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_ENDED = {"completed": ("✓", "green"), "failed": ("✗", "red"), "cancelled": ("■", "dim")}
_STEP = {"completed": "dim green", "in_progress": "bold"}


class RichView:
    """Shows what happens in a session.

    Args:
        write: takes text for the terminal, escape sequences included.
        size: asks for the terminal's columns and rows.
        colour: whether colours and weights may be used; moving the cursor is always allowed.
        status: what the status line says of the session; each part is made printable here.
        clock: seconds from any start.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        size: Callable[[], Size],
        *,
        colour: bool,
        status: Callable[[], Sequence[str]] = tuple,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._painter = Painter(colour=colour)
        self._region = Region(write, size, self._painter.width)
        self._size, self._status, self._clock = size, status, clock
        self._speaker: tuple[str, str | None] | None = None
        self._text = ""
        self._grown: tuple[tuple[str, int], list[str]] = (("", 0), [])
        self._looked_at = 0
        self._tools: dict[str, tuple[ToolRow, float]] = {}
        self._plan: tuple[PlanEntry, ...] = ()
        self._final: list[str] = []
        self._last = ""
        self._working: float | None = None
        self._asking = False
        self._changed = anyio.Event()

    # --- what happens

    def begin(self) -> None:
        """A turn begins: the status line shows until it ends."""
        self._working = self._clock()
        self._last = ""
        self._changed.set()

    def update(self, update: SessionUpdate) -> None:
        """Take one update of the session in; it is drawn with the next frame."""
        match update.update:
            case MessageChunk(role="user") if not update.replay:
                pass
            case MessageChunk() as chunk:
                self._chunk(chunk)
            case ToolUpdate() if update.row is not None:
                self._tool(update.row)
            case Plan(entries):
                self._plan = entries
            case _:
                pass
        self._changed.set()

    def question(self, request: PermissionRequest, keys: Mapping[str, str]) -> None:
        """Ask for a permission, the answer being a key; nothing else is drawn until `answer`.

        Args:
            request: what the agent asks.
            keys: key to meaning, in the order in which they are offered.
        """
        row = request.row
        self._settle_message()
        lines = [Text(f"permission: {one_line(row.title or row.name or 'a tool')}", "bold yellow")]
        details = [*argument_texts(row.raw_input, DIFF_ASKED), *diff_lines(row, DIFF_ASKED)]
        offer = Text("  ").join(Text.assemble((f"[{key}]", "bold"), f" {meaning}") for key, meaning in keys.items())
        self._put("question", Group(*lines), indent="")
        self._put("question", Group(*details, offer), indent="  ")
        self._paint([])
        self._asking = True

    def answer(self, line: str) -> None:
        """Say how the question was answered; "" when it was withdrawn."""
        self._asking = False
        if line:
            self._put("question", Text(line, "dim"), indent="  ")
        self.draw()

    def end(self, end: TurnEnd) -> None:
        """Show the end of a turn: all of it becomes final."""
        self.close()
        said = unusual_end(end.stop_reason)
        if said:
            self._put("note", Text(said, "yellow"))
        if status := self._status_text():
            self._put("status", status)
        self.draw()

    def close(self) -> None:
        """Make everything final and leave the terminal as it is for whoever writes next."""
        self._settle_message()
        for row, _ in self._tools.values():
            self._put("tool", self._row(row))
        self._tools.clear()
        if self._plan:
            self._put("plan", _check_list(self._plan))
        self._plan, self._working, self._asking = (), None, False
        self.draw()
        if self._changed.is_set():
            self._changed = anyio.Event()

    def note(self, line: str) -> None:
        """Say something of our own; what it quotes has been made printable by the caller."""
        self._settle_message()
        if self._working is None:
            # It answers a line that was typed and stands right above.
            self._last = ""
        if line:
            self._put("note", Text(line))
        else:
            self._final.append("")
        self.draw()

    async def animate(self) -> None:
        """Draw while something changes; a task of the caller's, to be cancelled when the view is no longer needed."""
        while True:
            await self._changed.wait()
            self.draw()
            await anyio.sleep(FRAME)

    # --- parts of the session

    def _chunk(self, chunk: MessageChunk) -> None:
        said = chunk.text if chunk.content.get("type") == "text" else placeholder(chunk.content)
        if not said:
            return
        # An agent without message ids says when a message ends by saying something else.
        another = self._speaker is not None and chunk.message_id is not None and chunk.message_id != self._speaker[1]
        if self._speaker is None or self._speaker[0] != chunk.role or another:
            self._settle_message()
        self._speaker = (chunk.role, chunk.message_id)
        self._text += said

    def _tool(self, row: ToolRow) -> None:
        self._settle_message()
        _, since = self._tools.pop(row.call_id, (row, self._clock()))
        if row.ended:
            self._put("tool", self._row(row))
        else:
            self._tools[row.call_id] = (row, since)

    def _settle_message(self) -> None:
        """The message has ended: what is left of it is final."""
        self._put_message(self._text)
        self._speaker, self._text, self._looked_at = None, "", 0

    def _settle_blocks(self) -> None:
        """Blocks that cannot change any more become final while the message goes on."""
        if self._speaker is None or len(self._text) == self._looked_at:
            return
        if self._speaker[0] == "agent":
            last = blocks(self._text)[-1:]
            at = len(self._text) - len(last[0]) if last else 0
        else:
            at = self._text.rfind("\n") + 1
        self._put_message(self._text[:at])
        self._text = self._text[at:]
        self._looked_at = len(self._text)

    def _put_message(self, said: str) -> None:
        if not said.strip():
            return
        parts = blocks(said) if self._speaker is not None and self._speaker[0] == "agent" else [said]
        for part in parts:
            self._put(*self._block(part))

    def _block(self, said: str) -> tuple[str, RenderableType]:
        role = self._speaker[0] if self._speaker else "agent"
        if role == "agent":
            return "text", markdown(said)
        mark, style = ("~ ", "dim") if role == "thought" else ("> ", "bold")
        marked = "\n".join(mark + line for line in printable(said).rstrip("\n").split("\n"))
        return role, Text(marked, style)

    # --- drawing

    def draw(self) -> None:
        """Bring the terminal up to date, in one piece; while a question is open, only what comes after it waits."""
        if not self._asking:
            self._settle_blocks()
            rows = max(1, self._size()[1] - 1)
            self._paint(self._live(rows))

    def _paint(self, live: Sequence[str]) -> None:
        above = "".join(f"{line}\n" for line in self._final)
        self._final = []
        self._region.draw(live, above)

    def _put(self, kind: str, what: RenderableType, indent: str = "") -> None:
        """Add something final. Blocks of text and things of different kinds have a blank line between them."""
        lines = self._lines(what, indent)
        if not lines:
            return
        if self._last and (kind == "text" or kind != self._last):
            self._final.append("")
        self._last = kind
        self._final += lines

    def _lines(self, what: RenderableType, indent: str = "") -> list[str]:
        # One column stays free: a terminal in its last column does not know on which line it is.
        return [indent + line for line in self._painter.lines(what, self._size()[0] - 1 - len(indent))]

    def _live(self, rows: int) -> list[str]:
        """What may still change, from the message's end down to the status line, in at most so many rows."""
        below = [line for row, since in self._tools.values() for line in self._lines(self._running(row, since))[:1]]
        if self._plan:
            below += [*([""] if below else []), *self._lines(_check_list(self._plan))]
        if self._working is not None:
            below += ["", *self._lines(self._status_text(self._clock() - self._working))[:1]]
        below = below[-rows:]
        growing = self._growing(rows - len(below)) if rows - len(below) > 1 else []
        lines = [*growing, *([""] if growing and below and below[0] else []), *below]
        follows = self._last and lines and lines[0] and not (self._last == "tool" and self._tools and not growing)
        return (["", *lines] if follows else lines)[-rows:]

    def _growing(self, room: int) -> list[str]:
        """The end of the message's last block, as much as there is room for."""
        if self._speaker is None or not self._text.strip():
            return []
        key = (self._text, self._size()[0])
        if key != self._grown[0]:
            short = len(self._text) <= PREVIEW
            shown = self._block(self._text)[1] if short else Text(printable(self._text[-PREVIEW:]))
            self._grown = (key, self._lines(shown))
        return self._grown[1][-room:]

    def _status_text(self, seconds: float | None = None) -> Text:
        parts = [one_line(part, 60) for part in self._status() if part]
        if seconds is None:
            return Text(" · ".join(parts), "dim")
        parts = [f"{seconds:.0f} s", *parts, "ctrl-c stops"]
        return Text.assemble((self._spinner(), "yellow"), (" " + " · ".join(parts), "dim"), no_wrap=True)

    def _spinner(self) -> str:
        return _SPINNER[int(self._clock() * 10) % len(_SPINNER)]

    def _running(self, row: ToolRow, since: float) -> Text:
        seconds = self._clock() - since
        waits = row.status == "pending"
        mark = ("○", "dim") if waits else (self._spinner(), "yellow")
        after = f"  {seconds:.0f} s" if seconds >= 1 and not waits else ""
        return Text.assemble(mark, " ", _title(row), (after, "dim"), no_wrap=True, overflow="ellipsis")

    def _row(self, row: ToolRow) -> Group:
        mark, colour = _ENDED.get(row.status, ("○", "dim"))
        word = "" if row.status == "completed" else f"  {one_line(row.status.replace('_', ' '), 20)}"
        lines = [Text.assemble((mark, colour), " ", _title(row), (word, colour))]
        if row.status == "completed":
            lines += [Text("  ").append_text(line) for line in diff_lines(row, DIFF_SHOWN)]
            lines += [Text(f"  {line}", "dim") for line in output_lines(row)]
        if row.status == "failed" and (reason := one_line(reason_of(row))):
            lines.append(Text(f"  {reason}", colour))
        return Group(*lines)


def _title(row: ToolRow) -> str:
    return one_line(row.title or row.name or row.call_id)


def _check_list(entries: Sequence[PlanEntry]) -> Group:
    return Group(
        Text("plan", "bold"),
        *(
            Text(f"  {PLAN.get(step.status, '[ ]')} {one_line(step.content)}", _STEP.get(step.status, ""))
            for step in entries
        ),
    )
