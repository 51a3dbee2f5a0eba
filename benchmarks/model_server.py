"""A model server that costs as little as possible: chat completions as a stream, over plain asyncio.

Run as a process of its own, it prints its port. What it answers is in the last user message: `CHUNKS n [ms]`
streams n pieces, one every ms milliseconds or as fast as they go, each with the time it was sent; `TOOL` calls think
once; all else is answered with one word.
"""

from __future__ import annotations

import asyncio
import json
import re
import time

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(delta: dict[str, object], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    body = {"id": "b", "object": "chat.completion.chunk", "model": "bench", "choices": [choice]}
    return chunk(b"data: " + json.dumps(body).encode() + b"\n\n")


async def answer(messages: list[dict[str, object]], writer: asyncio.StreamWriter) -> None:
    last = messages[-1]
    text = str(next((m["content"] for m in reversed(messages) if m["role"] == "user"), ""))
    wanted = re.search(r"CHUNKS (\d+)(?: ([\d.]+))?", text)
    writer.write(HEAD)
    if wanted and last["role"] == "user":
        await pieces(int(wanted[1]), float(wanted[2] or 0) / 1000, writer)
    elif "TOOL" in text and last["role"] == "user":
        call = {
            "index": 0,
            "id": "c1",
            "type": "function",
            "function": {"name": "think", "arguments": '{"thought":"x"}'},
        }
        writer.write(event({"tool_calls": [call]}))
        writer.write(event({}, "tool_calls"))
    else:
        writer.write(event({"content": "pong"}))
        writer.write(event({}, "stop"))
    writer.write(chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
    await writer.drain()


async def pieces(number: int, pause: float, writer: asyncio.StreamWriter) -> None:
    for index in range(number):
        if writer.is_closing():  # the caller cancelled
            return
        if pause:
            await asyncio.sleep(pause)
            writer.write(event({"content": f"@{time.monotonic_ns()} "}))
        else:
            writer.write(event({"content": f"w{index} "}))
            if index % 64 == 0:
                await writer.drain()
    writer.write(event({}, "stop"))


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(re.search(rb"content-length: (\d+)", head.lower())[1])  # type: ignore[index]
            body = json.loads(await reader.readexactly(length))
            await answer(body["messages"], writer)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
