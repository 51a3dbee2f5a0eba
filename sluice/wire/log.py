"""Where the log goes and what may not be in it.

The log is for a person who looks for a fault: UTF-8 lines on stderr, or in a file. It never holds secrets, and never
whole messages: each record is redacted and cut to `MAX_RECORD_CHARS`, whoever wrote it, tracebacks included.

stderr belongs to the host that started us, and some hosts never read it. A full pipe must not stop the event loop, so
lines that would block are dropped and counted.

Source: transport.logging.stderr-clean; ACP "Transports" (stderr is free for logging).
"""

from __future__ import annotations

import logging
import os
import re
import select
from pathlib import Path

__all__ = ["MAX_RECORD_CHARS", "RedactingFormatter", "StderrHandler", "redact", "set_up"]

MAX_RECORD_CHARS = 4000
"""Longest log record in characters, traceback included; the middle of a longer one is left out."""

_MASK = "[redacted]"
_NAMES = r"(?:api[_-]?key|access[_-]?key|private[_-]?key|secret|token|password|passwd|credential)"
_QUOTED = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'"
_RULES = (
    # Authorization: Bearer abc, "Authorization": "Basic abc", authorization=abc
    (
        re.compile(rf"(?i)((?:proxy-)?authorization[\"']?\s*[:=]\s*)(?:{_QUOTED}|(?:[a-z]+\s+)?[^\s,;\"'}}]+)"),
        rf"\1{_MASK}",
    ),
    (re.compile(r"(?i)\b((?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{6,}"), rf"\1{_MASK}"),
    # name=value and "name": value; "tokens" is a count and no secret
    (re.compile(rf"(?i)({_NAMES}[\"']?\s*[:=]\s*)(?:{_QUOTED}|[^\s,;&\"'}}\])]+)"), rf"\1{_MASK}"),
    # keys that tell by their prefix
    (
        re.compile(
            r"\b(?:sk|pk|rk|xai|gsk)-[A-Za-z0-9_-]{6,}|\bgh[pousr]_\w{16,}|\bgithub_pat_\w{16,}|\bxox[abprs]-[\w-]{8,}"
            r"|\bAKIA[0-9A-Z]{12,}|\bAIza[\w-]{20,}|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"
        ),
        _MASK,
    ),
    # https://user:password@host
    (re.compile(r"(://[^/\s:@]*:)[^/\s@]+@"), rf"\1{_MASK}@"),
)


def redact(text: str) -> str:
    """Replace what looks like a secret: authorization values, known key forms, `name=value` with a secret's name."""
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text


class RedactingFormatter(logging.Formatter):
    """Formats a record with its traceback, then redacts it and cuts it to `MAX_RECORD_CHARS`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the finished text of a record."""
        text = super().format(record)
        if len(text) > 4 * MAX_RECORD_CHARS:
            # Before the search, so that its cost is bounded; and wider than the final cut, so that what a secret
            # leaves behind at the edge is not shown.
            text = text[: 2 * MAX_RECORD_CHARS] + "\n" + text[-2 * MAX_RECORD_CHARS :]
        text = redact(text)
        if len(text) > MAX_RECORD_CHARS:
            # The head says what happened; the tail of a traceback says why.
            half = MAX_RECORD_CHARS // 2
            text = f"{text[:half]} … (cut) … {text[-half:]}"
        return text


class StderrHandler(logging.Handler):
    """Writes records to a descriptor as UTF-8 and never blocks: what does not fit into a full pipe is dropped.

    Args:
        fd: the descriptor, not closed by this handler.
    """

    def __init__(self, fd: int = 2) -> None:
        super().__init__()
        self._fd = fd
        self._dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record, preceded by a note on records that were dropped before it."""
        try:
            text = self.format(record) + "\n"
            if self._dropped:
                text = f"({self._dropped} log records dropped: nobody read them)\n{text}"
            self._dropped = 0 if self._write(text.encode("utf-8", "backslashreplace")) else self._dropped + 1
        except OSError:  # stderr is gone; there is nowhere left to say so
            self._dropped += 1
        except Exception:  # a record that cannot be formatted must not break what wrote it
            self.handleError(record)

    def _write(self, data: bytes) -> bool:
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        for start in range(0, len(data), select.PIPE_BUF):
            # A descriptor reported as writable takes PIPE_BUF bytes without blocking.
            if not poll.poll(0):
                return False
            os.write(self._fd, data[start : start + select.PIPE_BUF])
        return True


def set_up(level: int | str = logging.WARNING, file: Path | None = None) -> None:
    """Send the log of this process to stderr or to a file; replaces an earlier set-up.

    Args:
        level: for our own loggers. Those of libraries stay at WARNING: at debug level some of them log whole
            messages and headers.
        file: a file to append to, or None for stderr.

    Raises:
        OSError: the file cannot be opened.
        ValueError: `level` is no level.
    """
    handler: logging.Handler = StderrHandler()
    if file is not None:
        handler = logging.FileHandler(file, encoding="utf-8", errors="backslashreplace")
    handler.setFormatter(RedactingFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.getLogger("sluice").setLevel(level)
    root = logging.getLogger()
    for old in root.handlers[:]:
        if isinstance(old.formatter, RedactingFormatter):
            root.removeHandler(old)
            old.close()
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.captureWarnings(True)
