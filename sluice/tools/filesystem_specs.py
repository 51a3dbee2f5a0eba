"""The filesystem tools as the model sees them: names, descriptions, parameters and hints."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from sluice.agent.ports import Tool, ToolContext, ToolResult, ToolSpec

__all__ = ["tool"]

_PATH = {"type": "string", "description": "Path, absolute or relative to the working directory"}
_PATHS = {"type": "array", "items": {"type": "string"}, "description": "Paths, absolute or relative"}


def _spec(description: str, properties: Mapping[str, Any], *optional: str) -> tuple[str, dict[str, Any]]:
    required = [name for name in properties if name not in optional]
    return description, {"type": "object", "properties": dict(properties), "required": required}


_READ_ONLY = frozenset(
    ("read_file", "read_multiple_files", "list_directory", "directory_tree", "search_files_content")
)

_SPECS: dict[str, tuple[str, dict[str, Any]]] = {
    "read_file": _spec(
        "Returns the text of a file, or a range of its lines.",
        {
            "path": _PATH,
            "line": {"type": "integer", "minimum": 1, "description": "First line, counted from 1"},
            "limit": {"type": "integer", "minimum": 1, "description": "How many lines"},
        },
        "line",
        "limit",
    ),
    "read_multiple_files": _spec(
        "Returns the texts of several files. A file that cannot be read is noted and the others are still returned.",
        {"paths": _PATHS, "json": {"type": "boolean", "description": "Whether to answer as a JSON list"}},
        "json",
    ),
    "write_file": _spec(
        "Creates a file with the given text, or replaces the whole text of an existing one.",
        {"path": _PATH, "content": {"type": "string", "description": "The whole text"}},
    ),
    "edit_file": _spec(
        "Replaces parts of a file. Each edit replaces the first place where oldText stands; the edits are made in"
        " order, all of them or none.",
        {
            "path": _PATH,
            "edits": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "oldText": {"type": "string", "description": "The exact text to replace, not empty"},
                        "newText": {"type": "string", "description": "The text to put in its place"},
                    },
                    "required": ["oldText", "newText"],
                },
            },
        },
    ),
    "list_directory": _spec("Lists the entries of a directory.", {"path": _PATH}),
    "directory_tree": _spec("Shows a directory and what is below it as a tree, at most 100 files.", {"path": _PATH}),
    "search_files_content": _spec(
        "Searches the text files below a directory, or one file, and returns the matching lines. Binary files and"
        " files over 10 MiB are left out.",
        {
            "path": _PATH,
            "query": {"type": "string", "description": "The text to find, upper and lower case told apart"},
            "is_regex": {"type": "boolean", "description": "Whether the query is a regular expression"},
            "excludePatterns": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Patterns of entries to leave out, as in .gitignore",
            },
        },
        "is_regex",
        "excludePatterns",
    ),
    "create_directory": _spec("Makes directories, with the ones above them.", {"paths": _PATHS}),
    "remove_directory": _spec("Removes empty directories.", {"paths": _PATHS}),
}

_SUBJECTS = {"read_multiple_files": "paths", "create_directory": "paths", "remove_directory": "paths"}


def tool(name: str, run: Callable[[Mapping[str, Any], ToolContext], Awaitable[ToolResult]]) -> Tool:
    """Return a filesystem tool by name.

    Raises:
        KeyError: there is no such tool; that is a bug.
    """
    description, parameters = _SPECS[name]
    return Tool(
        ToolSpec(name, description, parameters),
        run,
        read_only=name in _READ_ONLY,
        subject=_SUBJECTS.get(name, "path"),
    )
