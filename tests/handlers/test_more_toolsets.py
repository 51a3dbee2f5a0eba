"""Memory, scripts and fetching over the wire: who is asked, what the model is told, and how large a result may be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.model_server import call, calls, text
from tests.support.setup import Stage, on_stage
from tests.support.web import site

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

END = {"stopReason": "end_turn"}


def agent(**toolset: Any) -> Json:
    return {"toolsets": [toolset]}


def results(stage: Stage, request: int = 1) -> list[str]:
    return [m["content"] for m in stage.model.requests[request].messages if m["role"] == "tool"]


def questions(stage: Stage) -> list[Json]:
    return [m["params"]["toolCall"] for m in stage.client.log if m.get("method") == "session/request_permission"]


async def allowed(stage: Stage, times: int = 1) -> Any:
    """A prompt in which so many calls are asked for and allowed; its result."""
    prompt = await stage.client.send(
        "session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": "go"}]
    )
    for _ in range(times):
        await stage.client.allow()
    return (await stage.client.answer(prompt))["result"]


@pytest.mark.requirement("tools.memory.crud")
async def test_what_is_remembered_is_asked_for_and_is_there_in_the_next_session(tmp_path: Path) -> None:
    add = calls(call("add_memory", memory="likes tea", category="taste"))
    replies = (add, text("noted"), calls(call("search_memories", query="tea")), text("tea"))
    async with on_stage(tmp_path, *replies, agent=agent(type="memory", path="memory.json")) as stage:
        assert await allowed(stage) == END
        (question,) = questions(stage)
        assert question["kind"] == "edit" and question["title"] == "add_memory: likes tea"
        assert (tmp_path / "memory.json").exists()  # beside the agent file
        second = await stage.client.new(stage.cwd)
        assert (await stage.client.prompt(second, "what do I like?"))["result"] == END
        assert len(questions(stage)) == 1  # looking asks nobody
        (found,) = results(stage, 3)
        assert found.endswith("[taste]: likes tea")


@pytest.mark.requirement("tools.registry.result-bound")
@pytest.mark.parametrize("letter", ["x", "é", "\U0001f375"])
async def test_no_result_hands_the_model_more_than_50_kib_and_a_cut_is_said(tmp_path: Path, letter: str) -> None:
    toolsets = [{"type": "filesystem"}, {"type": "memory", "path": "memory.json"}]
    batch = calls(call("read_file", path="big"), call("get_memories"))
    async with on_stage(
        tmp_path, batch, text("done"), agent={"toolsets": toolsets}, fs={"readTextFile": True}
    ) as stage:
        notes = ",".join(f'{{"id": "{n}", "memory": "{letter * 9_000}"}}' for n in range(8))
        (tmp_path / "memory.json").write_text(f'{{"format": "sluice-memory-1", "memories": [{notes}]}}')
        prompt = await stage.client.send(
            "session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": "go"}]
        )
        await stage.client.respond(await stage.client.asked("fs/read_text_file"), {"content": letter * 70_000})
        assert (await stage.client.answer(prompt))["result"] == END
        handed = results(stage)
        assert len(handed) == 2
        for result in handed:
            assert len(result.encode()) <= 50 * 1024
            assert len(result.encode()) > 49 * 1024  # cut where it must be, not emptied
            assert "more than the 51200 a result may have" in result and "\ufffd" not in result


@pytest.mark.requirement("tools.script.entries")
async def test_a_script_is_asked_for_and_its_arguments_are_data(tmp_path: Path) -> None:
    entry = {"cmd": 'echo "got: $what"', "description": "Says it.", "args": {"what": {"type": "string"}}}
    said = "$(touch pwned); `touch pwned`"
    batch = calls(call("say", what=said), call("say"))
    async with on_stage(tmp_path, batch, text("done"), agent=agent(type="script", shell={"say": entry})) as stage:
        assert await allowed(stage) == END
        assert [question["title"] for question in questions(stage)] == [f"say: {said}"]
        got, missing = results(stage)
        assert got == f"got: {said}\n" and "what" in missing
        assert list(stage.cwd.iterdir()) == []
        (offered,) = [tool["function"] for tool in stage.model.requests[0].body["tools"]]
        assert offered["description"] == "Says it."
        assert offered["parameters"]["required"] == ["what"]


@pytest.mark.requirement("tools.fetch.guarded")
@pytest.mark.parametrize("opened", [True, False])
async def test_fetching_is_asked_for_and_reaches_what_the_operator_has_opened(tmp_path: Path, opened: bool) -> None:
    async with site(
        {"/": "/page", "/page": b"<h1>Hello</h1>", "/inside": "http://127.0.0.2/"}, type_="text/html"
    ) as web:
        urls = [f"http://127.0.0.1:{web.port}/", f"http://127.0.0.1:{web.port}/inside"]
        replies = (calls(call("fetch", urls=urls)), text("done"))
        allow = ["127.0.0.1/32"] if opened else []
        async with on_stage(tmp_path, *replies, agent=agent(type="fetch"), allow=allow) as stage:
            assert await allowed(stage) == END
            (question,) = questions(stage)
            assert question["kind"] == "fetch" and question["title"].startswith(f"fetch: {urls[0]}")
            (result,) = results(stage)
            assert ("# Hello" in result) is opened
            assert result.count("may not be reached from here") == (1 if opened else 2)
            assert len(web.requests) == (3 if opened else 0)
