"""An MCP server of the standard library alone that can misbehave; `sys.argv[1]` says how.

paged     three pages, odd names, a cursor that never advances
silent    never answers
early     ends at once
stubborn  ignores the end of stdin and SIGTERM
modern    refuses the handshake all servers know
noisy     writes lines that are no JSON-RPC
flood     answers a call with a line without an end
brief     ends right after the list was asked for and given
media     gives content of every kind
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

HOW = sys.argv[1]
LONG = "n" * 79

PAGES: dict[str | None, tuple[list[str], str | None]] = {
    None: (["alpha"], "c1"),
    "c1": (["beta.v2/run"], "c2"),
    "c2": ([LONG + "a", LONG + "b"], "c3"),
    "c3": (["omega"], "c3"),
}

MEDIA = [
    {"type": "text", "text": "words"},
    {"type": "image", "data": "AAAA", "mimeType": "image/png"},
    {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
    {"type": "resource_link", "name": "doc", "uri": "file:///a"},
    {"type": "resource", "resource": {"uri": "file:///b", "text": "inside"}},
    {"type": "resource", "resource": {"uri": "file:///c", "blob": "AAAA"}},
]


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def listed(cursor: str | None) -> dict[str, Any]:
    names, after = PAGES[cursor] if HOW == "paged" else (["alpha"], None)
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
    return {"tools": tools, **({"nextCursor": after} if after else {})}


def called(name: str) -> dict[str, Any]:
    if HOW == "flood":
        while True:
            sys.stdout.write("x" * 65536)
    if HOW == "media":
        return {"content": MEDIA}
    return {"content": [{"type": "text", "text": f"called {name}"}]}


def answer(message: dict[str, Any]) -> None:
    method, params = message.get("method"), message.get("params") or {}
    if HOW == "silent" or "id" not in message:
        return
    if HOW == "noisy":
        sys.stdout.write("Welcome to the server!\n\n{}\n")
    if method == "initialize":
        if HOW == "modern":
            send(
                id=message["id"], error={"code": -32022, "message": "too old", "data": {"supported": ["2026-07-28"]}}
            )
            return
        info = {"name": "odd", "version": "1"}
        version = params["protocolVersion"]
        send(id=message["id"], result={"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info})
    elif method == "server/discover" and HOW == "modern":
        result = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "resultType": "complete"}
        send(id=message["id"], result={**result, "ttlMs": 0, "cacheScope": "private"})
    elif method == "tools/list":
        more = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if HOW == "modern" else {}
        send(id=message["id"], result=listed(params.get("cursor")) | more)
        if HOW == "brief":
            os._exit(0)
    elif method == "tools/call":
        send(
            id=message["id"], result=called(params["name"]) | ({"resultType": "complete"} if HOW == "modern" else {})
        )
    else:
        send(id=message["id"], error={"code": -32601, "message": "no such method"})


if HOW == "early":
    sys.exit(4)
if HOW == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if len(sys.argv) > 2:
    with open(sys.argv[2], "a") as file:
        file.write(f"{os.getpid()}\n")
for line in sys.stdin:
    answer(json.loads(line))
if HOW in ("stubborn", "silent"):
    time.sleep(300)
