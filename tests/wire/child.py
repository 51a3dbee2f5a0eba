"""A small server over standard input and output, started as a real process by `test_stdio.py`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import anyio
import msgspec

from sluice.wire.log import set_up
from sluice.wire.peer import IncomingRequest, Peer
from sluice.wire.stdio import FdTransport, claim


def link(fd: int) -> str:
    """What a descriptor of this process is, for example `pipe:[1234]`."""
    return os.readlink(f"/proc/self/fd/{fd}")


class Router:
    def __init__(self, protocol: list[str]) -> None:
        self.protocol = protocol

    def request(self, request: IncomingRequest) -> None:
        if request.method == "echo":
            request.answer(msgspec.Raw(request.params))
        elif request.method == "noise":
            print("printed é \U0001f600 \ud800")  # noqa: T201
            sys.stdout.write("written\n")
            os.write(1, b"raw\n")
            request.answer({})
        elif request.method == "spawn":
            # close_fds=False: what must not be inherited has to say so itself.
            script = "echo leak; cat; for f in /proc/self/fd/*; do readlink $f; done"
            subprocess.run(["sh", "-c", script], close_fds=False, check=False)
            request.answer({"protocol": self.protocol, "now": [link(0), link(1)]})
        else:
            raise ValueError(f"no such method: {request.method}")

    def notification(self, method: str, params: bytes) -> None:
        return None

    def end_of_input(self) -> None:
        return None


async def serve(transport: FdTransport, protocol: list[str]) -> None:
    peer = Peer(transport)
    async with anyio.create_task_group() as tasks:

        async def write() -> None:
            await peer.write()
            tasks.cancel_scope.cancel()

        tasks.start_soon(write)
        await peer.read(Router(protocol))
        peer.close()
    await transport.aclose()


def main(backend: str) -> None:
    print("printed before the claim, still in the buffer")  # noqa: T201
    protocol = [link(fd) for fd in (0, 1) if Path(f"/proc/self/fd/{fd}").exists()]
    transport = claim()
    set_up("DEBUG")
    anyio.run(serve, transport, protocol, backend=backend)


if __name__ == "__main__":
    main(sys.argv[1])
