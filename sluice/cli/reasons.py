"""Errors of this program's own in words, for the line `sluice: …` on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["naming", "reason"]


@contextmanager
def naming(what: str) -> Iterator[None]:
    """Let an error of the system say what it is about: writing to an open file names nothing by itself."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or what
        raise


def reason(error: BaseException) -> str:
    """One line that says what is wrong with what: the file first, never an error number.

    Args:
        error: what a command ended with; of a group, its first leaf is told.
    """
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    what, why = _file_and_reason(error)
    why = why[:1].lower() + why[1:]
    said = f"{what}: {why}" if what and why else why or str(error)
    return " ".join(said.split()) or type(error).__name__


def _file_and_reason(error: BaseException) -> tuple[str, str]:
    if isinstance(error, OSError):
        return str(error.filename or ""), error.strerror or ""
    # An env file's error keeps both apart, because its text may go to a client, which must not learn them.
    return str(getattr(error, "path", "")), str(getattr(error, "reason", ""))
