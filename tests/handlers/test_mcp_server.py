"""`sluice serve mcp` as a real process, with the client of the `mcp` package: stdio and HTTP, both generations."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
import yaml
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp import MCPError
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from sluice import __version__
from tests.handlers.test_process import is_running
from tests.support.model_server import Call as ModelCall
from tests.support.model_server import ModelServer, Reply, Stall, Usage, calls, text
from tests.support.setup import agent_on, scripted_agent

pytestmark = pytest.mark.anyio

BOTH = pytest.mark.parametrize(("mode", "revision"), [("legacy", "2025-11-25"), ("auto", "2026-07-28")])
HEADERS = {"accept": "application/json, text/event-stream"}


def command(file: Path, *flags: str) -> list[str]:
    return [sys.executable, "-m", "sluice", "serve", "mcp", str(file), "-s", str(file.parent / "mcp.db"), *flags]


@asynccontextmanager
async def over_stdio(file: Path, *flags: str, mode: str = "legacy", **more: Any) -> AsyncIterator[Client]:
    program, *arguments = command(file, *flags)
    env = {key: value for key, value in os.environ.items() if not key.startswith("SLUICE_")}
    parameters = StdioServerParameters(command=program, args=arguments, env=env, cwd=file.parent)
    with (file.parent / "stderr.txt").open("a") as log, anyio.fail_after(60):
        async with Client(stdio_client(parameters, errlog=log), mode=mode, cache=None, **more) as client:
            yield client


@dataclass
class Http:
    """A server over HTTP: where it is and what it said when it started."""

    url: str
    said: list[str]
    process: subprocess.Popen[str]


@contextmanager
def over_http(file: Path, *flags: str) -> Iterator[Http]:
    flags = flags if "--listen" in flags else ("--listen", "127.0.0.1:0", *flags)
    with subprocess.Popen(
        command(file, "--http", *flags), stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, cwd=file.parent
    ) as process:
        said: list[str] = []
        assert process.stderr is not None
        try:
            for line in process.stderr:
                said.append(line.strip())
                if found := re.search(r"MCP server on (http://\S+)/mcp", line):
                    yield Http(found[1], said, process)
                    return
            raise AssertionError(said)
        finally:
            process.kill()


def rpc(method: str, number: int | None = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", **({"id": number} if number else {}), "method": method, "params": params}


def initialize(version: str) -> dict[str, Any]:
    info = {"name": "t", "version": "1"}
    return rpc("initialize", protocolVersion=version, capabilities={}, clientInfo=info)


def events(response: httpx2.Response) -> list[dict[str, Any]]:
    assert response.headers["content-type"].startswith("text/event-stream")
    blocks = [block for block in response.text.replace("\r\n", "\n").split("\n\n") if block.strip()]
    assert all(block.startswith("event: message\ndata: ") for block in blocks)
    return [json.loads(block.partition("data: ")[2]) for block in blocks]


async def respond(client: Client, message: str, tool: str = "root", **arguments: Any) -> str:
    result = await client.call_tool(tool, {"message": message, **arguments})
    assert not result.is_error, result.content
    (block,) = result.content
    assert block.type == "text" and result.structured_content == json.loads(block.text)
    assert result.structured_content is not None
    return str(result.structured_content["response"])


# --- teams


TEAM: dict[str, Any] = {
    "agents": {
        "root": {"model": "m", "description": "leads", "instruction": "Lead.", "sub_agents": ["maker"]},
        "maker": {"model": "m", "description": "makes", "instruction": "Make."},
    }
}


@pytest.mark.requirement("teams.delegate.transfer-task")
async def test_a_task_is_given_in_a_call_and_the_answer_is_that_of_the_agent_that_was_called(tmp_path: Path) -> None:
    task = calls(ModelCall("transfer_task", {"agent": "maker", "task": "Make tea."}), text="One moment.")
    async with ModelServer([task, text("Tea."), text("Done."), text("Again.")]) as model:
        async with over_stdio(agent_on(tmp_path, model.base_url, **TEAM)) as client:
            result = await client.call_tool("root", {"message": "go"})
            assert result.structured_content == {"response": "Done."} and result.meta is not None
            more = {"message": "go on", "session": result.meta["sluice/session"]}
            assert "Again." in str((await client.call_tool("root", more)).content)
        assert [m["content"] for m in model.requests[2].messages if m["role"] == "tool"] == ["Tea."]
        assert model.refusals == []


async def test_a_budget_ends_a_call(tmp_path: Path) -> None:
    """Naively only editors' sessions have one."""
    spent = text("one", usage=Usage(100, 0))
    async with ModelServer([spent]) as model:
        async with over_stdio(agent_on(tmp_path, model.base_url, budget={"max_tokens": 50})) as client:
            result = await client.call_tool("root", {"message": "go"})
            assert result.meta is not None
            more = {"message": "go on", "session": result.meta["sluice/session"]}
            refused = await client.call_tool("root", more)
            assert refused.is_error and "budget.max_tokens" in str(refused.content)


# --- standard input and output


@BOTH
@pytest.mark.requirement(
    "serve-mcp.stdio.default",
    "serve-mcp.server-info.capabilities",
    "serve-mcp.tools.input",
    "serve-mcp.tools.output",
    "serve-mcp.tools.list-metadata",
)
async def test_an_agent_is_a_tool_on_stdio_in_both_generations(tmp_path: Path, mode: str, revision: str) -> None:
    file = scripted_agent(tmp_path, {"text": "pong"}, agent={"toolsets": []})
    async with over_stdio(file, mode=mode) as client:
        assert client.protocol_version == revision
        assert client.server_info is not None
        assert (client.server_info.name, client.server_info.version) == ("sluice", __version__)
        assert client.server_capabilities.logging is not None
        assert client.server_capabilities.tools is not None and client.server_capabilities.tools.list_changed
        listed = await client.list_tools()
        (tool,) = listed.tools
        assert tool.name == "root" and tool.description == tool.title == "a test agent"
        assert list(tool.input_schema["properties"]) == ["message", "session"]
        assert tool.input_schema["required"] == ["message"] and not tool.input_schema["additionalProperties"]
        assert all(field["description"] for field in tool.input_schema["properties"].values())
        assert tool.output_schema is not None and tool.output_schema["required"] == ["response"]
        if revision == "2026-07-28":
            assert (listed.ttl_ms, listed.cache_scope) == (0, "public")
        assert await respond(client, "ping") == "pong"


@pytest.mark.requirement("serve-mcp.stdio.default")
async def test_standard_output_carries_protocol_lines_only_and_end_of_input_ends_the_process(tmp_path: Path) -> None:
    file = scripted_agent(tmp_path, {"text": "pong"})
    lines = [initialize("2025-11-25"), rpc("notifications/initialized", None), rpc("tools/list", 2)]
    process = await anyio.open_process(command(file), stderr=subprocess.DEVNULL)
    async with process:
        assert process.stdin is not None and process.stdout is not None
        said = BufferedByteReceiveStream(process.stdout)
        await process.stdin.send(b"{not json\n" + "".join(json.dumps(line) + "\n" for line in lines).encode())
        with anyio.fail_after(30):
            answers: list[dict[str, Any]] = []
            while not answers or answers[-1].get("id") != 2:
                answers.append(json.loads(await said.receive_until(b"\n", 1 << 20)))
            await process.stdin.aclose()
            assert await process.wait() == 0
    assert [answer["id"] for answer in answers if "result" in answer] == [1, 2]
    assert "ttlMs" not in answers[-1]["result"]


@pytest.mark.requirement("serve-mcp.call.fresh-session")
async def test_a_call_remembers_nothing_unless_it_names_the_session_of_an_earlier_one(tmp_path: Path) -> None:
    async with ModelServer([text("one"), text("two"), text("three")]) as model:
        file = agent_on(tmp_path, model.base_url)
        async with over_stdio(file) as client:
            first = await client.call_tool("root", {"message": "my name is Ada"})
            assert first.meta is not None
            session = first.meta["sluice/session"]
            await respond(client, "who am I?")
            assert "Ada" not in str(model.requests[1].messages)
        async with over_stdio(file) as client:  # also in another process
            assert await respond(client, "who am I?", session=session) == "three"
            said = [m["content"] for m in model.requests[2].messages if m["role"] != "system"]
            assert said == ["my name is Ada", "one", "who am I?"]
            gone = await client.call_tool("root", {"message": "x", "session": "0" * 32})
            assert gone.is_error and "no such session" in str(gone.content)


@BOTH
@pytest.mark.requirement("serve-mcp.call.after-whole-turn")
async def test_progress_is_told_to_whoever_asks_and_the_answer_comes_once(
    tmp_path: Path, mode: str, revision: str
) -> None:
    told: list[str | None] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    async with ModelServer([calls(ModelCall("think", {"thought": "hm"})), text("done"), text("again")]) as model:
        async with over_stdio(agent_on(tmp_path, model.base_url), mode=mode) as client:
            result = await client.call_tool("root", {"message": "x"}, progress_callback=note)
            assert result.structured_content == {"response": "done"}
            assert any("completed" in str(step) for step in told) and told[-1] == "answering"
            before = len(told)
            await respond(client, "silent")
            assert len(told) == before


@BOTH
@pytest.mark.requirement("serve-mcp.call.failure")
async def test_failures_are_tool_errors_and_an_empty_answer_is_a_fixed_text(
    tmp_path: Path, mode: str, revision: str
) -> None:
    async with ModelServer([Reply(status=400), text(""), text("ok")]) as model:
        async with over_stdio(agent_on(tmp_path, model.base_url), mode=mode) as client:
            assert (await client.call_tool("root", {"message": "x"})).is_error
            assert await respond(client, "x") == "The agent gave no answer."
            for bad in ({}, {"message": ""}, {"message": 1}, {"message": "x", "other": 1}):
                assert (await client.call_tool("root", bad)).is_error
            with pytest.raises(MCPError, match="Unknown tool"):
                await client.call_tool("nobody", {"message": "x"})


@BOTH
@pytest.mark.requirement("serve-mcp.call.failure")
async def test_cancelling_the_call_stops_the_turn(tmp_path: Path, mode: str, revision: str) -> None:
    async with ModelServer([Reply([Stall()])]) as model:
        async with over_stdio(agent_on(tmp_path, model.base_url), mode=mode) as client:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, "root", {"message": "x"})
                with anyio.fail_after(20):
                    await model.wait_for_call(1)
                tasks.cancel_scope.cancel()
            with anyio.fail_after(20):
                await model.wait_for_abort(1)
            model.add(text("still here"))
            assert await respond(client, "x") == "still here"


@pytest.mark.requirement("serve-mcp.tools.one-per-agent", "serve-mcp.tools.tool-name")
async def test_every_agent_is_a_tool_unless_one_is_chosen(tmp_path: Path) -> None:
    file = scripted_agent(tmp_path, {"text": "pong"})
    content = yaml.safe_load(file.read_text())
    content["agents"]["second"] = {"model": "m", "toolsets": [{"type": "shell"}]}
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    async with over_stdio(file) as client:
        root, second = (await client.list_tools()).tools
        assert (root.name, second.name, second.description) == ("root", "second", "Run the agent second.")
        # A change of the file is told, and served.
        del content["agents"]["second"]
        file.write_text(yaml.safe_dump(content, sort_keys=False))
        assert [tool.name for tool in (await client.list_tools()).tools] == ["root"]
    content["agents"]["second"] = {"model": "m", "toolsets": []}
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    async with over_stdio(file, "-a", "second", "--tool-name", "ask") as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["ask"]
        assert await respond(client, "x", tool="ask") == "pong"
    for flags, words in ((("--agent", "third"), "no agent 'third'"), (("--tool-name", "x"), "exactly one agent")):
        run = await anyio.run_process(command(file, *flags), check=False)
        assert run.returncode == 1 and words in run.stderr.decode() and run.stdout == b""


@pytest.mark.requirement("serve-mcp.tools.annotations")
async def test_hints_hold_for_an_agent_only_if_they_hold_for_all_its_tools(tmp_path: Path) -> None:
    file = scripted_agent(tmp_path, {"text": "x"})
    content = yaml.safe_load(file.read_text())
    agent = {"model": "m", "description": "d"}
    content["agents"] = {
        "bare": {**agent, "toolsets": []},
        "reader": {**agent, "toolsets": [{"type": "filesystem", "readonly": True}]},
        "shell": {**agent, "toolsets": [{"type": "shell"}]},
        # Naively only the tool that reaches the other agent counts, and that one changes nothing itself.
        "leads": {**agent, "sub_agents": ["between"]},
        "between": {**agent, "sub_agents": ["leads"], "handoffs": ["shell"]},
        "forced": {**agent, "force_handoff": "shell"},
        "harmless": {**agent, "sub_agents": ["reader"]},
    }
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    async with over_stdio(file) as client:
        hints = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}

    def of(name: str) -> tuple[Any, ...]:
        found = hints[name]
        assert found is not None and found.title == "d"
        return found.read_only_hint, found.idempotent_hint, found.destructive_hint, found.open_world_hint

    assert of("bare") == (True, True, False, False)
    assert of("reader") == (True, True, False, True)
    for changing in ("shell", "leads", "between", "forced"):
        assert of(changing)[0] is False and of(changing)[2] is True
    assert of("harmless")[0] is True and of("harmless")[2] is False


@pytest.mark.requirement("serve-mcp.safety.stdio", "permission.non-interactive.denies")
async def test_on_stdio_calls_are_approved_unless_a_mode_is_configured(tmp_path: Path) -> None:
    touch: list[dict[str, Any]] = [
        {"tool_calls": [{"name": "shell", "arguments": {"cmd": "echo ran > ran.txt"}}]},
        {"text": "done"},
    ]
    for mode, ran in ((None, True), ("strict", False), ("restricted", False)):
        place = tmp_path / str(mode)
        place.mkdir()
        file = scripted_agent(place, *touch, agent={"safety": mode} if mode else {})
        async with over_stdio(file) as client:
            await respond(client, "x")
        assert (place / "ran.txt").exists() is ran, mode


@pytest.mark.requirement("serve-mcp.flags.keepalive-stdio-only")
async def test_a_client_that_answers_pings_stays_and_one_that_does_not_counts_as_gone(tmp_path: Path) -> None:
    file = scripted_agent(tmp_path, {"text": "pong"})
    process = await anyio.open_process(command(file, "--mcp-keepalive", "1s"), stderr=subprocess.DEVNULL)
    async with process:
        assert process.stdin is not None and process.stdout is not None
        said = BufferedByteReceiveStream(process.stdout)

        async def ping() -> str:
            while True:
                message = json.loads(await said.receive_until(b"\n", 1 << 20))
                if message.get("method") == "ping":
                    return str(message["id"])

        for message in (initialize("2025-11-25"), rpc("notifications/initialized", None)):
            await process.stdin.send(json.dumps(message).encode() + b"\n")
        with anyio.fail_after(30):
            first = await ping()
            await process.stdin.send(json.dumps({"jsonrpc": "2.0", "id": first, "result": {}}).encode() + b"\n")
            assert await ping() != first
            assert await process.wait() == 0  # the second one had no answer


@pytest.mark.requirement(
    "serve-mcp.flags.http-only", "serve-mcp.flags.keepalive-stdio-only", "serve-mcp.attach.conflicts"
)
async def test_flags_that_do_not_go_together_are_usage_errors(tmp_path: Path) -> None:
    file = scripted_agent(tmp_path, {"text": "x"})
    for flags in (
        ("--auth-token", "t"),
        ("--insecure-no-auth",),
        ("--safety", "strict"),
        ("--http", "--mcp-keepalive", "1s"),
        ("--mcp-keepalive", "soon"),
        ("--http", "--attach"),
        ("--attach", "1", "--mcp-keepalive", "1s"),
        ("--attach", "1", "--auth-token", "t"),
        ("--attach", "1", "--safety", "strict"),
        ("--attach", "1", "--insecure-no-auth"),
        ("--http", "--listen", "nowhere"),
        ("--http", "--listen", "0.0.0.0:0"),
    ):
        run = await anyio.run_process(command(file, *flags), check=False)
        assert run.returncode == 2 and run.stderr.startswith(b"sluice serve mcp: ") and run.stdout == b"", flags


COUNTED = """
import atexit, sys
from sluice.cli.main import main
from sluice.config import load
real, times = load.loads, []
load.loads = lambda *given: times.append(1) or real(*given)
atexit.register(lambda: print(f"read {len(times)} times", file=sys.stderr))
sys.exit(main(sys.argv[1:]))
"""
"""The command line, which says at its end how often the agent file was parsed."""


@pytest.mark.parametrize("flags", [(), ("--http", "--listen", "127.0.0.1:0")], ids=["stdio", "http"])
async def test_the_agent_file_is_read_once_before_the_first_request(tmp_path: Path, flags: tuple[str, ...]) -> None:
    """Naively it is read for the message about a broken file, for the tools, and for the safety modes."""
    arguments = command(scripted_agent(tmp_path, {"text": "x"}), *flags)[3:]
    counted = [sys.executable, "-c", COUNTED, *arguments]
    async with await anyio.open_process(counted, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        assert process.stderr is not None
        errors = BufferedByteReceiveStream(process.stderr)
        with anyio.fail_after(30):
            if flags:
                await errors.receive_until(b"/mcp\n", 4096)
                process.send_signal(signal.SIGTERM)
            assert await errors.receive_until(b" times", 4096) == b"read 1"
            assert await process.wait() == 0


async def test_an_agent_with_a_configured_server_uses_it_and_leaves_nothing_behind(tmp_path: Path) -> None:
    odd = str(Path(__file__).parent.parent / "mcp" / "server_odd.py")
    pids = tmp_path / "pids"
    server = {"type": "mcp", "name": "odd", "command": sys.executable, "args": [odd, "plain", str(pids)]}
    use = {"tool_calls": [{"name": "odd_alpha", "arguments": {}}]}
    file = scripted_agent(tmp_path, use, {"text": "done"}, agent={"toolsets": [server]})
    async with over_stdio(file) as client:
        assert await respond(client, "x") == "done"
        assert pids.read_text() and not any(is_running(int(pid)) for pid in pids.read_text().split())


# --- HTTP


@BOTH
@pytest.mark.requirement("serve-mcp.http.listen", "serve-mcp.safety.http-default")
async def test_an_agent_is_a_tool_over_http_in_both_generations(tmp_path: Path, mode: str, revision: str) -> None:
    touch: list[dict[str, Any]] = [
        {"tool_calls": [{"name": "shell", "arguments": {"cmd": "echo ran > ran.txt"}}]},
        {"text": "pong"},
    ]
    file = scripted_agent(tmp_path, *touch)
    with over_http(file) as server:
        assert "tool root: safety restricted (the default over HTTP)" in server.said
        async with Client(streamable_http_client(f"{server.url}/mcp"), mode=mode, cache=None) as client:
            assert client.protocol_version == revision
            assert [tool.name for tool in (await client.list_tools()).tools] == ["root"]
            assert await respond(client, "x") == "pong"
    assert not (tmp_path / "ran.txt").exists()


@pytest.mark.requirement(
    "serve-mcp.http.paths",
    "serve-mcp.http.stateless-sse",
    "serve-mcp.http.version-from-server",
    "serve-mcp.http.method-table",
)
async def test_the_shape_of_every_answer_over_http(tmp_path: Path) -> None:
    with over_http(scripted_agent(tmp_path, {"text": "pong"})) as server:
        async with httpx2.AsyncClient(base_url=server.url, headers=HEADERS, timeout=30) as http:
            for path in ("/mcp", "/"):
                (answer,) = events(await http.post(path, json=initialize("2026-07-28")))
                assert answer["result"]["protocolVersion"] == "2025-11-25"
                told = await http.post(path, json=rpc("notifications/initialized", None))
                assert told.status_code == 202 and told.content == b""
                asked = await http.post(path, json=rpc("tools/call", 2, name="root", arguments={"message": "x"}))
                (answer,) = events(asked)
                assert answer["result"]["structuredContent"] == {"response": "pong"}
                assert "mcp-session-id" not in asked.headers
                for method in ("GET", "DELETE", "PUT"):
                    assert (await http.request(method, path)).status_code == 405
            params = {
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
                    "io.modelcontextprotocol/clientCapabilities": {},
                }
            }
            modern = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/list"}
            newer = await http.post("/mcp", json=rpc("tools/list", 3, **params), headers=modern)
            (answer,) = events(newer)
            assert answer["result"]["ttlMs"] == 0 and answer["result"]["cacheScope"] == "public"
            assert "mcp-session-id" not in newer.headers
            assert (await http.post("/other", json={})).status_code == 404
            assert (await http.post("/mcp", json={}, headers={"host": "evil.example"})).status_code == 421


@pytest.mark.requirement("serve-mcp.auth.bearer")
async def test_with_a_token_every_request_needs_it(tmp_path: Path) -> None:
    with over_http(
        scripted_agent(tmp_path, {"text": "x"}), "--auth-token", "s3cr3t", "--listen", "0.0.0.0:0"
    ) as server:
        url = server.url.replace("0.0.0.0", "127.0.0.1")
        async with httpx2.AsyncClient(base_url=url, headers=HEADERS, timeout=30) as http:
            for given in (
                {},
                {"authorization": "Bearer wrong"},
                {"authorization": "Basic s3cr3t"},
                {"authorization": ""},
            ):
                for method in ("POST", "GET", "DELETE"):
                    refused = await http.request(method, "/mcp", json=initialize("2025-11-25"), headers=given)
                    assert refused.status_code == 401 and refused.headers["www-authenticate"] == "Bearer"
            let_in = {"authorization": "bearer s3cr3t"}
            assert (await http.post("/mcp", json=initialize("2025-11-25"), headers=let_in)).status_code == 200
        assert "s3cr3t" not in "".join(server.said)
    with over_http(scripted_agent(tmp_path, {"text": "x"}), "--insecure-no-auth", "--listen", "0.0.0.0:0") as server:
        async with httpx2.AsyncClient(base_url=server.url.replace("0.0.0.0", "127.0.0.1"), headers=HEADERS) as http:
            assert (await http.post("/mcp", json=initialize("2025-11-25"))).status_code == 200


@pytest.mark.requirement("serve-mcp.safety.http-default")
async def test_the_safety_mode_over_http_and_where_it_comes_from(tmp_path: Path) -> None:
    agent = {"safety": "balanced"}
    for flags, keys, said in (
        (("--safety", "autonomous"), {"agent": agent}, "safety autonomous (--safety)"),
        ((), {"agent": agent, "runtime": {"safety": "strict"}}, "safety balanced (agents.root.safety)"),
        ((), {"runtime": {"safety": "strict"}}, "safety strict (runtime.safety)"),
    ):
        with over_http(scripted_agent(tmp_path, {"text": "x"}, **keys), *flags) as server:
            assert f"tool root: {said}" in server.said


@pytest.mark.requirement("serve-mcp.call.failure")
async def test_hanging_up_stops_the_turn_and_a_signal_ends_the_server(tmp_path: Path) -> None:
    async with ModelServer([Reply([Stall()]), Reply([Stall()])]) as model:
        with over_http(agent_on(tmp_path, model.base_url)) as server:
            call = rpc("tools/call", 2, name="root", arguments={"message": "x"})
            async with httpx2.AsyncClient(base_url=server.url, headers=HEADERS, timeout=30) as http:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(lambda: http.post("/mcp", json=call))
                    await model.wait_for_call(1)
                    tasks.cancel_scope.cancel()
                await model.wait_for_abort(1)
                server.process.send_signal(signal.SIGTERM)
            with anyio.fail_after(20):
                assert await anyio.to_thread.run_sync(server.process.wait) == 0


@pytest.mark.requirement("serve-mcp.docs.client-registration", "client-mcp.life.limits-documented")
def test_the_docs_say_how_to_register_and_what_is_not_promised() -> None:
    page = " ".join((Path(__file__).parents[2] / "docs" / "mcp.md").read_text(encoding="utf-8").split())
    assert "claude mcp add --transport stdio helper -- sluice serve mcp" in page
    for words in ("Use `https` when a header holds a credential", "may still go on there", "This is no sandbox"):
        assert words in page
