"""A tool call as a row of the thread: its name by kind, and its diffs drawn as edits or as changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import unified_diff
from typing import Any

from sluice.client.provider.events import FileChange, FileEdit, Row
from sluice.client.reading import integer, members, text
from sluice.client.updates import Plan, ToolRow
from sluice.client.wording import DIFF_LINES

__all__ = ["OTHER", "PLAN_ROW", "ROW_NAMES", "Shown", "draw", "draw_plan"]

ROW_NAMES: Mapping[str, str] = {
    "execute": "Bash",
    "read": "Read",
    "search": "Grep",
    "fetch": "WebFetch",
    "edit": "Edit",
    "delete": "Delete",
    "move": "Move",
    "think": "Think",
}
"""Tool kind -> the name of its row. A fetch that asks a question instead of naming an address is a WebSearch."""

OTHER = "Tool"
"""The name of a row of any other kind."""

PLAN_ROW = "#plan"
"""The id of the one row that holds the plan."""

Shown = Callable[[str], str | None]
"""What a terminal has said, by its id; None for one that is not known."""


def _nothing(terminal_id: str) -> None:
    """No terminal is known."""


def draw(row: ToolRow, shown: Shown = _nothing) -> Row:
    """Draw a tool call.

    Args:
        row: the call.
        shown: where what terminals have said is found.

    A diff of one file makes it an Edit, a Write (of a new file) or a MultiEdit (several places), whatever its kind;
    diffs of several files become one unified diff per file.
    """
    edits = _edits(row.content)
    paths = list(dict.fromkeys(edit.path for edit in edits))
    one_file = len(paths) == 1
    return Row(
        id=row.call_id if row.generation == 1 else f"{row.call_id}#{row.generation}",
        name=_edit_name(edits) if one_file else _name(row),
        title=row.title,
        status=row.status,
        input=row.raw_input,
        output=_output(row, shown),
        edits=tuple(edits) if one_file else (),
        changes=() if len(paths) < 2 else tuple(_change(path, edits) for path in paths),
        locations=tuple(
            (path, integer(place.get("line"))) for place in row.locations if (path := text(place.get("path")))
        ),
    )


def draw_plan(plan: Plan) -> Row:
    """Draw the plan, whole; it is completed once every step is."""
    ended = all(entry.status == "completed" for entry in plan.entries)
    return Row(PLAN_ROW, "TodoWrite", "Plan", "completed" if ended else "in_progress", todos=plan.entries)


def _name(row: ToolRow) -> str:
    given = members(row.raw_input)
    if row.kind == "fetch" and text(given.get("query")) is not None and text(given.get("url")) is None:
        return "WebSearch"
    return ROW_NAMES.get(row.kind, OTHER)


def _edit_name(edits: Sequence[FileEdit]) -> str:
    if len(edits) > 1:
        return "MultiEdit"
    return "Write" if edits[0].old is None else "Edit"


def _edits(content: Sequence[Mapping[str, Any]]) -> list[FileEdit]:
    """The diffs that change something."""
    return [
        FileEdit(path, old, new)
        for entry in content
        if entry.get("type") == "diff"
        and (path := text(entry.get("path"))) is not None
        and (new := text(entry.get("newText"))) is not None
        and (old := text(entry.get("oldText"))) != new
    ]


def _change(path: str, edits: Sequence[FileEdit]) -> FileChange:
    return FileChange(path, "".join(_unified(edit) for edit in edits if edit.path == path))


def _unified(edit: FileEdit) -> str:
    # Only a line feed ends a line here; a file without one at its end must not run into the next line.
    old, new = ([] if not side else side.removesuffix("\n").split("\n") for side in (edit.old, edit.new))
    before = "/dev/null" if edit.old is None else edit.path
    if len(old) + len(new) > DIFF_LINES:
        # Comparing such files takes seconds, and the reader waits; shown as replaced from top to bottom.
        lines = [f"--- {before}", f"+++ {edit.path}", f"@@ -1,{len(old)} +1,{len(new)} @@"]
        lines += [*(f"-{line}" for line in old), *(f"+{line}" for line in new)]
    else:
        lines = list(unified_diff(old, new, before, edit.path, lineterm=""))
    return "".join(f"{line}\n" for line in lines)


def _output(row: ToolRow, shown: Shown) -> str:
    """The texts of the content, those of terminals among them; without any, a plain raw output."""
    said = []
    for entry in row.content:
        words = None
        if entry.get("type") == "content":
            words = text(members(entry.get("content")).get("text"))
        elif entry.get("type") == "terminal":
            words = shown(text(entry.get("terminalId")) or "")
        if words is not None:
            said.append(words)
    return "\n".join(said) if said else text(row.raw_output) or ""
