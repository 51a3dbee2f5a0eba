"""What is said of a session on a terminal, in which words, and how much of what an agent sends is shown.

Whatever an agent sends is untrusted here: model text may hold escape sequences that move the cursor, rename the
window or hide what a permission is asked for. So a character that a terminal might obey is shown, not sent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from difflib import SequenceMatcher
from typing import Any

from sluice.client.reading import members, text
from sluice.client.updates import ToolRow

__all__ = [
    "DIFF_LINES",
    "PLAN",
    "UNSAFE",
    "argument_lines",
    "arguments",
    "change_counts",
    "one_line",
    "output_lines",
    "placeholder",
    "printable",
    "reason_of",
    "unusual_end",
]

PREVIEW = 200
"""Characters shown of a single line that an agent chose."""

ARGUMENTS = 4000
"""Characters of a tool's arguments shown in a question; what is approved should be seen."""

OUTPUT_LINES = 8
"""Lines shown of what a command printed."""

DIFF_LINES = 20_000
"""Lines of a file up to which its changed lines are counted exactly; the comparison of larger ones takes seconds."""

# Everything with a meaning to a terminal: C0 without tab and newline, DEL, C1, and what reorders or hides text.
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

PLAN: Mapping[str, str] = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}
"""Status of a step -> its box in a check list."""

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
    return UNSAFE.sub(_escaped, value.replace("\r\n", "\n"))


def one_line(value: str, limit: int = PREVIEW, *, strip: bool = True) -> str:
    """The same in a single line of at most `limit` characters; `strip` takes the blanks around it away."""
    line = printable(value).replace("\n", "\\n").replace("\t", " ")
    line = line.strip() if strip else line
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _escaped(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def unusual_end(stop_reason: str) -> str | None:
    """What to say about a turn that ended otherwise than turns do; None for `end_turn`."""
    if stop_reason == "end_turn":
        return None
    return _ENDS.get(stop_reason) or f"ended for an unknown reason: {one_line(stop_reason) or 'none'}"


def placeholder(content: Mapping[str, Any]) -> str:
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


def arguments(value: Any) -> str:
    """The arguments somebody is asked to approve: nearly always whole, else with a word about what is hidden."""
    whole = _compact(value)
    hidden = len(whole) - ARGUMENTS
    return (
        one_line(whole, 8 * ARGUMENTS)
        if hidden <= 0
        else (f"{one_line(whole[:ARGUMENTS], 8 * ARGUMENTS)} … and {hidden} more characters that are not shown")
    )


def argument_lines(value: Any) -> list[str]:
    """The same with one argument a line, and texts of several lines as they are."""
    fields = members(value)
    if not fields:
        return [] if value is None or value == {} else [arguments(value)]
    lines: list[str] = []
    for name, argument in fields.items():
        whole = _compact(argument)
        hidden = len(whole) - ARGUMENTS
        first, *more = printable(whole[:ARGUMENTS]).rstrip("\n").split("\n")
        lines += [f"{one_line(str(name), 60)}: {first}", *(f"    {line}" for line in more)]
        if hidden > 0:
            lines.append(f"    … and {hidden} more characters that are not shown")
    return lines


def reason_of(row: ToolRow) -> str:
    """The first text a tool call has as its result."""
    for entry in row.content:
        if said := text(members(entry.get("content")).get("text")):
            return said
    return row.raw_output if isinstance(row.raw_output, str) else ""


def output_lines(row: ToolRow) -> list[str]:
    """The first lines a command printed; what other tools return is for the model and not shown."""
    if row.kind != "execute":
        return []
    lines = printable(reason_of(row)).rstrip("\n").split("\n")
    shown = [one_line(line) for line in lines[:OUTPUT_LINES]]
    return shown if len(lines) <= OUTPUT_LINES else [*shown, f"… {len(lines) - OUTPUT_LINES} more lines"]


def change_counts(old: str | None, new: str) -> str:
    """How many lines come and go, in words; `old` is None for a new file."""
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
