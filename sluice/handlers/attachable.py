"""A connection that can be attached to: other processes of the same owner reach its sessions over a local socket.

The first line says which session is wanted, the answer whether it is there; then the socket carries MCP. Requirement
`serve-mcp.attach.running-session`.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import struct
import time
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.abc

from sluice import acp
from sluice.agent.outcome import in_words
from sluice.handlers.embedding import LocalRequest
from sluice.handlers.prompt_turn import prompt
from sluice.handlers.runs import register
from sluice.wire.transport import StreamTransport

if TYPE_CHECKING:
    from sluice.handlers.connection import Connection

__all__ = ["HELLO_BYTES", "AttachedSession", "serve_attachable"]

log = logging.getLogger(__name__)

HELLO_BYTES = 4096
"""The longest first line, in bytes."""

HELLO_SECONDS = 5.0
"""How long the first line may take, in seconds."""


class AttachedSession:
    """A session of this connection, as somebody who attached to it sees it."""

    def __init__(self, connection: Connection, session_id: str) -> None:
        self.id = session_id
        self._connection = connection

    async def send(self, message: str) -> str:
        """Run a turn and give the agent's last words, and how it ended unless by itself.

        The editor sees the turn and is asked what it asks.

        Raises:
            RpcError: the prompt was refused or the turn failed.
        """
        body = {"sessionId": self.id, "prompt": [{"type": "text", "text": message}]}
        request = LocalRequest(self._connection, "session/prompt", json.dumps(body).encode())
        prompt(self._connection, request)
        live = self._connection.entries[self.id].live
        assert live is not None, "a prompt that was admitted has an open session"
        talk = live.talk
        before = len(talk.items)
        await live.notify(acp.UserMessageChunk(acp.TextContent(message)))
        response: acp.PromptResponse = await request.outcome()
        said = [item.message for item in talk.items[before:] if item.message is not None]
        last = next((one.text for one in reversed(said) if one.role == "assistant" and one.text), "")
        return in_words(last, response.stop_reason)

    def transcript(self) -> str:
        """What was said so far, a paragraph a message. Raises LookupError when the session is not open any more."""
        entry = self._connection.entries.get(self.id)
        if entry is None or entry.live is None or entry.live.conversation is None:
            raise LookupError("The session is not open any more.")
        messages = [item.message for item in entry.live.talk.items if item.message is not None]
        said = [(one.role, one.text) for one in messages if one.role in ("user", "assistant") and one.text]
        return "\n\n".join(f"{role}: {text}" for role, text in said)


async def serve_attachable(connection: Connection, data_dir: Path) -> None:
    """Listen until cancelled; a failure is logged and leaves the connection as it was."""
    try:
        with register(data_dir, time.time()) as own:
            async with await anyio.create_unix_listener(own.address, mode=0o600) as listener:
                await listener.serve(lambda stream: _attached(connection, stream))
    except OSError as error:
        log.error("this process cannot be attached to: %s", error.strerror or error)


async def _attached(connection: Connection, stream: anyio.abc.SocketStream) -> None:
    async with stream:
        try:
            if not _same_owner(stream):
                return
            wanted, rest = await _hello(stream)
            session = _find(connection, wanted)
            answer = {"session": session} if session else {"error": "there is no such session here"}
            await stream.send(json.dumps(answer).encode() + b"\n")
            if session is not None:
                from sluice.handlers.mcp_server import AttachedServer, serve_stdio

                transport = StreamTransport(_Rest(rest, stream), stream)
                await serve_stdio(AttachedServer(AttachedSession(connection, session)), transport)
        except (anyio.BrokenResourceError, anyio.EndOfStream, anyio.ClosedResourceError, ValueError, TimeoutError):
            log.info("somebody who attached has gone")
        except Exception:
            log.exception("serving somebody who attached failed")


def _same_owner(stream: anyio.abc.SocketStream) -> bool:
    """Whether the other end runs under our user; the socket's mode says so too, where the system heeds it."""
    raw = stream.extra(anyio.abc.SocketAttribute.raw_socket)
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    size = struct.calcsize("3i")
    _pid, uid, _gid = struct.unpack("3i", raw.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return bool(uid == os.geteuid())


async def _hello(stream: anyio.abc.SocketStream) -> tuple[str, bytes]:
    """The wanted session, "" for the newest, and what has come behind the first line. Raises ValueError."""
    held = b""
    with anyio.fail_after(HELLO_SECONDS):
        while b"\n" not in held:
            if len(held) > HELLO_BYTES:
                raise ValueError("the first line is too long")
            held += await stream.receive()
    line, _, rest = held.partition(b"\n")
    read = json.loads(line)
    wanted = read.get("session") if isinstance(read, dict) else None
    if not isinstance(wanted, str):
        raise ValueError("the first line names no session")
    return wanted, rest


def _find(connection: Connection, wanted: str) -> str | None:
    """The id of the wanted open session; the one opened last for ""."""
    opened = [name for name, entry in connection.entries.items() if entry.machine.state == "open"]
    if wanted:
        return wanted if wanted in opened else None
    return opened[-1] if opened else None


class _Rest(anyio.abc.ByteReceiveStream):
    """A stream, behind bytes that were read from it before."""

    def __init__(self, held: bytes, stream: anyio.abc.SocketStream) -> None:
        self._held = held
        self._stream = stream

    async def receive(self, max_bytes: int = 65536) -> bytes:
        if self._held:
            held, self._held = self._held, b""
            return held
        return await self._stream.receive(max_bytes)

    async def aclose(self) -> None:
        await self._stream.aclose()
