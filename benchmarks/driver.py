"""Drives one ACP agent as an editor would, and reads the clocks: wall time, processor time, memory."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")

Json = dict[str, Any]


class Driver:
    """One agent process. Times are seconds on the monotonic clock."""

    def __init__(self, command: list[str], environment: dict[str, str], cwd: Path) -> None:
        self.command = command
        self.environment = {**os.environ, **environment}
        self.cwd = cwd
        self.waiting: dict[int, asyncio.Future[Json]] = {}
        self.on_update: Callable[[Json], None] = lambda update: None
        self.next_id = 0
        self.process: asyncio.subprocess.Process
        self.reading: asyncio.Task[None]

    async def __aenter__(self) -> Driver:
        pipe = asyncio.subprocess.PIPE
        self.process = await asyncio.create_subprocess_exec(
            *self.command, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL,
            env=self.environment, cwd=self.cwd, limit=1 << 26,
        )  # fmt: skip
        self.reading = asyncio.get_running_loop().create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            await asyncio.wait_for(self.process.wait(), 10)
        except TimeoutError:
            self.process.kill()
        await self.reading

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            message = json.loads(line)
            if message.get("method") == "session/update":
                self.on_update(message["params"]["update"])
            elif "method" in message and "id" in message:
                outcome = {"outcome": {"outcome": "selected", "optionId": "allow"}}
                self._write({"jsonrpc": "2.0", "id": message["id"], "result": outcome})
            elif message.get("id") in self.waiting:
                self.waiting.pop(message["id"]).set_result(message)

    def _write(self, message: Json) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")

    def send(self, method: str, **params: Any) -> asyncio.Future[Json]:
        """Send a request; the future has the whole response."""
        self.next_id += 1
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self.waiting[self.next_id] = answer
        self._write({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params})
        return answer

    async def call(self, method: str, **params: Any) -> Json:
        """Send a request that must succeed; returns its result."""
        response = await asyncio.wait_for(self.send(method, **params), 120)
        if "result" not in response:
            raise RuntimeError(f"{method}: {response}")
        result: Json = response["result"]
        return result

    async def open(self) -> str:
        """Initialize and open one session; returns its id."""
        await self.call("initialize", protocolVersion=1, clientCapabilities={})
        return await self.new()

    async def new(self) -> str:
        """Open a session; returns its id."""
        return str((await self.call("session/new", cwd=str(self.cwd), mcpServers=[]))["sessionId"])

    def prompt(self, session: str, text: str) -> asyncio.Future[Json]:
        """Begin a turn."""
        return self.send("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])

    def cancel(self, session: str) -> None:
        """Send session/cancel."""
        self._write({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}})

    def cpu(self) -> float:
        """Processor seconds of the agent's process so far, from its own clock."""
        return time.clock_gettime((~self.process.pid << 3) | 2)

    def memory(self) -> float:
        """Resident memory in MiB."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * PAGE / (1 << 20)
