"""An agent inside a Python program: the same connection, over memory, for callers that need no directory.

    async with embedded(options) as agent:
        ...                                   # any ACP client on agent.transport: initialize, prompt, close
        session = await agent.new_session()   # no directory: nothing on the wire can say that
        again = await agent.resume_session(session.session_id)

Everything but opening a session without a directory goes over `transport`, as from any other client.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import anyio

from sluice import acp
from sluice.acp.validation import decode_params
from sluice.handlers.assembly import Assembly, Options
from sluice.handlers.connection import Connection
from sluice.handlers.session_setup import construct_new, reopen
from sluice.handlers.table import NOTIFICATIONS, REQUESTS
from sluice.wire.cleanup import shielded
from sluice.wire.peer import IncomingRequest, Peer
from sluice.wire.transport import MemoryTransport

__all__ = ["EmbeddedAgent", "LocalRequest", "embedded"]

_numbers = count(1)


class EmbeddedAgent:
    """An agent in this process; made by `embedded`.

    Attributes:
        transport: the client's end of the connection. It must be read, and `initialize` is its first request.
    """

    def __init__(self, connection: Connection, transport: MemoryTransport, directory: Path) -> None:
        self.transport = transport
        self._connection = connection
        self._directory = str(directory)

    async def new_session(
        self, cwd: str | None = None, additional_directories: Sequence[str] = ()
    ) -> acp.NewSessionResponse:
        """Open a session.

        Args:
            cwd: as on the wire. None: tools work in the agent's directory, and no workspace is stored, so the session
                is not listed and no client can reopen it with a directory of its choice.
            additional_directories: absolute paths.

        Raises:
            RpcError: what a client would be answered.
        """
        params: acp.NewSessionRequest = decode_params(
            "session/new", _json(self._directory if cwd is None else cwd, additional_directories, mcpServers=[])
        )
        request = LocalRequest(self._connection, "session/new")
        construct_new(self._connection, request, params, cwd)
        opened: acp.NewSessionResponse = await request.outcome()
        return opened

    async def resume_session(
        self, session_id: str, cwd: str | None = None, additional_directories: Sequence[str] = ()
    ) -> acp.ResumeSessionResponse:
        """Open a stored session again, without replay.

        Args:
            session_id: its id.
            cwd: as on the wire. None: tools work in the stored directory, or in the agent's when none is stored.
            additional_directories: absolute paths.

        Raises:
            RpcError: what a client would be answered.
        """
        own = self._directory if cwd is None else None
        given = self._directory if cwd is None else cwd
        body = _json(given, additional_directories, sessionId=session_id)
        params: acp.ResumeSessionRequest = decode_params("session/resume", body)
        request = LocalRequest(self._connection, "session/resume")
        reopen(self._connection, request, "session/resume", params, own)
        opened: acp.ResumeSessionResponse = await request.outcome()
        return opened


@asynccontextmanager
async def embedded(options: Options, directory: Path | None = None) -> AsyncIterator[EmbeddedAgent]:
    """Serve an agent in this process; leaving the block ends it and joins everything.

    Args:
        options: as for the command line.
        directory: where sessions without a directory work, absolute; None for the process's.
    """
    mine, theirs = MemoryTransport.pair()
    connection = Connection(Peer(theirs), Assembly(options), REQUESTS, NOTIFICATIONS)
    async with anyio.create_task_group() as tasks:
        ended = anyio.Event()

        async def serve() -> None:
            await connection.serve()
            await theirs.aclose()
            ended.set()

        tasks.start_soon(serve)
        try:
            yield EmbeddedAgent(connection, mine, directory or Path.cwd())
        finally:
            connection.end_of_input()
            with shielded(None, "an embedded agent joins its sessions before it is gone"):
                await ended.wait()


def _json(cwd: str, roots: Sequence[str], **more: Any) -> bytes:
    return json.dumps({"cwd": cwd, "additionalDirectories": list(roots), **more}).encode()


class LocalRequest(IncomingRequest):
    """A request of this process: it has no line, and its answer goes to the caller."""

    def __init__(self, connection: Connection, method: str, params: bytes = b"") -> None:
        self.id = b'"local-%d"' % next(_numbers)
        self.method = method
        self.params = params
        self.on_cancel = None
        self._connection = connection
        self._result: Any = None
        self._error: BaseException | None = None
        self._done = anyio.Event()

    @property
    def answered(self) -> bool:
        """Whether it has its answer."""
        return self._done.is_set()

    def answer(self, result: Any, then: Sequence[tuple[str, Any]] = ()) -> None:
        """Take the result; what follows it goes to the client."""
        self._result = result
        self._done.set()
        for method, params in then:
            self._connection.peer.post(method, params)

    def fail(self, error: BaseException) -> None:
        """Take the failure."""
        self._error = error
        self._done.set()

    async def outcome(self) -> Any:
        """The result; cancelling the wait cancels the request. Raises what it failed with."""
        try:
            await self._done.wait()
        except anyio.get_cancelled_exc_class():
            if self.on_cancel is not None:
                self.on_cancel()
            raise
        if self._error is not None:
            raise self._error
        return self._result
