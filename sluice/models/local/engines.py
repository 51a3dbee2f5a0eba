"""The engines of this process, seen from the agent: started when first needed, shared, and ended together.

An engine that has ended is started again by the next call. Nothing here knows what an engine does; see `engine`.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import anyio
from anyio.abc import Process

from sluice.agent.ports import ModelError
from sluice.models.local.kept import Kept, directory_of

__all__ = ["Address", "Engine", "Engines", "Spec", "threads"]

READY_SECONDS = 120.0
"""How long an engine may take until it can be asked, in seconds: a slow disk takes a minute for a gigabyte."""

END_SECONDS = 2.0
"""How long an engine may take to end after its stdin was closed, in seconds; it has nothing to save."""

NOTICE_SECONDS = 0.5
"""How long to wait for the exit status of an engine whose connection broke, in seconds: the connection ends first."""

COMMAND = (sys.executable, "-P", "-m", "sluice.models.local.engine")
"""What starts an engine. `-P`: the working directory is somebody's project and no place to import from."""

_REPORT_BYTES = 64 * 1024
_LOG_BYTES = 2000
_KEPT = ("PATH", "HOME", "TMPDIR", "LANG", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "VIRTUAL_ENV")
_KEPT_PREFIXES = ("LC_", "PYTHON", "OMP_", "GGML_")


@dataclass(frozen=True, slots=True)
class Spec:
    """What an engine runs: the file of the weights, and its context window in tokens."""

    weights: str
    context: int


@dataclass(frozen=True, slots=True)
class Address:
    """Where a running engine can be asked, and with which key."""

    base_url: str
    key: str


class Engine:
    """One engine. Any number of sessions may use it at once; it answers them one after the other.

    Args:
        spec: what it runs.
        command: what starts it.
    """

    def __init__(self, spec: Spec, command: Sequence[str] = COMMAND) -> None:
        self.spec = spec
        self._command = tuple(command)
        self._starting = anyio.Lock()
        self._process: Process | None = None
        self._log: IO[bytes] | None = None
        self._key = ""
        self._said = b""
        self._address: Address | None = None
        self.reading = anyio.Lock()
        """Held while the process reads what stands in front of a conversation. Every call passes here before it is
        made, so that nobody's conversation is in what is kept."""
        self.unread: Kept | None = None
        """Where to look for that, until the process that runs now has it."""
        self.known: Kept | None = None
        """Where it was had from, once the process that runs now has it."""

    @property
    def pid(self) -> int | None:
        """The process id while it runs, else None."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def address(self) -> Address:
        """Where to ask; starts the engine when it does not run. Cancelling leaves it loading for the next call.

        Raises:
            ModelError: it cannot be started, or is not ready in time.
        """
        async with self._starting:
            if self._process is not None and self._process.returncode is not None:
                await self._release()
            if self._process is None:
                self._process = await self._spawn()
            if self._address is None:
                self._address = await self._ready(self._process)
            return self._address

    async def ended(self) -> str | None:
        """How the engine ended, as words that follow its name; None while it runs. For after a broken connection."""
        process = self._process
        if process is None:
            return "was stopped"
        with anyio.move_on_after(NOTICE_SECONDS):
            await process.wait()
        if process.returncode is None:
            return None
        return _how(process.returncode)

    async def aclose(self) -> None:
        """End it; may be called more than once."""
        with anyio.CancelScope(shield=True):
            async with self._starting:
                await self._release()

    async def _spawn(self) -> Process:
        self._key, self._said, self._address = secrets.token_urlsafe(24), b"", None
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (closed in _release)
        settings = {
            "weights": self.spec.weights,
            "context": self.spec.context,
            "threads": threads(),
            "key": self._key,
            "kept": str(directory_of(self.spec.weights)),
        }
        # Shielded: a cancellation between the fork and the assignment would lose the process.
        with anyio.CancelScope(shield=True):
            try:
                process = await anyio.open_process(
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._log,
                    env=_environment(os.environ),
                    start_new_session=True,
                )
            except OSError as error:
                raise ModelError("model_error", f"the local model could not be started: {error.strerror}") from error
            assert process.stdin is not None
            with suppress(anyio.BrokenResourceError, OSError):
                await process.stdin.send(json.dumps(settings).encode() + b"\n")
        return process

    async def _ready(self, process: Process) -> Address:
        """Wait for the report. What was read of it is kept, so a cancelled wait can go on later."""
        assert process.stdout is not None
        problem = f"was not ready within {READY_SECONDS:.0f} seconds"
        with anyio.move_on_after(READY_SECONDS):
            try:
                while b"\n" not in self._said and len(self._said) < _REPORT_BYTES:
                    self._said += await process.stdout.receive()
                report = json.loads(self._said)
                if "port" in report:
                    address = Address(f"http://127.0.0.1:{int(report['port'])}/v1", self._key)
                    self.unread = Kept(self.spec.weights, str(report.get("library")), address.base_url, address.key)
                    return address
                problem = f"could not be started: {report.get('error')}"
            except anyio.EndOfStream:
                problem = f"{await self.ended() or 'closed its output'} while it was starting{self._last_words()}"
            except (ValueError, AttributeError):
                problem = "sent something else than its port"
        await self._release()
        raise ModelError("model_error", f"the local model {problem}")

    async def _release(self) -> None:
        """End the process if it runs, and let go of everything that belonged to it."""
        process, self._process, self._address = self._process, None, None
        log, self._log, self.unread, self.known = self._log, None, None, None
        with anyio.CancelScope(shield=True):
            if process is not None:
                assert process.stdin is not None
                with suppress(anyio.BrokenResourceError, OSError):
                    await process.stdin.aclose()
                with anyio.move_on_after(END_SECONDS):
                    await process.wait()
                if process.returncode is None:
                    with suppress(ProcessLookupError):
                        process.kill()
                with anyio.move_on_after(END_SECONDS):
                    await process.aclose()
        if log is not None:
            log.close()

    def _last_words(self) -> str:
        """The last line of its log, for a person."""
        if self._log is None:
            return ""
        self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - _LOG_BYTES))
        lines = self._log.read().decode("utf-8", "replace").split("\n")
        last = next((line for line in reversed(lines) if line.strip()), "")
        return f": {' '.join(last.split())[:300]}" if last else ""


class Engines:
    """The engines of one agent process: one for each file of weights and window."""

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        self._command = tuple(command)
        self._engines: dict[Spec, Engine] = {}

    def engine(self, spec: Spec) -> Engine:
        """The engine for this; nothing is started yet."""
        return self._engines.setdefault(spec, Engine(spec, self._command))

    async def aclose(self) -> None:
        """End all of them; may be called more than once."""
        while self._engines:
            _, engine = self._engines.popitem()
            await engine.aclose()


def threads() -> int:
    """How many threads an engine gets: one fewer than the cores this process may use, and at least one."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:
        cores = os.cpu_count() or 1
    return max(1, min(cores, _quota() or cores) - 1)


def _quota() -> int | None:
    """The cores that a container's limit comes to, None without one: more threads than that only wait."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return max(1, round(int(quota) / int(period)))
    except (OSError, ValueError, ZeroDivisionError):
        return None


def _environment(env: Mapping[str, str]) -> dict[str, str]:
    """What the engine needs of ours; keys are none of its business."""
    return {name: value for name, value in env.items() if name in _KEPT or name.startswith(_KEPT_PREFIXES)}


def _how(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"
