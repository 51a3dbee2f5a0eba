"""The journal of a process: one JSON object a line, for every transition of a machine and every frame on the wire.

It is what a person attaches to a bug report, so it holds no bodies unless that was asked for: methods, ids and sizes
show what happened when without showing what was said. An editor starts its agents again and again, two of them may
run at once, and all have the same file in their settings; so each process begins with a line of its own, and every
other line says which process wrote it.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from sluice import __version__

__all__ = ["Began", "Entry", "Frame", "Journal", "JournalError", "Taken", "read"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Began:
    """A process opened the journal. `process` is its id, `began` the time of day (RFC 3339, UTC)."""

    at: float
    process: int
    began: str
    version: str


@dataclass(frozen=True)
class Taken:
    """A machine took a row. `at` is seconds since `process` opened the journal; 0 is a process that is not named."""

    at: float
    machine: str
    key: str
    event: str
    source: str
    target: str
    process: int = 0


@dataclass(frozen=True)
class Frame:
    """A line on the wire. `direction` is in or out, `id` the raw JSON of the id, `size` in bytes.

    `method` is "" for a response; `body` is "" unless bodies are kept.
    """

    at: float
    direction: str
    kind: str
    method: str = ""
    id: str = ""
    size: int = 0
    body: str = ""
    process: int = 0


Entry = Began | Taken | Frame


class JournalError(Exception):
    """The file is no journal; the text names the line."""


class Journal:
    """Appends entries to a file, each with one write, so that a killed process leaves whole lines.

    What is served outranks the notes of it: when the file can no longer be written, the log says so once and nothing
    more is noted, so that the journal ends where it is known to be whole.

    Args:
        path: the file; what it held before is kept.
        bodies: whether frames are kept whole.

    Raises:
        OSError: the file cannot be opened, or its first line not be written; the error names it.
    """

    def __init__(self, path: Path, *, bodies: bool = False) -> None:
        self.bodies = bodies
        self._path = path
        self._file: IO[bytes] | None = path.open("ab", buffering=0)
        self._begun = time.monotonic()
        self._process = os.getpid()
        began = Began(0.0, self._process, datetime.now(UTC).isoformat(timespec="milliseconds"), __version__)
        try:
            self._put(self._file, began)
        except OSError as error:
            self._file.close()
            raise OSError(error.errno, error.strerror, str(path)) from None

    def taken(self, machine: str, key: str, event: str, ends: tuple[str, str]) -> None:
        """Note a transition; `ends` are source and target."""
        self._write(Taken(self._now(), machine, key, event, *ends, self._process))

    def frame(self, direction: str, kind: str, *, named: tuple[str, str], line: bytes) -> None:
        """Note a frame; `named` are method and raw id."""
        body = line.decode("utf-8", "replace") if self.bodies else ""
        self._write(Frame(self._now(), direction, kind, *named, len(line), body, self._process))

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _now(self) -> float:
        return round(time.monotonic() - self._begun, 6)

    def _write(self, entry: Entry) -> None:
        if self._file is None:
            return
        try:
            self._put(self._file, entry)
        except OSError as error:
            _log.error("%s: %s; nothing more is noted in this journal", self._path, error.strerror)
            self._file.close()
            self._file = None

    def _put(self, file: IO[bytes], entry: Entry) -> None:
        fields = {name: value for name, value in asdict(entry).items() if value != ""}
        line = json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        if file.write(line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # a full disk takes the beginning of a line


def read(path: Path) -> Iterator[tuple[int, Entry]]:
    """The entries with their line numbers, counted from 1. A last line without its end is left out.

    Raises:
        JournalError: a line is not an entry.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            yield number, _entry(number, line)


def _entry(number: int, line: bytes) -> Entry:
    from dataclasses_json import DataClassJsonMixin

    read_any: Any = DataClassJsonMixin.from_dict
    try:
        stored = json.loads(line)
        form = Taken if "machine" in stored else Began if "began" in stored else Frame
        entry: Entry = read_any.__func__(form, {"key": "", **stored})
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise JournalError(f"line {number} is no journal entry") from error
    return entry
