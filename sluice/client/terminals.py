"""Terminals for an agent: what a program offers that opts in to the `terminal/*` methods.

    async with local_terminals(Path.cwd()) as terminals:
        handlers = ClientHandlers(requests=terminals.requests())
        async with connect(command, handlers, ClientOptions(capabilities={"terminal": True})) as agent:

A terminal is an executable with its arguments, started without a shell, in a process group of its own that ends with
it. When the block is left, every group is gone.

Source: https://agentclientprotocol.com/protocol/terminals; requirement `acp-provider.client.optional-terminal`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.to_thread

from sluice.client.connection import RequestHandler
from sluice.client.process import open_pidfd
from sluice.client.reading import integer, members, text
from sluice.client.tasks import task_group
from sluice.wire.cleanup import shielded
from sluice.wire.errors import BackendError, InvalidParams, RefusedError

__all__ = ["DEFAULT_LIMIT", "MAX_LIMIT", "MAX_TERMINALS", "LocalTerminals", "local_terminals"]

DEFAULT_LIMIT = 1 << 20
"""Bytes of output that are kept when the agent does not say."""

MAX_LIMIT = 4 << 20
"""Bytes of output that are kept at most: an agent takes no line above 10 MiB, and JSON may double them."""

MAX_TERMINALS = 100
"""Terminals of a program that are not released; an agent that needs more has lost count."""

REMEMBERED = 100
"""Released terminals whose last output can still be shown."""

AFTER_KILL = 2.0
"""Seconds between SIGTERM and SIGKILL."""

_NOT_FOUND = -32002
"""ACP's code for a resource that does not exist."""


@dataclass(eq=False)
class _Terminal:
    """One command. `ended` is set once its process has ended and what it had written was read."""

    session: str
    process: subprocess.Popen[bytes]
    limit: int
    output: bytearray = field(default_factory=bytearray)
    truncated: bool = False
    ended: anyio.Event = field(default_factory=anyio.Event)

    def take(self, data: bytes) -> None:
        """Keep the end of the output, from the beginning of a character on."""
        self.output += data
        if len(self.output) > self.limit:
            del self.output[: len(self.output) - self.limit]
            while self.output and self.output[0] & 0xC0 == 0x80:
                del self.output[0]
            self.truncated = True

    @property
    def said(self) -> str:
        """The output as text. A character whose end is still to come is left out until it is there."""
        data = bytes(self.output)
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            whole = error.reason != "unexpected end of data" or self.ended.is_set()
            return data.decode("utf-8", "replace") if whole else data[: error.start].decode("utf-8", "replace")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the whole group; one that is gone gets none."""
        with suppress(OSError):
            os.killpg(self.process.pid, number)

    @property
    def status(self) -> dict[str, Any]:
        """How the command ended, as ACP says it."""
        code = self.process.returncode
        if code is None:
            return {"exitCode": None, "signal": None}
        if code >= 0:
            return {"exitCode": code, "signal": None}
        try:
            return {"exitCode": None, "signal": signal.Signals(-code).name}
        except ValueError:
            return {"exitCode": None, "signal": str(-code)}


class LocalTerminals:
    """Commands on this machine; made by `local_terminals`.

    Attributes:
        cwd: where a command runs when the agent does not say.
    """

    def __init__(self, cwd: Path, tasks: anyio.abc.TaskGroup) -> None:
        self.cwd = cwd
        self._tasks = tasks
        self._open: dict[str, _Terminal] = {}
        self._last: dict[str, str] = {}

    def requests(self) -> Mapping[str, RequestHandler]:
        """The handlers, for `ClientHandlers.requests`."""
        return {
            "terminal/create": self._create,
            "terminal/output": self._output,
            "terminal/wait_for_exit": self._wait,
            "terminal/kill": self._kill,
            "terminal/release": self._release,
        }

    def shown(self, terminal_id: str) -> str | None:
        """What a terminal has said so far, or had said when it was released; None for one that is not known."""
        terminal = self._open.get(terminal_id)
        return terminal.said if terminal is not None else self._last.get(terminal_id)

    def end_all(self) -> None:
        """End every command, as when the agent is gone; the terminals stay until they are released."""
        for terminal in self._open.values():
            terminal.signal(signal.SIGKILL)

    # --- the methods

    async def _create(self, params: Mapping[str, Any]) -> Any:
        command, args = text(params.get("command")), params.get("args") or []
        if not command:
            raise InvalidParams("command must be a text", {"path": "$.command"})
        if not isinstance(args, list) or not all(isinstance(each, str) for each in args):
            raise InvalidParams("args must be a list of texts", {"path": "$.args"})
        cwd = text(params.get("cwd")) or str(self.cwd)
        if not os.path.isabs(cwd) and params.get("cwd") is not None:  # noqa: PTH117 - a text path throughout
            raise InvalidParams("cwd must be an absolute path", {"path": "$.cwd"})
        if len(self._open) >= MAX_TERMINALS:
            raise RefusedError(f"{MAX_TERMINALS} terminals are open; release some")
        start = partial(_started, [command, *args], cwd, _environment(params.get("env")))
        with anyio.CancelScope(shield=True):  # a command that was started must be known here
            process = await anyio.to_thread.run_sync(start)
            terminal = _Terminal(text(params.get("sessionId")) or "", process, _limit(params))
            terminal_id = uuid.uuid4().hex
            self._open[terminal_id] = terminal
            self._tasks.start_soon(_attend, terminal)
        return {"terminalId": terminal_id}

    async def _output(self, params: Mapping[str, Any]) -> Any:
        _, terminal = self._found(params)
        ended = {"exitStatus": terminal.status} if terminal.ended.is_set() else {}
        return {"output": terminal.said, "truncated": terminal.truncated, **ended}

    async def _wait(self, params: Mapping[str, Any]) -> Any:
        _, terminal = self._found(params)
        await terminal.ended.wait()
        return terminal.status

    async def _kill(self, params: Mapping[str, Any]) -> Any:
        _, terminal = self._found(params)
        terminal.signal(signal.SIGTERM)
        self._tasks.start_soon(_insist, terminal)
        return {}

    async def _release(self, params: Mapping[str, Any]) -> Any:
        terminal_id, terminal = self._found(params)
        terminal.signal(signal.SIGKILL)
        await terminal.ended.wait()
        # Another release may have come while this one waited.
        if self._open.pop(terminal_id, None) is not None:
            self._last[terminal_id] = terminal.said
            while len(self._last) > REMEMBERED:
                del self._last[next(iter(self._last))]
        return {}

    def _found(self, params: Mapping[str, Any]) -> tuple[str, _Terminal]:
        terminal_id = text(params.get("terminalId")) or ""
        terminal = self._open.get(terminal_id)
        if terminal is None or terminal.session != text(params.get("sessionId")):
            raise RefusedError("there is no such terminal", {"terminalId": terminal_id[:80]}, code=_NOT_FOUND)
        return terminal_id, terminal


@asynccontextmanager
async def local_terminals(cwd: Path) -> AsyncIterator[LocalTerminals]:
    """Offer terminals for the length of a block.

    Args:
        cwd: where a command runs when the agent does not say.
    """
    async with task_group() as tasks:
        terminals = LocalTerminals(cwd, tasks)
        try:
            yield terminals
        finally:
            tasks.cancel_scope.cancel()


def _started(command: Sequence[str], cwd: str, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env={**os.environ, **env},
            bufsize=0,
            start_new_session=True,
        )
    except OSError as error:
        raise BackendError(f"{error.filename or command[0]}: {error.strerror}") from error
    except ValueError as error:  # a NUL character
        raise InvalidParams("command, args, env and cwd hold no NUL character") from error


async def _attend(terminal: _Terminal) -> None:
    """Read what a command says until it ends, then end its group: nothing that it started stays."""
    assert terminal.process.stdout is not None
    descriptor = terminal.process.stdout.fileno()
    os.set_blocking(descriptor, False)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_read, terminal, descriptor)
            await _exit(terminal.process)
            terminal.signal(signal.SIGKILL)  # whoever else holds the pipe
    finally:
        terminal.signal(signal.SIGKILL)
        with shielded(AFTER_KILL, "a terminal's command is reaped"):
            await anyio.to_thread.run_sync(terminal.process.wait, abandon_on_cancel=True)
        terminal.process.stdout.close()
        terminal.ended.set()


async def _read(terminal: _Terminal, descriptor: int) -> None:
    while True:
        await anyio.wait_readable(descriptor)
        data = os.read(descriptor, 1 << 16)
        if not data:
            return
        terminal.take(data)


async def _exit(process: subprocess.Popen[bytes]) -> None:
    """Wait for the process itself to end."""
    pidfd = open_pidfd(process.pid)
    if pidfd is None:
        await anyio.to_thread.run_sync(process.wait, abandon_on_cancel=True)
        return
    try:
        await anyio.wait_readable(pidfd)
    finally:
        os.close(pidfd)


async def _insist(terminal: _Terminal) -> None:
    with anyio.move_on_after(AFTER_KILL):
        await terminal.ended.wait()
        return
    terminal.signal(signal.SIGKILL)


def _environment(given: Any) -> dict[str, str]:
    entries = [members(each) for each in given] if isinstance(given, list) else []
    return {name: text(each.get("value")) or "" for each in entries if (name := text(each.get("name")))}


def _limit(params: Mapping[str, Any]) -> int:
    limit = integer(params.get("outputByteLimit"))
    return DEFAULT_LIMIT if limit is None or limit < 0 else min(limit, MAX_LIMIT)
