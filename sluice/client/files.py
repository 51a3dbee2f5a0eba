"""Text files for an agent: what a program offers that opts in to `fs/read_text_file` and `fs/write_text_file`.

    files = LocalFiles(roots=[Path.cwd()])
    handlers = ClientHandlers(requests=files.requests())
    async with connect(command, handlers, ClientOptions(capabilities={"fs": files.capabilities()})) as agent:

Nothing outside of the roots is read or written, links followed. That is a policy for a well-meaning agent and no
sandbox: the check and the opening are two steps.

Source: https://agentclientprotocol.com/protocol/file-system; requirement `acp-provider.client.optional-fs`.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio.to_thread

from sluice.client.connection import RequestHandler
from sluice.client.reading import integer, text
from sluice.wire.errors import BackendError, InvalidParams, RefusedError

__all__ = ["MAX_FILE_BYTES", "LocalFiles"]

MAX_FILE_BYTES = 8 << 20
"""Bytes of a file that are sent at most: an agent takes no line above 10 MiB."""

_NOT_FOUND = -32002
"""ACP's code for a resource that does not exist."""


@dataclass
class LocalFiles:
    """The files below some directories of this machine, and the unsaved buffers of the program.

    Attributes:
        roots: directories whose files may be read and written.
        buffers: absolute path -> unsaved text; it is preferred to the file, and a write to such a path goes here.
    """

    roots: Sequence[Path]
    buffers: MutableMapping[str, str] = field(default_factory=dict)

    @staticmethod
    def capabilities() -> Mapping[str, bool]:
        """The value of `clientCapabilities.fs`."""
        return {"readTextFile": True, "writeTextFile": True}

    def requests(self) -> Mapping[str, RequestHandler]:
        """The handlers, for `ClientHandlers.requests`."""
        return {"fs/read_text_file": self._read, "fs/write_text_file": self._write}

    async def _read(self, params: Mapping[str, Any]) -> Any:
        path = _path(params)
        line, limit = _natural(params, "line"), _natural(params, "limit")
        real = await anyio.to_thread.run_sync(self._permitted, path)
        content = self.buffers.get(path)
        if content is None:
            content = await anyio.to_thread.run_sync(_content, real)
        if line or limit is not None:
            start = max(line or 1, 1) - 1
            # Only a line feed ends a line: str.splitlines knows many other ends.
            content = "".join(_with_ends(content.split("\n"))[start : None if limit is None else start + limit])
        return {"content": content}

    async def _write(self, params: Mapping[str, Any]) -> Any:
        path, content = _path(params), text(params.get("content"))
        if content is None:
            raise InvalidParams("content must be a text", {"path": "$.content"})
        real = await anyio.to_thread.run_sync(self._permitted, path)
        if path in self.buffers:
            self.buffers[path] = content
        else:
            await anyio.to_thread.run_sync(_replace, real, content.encode())
        return {}

    def _permitted(self, path: str) -> str:
        """Where a path leads, when that is below one of the roots."""
        try:
            # Not strict: a new file does not exist yet. A link that leads nowhere is followed to where it points.
            real = os.path.realpath(path)
            roots = [os.path.realpath(root) for root in self.roots]
        except OSError as error:
            raise BackendError(f"{path}: {error.strerror}") from error
        if not any(real == root or real.startswith(root.rstrip("/") + "/") for root in roots):
            raise RefusedError(f"{path} is outside of the directories this client offers", {"path": path})
        return real


def _path(params: Mapping[str, Any]) -> str:
    path = text(params.get("path"))
    if not path or "\0" in path or not os.path.isabs(path):  # noqa: PTH117 - a text path throughout
        raise InvalidParams("path must be an absolute path", {"path": "$.path"})
    return os.path.normpath(path)


def _natural(params: Mapping[str, Any], name: str) -> int | None:
    value = params.get(name)
    if value is None:
        return None
    number = integer(value)
    if number is None or number < 0:
        raise InvalidParams(f"{name} must be a whole number", {"path": f"$.{name}"})
    return number


def _with_ends(pieces: list[str]) -> list[str]:
    lines = [piece + "\n" for piece in pieces[:-1]]
    return [*lines, pieces[-1]] if pieces[-1] else lines


def _content(path: str) -> str:
    try:
        # NONBLOCK: opening a FIFO would wait for its other end.
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(number, "rb") as file:
            found = os.fstat(number)
            if not stat.S_ISREG(found.st_mode):
                raise BackendError(f"{path} is no regular file")
            data = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError as error:
        raise RefusedError(f"{path} does not exist", {"path": path}, code=_NOT_FOUND) from error
    except OSError as error:
        raise BackendError(f"{path}: {error.strerror}") from error
    if len(data) > MAX_FILE_BYTES:
        raise BackendError(f"{path} has more than {MAX_FILE_BYTES} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BackendError(f"{path} is no UTF-8 text") from error


def _replace(path: str, data: bytes) -> None:
    """Write beside the file, then put it in its place: a reader never sees half of it."""
    target = Path(path)
    beside = target.with_name(f".{target.name[:80]}.{secrets.token_hex(6)}.tmp")
    try:
        if target.exists() and not target.is_file():
            raise BackendError(f"{path} is no regular file")
        target.parent.mkdir(parents=True, exist_ok=True)
        number = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with os.fdopen(number, "wb") as file:
            file.write(data)
            if target.exists():
                os.fchmod(number, stat.S_IMODE(target.stat().st_mode))
        beside.replace(target)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise BackendError(f"{path}: {error.strerror}") from error
