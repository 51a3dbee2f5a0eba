"""Where the texts of the file tools come from: the host's disk, or the client with its unsaved buffers.

The two never mix: a toolset has one of them, and no failure of the client leads to the disk
(requirement `client-fs.fallback.never`).
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import Protocol

import anyio.to_thread

from sluice.agent.ports import Files, ToolFailure

__all__ = ["BINARY_SNIFF_BYTES", "EDIT_BYTES", "READ_BYTES", "ClientFiles", "HostFiles", "TextFiles"]

BINARY_SNIFF_BYTES = 512
"""How much of a file is looked at for a NUL, in bytes: with one it is binary."""

READ_BYTES = 64 * 1024
"""How much of a file is shown at most, in bytes: a little more than a tool result may hold."""

EDIT_BYTES = 32 * 1024 * 1024
"""The largest file that can be edited, in bytes: an edit holds the whole text several times."""


class TextFiles(Protocol):
    """Reads and writes whole text files; paths are absolute and already checked."""

    async def read_text(self, path: str, line: int | None, limit: int | None) -> str:
        """The text to show: `limit` lines from `line` (from 1), both None for all. Raises ToolFailure."""
        ...

    async def snapshot(self, path: str) -> str:
        """The whole exact text, to be edited and written back. Raises ToolFailure."""
        ...

    async def write_text(self, path: str, content: str) -> None:
        """Create the file or replace its text. Raises ToolFailure."""
        ...


class ClientFiles:
    """Text files as the client sees them."""

    def __init__(self, files: Files) -> None:
        self._files = files

    async def read_text(self, path: str, line: int | None, limit: int | None) -> str:
        """Ask the client for the text."""
        return await self._files.read_text_file(path, line, limit)

    async def snapshot(self, path: str) -> str:
        """Ask the client for the whole text."""
        return await self._files.read_text_file(path)

    async def write_text(self, path: str, content: str) -> None:
        """Have the client write the text."""
        await self._files.write_text_file(path, content)


class HostFiles:
    """Text files on the agent host. Blocking work is done in threads."""

    async def read_text(self, path: str, line: int | None, limit: int | None) -> str:
        """Read lines; bytes that are no UTF-8 are shown as U+FFFD, a byte order mark is not shown."""
        return await anyio.to_thread.run_sync(_read, path, line or 1, limit, abandon_on_cancel=True)

    async def snapshot(self, path: str) -> str:
        """Read everything; bytes that are no UTF-8 become lone surrogates."""
        return await anyio.to_thread.run_sync(_snapshot, path, abandon_on_cancel=True)

    async def write_text(self, path: str, content: str) -> None:
        """Write a new file beside the old one and put it in its place; missing directories are made."""
        # Not abandoned on cancel: whoever waits for the end of the call must not find the file changing later.
        await anyio.to_thread.run_sync(_write, path, content)


def _open(path: str) -> BufferedReader:
    """Open a regular text file. Raises ToolFailure, also for a directory, a device or a binary file."""
    try:
        # NONBLOCK: opening a FIFO would wait for its other end. NOFOLLOW: the path was resolved, so a link is new.
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise ToolFailure(f"{path}: {error.strerror}") from error
    mode = os.fstat(number).st_mode
    if not stat.S_ISREG(mode):
        os.close(number)
        raise ToolFailure(f"{path}: {'is a directory' if stat.S_ISDIR(mode) else 'is no regular file'}")
    file = os.fdopen(number, "rb")
    try:
        if b"\0" in file.read(BINARY_SNIFF_BYTES):
            raise ToolFailure(f"{path}: is a binary file, not a text")
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


def _read(path: str, line: int, limit: int | None) -> str:
    with _open(path) as file:
        if not _skip(file, line - 1):
            raise ToolFailure(f"{path}: has fewer than {line} lines")
        kept = bytearray()
        lines = 0
        # In pieces: one line may be as long as the disk is large.
        while (limit is None or lines < limit) and len(kept) <= READ_BYTES and (piece := file.readline(READ_BYTES)):
            kept += piece
            lines += piece.endswith(b"\n")
    data = bytes(kept)
    return (data.removeprefix(b"\xef\xbb\xbf") if line == 1 else data).decode("utf-8", "replace")


def _skip(file: BufferedReader, lines: int) -> bool:
    """Go past a number of lines; False when there is nothing after them. No lines to skip is always possible."""
    left = lines
    while left:
        piece = file.readline(READ_BYTES)
        if not piece:
            return False
        left -= piece.endswith(b"\n")
    return not lines or bool(file.peek(1))


def _snapshot(path: str) -> str:
    with _open(path) as file:
        if os.fstat(file.fileno()).st_size > EDIT_BYTES:
            raise ToolFailure(f"{path}: is larger than the {EDIT_BYTES} bytes that can be edited")
        return file.read(EDIT_BYTES + 1).decode("utf-8", "surrogateescape")


def _write(path: str, content: str) -> None:
    target = Path(path)
    try:
        data = content.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise ToolFailure("the text holds half of a surrogate pair, which cannot be written") from None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        old = _existing(target)
        try:
            _replace(target, data, old)
        except PermissionError:
            # The directory takes no new file, but the file itself may be open to us.
            if old is None:
                raise
            target.write_bytes(data)
    except OSError as error:
        raise ToolFailure(f"{path}: {error.strerror}") from error


def _existing(target: Path) -> os.stat_result | None:
    try:
        found = target.lstat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise ToolFailure(f"{target}: {'is a directory' if stat.S_ISDIR(found.st_mode) else 'is no regular file'}")
    return found


def _replace(target: Path, data: bytes, old: os.stat_result | None) -> None:
    beside = target.with_name(f".{target.name[:80]}.{secrets.token_hex(6)}.tmp")
    # Mode 0666 less the umask, as any program makes a new file.
    number = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
            if old is not None:
                _keep_owner_and_mode(number, old)
        os.replace(beside, target)  # noqa: PTH105 - one system call, named as such
    except BaseException:
        with suppress(FileNotFoundError):
            beside.unlink()
        raise


def _keep_owner_and_mode(number: int, old: os.stat_result) -> None:
    made = os.fstat(number)
    if (made.st_uid, made.st_gid) != (old.st_uid, old.st_gid):
        # Only root may give a file away; anyone else keeps it, as with any editor.
        with suppress(PermissionError):
            os.fchown(number, old.st_uid, old.st_gid)
    os.fchmod(number, stat.S_IMODE(old.st_mode))
