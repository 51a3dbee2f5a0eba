"""A client's stdio MCP servers in a session, over the wire, with real server processes."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from sluice import acp
from sluice.handlers import initialization
from tests.handlers.test_process import descendants, gone
from tests.handlers.test_tracing import Exported
from tests.mcp.remote import remote
from tests.mcp.test_servers import until
from tests.support.model_server import Call as ModelCall
from tests.support.model_server import ModelServer, calls, text
from tests.support.setup import agent_on, on_stage
from tests.support.wire import serving, spawned

pytestmark = pytest.mark.anyio

SERVER = """
import os, sys
from mcp.server import MCPServer
from mcp.types import ToolAnnotations
server = MCPServer("probe", log_level="ERROR")

@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def where() -> str:
    return f"{os.getcwd()} {os.environ.get('PROBE')}"

@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def hang() -> str:
    import anyio
    await anyio.sleep_forever()
    return "never"

server.run("stdio")
"""


def server_entry(directory: Path, name: str = "probe", **env: str) -> dict[str, Any]:
    script = directory / f"{name}_server.py"
    script.write_text(SERVER)
    variables = [{"name": key, "value": value} for key, value in env.items()]
    return {"name": name, "command": sys.executable, "args": [str(script)], "env": variables}


@pytest.mark.requirement(
    "client-mcp.stdio.session-cwd", "client-mcp.stdio.environment", "client-mcp.tools.supplement"
)
async def test_the_tools_of_a_client_server_work_in_a_turn(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        session = await stage.client.new(stage.cwd, mcpServers=[server_entry(tmp_path, PROBE="given")])

        def use(recorded: Any) -> Any:
            name = next(tool for tool in recorded.tools if "where" in tool)
            return calls(ModelCall(name, {}))

        stage.model.add(use, text("ok"))
        assert (await stage.client.prompt(session, "go"))["result"] == {"stopReason": "end_turn"}
        assert f"{stage.cwd} given" in stage.model.requests[1].messages[-1]["content"]
        assert {t.machine for t in stage.server.transitions} >= {"mcp"}


@pytest.mark.requirement(
    "client-mcp.setup.thirty-seconds", "session.new.failure-leaves-nothing", "client-mcp.errors.generic"
)
async def test_a_server_that_cannot_start_fails_the_setup_and_leaves_nothing(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        bad = {"name": "bad", "command": "/nowhere/server", "args": ["--secret=abc"], "env": []}
        servers = [server_entry(tmp_path), bad]
        error = await stage.client.error("session/new", cwd=str(stage.cwd), mcpServers=servers)
        assert error["code"] == -32603 and "abc" not in str(error)
        assert len((await stage.client.result("session/list"))["sessions"]) == 1
        mcp = {t.key: t.target for t in stage.server.transitions if t.machine == "mcp"}
        assert set(mcp.values()) == {"retired"}


@pytest.mark.requirement("client-mcp.accept.unadvertised-transport")
async def test_transports_that_are_not_advertised_are_a_params_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(initialization, "CAPABILITIES", acp.AgentCapabilities())
    async with on_stage(tmp_path) as stage:
        for kind in ("http", "sse"):
            entry: dict[str, Any] = {"type": kind, "name": "x", "url": "https://example.com/mcp", "headers": []}
            error = await stage.client.error("session/new", cwd=str(stage.cwd), mcpServers=[entry])
            assert error["code"] == -32602 and kind in error["message"].lower()


@pytest.mark.requirement("session.close.mcp-first", "client-mcp.life.close-stops-all")
async def test_a_call_that_hangs_in_a_server_does_not_strand_the_close_and_no_process_is_left(tmp_path: Path) -> None:
    def use(recorded: Any) -> Any:
        return calls(ModelCall(next(tool for tool in recorded.tools if "hang" in tool), {}))

    async with ModelServer([use]) as model:
        async with spawned(agent_on(tmp_path, model.base_url), tmp_path / "s.db") as server:
            client = server.client
            await client.initialize()
            session = await client.new(tmp_path, mcpServers=[server_entry(tmp_path)])
            children = descendants(server.process.pid)
            prompt = await client.send("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "x"}])
            await client.until(lambda m: "in_progress" in str(m))
            assert children and await client.result("session/close", sessionId=session) == {}
            assert (await client.answer(prompt))["result"] == {"stopReason": "cancelled"}
            await gone(children)


@pytest.mark.requirement("client-mcp.replace.failed-setup-keeps-old", "workspace.roots.invalid-leaves-state")
async def test_a_resume_replaces_the_servers_and_a_failed_one_keeps_the_old(tmp_path: Path) -> None:
    """Naively the old servers are stopped before the new ones are known to work."""
    async with on_stage(tmp_path, text("1"), text("2"), text("3")) as stage:
        client = stage.client
        session = await client.new(stage.cwd, mcpServers=[server_entry(tmp_path)])
        await client.prompt(session, "1")
        bad = [{"name": "bad", "command": "/nowhere/server", "args": [], "env": []}]
        error = await client.error("session/resume", sessionId=session, cwd=str(stage.cwd), mcpServers=bad)
        assert error["code"] == -32603
        await client.prompt(session, "2")
        await client.result("session/resume", sessionId=session, cwd=str(stage.cwd), mcpServers=[])
        await client.prompt(session, "3")
        offered = [[t for t in r.tools if "where" in t] for r in stage.model.requests]
        assert offered[0] == offered[1] != [] and offered[2] == []


def remote_entry(kind: str, url: str, name: str = "far", **headers: str) -> dict[str, Any]:
    given = [{"name": key.replace("_", "-"), "value": value} for key, value in headers.items()]
    return {"type": kind, "name": name, "url": url, "headers": given}


def use_tool(part: str, **arguments: Any) -> Any:
    def use(recorded: Any) -> Any:
        return calls(ModelCall(next(tool for tool in recorded.tools if part in tool), arguments))

    return use


LOCAL = ("127.0.0.0/8",)


@pytest.mark.requirement(
    "client-mcp.accept.three-transports",
    "client-mcp.life.not-persisted",
    "client-mcp.replace.retired-calls-fail",
    "client-mcp.life.http-delete",
)
async def test_all_three_transports_work_in_one_turn_and_nothing_of_them_is_stored(tmp_path: Path) -> None:
    with remote(tmp_path) as far:
        async with on_stage(tmp_path, allow=LOCAL) as stage:
            client = stage.client
            servers = [
                server_entry(tmp_path, KEY="s3cr3t-env"),
                remote_entry("http", far.url("/mcp?key=s3cr3t-query"), "streamed", authorization="s3cr3t-header"),
                remote_entry("sse", far.url("/sse"), "events"),
            ]
            session = await client.new(stage.cwd, mcpServers=servers)

            def use_all(recorded: Any) -> Any:
                names = [tool for tool in recorded.tools if tool.endswith(("echo_g1", "where_g1"))]
                return calls(*(ModelCall(name, {"text": name} if "echo" in name else {}) for name in names))

            stage.model.add(use_all, text("ok"))
            await client.prompt(session, "go")
            said = [m["content"] for m in stage.model.requests[1].messages if m["role"] == "tool"]
            assert len(said) == 3
            assert {"echo streamed_echo_g1", "echo events_echo_g1"} < set(said)
            # A resume replaces all of them: the names change, and what the model remembers fails.
            again = [remote_entry("http", far.url("/mcp"), "streamed")]
            await client.result("session/resume", sessionId=session, cwd=str(stage.cwd), mcpServers=again)
            assert sum(r["method"] == "DELETE" for r in far.requests) == 1
            stage.model.add(calls(ModelCall("streamed_echo_g1", {"text": "old"})), text("ok"))
            await client.prompt(session, "use the old one")
            request = stage.model.requests[-1]
            assert "There is no tool named" in request.messages[-1]["content"]
            assert "streamed_echo_g2" in request.tools and "streamed_echo_g1" not in request.tools
            await client.result("session/close", sessionId=session)
            # Opened again without servers, it has none.
            await client.result("session/resume", sessionId=session, cwd=str(stage.cwd), mcpServers=[])
            stage.model.add(text("none"))
            await client.prompt(session, "and now?")
            assert not [tool for tool in stage.model.requests[-1].tools if "echo" in tool or "where" in tool]
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("session.db*"))
    assert b"s3cr3t" not in stored and str(far.port).encode() + b"/mcp" not in stored


@pytest.mark.requirement("client-mcp.url.private-blocked", "client-mcp.errors.generic")
async def test_without_the_operators_leave_an_inside_address_fails_the_setup(tmp_path: Path) -> None:
    with remote(tmp_path) as far:
        async with on_stage(tmp_path) as stage:
            for kind, path in (("http", "/mcp"), ("sse", "/sse")):
                entry = remote_entry(kind, far.url(f"{path}?key=s3cr3t"))
                error = await stage.client.error("session/new", cwd=str(stage.cwd), mcpServers=[entry])
                assert error["code"] == -32603 and "may not be reached from here" in error["data"]["error"]
                assert "s3cr3t" not in str(error) and "127.0.0.1" not in str(error)
            assert far.requests == []


@pytest.mark.requirement("session.close.mcp-first", "client-mcp.life.close-stops-all")
@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_a_slow_answer_does_not_hold_up_the_close(tmp_path: Path, kind: str) -> None:
    marker = tmp_path / "marker"
    with remote(tmp_path) as far:
        async with on_stage(tmp_path, use_tool("far_wait", marker=str(marker)), allow=LOCAL) as stage:
            client = stage.client
            path = "/mcp" if kind == "http" else "/sse"
            session = await client.new(stage.cwd, mcpServers=[remote_entry(kind, far.url(path))])
            prompt = await client.send("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "x"}])
            await client.allow()
            await until(marker.exists)
            assert await client.result("session/close", sessionId=session) == {}
            assert (await client.answer(prompt))["result"] == {"stopReason": "cancelled"}


@pytest.mark.requirement("client-mcp.tools.grants-not-transferred")
async def test_what_was_allowed_for_ever_is_asked_again_of_a_replacement(tmp_path: Path) -> None:
    with remote(tmp_path) as far:
        entry = remote_entry("http", far.url("/mcp"))
        grow = (use_tool("far_grow", name="a1"), text("1"), use_tool("far_grow", name="a2"), text("2"))
        async with on_stage(tmp_path, *grow, use_tool("far_grow", name="a3"), text("3"), allow=LOCAL) as stage:
            client = stage.client
            session = await client.new(stage.cwd, mcpServers=[entry])
            first = await client.send("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "1"}])
            await client.allow("allow-always")
            await client.answer(first)
            await client.prompt(session, "2")  # not asked
            await client.result("session/resume", sessionId=session, cwd=str(stage.cwd), mcpServers=[entry])
            third = await client.send("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "3"}])
            await client.allow()
            await client.answer(third)


@pytest.mark.requirement("client-mcp.tools.supplement", "client-mcp.tools.global-policies")
async def test_the_files_rules_and_the_read_only_filter_hold_for_client_tools(tmp_path: Path) -> None:
    with remote(tmp_path) as far:
        entry = remote_entry("http", far.url("/mcp"))
        async with on_stage(tmp_path, text("x"), agent={"readonly": True}, allow=LOCAL) as stage:
            session = await stage.client.new(stage.cwd, mcpServers=[entry])
            await stage.client.prompt(session, "x")
            assert [tool for tool in stage.model.requests[0].tools if tool.startswith("far_")] == ["far_echo_g1"]
        denied = {"permissions": {"deny": ["far_*"]}}
        async with on_stage(tmp_path, use_tool("far_echo", text="x"), text("x"), allow=LOCAL, file=denied) as stage:
            session = await stage.client.new(stage.cwd, mcpServers=[entry])
            await stage.client.prompt(session, "x")
            assert "not allowed here" in stage.model.requests[1].messages[-1]["content"]


ENDINGS = ("close", "logout", "eof", "sigterm", "kill", "failed setup")
ODD = str(Path(__file__).parent.parent / "mcp" / "server_odd.py")


@pytest.mark.requirement("client-mcp.life.close-stops-all", "client-mcp.setup.thirty-seconds")
@pytest.mark.parametrize("ending", ENDINGS)
async def test_no_process_of_a_server_is_left(tmp_path: Path, ending: str) -> None:
    async with ModelServer([]) as model:
        async with spawned(agent_on(tmp_path, model.base_url), tmp_path / "s.db") as server:
            client = server.client
            await client.initialize()
            entry: dict[str, Any] = {"name": "odd", "command": sys.executable, "args": [ODD, "paged"], "env": []}
            session = await client.new(tmp_path, mcpServers=[entry])
            children = descendants(server.process.pid)
            assert children
            if ending == "close":
                await client.result("session/close", sessionId=session)
            elif ending == "logout":
                await client.result("logout")
            elif ending == "eof":
                await client.transport.aclose()
            elif ending == "sigterm":
                server.process.send_signal(signal.SIGTERM)
            elif ending == "kill":
                server.kill()
            else:
                bad = {"name": "bad", "command": "/nowhere/server", "args": [], "env": []}
                await client.error("session/new", cwd=str(tmp_path), mcpServers=[entry, bad])
                assert descendants(server.process.pid) == children
                await client.result("session/close", sessionId=session)
            await gone(children)


@pytest.mark.requirement("client-mcp.stdio.absolute-command", "client-mcp.accept.malformed-entry")
async def test_an_entry_that_breaks_a_rule_is_a_params_error_for_the_whole_call(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        good = {"name": "good", "command": sys.executable, "args": [ODD, "paged"], "env": []}
        for bad in (
            {"name": "bad", "command": "python3", "args": [], "env": []},
            {"name": "bad", "command": "./server", "args": [], "env": []},
            {"type": "acp", "name": "bad", "id": "x"},
            {"type": "http", "name": "bad", "url": "http://user@example.com/", "headers": []},
            {"name": "good", "command": "/bin/true", "args": [], "env": []},
        ):
            error = await stage.client.error("session/new", cwd=str(stage.cwd), mcpServers=[good, bad])
            assert error["code"] == -32602, bad
        assert not [t for t in stage.server.transitions if t.machine == "mcp"]


def configured(script: Path, **more: Any) -> dict[str, Any]:
    server = {"type": "mcp", "name": "own", "command": sys.executable, "args": [str(script)], **more}
    return {"toolsets": [server]}


@pytest.mark.requirement("tools.mcp.toolset")
async def test_a_server_of_the_agent_file_serves_its_sessions_and_ends_with_them(tmp_path: Path) -> None:
    entry = server_entry(tmp_path)
    agent = configured(Path(entry["args"][0]), tools=["where"], env={"PROBE": "from the file"})
    async with on_stage(tmp_path, use_tool("own_where"), text("ok"), agent=agent) as stage:
        await stage.client.prompt(stage.session, "go")
        assert stage.model.requests[0].tools == ["own_where"]
        assert f"{stage.cwd} from the file" in stage.model.requests[1].messages[-1]["content"]
        await stage.client.result("session/close", sessionId=stage.session)
        moves = [t.target for t in stage.server.transitions if t.machine == "mcp"]
        assert moves == ["ready", "retiring", "retired"]


async def test_a_required_server_of_the_agent_file_fails_the_setup_with_its_name(tmp_path: Path) -> None:
    agent = {"toolsets": [{"type": "mcp", "name": "own", "command": "/nowhere", "lifecycle": {"profile": "strict"}}]}
    async with (
        ModelServer([]) as model,
        serving(agent_on(tmp_path, model.base_url, agent=agent), tmp_path / "s.db") as server,
    ):
        await server.client.initialize()
        error = await server.client.error("session/new", cwd=str(tmp_path), mcpServers=[])
        assert error["code"] == -32603 and "'own'" in error["data"]["error"]


@pytest.mark.requirement("client-mcp.errors.host-only-spans")
@pytest.mark.parametrize(("kind", "path"), [("http", "/mcp"), ("sse", "/sse")])
async def test_no_span_says_more_of_a_server_than_its_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, path: str
) -> None:
    exported = Exported()
    # The SDK makes spans of its own where a program has set a provider for everybody, so these are looked at too.
    monkeypatch.setattr("mcp.shared._otel._tracer", exported.provider.get_tracer("sdk"))
    with remote(tmp_path) as far:
        async with on_stage(tmp_path, allow=LOCAL, spans=exported.spans) as stage:
            entry = remote_entry(kind, far.url(f"{path}?key=s3cr3t-query"), authorization="s3cr3t-header")
            session = await stage.client.new(stage.cwd, mcpServers=[entry])
            stage.model.add(use_tool("echo", text="x"), text("ok"))
            await stage.client.prompt(session, "go")
            wrong = remote_entry(kind, far.url("/s3cr3t-path"), authorization="s3cr3t-header")
            params = {"cwd": str(stage.cwd), "mcpServers": [wrong]}
            failed = await stage.client.answer(await stage.client.send("session/new", **params))
            assert "error" in failed
    spans = exported.finished()
    exported.provider.shutdown()
    names = {span.name for span in spans}
    assert any(name.startswith("execute_tool") for name in names) and any("tools/call" in name for name in names)
    for span in spans:
        told = span.to_json()
        assert "s3cr3t" not in told and path not in told and str(far.port) not in told, told
