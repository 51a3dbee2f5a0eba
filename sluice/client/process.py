"""An agent as a child process: started without a shell, its stderr drained, its whole group ended by a ladder.

The process leads a group of its own. A launcher (npx, uvx, a shell script) often leaves the real agent as a
grandchild; whoever signals only the child orphans it, so every signal here goes to the group.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.abc

from sluice.client.errors import AgentStartError

__all__ = ["AgentCommand", "AgentProcess", "Ladder", "open_pidfd", "start_agent"]

_log = logging.getLogger(__name__)

STDERR_LINES = 20
"""Lines of stderr kept for error texts."""

STDERR_LINE_BYTES = 2000
"""Bytes kept of one stderr line; the rest of a longer one is dropped."""

_CHUNK = 1 << 16
"""Bytes taken from a pipe at a time."""


@dataclass(frozen=True)
class Ladder:
    """How long each step of a shutdown waits before the next one, in seconds."""

    after_close: float = 2.0
    """After stdin was closed: the time the agent has to store its sessions and leave by itself."""
    after_term: float = 2.0
    """After SIGTERM to the group."""
    after_kill: float = 2.0
    """After SIGKILL to the group; only a process stuck in the kernel outlives it."""


@dataclass(frozen=True)
class AgentCommand:
    """What to start.

    Attributes:
        argv: the program and its arguments, passed on as they are (no shell).
        cwd: the working directory of the process, or None for ours.
        env: variables laid over our own environment.
        ladder: the budgets of the shutdown.
        echo_stderr: whether the agent's stderr is also logged line by line (level INFO).
    """

    argv: Sequence[str]
    cwd: str | Path | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    ladder: Ladder = Ladder()
    echo_stderr: bool = False

    @property
    def name(self) -> str:
        """The program's name for messages."""
        return Path(self.argv[0]).name if self.argv else "(no command)"


class AgentProcess:
    """A started agent; also the byte transport over its stdin and stdout.

    Made by `start_agent`.
    """

    def __init__(self, command: AgentCommand, process: anyio.abc.Process) -> None:
        self.command = command
        self._process = process
        self._tail: deque[str] = deque(maxlen=STDERR_LINES)
        self._pidfd = open_pidfd(process.pid)
        self._exited = anyio.Event()
        self._stderr_end = anyio.Event()

    @property
    def pid(self) -> int:
        """The process id, which is also the id of its process group."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit status (negative: the signal that ended it), or None while it runs."""
        return self._process.returncode

    @property
    def stderr_tail(self) -> tuple[str, ...]:
        """The last lines of stderr, oldest first."""
        return tuple(self._tail)

    async def receive(self) -> bytes:
        """Take what stdout has next; `b""` once it ended."""
        assert self._process.stdout is not None
        try:
            return await self._process.stdout.receive(_CHUNK)
        except (OSError, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return b""

    async def send(self, data: bytes) -> None:
        """Write to stdin.

        Raises:
            anyio.BrokenResourceError: the process no longer reads.
        """
        assert self._process.stdin is not None
        try:
            await self._process.stdin.send(data)
        except (OSError, anyio.ClosedResourceError) as error:
            raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        """Close stdin, the polite way to ask an agent to leave; stdout stays readable."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._process.stdin.aclose()

    async def attend(self) -> None:
        """Drain stderr and watch for the exit; run it as a task for as long as the process is in use."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._drain_stderr)
                group.start_soon(self._watch)
        finally:
            if self._pidfd is not None:
                os.close(self._pidfd)

    async def wait(self) -> int | None:
        """Wait for the process itself to end, whether or not a grandchild still holds its pipes open.

        Returns:
            The exit status, negative for a signal.
        """
        await self._exited.wait()
        return self._process.returncode

    async def _watch(self) -> None:
        if self._process.returncode is None and self._pidfd is not None:
            await anyio.wait_readable(self._pidfd)
        # The kernel knows of the exit (or there is no pidfd here); the event loop reaps it on its own.
        await self._reaped()
        self._exited.set()

    async def _reaped(self) -> None:
        pause = 0.005
        while self._process.returncode is None:
            await anyio.sleep(pause)
            pause = min(pause * 2, 0.05)

    async def _drain_stderr(self) -> None:
        """Read stderr to its end, so that a noisy agent never blocks on a full pipe; keep the last lines."""
        assert self._process.stderr is not None
        rest = b""
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for chunk in self._process.stderr:
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    self._keep(line)
                rest = rest[:STDERR_LINE_BYTES]
        self._keep(rest)
        self._stderr_end.set()

    async def describe_end(self) -> tuple[str, int | None]:
        """Say how the process ended, waiting briefly for its status and its last words.

        Returns:
            A readable clause ("exited with status 3"), and the status or None.
        """
        with anyio.move_on_after(1.0):
            await self._exited.wait()
        with anyio.move_on_after(0.3):
            # Ended by now, unless a grandchild holds the pipe open.
            await self._stderr_end.wait()
        code = self._process.returncode
        if code is None:
            return "closed its output but is still running", None
        if code < 0:
            return f"was ended by {_signal_name(-code)}", code
        return f"exited with status {code}", code

    async def shut_down(self) -> None:
        """Close stdin, wait, SIGTERM to the group, wait, SIGKILL to the group; returns once all of it is gone."""
        ladder = self.command.ladder
        await self.aclose()
        await self._leader_within(ladder.after_close)
        # The leader may have left and its children stayed: the ladder ends with the group, not with the leader.
        if self._signal_group(signal.SIGTERM):
            await self._group_within(ladder.after_term)
        if self._signal_group(signal.SIGKILL):
            await self._group_within(ladder.after_kill)
        await self._release()

    def kill(self) -> None:
        """SIGKILL to the group, at once; `shut_down` still follows."""
        self._signal_group(signal.SIGKILL)

    async def _leader_within(self, seconds: float) -> None:
        # Not `wait`: `attend` may already have been cancelled together with everything around it.
        with anyio.move_on_after(seconds):
            await self._reaped()

    async def _group_within(self, seconds: float) -> None:
        """Wait until the group is empty. There is no event for that, hence the polling, with growing pauses."""
        pause = 0.005
        with anyio.move_on_after(seconds):
            while self._signal_group(0):
                await anyio.sleep(pause)
                pause = min(pause * 2, 0.05)

    def _signal_group(self, number: int) -> bool:
        """Signal the group (0 only asks); whether it had a living member."""
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return not (number == 0 and _only_zombies(self.pid))

    async def _release(self) -> None:
        with contextlib.suppress(ProcessLookupError), anyio.move_on_after(1.0):
            await self._process.aclose()

    def _keep(self, raw: bytes) -> None:
        line = raw[:STDERR_LINE_BYTES].decode("utf-8", "replace").rstrip()
        if not line:
            return
        self._tail.append(line)
        if self.command.echo_stderr:
            _log.info("%s: %s", self.command.name, line)


async def start_agent(command: AgentCommand) -> AgentProcess:
    """Start an agent. The caller runs `attend` while it lives and `shut_down` at the end, in every case.

    Args:
        command: what to start.

    Raises:
        AgentStartError: the program does not exist, is not executable, or its directory is missing.
    """
    return AgentProcess(command, await _spawn(command))


async def _spawn(command: AgentCommand) -> anyio.abc.Process:
    if not command.argv or not command.argv[0]:
        raise AgentStartError("no agent command was given")
    try:
        return await anyio.open_process(
            list(command.argv),
            cwd=command.cwd,
            env={**os.environ, **command.env},
            start_new_session=True,
        )
    except FileNotFoundError as error:
        if command.cwd is not None and not await anyio.Path(command.cwd).is_dir():
            raise AgentStartError(f"cannot start {command.name}: no such directory: {command.cwd}") from error
        raise AgentStartError(f"cannot start {command.argv[0]}: command not found") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise AgentStartError(f"cannot start {command.argv[0]}: {reason}") from error


def open_pidfd(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends; None where the system has none."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def _only_zombies(group: int) -> bool:
    """Whether every member of a group has ended and merely waits to be reaped (by an init that never does, say).

    Only Linux tells, through /proc; elsewhere the answer is no and the ladder's budget decides.
    """
    members = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name in parentheses may hold anything; the fields after the last one are state, parent, group.
            state, _, pgrp = stat.read_text("utf-8", "replace").rpartition(")")[2].split()[:3]
            if int(pgrp) == group:
                members += 1
                if state not in "ZX":
                    return False
    return members > 0


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
