"""Memory, scripts and fetching over the wire: who is asked, what the model is told, and how large a result may be."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.model_server import call, calls, text
from tests.support.setup import Stage, on_stage
from tests.support.web import site

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

END = {"stopReason": "end_turn"}

ODD_SERVER = str(Path(__file__).parent.parent / "mcp" / "server_odd.py")


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


def listed(stage: Stage, request: int) -> set[str]:
    return set(stage.model.requests[request].tools)


@pytest.mark.requirement("tools.registry.deferred")
async def test_a_deferred_tool_is_found_added_and_used_in_one_turn_and_hidden_again_after_a_resume(
    tmp_path: Path,
) -> None:
    toolsets = [{"type": "filesystem", "defer": ["list_directory"]}, {"type": "think", "defer": True}]
    replies = (
        calls(call("list_directory", path="."), call("search_tool", query="directory")),
        calls(call("add_tool", name="list_directory")),
        calls(call("list_directory", path=".")),
        text("done"),
        text("again"),
        text("new"),
    )
    async with on_stage(tmp_path, *replies, agent={"toolsets": toolsets}, fs={"readTextFile": True}) as stage:
        (stage.cwd / "a.txt").write_text("x")
        assert (await stage.client.prompt(stage.session, "go"))["result"] == END
        assert {"search_tool", "add_tool", "directory_tree"} <= listed(stage, 0)
        assert not {"list_directory", "think"} & listed(stage, 0)
        hidden, found = results(stage, 1)
        assert "There is no tool named" in hidden and "list_directory: " in found and "directory_tree" not in found
        assert "list_directory" not in listed(stage, 1) and "list_directory" in listed(stage, 2)
        assert "a.txt" in stage.model.requests[3].messages[-1]["content"]
        assert (await stage.client.prompt(stage.session, "once more"))["result"] == END
        assert "list_directory" in listed(stage, 4) and "think" not in listed(stage, 4)
        await stage.client.result("session/close", sessionId=stage.session)
        await stage.client.result("session/resume", sessionId=stage.session, cwd=str(stage.cwd), mcpServers=[])
        assert (await stage.client.prompt(stage.session, "and now"))["result"] == END
        assert "list_directory" not in listed(stage, 5) and "search_tool" in listed(stage, 5)


@pytest.mark.requirement("tools.registry.deferred", "tools.mcp.toolset", "config-file.toolsets.shared-maps")
@pytest.mark.parametrize("place", ["mcps", "toolset"])
@pytest.mark.parametrize("defer", [True, ["alpha", "beta.v2/run"], ["own_alpha", "beta.v2/run"]], ids=str)
async def test_a_deferred_tool_of_an_mcp_server_is_found_added_and_called(
    tmp_path: Path, place: str, defer: Any
) -> None:
    """Naively `defer` is for built-in toolsets alone, or means no tool unless it has the server's prefix."""
    own: dict[str, Any] = {"command": sys.executable, "args": [ODD_SERVER, "paged"]}
    toolset: dict[str, Any] = {"type": "mcp", "ref": "own"}
    (own if place == "mcps" else toolset)["defer"] = defer
    replies = (
        calls(call("own_alpha"), call("search_tool", query="")),
        calls(call("add_tool", name="own_alpha")),
        calls(call("own_alpha")),
        text("done"),
    )
    async with on_stage(tmp_path, *replies, agent={"toolsets": [toolset]}, file={"mcps": {"own": own}}) as stage:
        await stage.client.result("session/set_mode", sessionId=stage.session, modeId="autonomous")
        assert (await stage.client.prompt(stage.session, "go"))["result"] == END
        hidden = {name for name in listed(stage, 0) if name.startswith(("own_alpha", "own_beta"))}
        assert hidden == set() and ("own_omega" in listed(stage, 0)) == (defer is not True)
        refused, found = results(stage, 1)
        assert "There is no tool named" in refused
        assert "own_alpha: " in found and "own_beta_v2_run_" in found and ("own_omega" in found) == (defer is True)
        assert "own_alpha" not in listed(stage, 1) and "own_alpha" in listed(stage, 2)
        assert results(stage, 3)[-1] == "called alpha"


@pytest.mark.requirement("client-fs.gate.deferred-too")
@pytest.mark.parametrize(("read", "write"), [(False, False), (True, False), (False, True), (True, True)])
async def test_what_the_client_does_not_offer_is_not_found_or_added_either(
    tmp_path: Path, read: bool, write: bool
) -> None:
    names = ("read_file", "read_multiple_files", "write_file", "edit_file")
    look = calls(call("search_tool", query=""), *(call("add_tool", name=name) for name in names))
    toolsets = [{"type": "filesystem", "defer": True}]
    fs = {"readTextFile": read, "writeTextFile": write}
    wanted = {name for name, there in zip(names, (read, read, write, read and write), strict=True) if there}
    async with on_stage(
        tmp_path, look, text("done"), look, text("done"), agent={"toolsets": toolsets}, fs=fs
    ) as stage:
        for first in (0, 2):
            assert (await stage.client.prompt(stage.session, "go"))["result"] == END
            assert not set(names) & listed(stage, first)
            assert set(names) & listed(stage, first + 1) == wanted
            found, *added = results(stage, first + 1)[-5:]
            assert {name for name in names if f"{name}: " in found} == wanted
            assert {name for name, said in zip(names, added, strict=True) if "can be called now" in said} == wanted
            assert not [m for m in stage.client.log if m.get("method", "").startswith("fs/")]
            await stage.client.result("session/close", sessionId=stage.session)
            await stage.client.result("session/resume", sessionId=stage.session, cwd=str(stage.cwd), mcpServers=[])


@pytest.mark.requirement("tools.api.configured-call")
@pytest.mark.parametrize(("method", "asked"), [("GET", 0), ("POST", 1)])
async def test_a_configured_call_that_only_reads_asks_nobody_and_any_other_does(
    tmp_path: Path, method: str, asked: int
) -> None:
    async with site({}, any_page=b"the ticket") as server:
        config = {
            "name": "ticket",
            "endpoint": f"http://127.0.0.1:{server.port}/t/${{id}}",
            "method": method,
            "args": {"id": {"type": "string"}},
            "headers": {"x-key": "k"},
        }
        batch = calls(call("ticket", id="7/8"))
        async with on_stage(tmp_path, batch, text("done"), agent=agent(type="api", api_config=config)) as stage:
            assert await allowed(stage, asked) == END
            assert len(questions(stage)) == asked and results(stage) == ["the ticket"]
            (request,) = server.requests
            assert (request[""], request["x-key"]) == (f"{method} /t/7%2F8", "k")


@pytest.mark.requirement("tools.openapi.operations")
async def test_an_operation_that_only_reads_asks_nobody_and_one_that_writes_does(tmp_path: Path) -> None:
    number = {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}
    described = {
        "openapi": "3.1.0",
        "paths": {
            "/pets/{id}": {
                "parameters": [number],
                "get": {"operationId": "getPet", "summary": "Gives one pet."},
                "delete": {"operationId": "deletePet", "summary": "Takes one pet away."},
            }
        },
    }
    async with site({"/openapi.json": json.dumps(described).encode()}, any_page=b"Rex") as server:
        toolset = agent(type="openapi", url=f"http://127.0.0.1:{server.port}/openapi.json", headers={"x-key": "k"})
        batch = calls(call("getPet", id=7), call("deletePet", id=8))
        async with on_stage(tmp_path, batch, text("done"), agent=toolset) as stage:
            assert await allowed(stage, 1) == END
            assert [question["title"] for question in questions(stage)] == ["deletePet: 8"]
            assert results(stage) == ["Rex", "Rex"]
            assert {"getPet", "deletePet"} <= listed(stage, 0)
    assert sorted((request[""], request["x-key"]) for request in server.requests) == [
        ("DELETE /pets/8", "k"),
        ("GET /openapi.json", "k"),
        ("GET /pets/7", "k"),
    ]


async def test_a_session_opens_without_the_tools_of_an_api_that_is_not_there(tmp_path: Path) -> None:
    async with site({}) as server:
        gone = f"http://127.0.0.1:{server.port}/s3cr3t/openapi.json"
    async with on_stage(tmp_path, text("done"), agent=agent(type="openapi", url=gone)) as stage:
        assert await allowed(stage, 0) == END
        (system,) = [m["content"] for m in stage.model.requests[0].messages if m["role"] == "system"]
    assert (
        "The tools of the API at 127.0.0.1 are missing in this session: its description could not be read" in system
    )
    assert "s3cr3t" not in system
