"""A program that searches files for a text or a pattern: JSON on standard input, `path:line: text` lines out.

It runs as a child process because a regular expression can take for ever, and only a process can be ended. It needs
the standard library alone and is started by its file name, so it loads nothing else of the package.

Input: `{"query": str, "regex": bool, "files": [[shown, path], ...]}`, paths absolute and without links.
Exit codes: 0 done, 2 the pattern is no regular expression (the message is printed).
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from typing import TextIO

__all__ = ["BAD_PATTERN", "FILE_BYTES", "MATCHED_FILES", "OUTPUT_BYTES", "main"]

FILE_BYTES = 10 * 1024 * 1024
"""Larger files are not searched, in bytes."""

MATCHED_FILES = 100
"""After so many files with a match the search ends."""

OUTPUT_BYTES = 40 * 1024
"""After so much output the search ends, in bytes: what fits a tool result."""

BAD_PATTERN = 2
"""The exit code for a pattern that is no regular expression."""

SHOWN_CHARACTERS = 300
SNIFF_BYTES = 512


def _lines(path: str) -> Iterator[tuple[int, str]]:
    try:
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return
    with os.fdopen(number, "rb") as file:
        found = os.fstat(number)
        if not stat.S_ISREG(found.st_mode) or found.st_size > FILE_BYTES:
            return
        data = file.read(FILE_BYTES)
    if b"\0" in data[:SNIFF_BYTES]:
        return
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    for count, line in enumerate(text.split("\n"), 1):
        yield count, line.removesuffix("\r")


def _shown(line: str, start: int) -> str:
    first = max(0, start - SHOWN_CHARACTERS // 3) if len(line) > SHOWN_CHARACTERS else 0
    piece = line[first : first + SHOWN_CHARACTERS]
    return ("…" if first else "") + piece.strip() + ("…" if first + SHOWN_CHARACTERS < len(line) else "")


def _hits(query: str, regex: bool, files: list[list[str]]) -> Iterator[tuple[str, str]]:
    pattern = re.compile(query if regex else re.escape(query))
    for shown, path in files:
        for count, line in _lines(path):
            match = pattern.search(line)
            if match:
                yield shown, f"{shown}:{count}: {_shown(line, match.start())}\n"


def _search(query: str, regex: bool, files: list[list[str]], out: TextIO) -> None:
    matched: set[str] = set()
    size = 0
    for shown, line in _hits(query, regex, files):
        matched.add(shown)
        if len(matched) > MATCHED_FILES:
            out.write(f"[stopped after {MATCHED_FILES} files with a match]\n")
            return
        size += len(line.encode("utf-8", "replace"))
        if size > OUTPUT_BYTES:
            out.write(f"[stopped after {OUTPUT_BYTES} bytes of matches]\n")
            return
        out.write(line)


def main() -> int:
    """Read the request, write the matches, return the exit code."""
    with os.fdopen(0, "rb", closefd=False) as source:
        request = json.loads(source.read())
    with os.fdopen(1, "w", encoding="utf-8", errors="replace", closefd=False) as out:
        try:
            _search(request["query"], request["regex"], request["files"], out)
        except re.error as error:
            out.write(f"{error}\n")
            return BAD_PATTERN
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
