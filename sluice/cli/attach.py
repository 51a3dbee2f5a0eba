"""`sluice serve mcp --attach`: bytes between standard input and output and a running process, which speaks MCP."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.abc

from sluice.handlers.runs import Registration, registrations
from sluice.wire.transport import Transport

__all__ = ["attach"]


async def attach(transport: Transport, data_dir: Path, which: str) -> int:
    """Connect and carry bytes both ways until one end has ended.

    Args:
        transport: the MCP client.
        data_dir: where running processes are registered.
        which: a process id, the address of a socket, a session id, or "" for the newest process and session.

    Returns:
        The exit status: 1 when there is nothing to attach to.
    """
    for one, session in _candidates(registrations(data_dir), which):
        stream = await _connect(one.address, session)
        if stream is not None:
            async with stream:
                await _carry(transport, stream)
            return 0
    wanted = f" as {which}" if which else ""
    print(
        f"sluice serve mcp: nothing runs that can be attached to{wanted}; start `sluice serve acp --attachable FILE`",
        file=sys.stderr,
    )
    return 1


def _candidates(running: list[Registration], which: str) -> list[tuple[Registration, str]]:
    """Whom to ask for which session, in order."""
    if not which:
        return [(one, "") for one in running]
    named = [one for one in running if which in (str(one.pid), one.address)]
    return [(one, "") for one in named] or [(one, which) for one in running]


async def _connect(address: str, session: str) -> anyio.abc.SocketStream | None:
    """The stream behind the greeting; None when that process is gone or has no such session."""
    try:
        stream = await anyio.connect_unix(address)
    except OSError:
        return None
    with suppress(OSError, anyio.BrokenResourceError, anyio.EndOfStream, ValueError):
        await stream.send(json.dumps({"session": session}).encode() + b"\n")
        line = b""
        while not line.endswith(b"\n"):
            line += await stream.receive(1)  # nothing behind the line may be taken here
        if "session" in json.loads(line):
            return stream
    await stream.aclose()
    return None


async def _carry(transport: Transport, stream: anyio.abc.SocketStream) -> None:
    async with anyio.create_task_group() as tasks:

        async def inward() -> None:
            while data := await transport.receive():
                await stream.send(data)
            await stream.send_eof()

        async def outward() -> None:
            async for data in stream:
                await transport.send(data)
            tasks.cancel_scope.cancel()

        tasks.start_soon(_until_gone, inward)
        tasks.start_soon(_until_gone, outward)


async def _until_gone(carry: Callable[[], Awaitable[None]]) -> None:
    """Carry until an end is gone; the other direction then meets its own end."""
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await carry()
