"""The client against this program's own server, both as real processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from sluice.client.agent import connect
from sluice.client.connection import ClientHandlers
from sluice.client.process import AgentCommand
from sluice.client.session import SessionUpdate
from sluice.client.updates import MessageChunk
from tests.client.support import QUICK

AGENT = """\
agents:
  root:
    model: script
    description: Says what its script says
    instruction: Play the script.
models:
  script:
    provider: scripted
    model: test
    provider_opts:
      script: script.yaml
"""

SCRIPT = """\
turns:
  - text: "Hello from the script."
"""


@pytest.fixture
def agent_file(tmp_path: Path) -> Path:
    (tmp_path / "agent.yaml").write_text(AGENT, "utf-8")
    (tmp_path / "script.yaml").write_text(SCRIPT, "utf-8")
    return tmp_path / "agent.yaml"


def serve(agent_file: Path) -> AgentCommand:
    home = str(agent_file.parent)
    arguments = ["-m", "sluice", "serve", "acp", str(agent_file), "--data-dir", home, "--config-dir", home]
    return AgentCommand([sys.executable, *arguments], ladder=QUICK)


@pytest.mark.anyio
async def test_a_session_is_held_with_the_real_server_and_found_again(agent_file: Path) -> None:
    updates: list[SessionUpdate] = []

    def said() -> str:
        return "".join(
            u.update.text for u in updates if isinstance(u.update, MessageChunk) and u.update.role == "agent"
        )

    with anyio.fail_after(30):
        async with connect(serve(agent_file), ClientHandlers(on_update=updates.append)) as agent:
            info = await agent.initialize()
            assert info.name == "sluice"
            session = await agent.new_session(agent_file.parent)
            end = await agent.prompt(session.id, "hi")
            assert (end.stop_reason, said()) == ("end_turn", "Hello from the script.")
            assert [entry.session_id for entry in await agent.list_sessions(agent_file.parent)] == [session.id]
        assert agent.process is not None
        assert agent.process.returncode == 0
        updates.clear()
        async with connect(serve(agent_file), ClientHandlers(on_update=updates.append)) as agent:
            await agent.initialize()
            await agent.load_session(session.id, agent_file.parent)
            assert said() == "Hello from the script."
            assert all(u.replay for u in updates if isinstance(u.update, MessageChunk))
            await agent.close_session(session.id)
            await agent.delete_session(session.id)
            assert await agent.list_sessions(agent_file.parent) == []


def run(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sluice", "run", *arguments]
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=30)


def test_the_run_command_answers_from_the_real_server(agent_file: Path) -> None:
    where = ["--data-dir", str(agent_file.parent), "--config-dir", str(agent_file.parent)]
    done = run(str(agent_file), *where, given="hi")
    assert (done.stdout, done.stderr, done.returncode) == ("Hello from the script.\n", "", 0)


def test_a_broken_agent_file_is_one_line_with_file_line_and_key(tmp_path: Path) -> None:
    broken = tmp_path / "agent.yaml"
    broken.write_text("agents:\n  root:\n    modell: x\n", "utf-8")
    done = run(str(broken), "hi")
    assert done.returncode == 1
    assert done.stderr.startswith(f"sluice: {broken}:3: agents.root.modell: ")
    assert done.stderr.count("\n") == 1
    assert json.dumps(done.stdout) == '""'


def test_missing_credentials_say_what_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    agent = tmp_path / "agent.yaml"
    agent.write_text("agents:\n  root:\n    model: openai/gpt-x\n    description: d\n    instruction: i\n", "utf-8")
    done = run(str(agent), "hi", "--data-dir", str(tmp_path), "--config-dir", str(tmp_path))
    assert done.returncode == 1
    assert "set OPENAI_API_KEY" in done.stderr and "--env-from-file" in done.stderr
    assert done.stderr.count("\n") == 1
