"""A scripted ACP agent for tests of clients: `python -m sluice.client.fake_agent SCRIPT.json`.

It answers every stable method with something sensible, and a script replaces any of these answers by a list of
actions, so that every kind of behaviour can be played: late, early, wrong, noisy, silent, dying.

A script is JSON:

    {
      "start": [ACTION...],                         before anything is read
      "on": {"session/prompt": [[ACTION...], ...]}, one list per call, the last one again for every further call
      "journal": "/path",                           each line received is appended there
      "ignore_eof": true, "ignore_term": true       stay after the end of input; ignore SIGTERM
    }

An action is an object with one of these members:

    result     answer the request being handled with this result
    error      answer it with this error
    update     send this as `session/update` of the request's session ("sessionId" beside it overrides)
    send       send this message as it is
    raw        write this text as it is (no newline is added)
    flood      {"bytes": N, "to": "stdout" | "stderr"}: write a line of N bytes
    stderr     write this line to stderr
    wait       read on until this comes: a method name, or {"response": ID}; everything else is handled meanwhile
    spawn      start this command line in our process group, sharing our pipes; its pid goes to the journal
    exit       end at once with this status

The module itself uses nothing but the standard library, so that it starts quickly.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

__all__ = ["Action", "FakeAgent", "Script", "main"]

Action: TypeAlias = Mapping[str, Any]
"""One step of a script."""

CAPABILITIES: Mapping[str, Any] = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
    "mcpCapabilities": {"http": True, "sse": True},
    "sessionCapabilities": {"list": {}, "delete": {}, "additionalDirectories": {}, "resume": {}, "close": {}},
    "auth": {"logout": {}},
}
"""What an unscripted `initialize` advertises: everything."""

_EMPTY_RESULTS = frozenset(
    {
        "authenticate",
        "logout",
        "session/load",
        "session/resume",
        "session/delete",
        "session/close",
        "session/set_mode",
    }
)


@dataclass
class Script:
    """A script as a value; the members are those of the module's description."""

    start: Sequence[Action] = ()
    on: Mapping[str, Sequence[Sequence[Action]]] = field(default_factory=dict)
    journal: str | None = None
    ignore_eof: bool = False
    ignore_term: bool = False

    def command(self, directory: Path) -> list[str]:
        """Write the script into a directory and give the command line that plays it.

        Args:
            directory: gets `script.json` and, unless the script names another file, `journal.jsonl`.
        """
        self.journal = self.journal or str(directory / "journal.jsonl")
        path = directory / "script.json"
        path.write_text(json.dumps(asdict(self)), "utf-8")
        return [sys.executable, "-m", "sluice.client.fake_agent", str(path)]

    def received(self) -> list[dict[str, Any]]:
        """Every message the agent has received so far, in order."""
        path = Path(self.journal or "")
        lines = path.read_bytes().split(b"\n") if path.is_file() else []
        return [json.loads(line) for line in lines if line]


class FakeAgent:
    """The player of a script."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._calls: dict[str, int] = {}
        self._sessions = 0
        self._messages = self._read()

    def run(self) -> None:
        """Play until the end of input."""
        if self._script.ignore_term:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._play(self._script.start, {})
        for message in self._messages:
            self._handle(message)
        while self._script.ignore_eof:
            signal.pause()

    def _read(self) -> Iterator[dict[str, Any]]:
        held = b""
        while data := os.read(0, 1 << 16):
            *lines, held = (held + data).split(b"\n")
            for line in lines:
                self._note(line)
                yield json.loads(line)

    def _note(self, line: bytes) -> None:
        if self._script.journal:
            with Path(self._script.journal).open("ab") as journal:
                journal.write(line + b"\n")

    def _handle(self, message: dict[str, Any]) -> None:
        method = message.get("method")
        if method is None:
            return
        scripted = self._script.on.get(method)
        if scripted:
            turn = self._calls.get(method, 0)
            self._calls[method] = turn + 1
            self._play(scripted[min(turn, len(scripted) - 1)], message)
        elif "id" in message:
            self._play([self._default(method)], message)

    def _default(self, method: str) -> Action:
        if method == "initialize":
            about = {"name": "fake-agent", "version": "1"}
            return {"result": {"protocolVersion": 1, "agentCapabilities": dict(CAPABILITIES), "agentInfo": about}}
        if method == "session/new":
            self._sessions += 1
            return {"result": {"sessionId": f"s{self._sessions}"}}
        if method == "session/prompt":
            return {"result": {"stopReason": "end_turn"}}
        if method == "session/list":
            return {"result": {"sessions": []}}
        if method in _EMPTY_RESULTS:
            return {"result": {}}
        return {"error": {"code": -32601, "message": f"no such method: {method}"}}

    def _play(self, actions: Sequence[Action], message: Mapping[str, Any]) -> None:
        for action in actions:
            for name in action:
                step = getattr(self, f"_do_{name}", None)
                if step is not None:
                    step(action, message)

    # --- actions

    def _do_result(self, action: Action, message: Mapping[str, Any]) -> None:
        self._send({"jsonrpc": "2.0", "id": message["id"], "result": action["result"]})

    def _do_error(self, action: Action, message: Mapping[str, Any]) -> None:
        self._send({"jsonrpc": "2.0", "id": message["id"], "error": action["error"]})

    def _do_update(self, action: Action, message: Mapping[str, Any]) -> None:
        session_id = action.get("sessionId", message.get("params", {}).get("sessionId", "s1"))
        params = {"sessionId": session_id, "update": action["update"]}
        self._send({"jsonrpc": "2.0", "method": "session/update", "params": params})

    def _do_send(self, action: Action, message: Mapping[str, Any]) -> None:
        self._send(action["send"])

    def _do_raw(self, action: Action, message: Mapping[str, Any]) -> None:
        _write(1, action["raw"].encode("utf-8", "surrogateescape"))

    def _do_flood(self, action: Action, message: Mapping[str, Any]) -> None:
        flood = action["flood"]
        _write(2 if flood.get("to") == "stderr" else 1, b"x" * (flood["bytes"] - 1) + b"\n")

    def _do_stderr(self, action: Action, message: Mapping[str, Any]) -> None:
        _write(2, action["stderr"].encode() + b"\n")

    def _do_wait(self, action: Action, message: Mapping[str, Any]) -> None:
        wanted = action["wait"]
        for other in self._messages:
            if isinstance(wanted, str):
                found = other.get("method") == wanted
            else:
                found = "method" not in other and other.get("id") == wanted["response"]
            # A message that was waited for is still handled: a request among them wants its answer.
            self._handle(other)
            if found:
                return

    def _do_spawn(self, action: Action, message: Mapping[str, Any]) -> None:
        child = subprocess.Popen(action["spawn"])
        self._note(json.dumps({"spawned": child.pid}).encode())

    def _do_exit(self, action: Action, message: Mapping[str, Any]) -> None:
        os._exit(action["exit"])

    def _send(self, message: Mapping[str, Any]) -> None:
        _write(1, json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def main(arguments: Sequence[str]) -> int:
    """Play the script named by the only argument; returns the exit status."""
    script = Script(**json.loads(Path(arguments[0]).read_text("utf-8")))
    FakeAgent(script).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
