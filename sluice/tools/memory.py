"""The memory toolset: notes that outlive a session, in one file. Requirement `tools.memory.crud`.

The file is read for each call and replaced as a whole for each change, under a lock beside it, so that several
sessions and processes may share it. A file that holds something else is an error and is left as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import anyio.to_thread

from sluice.agent.ports import Tool, ToolContext, ToolFailure, ToolResult, ToolSpec
from sluice.persistence.shared_file import locked, replace
from sluice.tools.paths import absolute
from sluice.tools.setup import ToolsetConfigLike, ToolsetSetup, text

__all__ = ["MAX_FILE", "MAX_MEMORY", "MemoryToolset", "build"]

MAX_FILE = 4 * 1024 * 1024
"""Bytes of the file: thousands of notes, and still read and written at once."""

MAX_MEMORY = 10_000
"""Characters of one note."""

LOCK_WAIT = 5.0
"""Seconds to wait for another process that changes the file."""

_FORMAT = "sluice-memory-1"
_INSTRUCTION = (
    "Use the memory tools to keep what should be known in later sessions, such as preferences and decisions of the"
    " user. Look before you add, update what has changed, and never keep passwords or keys."
)


@dataclass(frozen=True)
class _Memory:
    """One note. `created` is the time it was added, in UTC."""

    id: str
    memory: str
    category: str = ""
    created: str = ""


Notes = dict[str, _Memory]
_T = TypeVar("_T")


class MemoryToolset:
    """The five memory tools over one file.

    Args:
        path: the file; it and its directory are made by the first note.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tools = (
            Tool(_ADD, self._add, subject="memory"),
            Tool(_GET, self._get, read_only=True),
            Tool(_SEARCH, self._search, read_only=True, subject="query"),
            Tool(_UPDATE, self._update, subject="memory"),
            Tool(_DELETE, self._delete, subject="id"),
        )

    @property
    def instruction(self) -> str:
        """How to use the tools, for the system prompt."""
        return _INSTRUCTION

    async def start(self) -> None:
        """Nothing to start: the file is opened for each call."""

    def tools(self) -> Sequence[Tool]:
        """add_memory, get_memories, search_memories, update_memory and delete_memory."""
        return self._tools

    async def stop(self) -> None:
        """Nothing to end."""

    async def _add(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        said, category = _note(arguments), _category(arguments)
        made = _Memory(uuid4().hex[:12], said, category or "", datetime.now(UTC).isoformat(timespec="seconds"))

        def add(notes: Notes) -> str:
            notes[made.id] = made
            return f"Added {made.id}."

        return await self._change(add)

    async def _update(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        identifier, said, category = text(arguments, "id"), _note(arguments), _category(arguments)

        def update(notes: Notes) -> str:
            old = _known(notes, identifier)
            kept = old.category if category is None else category
            notes[identifier] = _Memory(identifier, said, kept, old.created)
            return f"Updated {identifier}."

        return await self._change(update)

    async def _delete(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        identifier = text(arguments, "id")

        def delete(notes: Notes) -> str:
            _known(notes, identifier)
            del notes[identifier]
            return f"Deleted {identifier}."

        return await self._change(delete)

    async def _get(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        return ToolResult(_listed((await self._read()).values()))

    async def _search(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        words, category = str(arguments.get("query") or "").casefold().split(), _category(arguments)
        found = [
            note
            for note in (await self._read()).values()
            if all(word in f"{note.memory} {note.category}".casefold() for word in words)
            and (category is None or note.category.casefold() == category.casefold())
        ]
        return ToolResult(_listed(found))

    async def _read(self) -> Notes:
        return await anyio.to_thread.run_sync(_usable, self._path, partial(_load, self._path))

    async def _change(self, change: Callable[[Notes], str]) -> ToolResult:
        # Not abandoned when cancelled: a change that has begun is finished and its result counts.
        return ToolResult(await anyio.to_thread.run_sync(_usable, self._path, partial(_changed, self._path, change)))


def _usable(path: Path, work: Callable[[], _T]) -> _T:
    """Do the work; what is wrong with the file is told as a failure of the tool."""
    try:
        return work()
    except (OSError, ValueError, TypeError) as error:
        raise ToolFailure(f"the memory file {path} cannot be used: {error}") from error


def _changed(path: Path, change: Callable[[Notes], str]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path, LOCK_WAIT):
        notes = _load(path)
        said = change(notes)
        content = {"format": _FORMAT, "memories": [asdict(note) for note in notes.values()]}
        data = json.dumps(content, ensure_ascii=False, indent=1).encode()
        if len(data) > MAX_FILE:
            raise ToolFailure(f"the memory is full ({MAX_FILE} bytes); delete what is no longer needed")
        replace(path, data)
    return said


def _load(path: Path) -> Notes:
    """The notes by id, in the order they were added. Raises ValueError or TypeError for a file of another kind."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE + 1)
    except FileNotFoundError:
        return {}
    if len(data) > MAX_FILE:
        raise ValueError("it is too large")
    if not data.strip():
        return {}
    value: Any = json.loads(data)
    if not isinstance(value, dict) or value.get("format") != _FORMAT:
        raise ValueError("it holds something else")
    return {note.id: note for note in (_Memory(**written) for written in value["memories"])}


def _note(arguments: Mapping[str, Any]) -> str:
    said = text(arguments, "memory")
    if len(said) > MAX_MEMORY:
        raise ToolFailure(f"a memory may have {MAX_MEMORY} characters; this one has {len(said)}")
    return said


def _category(arguments: Mapping[str, Any]) -> str | None:
    """The category, None when none is given."""
    return text(arguments, "category", empty=True) if arguments.get("category") is not None else None


def _known(notes: Notes, identifier: str) -> _Memory:
    if identifier not in notes:
        raise ToolFailure(f"there is no memory {identifier!r}; get_memories shows what there is")
    return notes[identifier]


def _listed(notes: Any) -> str:
    lines = [f"{note.id}{f' [{note.category}]' if note.category else ''}: {note.memory}" for note in notes]
    return "\n".join(lines) or "No memories."


_TEXT = {"type": "string"}
_ID = {**_TEXT, "description": "The memory's id, as get_memories shows it"}
_MEMORY = {**_TEXT, "description": f"What to remember, at most {MAX_MEMORY} characters"}


def _spec(name: str, description: str, required: tuple[str, ...], **properties: Mapping[str, Any]) -> ToolSpec:
    return ToolSpec(name, description, {"type": "object", "properties": properties, "required": list(required)})


_ADD = _spec(
    "add_memory",
    "Keeps something for later sessions.",
    ("memory",),
    memory=_MEMORY,
    category={**_TEXT, "description": "A word to sort it by"},
)
_GET = _spec("get_memories", "Lists everything that was kept, with ids.", ())
_SEARCH = _spec(
    "search_memories",
    "Finds what was kept by words, by category, or both.",
    (),
    query={**_TEXT, "description": "Words that must all occur; upper and lower case are the same"},
    category={**_TEXT, "description": "Only this category"},
)
_UPDATE = _spec(
    "update_memory",
    "Replaces the text of something that was kept.",
    ("id", "memory"),
    id=_ID,
    memory=_MEMORY,
    category={**_TEXT, "description": "Another category; the old one stays when left out"},
)
_DELETE = _spec("delete_memory", "Removes something that was kept.", ("id",), id=_ID)


def build(config: ToolsetConfigLike, setup: ToolsetSetup) -> MemoryToolset:
    """Build the toolset; the option `path`, which it needs, is relative to the agent file's directory."""
    return MemoryToolset(Path(absolute(text(config.options, "path"), str(setup.config_dir))))
