"""The shared flags of `sluice serve acp`, all at once, in a real process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio
import pytest
import yaml

from sluice.wire.transport import StreamTransport
from tests.support.model_server import ModelServer, call, calls, text
from tests.support.setup import agent_on
from tests.support.wire import BOUND, Client

pytestmark = pytest.mark.anyio

FLAGS = ("--otel", "--debug", "--log-file", "--working-dir", "--env-from-file", "--data-dir", "--config-dir")


@pytest.mark.requirement("cli.serve-acp.runtime-flags")
async def test_every_runtime_flag_does_what_help_says(tmp_path: Path) -> None:
    place = {name: tmp_path / name for name in ("start", "elsewhere/work", "data", "config", "project")}
    for directory in place.values():
        directory.mkdir(parents=True)
    (tmp_path / "keys.env").write_text("GATE_KEY=from-the-file\n")
    (place["config"] / "settings.yaml").write_text(yaml.safe_dump({"permissions": {"deny": ["shell"]}}))
    async with ModelServer([calls(call("shell", cmd="touch ran")), text("end")]) as server:
        model = {"provider": "openai", "model": "m", "base_url": server.base_url, "token_key": "GATE_KEY"}
        agent_on(place["start"], "", agent={"code_mode_tools": True}, models={"m": model})
        options = [
            *("--otel", "--debug", "--log-file=log.txt", f"--working-dir={place['elsewhere/work']}"),
            *("--env-from-file=../keys.env", "--data-dir=../data", "--config-dir=../config"),
        ]
        command = [sys.executable, "-m", "sluice", "serve", "acp", "agent.yaml", *options]
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.getcwd(), "OTEL_TRACES_EXPORTER": "none"}
        async with await anyio.open_process(command, cwd=place["start"], env=environment) as process:
            assert process.stdout is not None and process.stdin is not None and process.stderr is not None
            transport = StreamTransport(process.stdout, process.stdin)
            client = Client(transport)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.read)
                await client.initialize()
                session = await client.new(place["project"])
                broken = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
                prompt = [{"type": "text", "text": "go"}, broken]
                done = await client.result("session/prompt", sessionId=session, prompt=prompt)
                assert done["stopReason"] == "end_turn"
                assert os.readlink(f"/proc/{process.pid}/cwd") == str(place["elsewhere/work"])
                await transport.send_eof()
            with anyio.fail_after(BOUND):
                assert await process.wait() == 0
        heading = {name.lower(): value for name, value in server.requests[0].headers.items()}
        denied = server.requests[1].messages[-1]["content"]
    assert heading["authorization"] == "Bearer from-the-file"
    assert "denies" in denied and list(place["project"].iterdir()) == []
    assert (place["data"] / "session.db").is_file()
    log = (place["start"] / "log.txt").read_text()
    assert "code_mode_tools" in log, "a warning"
    assert "picture cannot be decoded" in log, "what only --debug tells"


@pytest.mark.requirement("cli.serve-acp.runtime-flags")
def test_help_shows_the_runtime_flags(capsys: pytest.CaptureFixture[str]) -> None:
    from sluice.cli.main import main

    assert main(["serve", "acp", "--help"]) == 0
    shown = capsys.readouterr().out
    assert [flag for flag in FLAGS if flag not in shown] == []
