"""The embedded model over the wire: `local`, `auto`, missing weights, and that no engine outlives its agent."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import anyio
import pytest

from sluice.config.environment import Environment
from sluice.config.weights import MODELS_DIR
from tests.models.local.library.xllamacpp import WAITING_CONTEXT
from tests.models.local.support import LIBRARY, gone, pretend
from tests.support.wire import agent_file, serving, spawned

pytestmark = pytest.mark.anyio


def agent(directory: Path, model: str = "local", context: int = 4096) -> Path:
    return agent_file(
        directory,
        f"""\
        agents:
          root:
            model: {model}
            instruction: Help.
            toolsets: [{{type: filesystem}}]
        models:
          small: {{provider: local, model: 0.5b, provider_opts: {{context_size: {context}}}}}
        """,
    )


def environment(directory: Path, **more: str) -> Environment:
    return Environment.read({"PATH": os.environ["PATH"], MODELS_DIR: str(directory / "models"), **more}, (), None)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(LIBRARY))


@pytest.mark.parametrize(("model", "named"), [("local", "0.5b"), ("local/1.5b", "1.5b"), ("small", "0.5b")])
async def test_a_session_without_the_weights_is_refused_with_the_command_that_fetches_them(
    tmp_path: Path, model: str, named: str
) -> None:
    async with serving(agent(tmp_path, model), tmp_path / "s.db", lambda: environment(tmp_path)) as server:
        await server.client.initialize()
        error = await server.client.error("session/new", cwd=str(tmp_path), mcpServers=[])
        assert error["code"] == -32603
        assert f"fetch them with `sluice model pull {named}`" in error["data"]["error"]
        pretend(tmp_path / "models", named)
        await server.client.new(tmp_path)


@pytest.mark.requirement("models.ref.auto")
async def test_auto_without_key_and_weights_is_missing_credentials_and_names_both_ways(tmp_path: Path) -> None:
    async with serving(agent(tmp_path, "auto"), tmp_path / "s.db", lambda: environment(tmp_path)) as server:
        await server.client.initialize()
        error = await server.client.error("session/new", cwd=str(tmp_path), mcpServers=[])
        assert error["code"] == -32000
        assert "OPENAI_API_KEY" in str(error) and "`sluice model pull`" in str(error)
        pretend(tmp_path / "models")
        await server.client.result("authenticate", methodId="host-credentials")
        await server.client.new(tmp_path)


@pytest.mark.requirement("models.ref.auto")
@pytest.mark.usefixtures("library")
async def test_auto_takes_the_weights_that_are_here_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "sluice")
    pretend(tmp_path / "models")
    (tmp_path / "trees").mkdir()
    async with serving(agent(tmp_path, "auto"), tmp_path / "s.db", lambda: environment(tmp_path)) as server:
        await server.client.initialize()
        session = await server.client.new(tmp_path)
        answer = await server.client.prompt(session, "call list_directory .")
        assert answer["result"]["stopReason"] == "end_turn"
        assert server.client.text(session).startswith("It says: ") and "trees" in server.client.text(session)
        calls = [u for u in server.client.updates(session, "tool_call_update") if u.get("status") == "completed"]
        assert len(calls) == 1
        usage = server.client.updates(session, "usage_update")[-1]
        assert usage["size"] == 8192 and "cost" not in usage  # a cost is shown when there is one
    assert [record.message for record in caplog.records].count("the model auto is local/0.5b") == 1


@pytest.mark.usefixtures("library")
async def test_a_crash_of_the_engine_is_mended_within_the_turn(tmp_path: Path) -> None:
    """The failed attempts may be tried again, so only a request that always ends the engine fails the turn."""
    pretend(tmp_path / "models")
    async with serving(agent(tmp_path), tmp_path / "s.db", lambda: environment(tmp_path)) as server:
        await server.client.initialize()
        session = await server.client.new(tmp_path)
        request = server.client.request(
            "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "crash"}]
        )
        await server.client.write(request)
        failed = await server.client.answer(request["id"])
        assert "process was ended by SIGKILL; the next call starts it again" in str(failed["error"])
        assert (await server.client.prompt(session, "hello"))["result"]["stopReason"] == "end_turn"
        assert server.client.text(session).endswith("hello")


@pytest.mark.parametrize("kill", [True, False])
async def test_no_engine_outlives_its_agent(tmp_path: Path, kill: bool) -> None:
    pretend(tmp_path / "models")
    env = {MODELS_DIR: str(tmp_path / "models"), "PYTHONPATH": str(LIBRARY)}
    async with spawned(agent(tmp_path), tmp_path / "s.db", environment=env) as server:
        await server.client.initialize()
        session = await server.client.new(tmp_path)
        await server.client.prompt(session, "pid")
        engine = int(server.client.text(session))
        os.kill(engine, 0)
        if kill:
            server.kill()
            await server.wait()
            await gone(engine)
    await gone(engine)


async def test_an_engine_that_is_loading_does_not_outlive_its_agent_either(tmp_path: Path) -> None:
    pretend(tmp_path / "models")
    env = {MODELS_DIR: str(tmp_path / "models"), "PYTHONPATH": str(LIBRARY)}
    file = agent(tmp_path, "small", WAITING_CONTEXT)
    async with spawned(file, tmp_path / "s.db", environment=env) as server:
        await server.client.initialize()
        session = await server.client.new(tmp_path)
        prompt = [{"type": "text", "text": "hello"}]
        await server.client.write(server.client.request("session/prompt", sessionId=session, prompt=prompt))
        with anyio.fail_after(20):
            while (engine := engine_of(server.process.pid)) is None:
                await anyio.sleep(0.01)
        server.kill()
        await server.wait()
        await gone(engine)


def engine_of(parent: int) -> int | None:
    """The engine that a process has started and that has read its settings, for it wrote to its log."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes()
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
                log = (entry / "fd" / "2").stat().st_size
            except OSError:
                continue
            if b"sluice.models.local.engine" in words and int(stat[1]) == parent and log:
                return int(entry.name)
    return None
