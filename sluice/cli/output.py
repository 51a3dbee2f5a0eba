"""What every command says and how: text to descriptors, errors in one line, what a terminal can do."""

from __future__ import annotations

import locale
import os
import sys
from collections.abc import Callable
from contextlib import suppress

from sluice.client.errors import AgentExited
from sluice.client.reading import members, text
from sluice.client.wording import one_line
from sluice.wire.peer import RemoteError

__all__ = [
    "INTERRUPTED",
    "STDERR",
    "STDIN",
    "STDOUT",
    "colour",
    "complain",
    "explain",
    "moves_cursor",
    "on_terminal",
    "read_all",
    "size",
    "writer",
]

STDIN, STDOUT, STDERR = 0, 1, 2

OWN = "sluice: "
"""How an error line of this program begins."""

INTERRUPTED = 130
"""Exit status after an interrupt, as shells have it."""

_AUTH_REQUIRED = -32000
"""ACP's code for missing credentials."""

_SMALLEST = (20, 4)
"""Columns and rows below which a terminal's own word is not believed."""


def explain(error: Exception) -> str:
    """One readable line for an error of the agent or of the connection to it.

    Args:
        error: what was raised.

    Returns:
        The line, printable, with file, line and key of a broken agent file, or what to set when a key is missing.
    """
    if isinstance(error, AgentExited) and error.stderr and error.stderr[-1].startswith(OWN):
        return one_line(error.stderr[-1].removeprefix(OWN), 1000)  # this program's own last words, said already
    if not isinstance(error, RemoteError):
        return one_line(str(error), 1000)
    data = members(error.data)
    detail = text(data.get("error")) or text(data.get("message"))
    if (file := text(data.get("file"))) is not None:
        line = data.get("line")
        where = f"{file}:{line}" if isinstance(line, int) else file
        key = text(data.get("key"))
        return one_line(": ".join(part for part in (where, key, detail or error.message) if part), 1000)
    said = f"{error.message}: {detail}" if detail and detail != error.message else error.message
    if error.code == _AUTH_REQUIRED:
        said += "; --env-from-file names a file that has it" if detail else "; set the agent's API key variable"
    return one_line(said, 1000)


def writer(descriptor: int, *, lossy: bool = False) -> Callable[[str], None]:
    """Text to a descriptor in the locale's encoding; what that lacks is shown as an escape.

    Args:
        descriptor: where to.
        lossy: whether what cannot be written is dropped, as beside the answers on stderr; else OSError is raised.
    """
    encoding = locale.getencoding()

    def write(said: str) -> None:
        view = memoryview(said.encode(encoding, "backslashreplace"))
        with suppress(*((OSError,) if lossy else ())):
            while view:
                view = view[os.write(descriptor, view) :]

    return write


def colour(descriptor: int = STDOUT) -> bool:
    """Colours only on a terminal that knows them, and never against NO_COLOR (https://no-color.org)."""
    return _capable(descriptor) and not os.environ.get("NO_COLOR")


def moves_cursor() -> bool:
    """Whether stdout is a terminal whose cursor can be moved, and which shows the signs that are drawn there."""
    return _capable(STDOUT) and locale.getencoding().lower().replace("-", "") == "utf8"


def _capable(descriptor: int) -> bool:
    return os.isatty(descriptor) and os.environ.get("TERM") not in (None, "", "dumb")


def size() -> tuple[int, int]:
    """Columns and rows of the terminal on stdout; 80 and 24 where it does not say, or says something absurd."""
    try:
        found = os.get_terminal_size(STDOUT)
    except OSError:
        return 80, 24
    columns, rows = found.columns or 80, found.lines or 24
    return max(columns, _SMALLEST[0]), max(rows, _SMALLEST[1])


def complain(line: str) -> None:
    """One line on stderr, in the name of this program."""
    writer(STDERR, lossy=True)(f"{OWN}{line}\n")


def read_all(descriptor: int) -> bytes:
    """Everything up to the end of input."""
    parts = []
    while data := os.read(descriptor, 1 << 16):
        parts.append(data)
    return b"".join(parts)


def on_terminal() -> bool:
    """Whether a person can be asked: stdin and stdout are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()
