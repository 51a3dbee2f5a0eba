"""A scripted client for wire tests: it sends what it is told and checks every line that comes back."""

from __future__ import annotations

import json
import os
import signal
import sys
import textwrap
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process

from sluice.acp import AgentCapabilities
from sluice.config.environment import Environment
from sluice.handlers.assembly import Assembly, Options
from sluice.handlers.connection import Connection
from sluice.handlers.table import NOTIFICATIONS, REQUESTS
from sluice.machines import Transition
from sluice.outbound import AddressPolicy, networks
from sluice.wire.peer import Peer
from sluice.wire.tracing import Spans
from sluice.wire.transport import MemoryTransport, StreamTransport, Transport
from tests.support.lines import LineChecker

BOUND = 10.0
"""Seconds after which a wait counts as hung. No test's outcome depends on it otherwise."""

TAKEN: set[tuple[str, str, str, str]] = set()
"""Every row (machine, event, source, target) that a server in this process has taken, over all tests of the run."""

Json = dict[str, Any]
Match = Callable[[Json], bool]
Responder = Callable[[Json], Json | None]
"""Given a request of the server, the `result` or `error` member of the answer; None for no answer now."""


class Client:
    """The client's end of a transport.

    `log` holds every message the server sent, in order. `cursor` is where the next `until` begins to look.
    `responders` answer requests of the server by themselves, by method.
    """

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.checker = LineChecker()
        self.log: list[Json] = []
        self.responders: dict[str, Responder] = {}
        self.cursor = 0
        self.ended = anyio.Event()
        self.failure: BaseException | None = None
        self._changed = anyio.Event()
        self._next_id = 0
        self._reading = anyio.Event()
        self._reading.set()

    def pause(self) -> None:
        """Stop reading after what the next receive brings, so that the pipe fills up."""
        self._reading = anyio.Event()

    def go_on(self) -> None:
        """Read again."""
        self._reading.set()

    async def read(self) -> None:
        """Read to the end; an invalid line fails the test at its next wait."""
        rest = b""
        try:
            while data := await self.transport.receive():
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self.log.append(self.checker.received(line))
                    await self._answer(self.log[-1])
                self._wake()
                await self._reading.wait()
            assert not rest, f"the last line has no end: {rest[:100]!r}"
        except anyio.BrokenResourceError:
            pass
        except AssertionError as failure:
            self.failure = failure
        finally:
            self.ended.set()
            self._wake()

    async def _answer(self, message: Json) -> None:
        responder = self.responders.get(message.get("method", ""))
        member = responder(message) if responder is not None and "id" in message else None
        if member is not None:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the test has ended the input
                await self.write({"jsonrpc": "2.0", "id": message["id"], **member})

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    # --- sending

    async def raw(self, *lines: bytes) -> None:
        """Write lines in one write."""
        await self.transport.send(b"".join(line + b"\n" for line in lines))

    async def write(self, *messages: Json) -> None:
        """Write messages in one write."""
        for message in messages:
            self.checker.sent(message)
        await self.raw(*(json.dumps(message).encode() for message in messages))

    def request(self, method: str, **params: Any) -> Json:
        """A request message with a fresh id; send it with `write`."""
        self._next_id += 1
        return {"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": params}

    async def send(self, method: str, **params: Any) -> int:
        """Send a request without waiting; returns its id."""
        message = self.request(method, **params)
        await self.write(message)
        return int(message["id"])

    async def notify(self, method: str, **params: Any) -> None:
        """Send a notification."""
        await self.write({"jsonrpc": "2.0", "method": method, "params": params})

    async def respond(self, request: Json, result: Any) -> None:
        """Answer a request of the server."""
        await self.write({"jsonrpc": "2.0", "id": request["id"], "result": result})

    async def refuse(self, request: Json, code: int, message: str = "no") -> None:
        """Answer a request of the server with an error."""
        await self.write({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": message}})

    async def asked(self, method: str) -> Json:
        """Wait for the next request of the server with this method."""
        return await self.until(lambda m: m.get("method") == method and "id" in m)

    def requests(self, prefix: str) -> list[Json]:
        """The requests of the server so far whose method begins so."""
        return [m for m in self.log if m.get("method", "").startswith(prefix) and "id" in m]

    async def allow(self, option: str = "allow") -> Json:
        """Wait for a permission request and choose an option; returns the request."""
        asked = await self.until(lambda m: m.get("method") == "session/request_permission")
        await self.respond(asked, {"outcome": {"outcome": "selected", "optionId": option}})
        return asked

    # --- receiving

    async def until(self, match: Match) -> Json:
        """The first message from the cursor on that matches; the cursor moves behind it."""
        with anyio.fail_after(BOUND):
            while True:
                for index in range(self.cursor, len(self.log)):
                    if match(self.log[index]):
                        self.cursor = index + 1
                        return self.log[index]
                if self.failure is not None:
                    raise self.failure
                if self.ended.is_set():
                    raise AssertionError(f"the server ended; last messages: {self.log[-3:]}")
                await self._changed.wait()

    async def answer(self, request_id: int) -> Json:
        """The response to a request, wherever it stands in the log; the cursor does not move."""
        with anyio.fail_after(BOUND):
            while True:
                for message in self.log:
                    if message.get("id") == request_id and "method" not in message:
                        return message
                if self.failure is not None:
                    raise self.failure
                if self.ended.is_set():
                    raise AssertionError(f"no answer to {request_id}; last messages: {self.log[-3:]}")
                await self._changed.wait()

    async def call(self, method: str, **params: Any) -> Json:
        """Send a request and wait for its response."""
        return await self.answer(await self.send(method, **params))

    async def result(self, method: str, **params: Any) -> Any:
        """Send a request that must succeed; returns the result."""
        response = await self.call(method, **params)
        assert "result" in response, response
        return response["result"]

    async def error(self, method: str, **params: Any) -> Json:
        """Send a request that must fail; returns the error."""
        response = await self.call(method, **params)
        assert "error" in response, response
        error: Json = response["error"]
        return error

    async def initialize(self, **capabilities: Any) -> Json:
        """The handshake."""
        result: Json = await self.result("initialize", protocolVersion=1, clientCapabilities=capabilities)
        return result

    async def new(self, cwd: Path, **more: Any) -> str:
        """A new session; returns its id."""
        result = await self.result("session/new", **{"cwd": str(cwd), "mcpServers": [], **more})
        return str(result["sessionId"])

    async def prompt(self, session: str, text: str) -> Json:
        """A whole turn; returns the response."""
        return await self.call("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])

    def send_prompt(self, session: str, text: str) -> Json:
        """A prompt message; send it with `write`."""
        return self.request("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])

    def updates(self, session: str | None = None, kind: str | None = None) -> list[Json]:
        """The `update` objects received so far."""
        found = [m["params"] for m in self.log if m.get("method") == "session/update"]
        return [
            p["update"]
            for p in found
            if session in (None, p["sessionId"]) and kind in (None, p["update"]["sessionUpdate"])
        ]

    def told(self, session: str | None = None) -> list[Json]:
        """The updates without the lists of commands, which come at every boundary."""
        return [u for u in self.updates(session) if u["sessionUpdate"] != "available_commands_update"]

    def commands(self, session: str | None = None) -> list[str]:
        """The names of the commands in the newest list."""
        newest = self.updates(session, "available_commands_update")[-1]
        return [command["name"] for command in newest["availableCommands"]]

    def text(self, session: str | None = None) -> str:
        """All visible answer text so far."""
        return "".join(u["content"]["text"] for u in self.updates(session, "agent_message_chunk"))


def agent_file(directory: Path, text: str, name: str = "agent.yaml") -> Path:
    """Write an agent file."""
    path = directory / name
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


class Server:
    """A server in this process, over memory streams, with what a test may want to look at."""

    def __init__(self, client: Client, connection: Connection, transitions: list[Transition]) -> None:
        self.client = client
        self.connection = connection
        self.transitions = transitions
        self.status: int | None = None


@asynccontextmanager
async def serving(
    file: Path,
    database: Path,
    environment: Callable[[], Environment] | None = None,
    busy_timeout: float = 5.0,
    capabilities: AgentCapabilities | None = None,
    allow: Sequence[str] = (),
    spans: Spans | None = None,
) -> AsyncIterator[Server]:
    """Serve an agent file in memory; leaving the block ends the input and joins the server."""
    mine, theirs = MemoryTransport.pair()
    transitions: list[Transition] = []

    def record(step: Transition) -> None:
        transitions.append(step)
        TAKEN.add((step.machine, step.event, step.source, step.target))

    read = environment or (lambda: Environment.read({"PATH": os.environ["PATH"]}, (), None))
    policy = AddressPolicy(networks(allow))
    assembly = Assembly(Options(file, database, read, busy_timeout, capabilities, policy, spans=spans))
    connection = Connection(Peer(theirs), assembly, REQUESTS, NOTIFICATIONS, record)
    server = Server(Client(mine), connection, transitions)

    async def serve() -> None:
        server.status = await connection.serve()
        await theirs.aclose()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        tasks.start_soon(server.client.read)
        try:
            yield server
        finally:
            server.client.go_on()
            mine.send_eof()
            with anyio.CancelScope(shield=True), anyio.fail_after(BOUND):
                await server.client.ended.wait()
        tasks.cancel_scope.cancel()
    if server.client.failure is not None:
        raise server.client.failure


class ProcessServer:
    """A server as a child process."""

    def __init__(self, client: Client, process: Process, stderr: Path) -> None:
        self.client = client
        self.process = process
        self.stderr = stderr

    async def wait(self) -> int:
        """The exit status."""
        with anyio.fail_after(BOUND):
            return await self.process.wait()

    def kill(self) -> None:
        """SIGKILL, as a crash would."""
        self.process.send_signal(signal.SIGKILL)


@asynccontextmanager
async def spawned(
    file: Path, database: Path, *arguments: str, environment: dict[str, str] | None = None, cwd: Path | None = None
) -> AsyncIterator[ProcessServer]:
    """Serve an agent file in a child process; leaving the block ends its input, then kills what is left."""
    command = [sys.executable, "-m", "sluice", "serve", "acp", str(file), "-s", str(database), *arguments]
    env = {**os.environ, **(environment or {})}
    stderr = database.parent / "stderr.txt"
    with stderr.open("ab") as log:
        process = await anyio.open_process(command, stderr=log, env=env, cwd=cwd, start_new_session=True)
    assert process.stdin is not None and process.stdout is not None
    client = Client(StreamTransport(process.stdout, process.stdin))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.read)
        try:
            yield ProcessServer(client, process, stderr)
        finally:
            with anyio.CancelScope(shield=True):
                await process.stdin.aclose()
                with anyio.move_on_after(BOUND):
                    await process.wait()
                if process.returncode is None:
                    process.kill()
                await process.aclose()
        tasks.cancel_scope.cancel()
    if client.failure is not None:
        raise client.failure
