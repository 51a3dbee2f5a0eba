"""A terminal for tests: a program runs on a pseudo-terminal, and the test reads and types."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# Makes the pseudo-terminal the controlling one, so that ctrl-c is a signal, and becomes the program.
_ATTACH = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.executable, sys.argv[1:])"
)

# Runs a conversation with any agent, as `sluice run` does with its own.
_CONVERSE = """
import json, sys
from sluice.cli.run import Conversation, converse
from sluice.client.process import AgentCommand, Ladder
spec = json.loads(sys.argv[1])
command = AgentCommand(spec.pop("command"), ladder=Ladder(5.0, 0.2, 5.0))
sys.exit(converse(Conversation(command, **spec)))
"""

PATIENCE = 20.0
"""Seconds a test waits for a text before it fails."""


def converse(command: Sequence[str], cwd: Path, **more: Any) -> list[str]:
    """The arguments of a Python that runs a conversation with this agent."""
    spec = {"command": list(command), "cwd": str(cwd), **more}
    return ["-c", _CONVERSE, json.dumps(spec)]


class Terminal:
    """A Python program on a pseudo-terminal of its own."""

    def __init__(self, arguments: Sequence[str], **environment: str) -> None:
        self._master, slave = os.openpty()
        env = {**os.environ, "TERM": "xterm", "NO_COLOR": "1", "INPUTRC": "/dev/null", **environment}
        self._program = subprocess.Popen(
            [sys.executable, "-c", _ATTACH, sys.executable, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env=env,
        )
        os.close(slave)
        self.output = ""
        self._read = 0

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._program.poll() is None:
            self._program.kill()
        self._program.wait()
        os.close(self._master)

    def expect(self, text: str) -> str:
        """Wait until `text` appears after what was expected before; returns what came up to its end."""
        deadline = time.monotonic() + PATIENCE
        while (at := self.output.find(text, self._read)) < 0:
            assert self._take(deadline), f"{text!r} did not appear in {self.output[self._read :]!r}"
        before, self._read = self._read, at + len(text)
        return self.output[before : self._read]

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def interrupt(self) -> None:
        """Press ctrl-c at a line editor until the program leaves or writes something.

        CPython's `input` notices a signal only while it waits for a key. One that comes in the microseconds in which
        the editor still draws the last key waits for the next, as no person presses keys that fast but a test does.
        """
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            self.type("\x03")
            if select.select([self._master], [], [], 0.1)[0]:
                return

    def echoes(self) -> bool:
        """Whether the terminal is in its normal mode."""
        return bool(termios.tcgetattr(self._master)[3] & termios.ECHO)

    def wait(self) -> int:
        """Read to the end; returns the exit status."""
        deadline = time.monotonic() + PATIENCE
        while self._take(deadline):
            pass
        return self._program.wait(PATIENCE)

    def _take(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return False
        try:
            data = os.read(self._master, 1 << 16)
        except OSError:
            # Linux says EIO once the last program has left the terminal.
            return False
        self.output += data.decode().replace("\r\n", "\n")
        return bool(data)
