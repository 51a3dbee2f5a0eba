"""One child process from start to end: its own group, bounded output, and nothing left running by accident.

The leader of the group is the process that is waited for. Children that outlive it and hold the pipe open do not
delay the caller: what they have written so far is taken and the pipe is closed.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio.abc import Process

from sluice.agent.ports import ToolFailure

__all__ = [
    "KEEP_BYTES",
    "KILL_SECONDS",
    "TERM_SECONDS",
    "Command",
    "Outcome",
    "Tail",
    "end_groups",
    "group_alive",
    "orphaned",
    "run",
]

KEEP_BYTES = 48 * 1024
"""How many bytes of output are kept, in bytes: what fits a tool result together with its notices."""

TERM_SECONDS = 2.0
"""How long a group may take to end after SIGTERM, in seconds: enough to flush and remove temporary files."""

KILL_SECONDS = 2.0
"""How long to wait for the leader to be reaped after SIGKILL, in seconds; only an unkillable process uses it up."""

_POLL_SECONDS = 0.02
_PROC = Path("/proc")
_CHUNK_BYTES = 64 * 1024
_DRAIN_CHUNKS = 32


class Tail:
    """The last bytes of a stream whose length is not known; memory stays below twice the limit plus one chunk."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._seen = 0

    def add(self, data: bytes) -> None:
        """Take the next bytes."""
        self._seen += len(data)
        self._kept += data
        if len(self._kept) > 2 * self._limit:
            del self._kept[: -self._limit]

    @property
    def omitted(self) -> int:
        """How many bytes at the start were dropped."""
        return max(0, self._seen - self._limit)

    def text(self) -> str:
        """Return the kept end as text; broken UTF-8 is shown as U+FFFD, a character cut at the start is left out."""
        return self.end(self._limit)[0]

    def end(self, most: int) -> tuple[str, int]:
        """Return the last `most` bytes as text, at most what is kept, and how many bytes came before them."""
        kept = bytes(self._kept[-min(most, self._limit) :])
        before = self._seen - len(kept)
        if before:
            start = 0
            while start < min(3, len(kept)) and kept[start] & 0xC0 == 0x80:
                start += 1
            kept = kept[start:]
        return kept.decode("utf-8", "replace"), before


@dataclass(frozen=True, slots=True)
class Command:
    """A command to run: `argv[0]` is the program, `timeout` is in seconds, `stdin` is all it can read.

    `apart` keeps what it writes to stderr out of its output.
    """

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    timeout: float
    stdin: bytes | None = None
    keep: int = KEEP_BYTES
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended.

    `code` is the exit code (negative: the signal), None when the time was up. `omitted` counts the bytes dropped
    before `output`. `leftover` is the process group that still has members, None when it has none. `errors` is the
    end of what it wrote to stderr when that was kept apart, else "".
    """

    code: int | None
    output: str
    omitted: int = 0
    leftover: int | None = None
    errors: str = ""


class _Pipe:
    """What a child writes, from its end of a pipe to a tail; closed with the stack it was made on."""

    def __init__(self, keep: int, closing: ExitStack) -> None:
        self.tail = Tail(keep)
        self.read_end, self.write_end = os.pipe()
        closing.callback(os.close, self.read_end)
        os.set_blocking(self.read_end, False)

    async def pump(self) -> None:
        """Take what comes until every writer has closed."""
        while True:
            await anyio.wait_readable(self.read_end)
            with suppress(BlockingIOError):
                data = os.read(self.read_end, _CHUNK_BYTES)
                if not data:
                    return
                self.tail.add(data)

    def drain(self) -> None:
        """Take what is in the pipe now. Bounded: a surviving child may go on writing for ever."""
        with suppress(BlockingIOError):
            for _ in range(_DRAIN_CHUNKS):
                data = os.read(self.read_end, _CHUNK_BYTES)
                if not data:
                    return
                self.tail.add(data)


async def run(command: Command) -> Outcome:
    """Run a command to its end or its timeout, with stdout and stderr merged in order unless they are kept apart.

    Cancelling ends the whole process group before the cancellation goes on (at most `TERM_SECONDS` plus
    `KILL_SECONDS`). So does the timeout.

    Raises:
        ToolFailure: the command could not be started.
    """
    with ExitStack() as closing:
        out = _Pipe(command.keep, closing)
        with ExitStack() as ours:
            ours.callback(os.close, out.write_end)
            err = _Pipe(command.keep, closing) if command.apart else out
            if err is not out:
                ours.callback(os.close, err.write_end)
            process = await _start(command, out.write_end, err.write_end)
        pipes = (out,) if err is out else (out, err)
        code = await _finish(process, command, pipes)
        for pipe in pipes:
            pipe.drain()
    leftover = process.pid if code is not None and group_alive(process.pid) else None
    errors = err.tail.text() if command.apart else ""
    return Outcome(code, out.tail.text(), out.tail.omitted, leftover, errors)


async def _start(command: Command, stdout: int, stderr: int) -> Process:
    # Shielded: a cancellation between the fork and the assignment would lose the process. A spawn takes milliseconds.
    with anyio.CancelScope(shield=True):
        try:
            process = await anyio.open_process(
                command.argv,
                stdin=subprocess.DEVNULL if command.stdin is None else subprocess.PIPE,
                stdout=stdout,
                stderr=stderr,
                cwd=command.cwd,
                env=command.env,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else "invalid value"
            raise ToolFailure(f"the command could not be started in {command.cwd}: {reason}") from error
    return process


async def _finish(process: Process, command: Command, pipes: Iterable[_Pipe]) -> int | None:
    """Wait for the leader; on timeout or cancellation end the group. Returns the exit code, None on timeout."""
    code: int | None = None
    try:
        with anyio.move_on_after(command.timeout):
            async with anyio.create_task_group() as group:
                for pipe in pipes:
                    group.start_soon(pipe.pump)
                if command.stdin is not None:
                    group.start_soon(_feed, process, command.stdin)
                code = await process.wait()
                group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            if code is None:
                await end_groups([process.pid], process)
            with anyio.move_on_after(KILL_SECONDS):
                await process.aclose()
    return code


async def _feed(process: Process, data: bytes) -> None:
    stdin = process.stdin
    if stdin is None:
        return
    # A child that ends without reading everything is no fault of ours; its exit code says what it is.
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        await stdin.send(data)
        await stdin.aclose()


def group_alive(group: int) -> bool:
    """Return whether the process group has a member that still runs.

    Orphans that have ended stay in the group until init reaps them, which may take seconds; they do not count.
    """
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _PROC.is_dir() or _has_running_member(group)


def orphaned(group: int) -> bool:
    """Return whether a group whose leader was reaped still has members, and the number is still its own.

    A pid is not given out again while a group has that number: a process with that pid means that the group is gone
    and the number belongs to somebody else.
    """
    if not group_alive(group):
        return False
    try:
        os.kill(group, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def _has_running_member(group: int) -> bool:
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            # A process may end between the listing and the reading.
            with suppress(OSError):
                # pid (name) state ppid pgrp …; the name may hold anything, parentheses and spaces included.
                state, _, member_of = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[:3]
                if int(member_of) == group and state not in "ZX":
                    return True
    return False


async def end_groups(groups: Iterable[int], leader: Process | None = None) -> None:
    """End process groups: SIGTERM, at most `TERM_SECONDS`, SIGKILL, at most `KILL_SECONDS`.

    Args:
        groups: process group ids.
        leader: a running child of ours that leads one of them and has to be reaped.
    """
    with anyio.CancelScope(shield=True):
        alive = [group for group in groups if group_alive(group)]
        _signal(alive, signal.SIGTERM)
        with anyio.move_on_after(TERM_SECONDS):
            if leader is not None:
                await leader.wait()
            # The kernel tells nobody when a group becomes empty.
            while alive := [group for group in alive if group_alive(group)]:  # noqa: ASYNC110
                await anyio.sleep(_POLL_SECONDS)
        _signal(alive, signal.SIGKILL)
        if leader is not None:
            with anyio.move_on_after(KILL_SECONDS):
                await leader.wait()


def _signal(groups: Iterable[int], number: signal.Signals) -> None:
    for group in groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)
