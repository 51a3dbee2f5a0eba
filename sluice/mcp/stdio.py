"""The stdio transport of an MCP server: a child process, lines of JSON on its pipes, its stderr into our log.

The pipes are ours, not the event loop's, so the end of the process and the end of its output are seen apart: a
server whose children keep the pipes open is lost when it ends, and can be cleaned up. Lines are bounded.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import Process

from sluice.mcp import group

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage

__all__ = ["LINE_BYTES", "POLITE_SECONDS", "Launch", "StdioServer"]

LINE_BYTES = 16 * 1024 * 1024
"""The longest line taken from a server, in bytes; with a longer one the connection ends."""

POLITE_SECONDS = 2.0
"""How long a server may take to end after its stdin is closed, in seconds, before it is told to by a signal."""

HASTY_SECONDS = 0.2
"""The same for a server that never became ready, in seconds: it has nothing to lose, and setup has a deadline."""

_CHUNK_BYTES = 64 * 1024
_STDERR_LINE_BYTES = 2000

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Launch:
    """A server to start: nothing in it is expanded, `command` is an absolute path, `env` is the whole environment."""

    name: str
    command: str
    args: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]


class StdioServer:
    """One run of a server process.

    Args:
        launch: what to start.
        on_lost: called when the server can no longer be talked to, at most once, also during the clean-up.

    Attributes:
        polite: how long the server may take to end by itself at the end, in seconds.
        gone: False when something of the process group still runs after the clean-up.
        problem: always "": what went wrong with a process is in the exception.
    """

    problem = ""

    def __init__(self, launch: Launch, on_lost: Callable[[], None]) -> None:
        self.polite = HASTY_SECONDS
        self.gone = True
        self._launch = launch
        self._on_lost = on_lost

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[tuple[Any, Any]]:
        """Start the process and give the two message streams of an MCP client; at the end nothing of it runs.

        Raises:
            OSError: the process cannot be started.
            ValueError: a value holds a NUL.
        """
        from mcp.shared.message import SessionMessage

        to_session, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, from_session = anyio.create_memory_object_stream[SessionMessage](0)
        pipes = _Pipes()
        try:
            process = await self._spawn(pipes)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._read, pipes.stdout, to_session)
                tasks.start_soon(self._write, pipes, from_session, to_session)
                tasks.start_soon(self._log_stderr, pipes.stderr)
                tasks.start_soon(self._watch, process, to_session)
                try:
                    yield incoming, outgoing
                finally:
                    # Closing stdin first is how MCP ends a stdio server; the reader goes on, so that a server
                    # with a full output pipe can come to its end.
                    incoming.close()
                    outgoing.close()
                    pipes.close_stdin()
                    self.gone = await group.end(process, self.polite)
                    tasks.cancel_scope.cancel()
        finally:
            pipes.close()
            for stream in (to_session, incoming, outgoing, from_session):
                stream.close()

    async def _spawn(self, pipes: _Pipes) -> Process:
        launch = self._launch
        # Shielded: a cancellation between the fork and the assignment would lose the process.
        with anyio.CancelScope(shield=True):
            try:
                process = await anyio.open_process(
                    [launch.command, *launch.args],
                    stdin=pipes.child_stdin,
                    stdout=pipes.child_stdout,
                    stderr=pipes.child_stderr,
                    cwd=launch.cwd,
                    env=launch.env,
                    start_new_session=True,
                )
            finally:
                pipes.close_child_ends()
        return process

    def _lose(self, to_session: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        # The session sees the end of the stream and fails what is pending.
        to_session.close()
        self.polite = HASTY_SECONDS
        callback, self._on_lost = self._on_lost, _nothing
        callback()

    async def _read(self, fd: int, to_session: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        from mcp.shared.message import SessionMessage
        from mcp.types import jsonrpc_message_adapter

        async def deliver(line: bytes) -> None:
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                _log.debug("MCP server %s: a line that is no JSON-RPC message", self._launch.name)
                return
            # Closed: the session has ended or the server was given up; what still comes is read and dropped.
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                await to_session.send(SessionMessage(message))

        if not await _each_line(fd, deliver):
            _log.warning("MCP server %s: a line of more than %d bytes", self._launch.name, LINE_BYTES)
        self._lose(to_session)

    async def _write(
        self,
        pipes: _Pipes,
        from_session: MemoryObjectReceiveStream[SessionMessage],
        to_session: MemoryObjectSendStream[SessionMessage | Exception],
    ) -> None:
        try:
            async for message in from_session:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await pipes.write(text.encode("utf-8", "replace") + b"\n")
        except OSError:
            # Also a stdin closed by the clean-up while a message waited for room in the pipe.
            self._lose(to_session)

    async def _watch(self, process: Process, to_session: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        """Lose the server when its process has ended, even if its children hold the pipes open."""
        await process.wait()
        # What it wrote last may still be in the pipe; the reader normally meets the end of it first.
        await anyio.sleep(HASTY_SECONDS)
        self._lose(to_session)

    async def _log_stderr(self, fd: int) -> None:
        pending = bytearray()
        while data := await _receive(fd):
            pending += data
            *lines, rest = bytes(pending).split(b"\n")
            for line in lines:
                _log.info(
                    "MCP server %s: %s", self._launch.name, line[:_STDERR_LINE_BYTES].decode("utf-8", "replace")
                )
            # A line without an end is kept to the length that is shown.
            pending = bytearray(rest[:_STDERR_LINE_BYTES])
        if pending:
            _log.info("MCP server %s: %s", self._launch.name, pending.decode("utf-8", "replace"))


class _Pipes:
    """The three pipes of a child. Our ends do not block; nobody else has these descriptions, so that harms none."""

    def __init__(self) -> None:
        self.child_stdin, self.stdin = os.pipe()
        self.stdout, self.child_stdout = os.pipe()
        self.stderr, self.child_stderr = os.pipe()
        for fd in (self.stdin, self.stdout, self.stderr):
            os.set_blocking(fd, False)
        self._open = {self.child_stdin, self.stdin, self.stdout, self.child_stdout, self.stderr, self.child_stderr}

    async def write(self, data: bytes) -> None:
        """Write everything. Raises OSError when the other end or ours is closed."""
        view = memoryview(data)
        while view:
            if self.stdin not in self._open:
                raise BrokenPipeError
            try:
                view = view[os.write(self.stdin, view) :]
            except BlockingIOError:
                try:
                    await anyio.wait_writable(self.stdin)
                except anyio.ClosedResourceError:
                    raise BrokenPipeError from None

    def close_stdin(self) -> None:
        """Close our end of the child's stdin, also under a write that waits."""
        if self.stdin in self._open:
            anyio.notify_closing(self.stdin)
        self._close(self.stdin)

    def close_child_ends(self) -> None:
        """Close what the child has inherited."""
        for fd in (self.child_stdin, self.child_stdout, self.child_stderr):
            self._close(fd)

    def close(self) -> None:
        """Close what is still open."""
        for fd in tuple(self._open):
            self._close(fd)

    def _close(self, fd: int) -> None:
        if fd in self._open:
            self._open.remove(fd)
            os.close(fd)


def _nothing() -> None:
    """The callback once it was called."""


async def _receive(fd: int) -> bytes:
    """Return the next bytes, none at the end of the pipe."""
    while True:
        await anyio.wait_readable(fd)
        with suppress(BlockingIOError):
            return os.read(fd, _CHUNK_BYTES)


async def _each_line(fd: int, deliver: Callable[[bytes], Any]) -> bool:
    """Deliver the lines up to the end of the pipe; False as soon as one is too long."""
    parts: list[bytes] = []
    size = 0
    while data := await _receive(fd):
        *lines, rest = data.split(b"\n")
        for line in lines:
            await deliver(b"".join((*parts, line)))
            parts, size = [], 0
        parts.append(rest)
        size += len(rest)
        if size > LINE_BYTES:
            return False
    return True
