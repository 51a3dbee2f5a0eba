"""How a tool call looks to a person: its kind, its title and the places it touches. Text only, no file is opened.

One classifier serves permission requests and updates alike (requirements `tool-lifecycle.kind.*`,
`tool-lifecycle.title.always`, `tool-locations-diffs.location.*`).
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sluice.agent.ports import Tool

__all__ = ["KINDS", "TITLE_CHARACTERS", "kind", "locations", "title"]

KINDS = ("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other")
"""The kinds ACP knows."""

TITLE_CHARACTERS = 160
"""The longest title, in characters: one line in an editor; the arguments hold the rest."""

_BY_NAME: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("read", ("read_", "get_", "list_", "directory_tree")),
    ("edit", ("edit_", "write_", "update_", "create_", "add_")),
    ("delete", ("delete_", "remove_")),
    ("search", ("search_", "find_")),
    ("think", ("think",)),
    ("fetch", ("fetch", "http_")),
    ("execute", ("shell", "stop_", "run_", "exec_")),
    ("switch_mode", ("transfer_task", "handoff")),
)

_PATH_ARGUMENTS = ("path", "file", "filepath", "filename", "file_path")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+-]+:|[A-Za-z][A-Za-z0-9+.-]*://")


def kind(name: str, read_only: bool) -> str:
    """Return the kind of a tool: what its name says first, then the read-only hint, then `other`.

    A hint that a tool is destructive makes it no deletion.
    """
    lowered = name.lower()
    for found, prefixes in _BY_NAME:
        if lowered.startswith(prefixes):
            return found
    return "read" if read_only else "other"


def title(tool: Tool | str, arguments: Mapping[str, Any]) -> str:
    """Return one line that says what a call is about, for example `shell: ls -la`. Never empty.

    Args:
        tool: the tool, or the name the model used for one that does not exist.
        arguments: the call's arguments; empty when they could not be read.
    """
    if isinstance(tool, str):
        head, subject = tool, ""
    else:
        head, subject = tool.title or tool.name, tool.subject
    line = _line(head) or "tool call"
    about = _line(_subject(subject, arguments))
    if about:
        line = f"{line}: {about}"
    return line if len(line) <= TITLE_CHARACTERS else line[: TITLE_CHARACTERS - 1] + "…"


def _subject(name: str, arguments: Mapping[str, Any]) -> str:
    value = arguments.get(name) if name else next((arguments[key] for key in _PATH_ARGUMENTS if key in arguments), "")
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, Sequence):
        return ", ".join(item for item in value if isinstance(item, str))
    return ""


def _line(text: str) -> str:
    """Put a text on one line; what would hide or reorder other characters is shown as U+FFFD."""
    # A longer text is cut anyway, and a title is made for every call.
    flat = " ".join(text[: TITLE_CHARACTERS * 4].split())
    return "".join("\ufffd" if unicodedata.category(one) in ("Cc", "Cf", "Cs") else one for one in flat)


def locations(arguments: Mapping[str, Any], cwd: str) -> tuple[tuple[str, int | None], ...]:
    """Return the absolute paths a call names, each once, with the line where one is given.

    Args:
        arguments: the call's arguments.
        cwd: the session's directory; relative paths are left out when it is not absolute.

    Returns:
        Pairs of path and line (from 1, None when there is none). Values that look like URIs are left out.
    """
    line = arguments.get("line")
    at = line if isinstance(line, int) and not isinstance(line, bool) and line > 0 else None
    found: dict[str, int | None] = {}
    for value, own_line in _named(arguments, at):
        path = _absolute(value, cwd)
        if path:
            found.setdefault(path, own_line)
    return tuple(found.items())


def _named(arguments: Mapping[str, Any], line: int | None) -> Iterator[tuple[str, int | None]]:
    for name in _PATH_ARGUMENTS:
        value = arguments.get(name)
        if isinstance(value, str) and value:
            yield value, line
            break
    paths = arguments.get("paths")
    if isinstance(paths, (list, tuple)):
        yield from ((value, None) for value in paths if isinstance(value, str) and value)


def _absolute(value: str, cwd: str) -> str:
    if "\0" in value or _URI.match(value):
        return ""
    if value == "~" or value.startswith("~/"):
        value = os.path.expanduser(value)  # noqa: PTH111 - text in, text out
    path = os.path.normpath(os.path.join(cwd, value))  # noqa: PTH118 - lexical on purpose
    return path if os.path.isabs(path) else ""  # noqa: PTH117
