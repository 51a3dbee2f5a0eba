"""The floor of the language: an ACP agent of the standard library, which reads the same model stream with httpx.

It has no store, no tools, no permissions and no checks. `--echo` answers by itself and loads no HTTP library.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

ECHO = "--echo" in sys.argv
if not ECHO:
    import httpx

URL = os.environ.get("OPENAI_BASE_URL", "") + "/chat/completions"


def send(message: dict[str, Any]) -> None:
    data = memoryview(json.dumps(message, separators=(",", ":")).encode() + b"\n")
    while data:
        data = data[os.write(1, data) :]


def update(session: str, text: str) -> None:
    content = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    send({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": content}})


class Agent:
    def __init__(self) -> None:
        self.history: dict[str, list[dict[str, str]]] = {}
        self.turns: dict[str, asyncio.Task[None]] = {}
        self.http = None if ECHO else httpx.AsyncClient(timeout=None)

    async def prompt(self, request: Any, session: str, text: str) -> None:
        stop = "end_turn"
        try:
            if self.http is None:
                update(session, "pong")
            else:
                await self.ask(session, text)
        except asyncio.CancelledError:
            stop = "cancelled"
        send({"jsonrpc": "2.0", "id": request, "result": {"stopReason": stop}})

    async def ask(self, session: str, text: str) -> None:
        history = self.history[session]
        history.append({"role": "user", "content": text})
        said = []
        body = {"model": "bench", "stream": True, "messages": history}
        assert self.http is not None
        async with self.http.stream("POST", URL, json=body) as response:
            async for line in response.aiter_lines():
                if line.startswith("data: {"):
                    piece = json.loads(line[6:])["choices"][0]["delta"].get("content")
                    if piece:
                        said.append(piece)
                        update(session, piece)
        history.append({"role": "assistant", "content": "".join(said)})

    def take(self, message: dict[str, Any]) -> None:
        method, params, request = message["method"], message.get("params", {}), message.get("id")
        if method == "initialize":
            send({"jsonrpc": "2.0", "id": request, "result": {"protocolVersion": 1, "agentCapabilities": {}}})
        elif method == "session/new":
            session = f"s{len(self.history)}"
            self.history[session] = []
            send({"jsonrpc": "2.0", "id": request, "result": {"sessionId": session}})
        elif method == "session/prompt":
            session = params["sessionId"]
            work = self.prompt(request, session, params["prompt"][0]["text"])
            self.turns[session] = asyncio.get_running_loop().create_task(work)
        elif method == "session/cancel":
            self.turns[params["sessionId"]].cancel()


async def main() -> None:
    reader = asyncio.StreamReader(limit=1 << 24)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    os.set_blocking(1, True)
    agent = Agent()
    while line := await reader.readline():
        agent.take(json.loads(line))


asyncio.run(main())
