"""An editor as a process of its own, to be killed: `client_process.py AGENT_FILE STORE SERVER_SCRIPT CWD`.

It starts the agent, opens a session with one MCP server, lets a call hang in it, and prints the agent's process id.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any


def main(agent_file: str, store: str, server: str) -> None:
    """Serve nobody, wait for ever."""
    command = [sys.executable, "-m", "sluice", "serve", "acp", agent_file, "-s", store]
    agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert agent.stdin is not None and agent.stdout is not None
    numbers = iter(range(100))

    def send(method: str, **params: Any) -> int:
        number = next(numbers)
        assert agent.stdin is not None
        agent.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode())
        agent.stdin.write(b"\n")
        agent.stdin.flush()
        return number

    def result(number: int) -> Any:
        assert agent.stdout is not None
        for line in agent.stdout:
            message = json.loads(line)
            if message.get("id") == number and "method" not in message:
                return message["result"]
        raise AssertionError("the agent ended")

    result(send("initialize", protocolVersion=1))
    entry = {"name": "s", "command": sys.executable, "args": [server], "env": []}
    session = result(send("session/new", cwd=sys.argv[4], mcpServers=[entry]))["sessionId"]
    result(send("session/set_mode", sessionId=session, modeId="autonomous"))
    send("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "go"}])
    sys.stdout.write(f"{agent.pid}\n")
    sys.stdout.flush()
    for _ in agent.stdout:
        pass


if __name__ == "__main__":
    main(*sys.argv[1:4])
