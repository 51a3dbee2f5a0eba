"""A real HTTP server on the loopback that speaks a model API, plays a script and refuses bad requests.

    async with ModelServer([text("Hello"), calls(call("shell", cmd="ls")), text("done")]) as server:
        ...  # server.base_url for the agent file; one reply per call, in order
        await server.wait_for_call(2)
        assert server.refusals == []
        assert server.requests[0].body["messages"][-1]["content"] == "hi"

It speaks OpenAI chat completions unless it is given another dialect. The port is a real one, so a subprocess can be
the caller. Every request is recorded and, as real services do, checked first (`chat_rules`): an invalid one gets 400,
is listed in `refusals`, and uses up no reply. A call beyond the script gets 500 and is listed in `unscripted`.

A reply is a list of steps; the functions below build the usual ones, and they may be mixed freely:

    Reply([Text("a"), Wait(gate), Text("b"), Finish("stop")])      # gate: an anyio.Event the test sets
    Reply([Text("Hel"), Raw(b'data: {"choi'), Close()])            # half a delta, then the connection is gone
    Reply([Text("a"), Stall()])                                    # silent until the caller goes away
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.from_thread
from anyio.abc import SocketAttribute, SocketStream, TaskGroup
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.support.chat_dialect import CHAT
from tests.support.chat_rules import Refused
from tests.support.dialects import Dialect, Voice
from tests.support.steps import (
    Call,
    Close,
    Finish,
    Raw,
    Stall,
    Step,
    Text,
    Thought,
    ToolCalls,
    Usage,
    Wait,
)

__all__ = [
    "Call",
    "Close",
    "Finish",
    "ModelServer",
    "Raw",
    "Recorded",
    "Reply",
    "Stall",
    "Step",
    "Text",
    "Thought",
    "ToolCalls",
    "Usage",
    "Wait",
    "call",
    "calls",
    "failure",
    "model_server",
    "running_in_thread",
    "text",
]

DEADLINE = 30.0
"""Seconds a test waits for a call that may never come."""

MAX_BODY = 64 * 1024 * 1024


# --- replies -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reply:
    """One answer. With a `status` other than 200, `error` is the JSON body (or bytes as they are).

    `before` holds even the headers back until the test sets it. A finish reason and the usage are added at the end,
    unless the steps hold a Finish, Close or Stall of their own; the service's last word follows every finish reason.
    """

    steps: Sequence[Step] = ()
    status: int = 200
    error: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    before: anyio.Event | None = None


def text(*pieces: str, usage: Usage | None = None, finish: str = "stop") -> Reply:
    """An answer of text, one delta a piece."""
    return Reply([*(Text(piece) for piece in pieces), Finish(finish), usage or Usage()])


def call(tool_name: str, /, **arguments: Any) -> Call:
    """A tool call with its arguments by name."""
    return Call(tool_name, arguments)


def calls(*made: Call, text: str = "", usage: Usage | None = None) -> Reply:
    """An answer that ends with tool calls."""
    spoken = [Text(text)] if text else []
    return Reply([*spoken, ToolCalls(made), Finish("tool_calls"), usage or Usage()])


def failure(
    status: int, message: str = "scripted failure", *, headers: Mapping[str, str] | None = None, **extra: Any
) -> Reply:
    """An HTTP error with an OpenAI error object; `extra` are more keys of it (code, type, param)."""
    return Reply(status=status, error={"error": {"message": message, **extra}}, headers=headers or {})


# --- what was asked ----------------------------------------------------------------------------------------------


@dataclass
class Recorded:
    """One request. `finished` is set when the reply was sent whole, `aborted` when the caller went away before."""

    path: str
    headers: Mapping[str, str]
    body: Any
    dialect: Dialect = CHAT
    refusal: str = ""
    finished: anyio.Event = field(default_factory=anyio.Event)
    aborted: anyio.Event = field(default_factory=anyio.Event)

    @property
    def messages(self) -> list[dict[str, Any]]:
        return list(self.body["messages"])

    @property
    def tools(self) -> list[str]:
        """The names of the tools that were offered."""
        return self.dialect.tools(self.body)


Scripted = Reply | Callable[[Recorded], Reply]


class ModelServer:
    """The server; started and ended by `async with`."""

    def __init__(
        self, replies: Sequence[Scripted] = (), *, default: Scripted | None = None, dialect: Dialect = CHAT
    ) -> None:
        """`replies` are used up in order of the calls; `default` answers every call beyond them."""
        self._dialect = dialect
        self._replies = list(replies)
        self._default = default
        self._used = 0
        self._changed = anyio.Event()
        self._tasks: TaskGroup
        self._life: Any = None
        self.connections = 0
        self.requests: list[Recorded] = []
        self.refusals: list[str] = []
        self.unscripted: list[Recorded] = []
        self.base_url = ""
        self.port = 0

    def add(self, *replies: Scripted) -> None:
        """Append replies to the script."""
        self._replies.extend(replies)

    async def wait_for_call(self, number: int = 1) -> Recorded:
        """The `number`-th request, counted from 1, as soon as it has arrived whole."""
        with anyio.fail_after(DEADLINE):
            while len(self.requests) < number:
                await self._changed.wait()
        return self.requests[number - 1]

    async def wait_for_abort(self, number: int = 1) -> Recorded:
        """Waits until the caller of the `number`-th request has closed the connection before the reply was whole."""
        recorded = await self.wait_for_call(number)
        with anyio.fail_after(DEADLINE):
            await recorded.aborted.wait()
        return recorded

    async def __aenter__(self) -> ModelServer:
        self._life = self._run()
        await self._life.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._life.__aexit__(*error)

    @asynccontextmanager
    async def _run(self) -> AsyncIterator[None]:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
        self.port = listener.extra(SocketAttribute.local_port)
        self.base_url = f"http://127.0.0.1:{self.port}{self._dialect.base}"
        async with listener, anyio.create_task_group() as tasks:
            self._tasks = tasks
            tasks.start_soon(listener.serve, self._connection)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()

    # --- one connection

    async def _connection(self, stream: SocketStream) -> None:
        self.connections += 1
        async with stream:
            try:
                reader = BufferedByteReceiveStream(stream)
                while (request := await _read_request(reader)) is not None:
                    if not await self._serve(stream, reader, *request):
                        return
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.IncompleteRead):
                return

    async def _serve(
        self, stream: SocketStream, reader: BufferedByteReceiveStream, path: str, headers: dict[str, str], data: bytes
    ) -> bool:
        """Answer one request; False when the connection is used up."""
        recorded = Recorded(path, headers, _json(data), self._dialect)
        reply = self._pick(recorded)
        self.requests.append(recorded)
        self._changed.set()
        self._changed = anyio.Event()
        sender = _Sender(stream, self._dialect, recorded.body)
        kept = False
        async with anyio.create_task_group() as watched:
            watched.start_soon(_watch, reader, recorded, watched)
            try:
                kept = await sender.play(reply)
                recorded.finished.set()
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                recorded.aborted.set()
            watched.cancel_scope.cancel()
        return kept and not recorded.aborted.is_set()

    def _pick(self, recorded: Recorded) -> Reply:
        dialect = self._dialect
        if not dialect.serves(recorded.path):
            return Reply(status=404, error=dialect.error(404, f"no such page: {recorded.path}"))
        try:
            dialect.check(recorded.path, recorded.headers, recorded.body)
        except Refused as refused:
            recorded.refusal = str(refused)
            self.refusals.append(recorded.refusal)
            return Reply(status=400, error=dialect.error(400, recorded.refusal))
        if self._used < len(self._replies):
            chosen: Scripted | None = self._replies[self._used]
            self._used += 1
        else:
            chosen = self._default
        if chosen is None:
            self.unscripted.append(recorded)
            return Reply(status=500, error=dialect.error(500, "the script has no reply for this call"))
        return chosen if isinstance(chosen, Reply) else chosen(recorded)


async def _watch(reader: BufferedByteReceiveStream, recorded: Recorded, watched: TaskGroup) -> None:
    """Notices that the caller has gone away while a reply is being written. Callers do not send ahead."""
    try:
        await reader.receive(1)
    except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        recorded.aborted.set()
        watched.cancel_scope.cancel()


# --- writing -----------------------------------------------------------------------------------------------------


class _Sender:
    """Writes one reply."""

    def __init__(self, stream: SocketStream, dialect: Dialect, body: Any) -> None:
        self._stream = stream
        self._dialect = dialect
        self._body = body if isinstance(body, dict) else {}

    async def play(self, reply: Reply) -> bool:
        """Send everything; True when the connection can take another request."""
        if reply.before is not None:
            await reply.before.wait()
        if reply.status != 200 or reply.error is not None:
            await self._plain(reply.status, reply.error, reply.headers)
            return True
        steps = list(reply.steps)
        if not any(isinstance(step, Finish | Close | Stall) for step in steps):
            steps += [Finish("tool_calls" if any(isinstance(step, ToolCalls) for step in steps) else "stop"), Usage()]
        voice = self._dialect.voice(self._body, steps)
        if not voice.streams:
            await self._plain(200, voice.whole(), reply.headers)
            return True
        await self._head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked", **reply.headers})
        await self._chunks(voice.begin())
        for step in steps:
            if isinstance(step, Close):
                await self._stream.send(b"0\r\n\r\n" if step.done else b"")
                return False
            await self._step(step, voice)
        if not any(isinstance(step, Finish) and step.reason is None for step in steps):
            await self._chunks(voice.end())
        await self._stream.send(b"0\r\n\r\n")
        return True

    async def _step(self, step: Step, voice: Voice) -> None:
        if isinstance(step, Wait):
            await step.event.wait()
        elif isinstance(step, Stall):
            await anyio.sleep_forever()
        elif isinstance(step, Raw):
            await self._chunks([step.data])
        else:
            await self._chunks(voice.events(step))

    async def _chunks(self, events: Iterable[bytes]) -> None:
        for data in events:
            await self._stream.send(b"%x\r\n%s\r\n" % (len(data), data))

    async def _plain(self, status: int, value: Any, headers: Mapping[str, str]) -> None:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        await self._head(status, {"content-type": "application/json", "content-length": str(len(data)), **headers})
        await self._stream.send(data)

    async def _head(self, status: int, headers: Mapping[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} Scripted", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        await self._stream.send("\r\n".join(lines).encode("latin-1"))


# --- reading -----------------------------------------------------------------------------------------------------


async def _read_request(reader: BufferedByteReceiveStream) -> tuple[str, dict[str, str], bytes] | None:
    """Path, headers and body; None at the end of the connection."""
    try:
        head = await reader.receive_until(b"\r\n\r\n", 64 * 1024)
    except anyio.IncompleteRead:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if headers.get("transfer-encoding") == "chunked":
        data = b""
        while size := int(await reader.receive_until(b"\r\n", 64), 16):
            data += await reader.receive_exactly(size + 2)
            data = data[:-2]
        await reader.receive_exactly(2)
    else:
        data = await reader.receive_exactly(int(headers.get("content-length", "0")))
    return first.split(" ")[1], headers, data


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None


# --- other ways to start it --------------------------------------------------------------------------------------


@asynccontextmanager
async def model_server(*replies: Scripted) -> AsyncIterator[ModelServer]:
    """The server with these replies, for a fixture or an `async with`."""
    async with ModelServer(replies) as server:
        yield server


@contextmanager
def running_in_thread(*replies: Scripted) -> Iterator[ModelServer]:
    """The server in a thread of its own, for tests that are not async (a subprocess is the caller)."""
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(model_server(*replies)) as server,
    ):
        yield server
