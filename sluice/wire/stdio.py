"""Standard input and output as a transport; the only module that touches descriptors 0 and 1.

`claim` takes both away from the rest of the process: the protocol gets private descriptors that no child inherits,
descriptor 1 becomes another name of stderr, and descriptor 0 is `/dev/null`. So a print, a progress bar or a child
can neither write a line to the wire nor swallow the next request.

Descriptors are shared with the parent, and so are their status flags: setting `O_NONBLOCK` on one would change it for
the parent too, and stay after we have gone. Therefore each kind is written in its own way, never blocking the event
loop: a socket with `MSG_DONTWAIT`; a pipe or terminal through a new description of the same file; and where that
cannot be had, in pieces that a descriptor reported as writable takes without blocking. What cannot be polled at all
(regular files, `/dev/null`) never blocks for long and is left to a thread.

Source: ACP "Transports"; requirements `transport.stdio.*`, `transport.output.*`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import select
import socket
import stat
import sys
from collections.abc import Callable

import anyio
import anyio.lowlevel
import anyio.to_thread

from sluice.wire.cleanup import shielded
from sluice.wire.transport import CHUNK_BYTES

__all__ = ["FINISH_LINE_SECONDS", "FdTransport", "claim"]

FINISH_LINE_SECONDS = 2.0
"""Seconds a cancelled send may still take to finish what it began: half a line would corrupt the stream."""

_GONE = frozenset({errno.EIO, errno.ECONNRESET, errno.ENOTCONN})
"""How a terminal that hung up and a socket whose other end died report the end of input."""


def claim() -> FdTransport:
    """Take standard input and output for the protocol; call it once, before anything else may print.

    Call it before the event loop starts: in a process that was started with a closed standard input, the loop's own
    descriptor would otherwise be number 0.

    Python's own `sys.stdout` stays usable and goes to stderr from now on, with what it still holds in its buffer.

    Returns:
        The transport. Closing it does not give descriptors 0 and 1 back.

    Raises:
        OSError: standard output is not open.
    """
    outgoing = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
    try:
        incoming = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
    except OSError:  # started without standard input, which is an input that has ended
        incoming = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    _point(0, os.devnull, os.O_RDONLY)
    try:
        os.dup2(2, 1)
    except OSError:  # started without stderr
        _point(1, os.devnull, os.O_WRONLY)
    _replace_stdout()
    return FdTransport(incoming, outgoing)


def _replace_stdout() -> None:
    """Give Python's `sys.stdout` a fresh file on descriptor 1, which is stderr by now.

    Fresh, because the old one remembers whether the old descriptor could seek: one that was opened on a file fails on
    a pipe. UTF-8 whatever the locale, so that no print in the middle of a tool can fail.
    """
    old = sys.stdout
    if old is not None:
        with contextlib.suppress(OSError, ValueError):
            old.flush()  # what was printed before the claim goes to stderr too
    raw = io.FileIO(1, "w", closefd=False)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace", line_buffering=True
    )


def _point(fd: int, path: str, flags: int) -> None:
    opened = os.open(path, flags | os.O_CLOEXEC)
    os.dup2(opened, fd)
    if opened != fd:
        os.close(opened)


class FdTransport:
    """A transport over two file descriptors of any kind; it owns them and closes them.

    Args:
        incoming: descriptor to read from.
        outgoing: another descriptor, to write to.
    """

    def __init__(self, incoming: int, outgoing: int) -> None:
        self._reader = _Reader(incoming)
        self._writer = _Writer(outgoing)

    async def receive(self) -> bytes:
        """See `Transport.receive`. May be cancelled without losing a byte, unless the input is a regular file."""
        return await self._reader.receive()

    async def send(self, data: bytes) -> None:
        """See `Transport.send`. Cancelled when part of `data` is out, it tries `FINISH_LINE_SECONDS` for the rest."""
        await self._writer.send(data)

    async def aclose(self) -> None:
        """See `Transport.aclose`."""
        await anyio.lowlevel.checkpoint()
        self._writer.close()
        self._reader.close()


def _pollable(fd: int) -> bool:
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)


class _Descriptor:
    """A descriptor that is closed once; as a socket object where it is one, for the flags of a single call."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.pollable = _pollable(fd)
        self.socket = socket.socket(fileno=fd) if stat.S_ISSOCK(os.fstat(fd).st_mode) else None

    def close(self) -> None:
        if self.fd < 0:
            return
        fd, self.fd = self.fd, -1
        if self.pollable:
            anyio.notify_closing(fd)
        if self.socket is None:
            os.close(fd)
        else:
            self.socket.close()


class _Reader(_Descriptor):
    async def receive(self) -> bytes:
        while self.fd >= 0:
            try:
                if not self.pollable:
                    return await anyio.to_thread.run_sync(os.read, self.fd, CHUNK_BYTES, abandon_on_cancel=True)
                await anyio.wait_readable(self.fd)
                if self.socket is not None:
                    return self.socket.recv(CHUNK_BYTES, socket.MSG_DONTWAIT)
                return os.read(self.fd, CHUNK_BYTES)
            except BlockingIOError:  # somebody else was faster, or the parent made its pipe non-blocking
                continue
            except anyio.ClosedResourceError as error:
                raise anyio.BrokenResourceError from error
            except OSError as error:
                if error.errno in _GONE:
                    return b""
                raise anyio.BrokenResourceError from error
        raise anyio.BrokenResourceError


class _Writer(_Descriptor):
    def __init__(self, fd: int) -> None:
        super().__init__(_reopened(fd))
        self._write = self._choose()

    async def send(self, data: bytes) -> None:
        await anyio.lowlevel.checkpoint_if_cancelled()
        view = memoryview(data)
        sent = 0
        try:
            while sent < len(view):
                sent += await self._some(view[sent:])
        except anyio.get_cancelled_exc_class():
            if sent:
                with shielded(FINISH_LINE_SECONDS, "finishing the last line of the output"):
                    while sent < len(view):
                        sent += await self._some(view[sent:])
            raise
        # Others get their turn after the line is out, not before: a client waits for it.
        await anyio.lowlevel.cancel_shielded_checkpoint()

    async def _some(self, view: memoryview) -> int:
        """Write what can be written now, or wait until something can; returns the bytes written."""
        if self.fd < 0:
            raise anyio.BrokenResourceError
        try:
            if not self.pollable:
                return await anyio.to_thread.run_sync(os.write, self.fd, view)
            return self._write(view)
        except BlockingIOError:
            return await self._writable()
        except OSError as error:
            raise anyio.BrokenResourceError from error

    async def _writable(self) -> int:
        try:
            await anyio.wait_writable(self.fd)
        except (anyio.ClosedResourceError, OSError) as error:
            raise anyio.BrokenResourceError from error
        return 0

    def _choose(self) -> Callable[[memoryview], int]:
        if (sock := self.socket) is not None:
            flags = socket.MSG_DONTWAIT | getattr(socket, "MSG_NOSIGNAL", 0)
            return lambda view: sock.send(view, flags)
        if self.pollable and os.get_blocking(self.fd):
            return self._write_piece
        return lambda view: os.write(self.fd, view)

    def _write_piece(self, view: memoryview) -> int:
        # POSIX: a pipe reported as writable takes PIPE_BUF bytes at once.
        poll = select.poll()
        poll.register(self.fd, select.POLLOUT)
        if not poll.poll(0):
            raise BlockingIOError
        return os.write(self.fd, view[: select.PIPE_BUF])


def _reopened(fd: int) -> int:
    """Open the pipe or terminal behind `fd` anew, non-blocking for us alone, and close `fd`.

    Returns:
        The new descriptor, or `fd` itself when this kind cannot be reopened, nobody reads it any more, or it belongs
        to another user.
    """
    if not _pollable(fd) or stat.S_ISSOCK(os.fstat(fd).st_mode):
        return fd
    flags = os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    try:
        private = os.open(f"/proc/self/fd/{fd}", flags)
    except OSError:
        return fd
    os.close(fd)
    return private
