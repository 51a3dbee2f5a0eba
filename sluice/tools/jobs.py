"""One background job: a process group, its bounded output, and two threads that follow it.

Threads and not tasks: a toolset has no task group that lasts from its start to its stop, and the pipe has to be read
all the time, or the command stands still when it is full. One thread reads, one waits for the leader; both end with
the job, at the latest in `end`.
"""

from __future__ import annotations

import os
import select
import subprocess
import threading
from contextlib import suppress

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread

from sluice.tools import process

__all__ = ["BUFFER_BYTES", "Job"]

BUFFER_BYTES = 10 * 1024 * 1024
"""How much output of a job is kept, in bytes: its end."""

_LAST_WORDS = 0.2
"""Seconds the reader gets after the leader has ended; children that hold the pipe open may keep it longer."""

_JOIN_SECONDS = 2.0
_CHUNK_BYTES = 64 * 1024


class Job:
    """A command that was started in a process group of its own.

    Attributes:
        ended: set when the leader has ended and its output has been read.
    """

    def __init__(self, job_id: str, line: str, child: subprocess.Popen[bytes]) -> None:
        self.id = job_id
        self.line = line
        self.ended = anyio.Event()
        self._child = child
        self._tail = process.Tail(BUFFER_BYTES)
        self._lock = threading.Lock()
        self._wake, self._waker = os.pipe()
        self._loop = anyio.lowlevel.current_token()
        self._reader = threading.Thread(target=self._read, name=f"read {job_id}", daemon=True)
        self._waiter = threading.Thread(target=self._wait, name=f"wait {job_id}", daemon=True)
        self._reader.start()
        self._waiter.start()

    @property
    def code(self) -> int | None:
        """The exit code of the leader (negative: the signal), None while it runs."""
        return self._child.returncode

    def group(self) -> int | None:
        """The process group while anything of it runs, else None."""
        pid = self._child.pid
        if self.code is None:
            return pid  # not reaped, so the number is its own
        return pid if process.orphaned(pid) else None

    def output(self, most: int) -> tuple[str, int]:
        """The last `most` bytes of the output as text, and how many came before them."""
        with self._lock:
            return self._tail.end(most)

    async def end(self) -> None:
        """End the group, join the threads and close what they used; bounded and shielded. Harmless when repeated."""
        with anyio.CancelScope(shield=True):
            if (group := self.group()) is not None:
                await process.end_groups([group])
            with anyio.move_on_after(process.KILL_SECONDS):
                await self.ended.wait()
            self.close()
            await anyio.to_thread.run_sync(self._reader.join, _JOIN_SECONDS)

    def close(self) -> None:
        """Let the reader go, also when something outside the group still holds the pipe. Harmless when repeated."""
        if self._waker >= 0:
            os.close(self._waker)
            self._waker = -1

    # --- the threads

    def _read(self) -> None:
        pipe = self._child.stdout
        assert pipe is not None
        poll = select.poll()
        poll.register(pipe.fileno(), select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        try:
            while True:
                ready = {fd for fd, _ in poll.poll()}
                if pipe.fileno() not in ready:
                    return  # told to stop, and there is nothing left to read
                data = os.read(pipe.fileno(), _CHUNK_BYTES)
                if not data:
                    return
                with self._lock:
                    self._tail.add(data)
        finally:
            pipe.close()
            os.close(self._wake)

    def _wait(self) -> None:
        self._child.wait()
        self._reader.join(_LAST_WORDS)
        with suppress(RuntimeError):  # the event loop is gone, and with it everybody who could wait
            anyio.from_thread.run_sync(self.ended.set, token=self._loop)
