"""Editing a text by replacing parts of it, and the diff shown to a person.

Texts are whole files; bytes that are no UTF-8 stand in them as lone surrogates (`surrogateescape`), so that what an
edit does not touch comes back byte for byte. Requirement `tools.filesystem.edit-rules`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from sluice.agent.events import Diff
from sluice.agent.ports import ToolFailure

__all__ = ["DIFF_BYTES", "Edit", "apply", "diff"]

DIFF_BYTES = 1024 * 1024
"""The most both texts of a diff may take together as JSON, in bytes; above it there is no diff."""

_BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class Edit:
    """One replacement: the first place where `old` stands gets `new`."""

    old: str
    new: str


def apply(text: str, edits: Sequence[Edit]) -> str:
    r"""Return the text with all edits made, one after the other.

    The byte order mark, the newline style and the presence of a last newline are those of the text: `\n` and
    `\r\n` in an edit both stand for the newline used where it applies.

    Raises:
        ToolFailure: an edit has an empty old text, or its old text is not there; nothing counts as changed then.
    """
    mark = _BOM if text.startswith(_BOM) else ""
    body = text[len(mark) :]
    for number, edit in enumerate(edits, 1):
        body = _replace(body, edit, number)
    return mark + body


def _replace(body: str, edit: Edit, number: int) -> str:
    old = edit.old.removeprefix(_BOM)
    if not old:
        raise ToolFailure(f"edit {number}: oldText must not be empty")
    for candidate in _variants(old, body):
        at = body.find(candidate)
        if at >= 0:
            newline = _newline(body, at, candidate)
            new = edit.new.removeprefix(_BOM) if at == 0 else edit.new
            if newline:
                new = _with_newline(new, newline)
            return body[:at] + new + body[at + len(candidate) :]
    raise ToolFailure(f"edit {number}: oldText was not found; read the file again and copy the text exactly")


def _variants(old: str, body: str) -> tuple[str, ...]:
    """The old text as given, then with each newline style; a style the body does not use cannot be found in it."""
    if "\n" not in old:
        return (old,)
    styled = (_with_newline(old, "\n"), _with_newline(old, "\r\n"))
    # In a text with CRLF only, a bare "\n" could match in the middle of a pair and cut it in two.
    if "\r\n" in body and body.count("\r\n") == body.count("\n"):
        return (styled[1],)
    return tuple(dict.fromkeys((old, *styled)))


def _with_newline(text: str, newline: str) -> str:
    plain = text.replace("\r\n", "\n")
    return plain if newline == "\n" else plain.replace("\n", newline)


def _newline(body: str, at: int, found: str) -> str:
    """The newline in use where a text was found: inside it, else after it, else before it, "" when there is none."""
    where = found.find("\n")
    where = at + where if where >= 0 else body.find("\n", at)
    if where < 0:
        where = body.rfind("\n", 0, at)
    if where < 0:
        return ""
    return "\r\n" if body[where - 1 : where] == "\r" else "\n"


def diff(path: str, old: str, new: str) -> Diff | None:
    """Return the diff of two whole texts, None when one is no UTF-8 text or both are too large to be shown."""
    try:
        size = sum(len(json.dumps(text, ensure_ascii=False).encode()) for text in (old, new))
    except UnicodeEncodeError:
        return None
    return Diff(path, old, new) if size <= DIFF_BYTES else None
