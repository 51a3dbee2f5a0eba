"""A stand-in for the library: the engine's own code runs, and the answers are what the last message asks for.

It stands on PYTHONPATH in front of the real one. What the last message of the person begins with decides: `pid`,
`system`, `body`, `environment`, `read`, `call TOOL PATH`, `crash`, else the message comes back.

What it has read of all conversations it writes to a file when it is told to save its slot, and `read` tells it.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

BROKEN_CONTEXT = 1111
"""A window with which the weights cannot be loaded."""

SILENT_CONTEXT = 2222
"""A window with which the process ends without a word."""

WAITING_CONTEXT = 3333
"""A window with which loading waits until there is a file `go` beside the weights."""


FULL_CONTEXT = 4444
"""A window with which the disk is full whenever something is to be saved."""

FATAL = b"the library does not survive this file"
"""What a file begins with that ends the process which is told to read it."""

FATAL_LATER = b"the library does not survive the use of this file"
"""What a file begins with that is read, and ends the process when it is next asked something."""


class CommonParams(SimpleNamespace):
    def __init__(self) -> None:
        super().__init__(model=SimpleNamespace(), cpuparams=SimpleNamespace(), cpuparams_batch=SimpleNamespace())


class Server:
    def __init__(self, params: CommonParams) -> None:
        os.write(1, b"the library prints what it likes\n")
        if params.n_ctx == BROKEN_CONTEXT:
            raise RuntimeError("the weights are broken")
        if params.n_ctx == SILENT_CONTEXT:
            os.write(2, b"first words\nlast words\n")
            os._exit(9)
        while params.n_ctx == WAITING_CONTEXT and not Path(params.model.path).with_name("go").exists():
            time.sleep(0.01)
        (host,) = params.hostnames
        served = ThreadingHTTPServer((host, params.port), _handler(params))
        threading.Thread(target=served.serve_forever, daemon=True).start()
        self.listening_address = f"http://{host}:{served.server_port}"


class Slots:
    """The one slot, and what it has read: a line for each message."""

    def __init__(self, params: CommonParams) -> None:
        self._params = params
        self.read = ""

    def act(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        directory = self._params.slot_save_path
        if not directory:
            return 501, {"error": {"message": "This server does not support slots action."}}
        file = Path(directory) / body["filename"]
        if path.endswith("action=save"):
            full = self._params.n_ctx == FULL_CONTEXT
            file.write_text("" if full else self.read, encoding="utf-8")
            return 200, {"n_saved": 1, "n_written": file.stat().st_size}
        if file.read_bytes().startswith(FATAL):
            os.abort()
        self.read = file.read_text(encoding="utf-8")
        return 200, {"n_restored": 1, "n_read": file.stat().st_size}

    def hear(self, messages: list[dict[str, Any]]) -> str:
        """Read a prompt. Returns what was read before it."""
        if self.read.encode().startswith(FATAL_LATER):
            os.abort()
        before = self.read
        self.read = "\n".join([before, *(str(message["content"]) for message in messages)])
        return before


def _handler(params: CommonParams) -> type[BaseHTTPRequestHandler]:
    slots = Slots(params)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if self.headers["authorization"] != f"Bearer {params.api_keys[0]}":
                self.send_response(401)
                self.send_header("content-length", "0")
                self.end_headers()
                return
            if self.path.startswith("/slots/0?"):
                status, said = slots.act(self.path, body)
                answer = json.dumps(said).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)
                return
            before = slots.hear(body["messages"])
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            for chunk in _chunks(body, before):
                self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
            self.wfile.write(b"data: [DONE]\n\n")

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


def _chunks(body: dict[str, Any], before: str) -> list[dict[str, Any]]:
    delta, reason = _reply(body, before)
    return [
        {"choices": [{"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
        {"choices": [], "usage": {"prompt_tokens": 50, "completion_tokens": 7, "total_tokens": 57}},
    ]


def _reply(body: dict[str, Any], before: str) -> tuple[dict[str, Any], str]:
    last = body["messages"][-1]
    if last["role"] == "tool":
        return {"content": f"It says: {last['content']}"}, "stop"
    word, _, rest = last["content"].partition(" ")
    if word == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    if word == "call":
        name, _, path = rest.partition(" ")
        function = {"name": name, "arguments": json.dumps({"path": path})}
        return {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]}, "tool_calls"
    answers = {
        "pid": str(os.getpid()),
        "system": body["messages"][0]["content"],
        "body": json.dumps(body),
        "read": before,
        "environment": json.dumps(sorted(os.environ)),
    }
    return {"content": answers.get(word, last["content"])}, "stop"
