"""The envelope, the handshake and the capabilities, seen through a whole server."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import anyio
import pytest

from sluice import acp
from tests.support.model_server import Finish, Reply, Text, Wait, call, calls, text
from tests.support.setup import on_stage, scripted_agent
from tests.support.wire import serving

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

UNKNOWN = [
    "nope/x",
    "_acme/x",
    "$/unknown",
    "SESSION/LIST",
    "session/list ",
    "session/fork",
    "providers/list",
    "document/didOpen",
    "nes/start",
    "mcp/message",
]


@pytest.mark.requirement(
    "jsonrpc.dispatch.unknown-request",
    "jsonrpc.dispatch.extension-request",
    "jsonrpc.dispatch.dollar-methods",
    "jsonrpc.dispatch.exact-names",
    "jsonrpc.dispatch.unknown-notification",
    "capability-matrix.agent.not-offered",
)
async def test_unknown_requests_are_not_found_and_unknown_notifications_vanish(tmp_path: Path) -> None:
    """Field case B12: an unknown notification that is answered makes strict clients hang up."""
    async with on_stage(tmp_path) as stage:
        before = len(stage.client.log)
        for method in UNKNOWN:
            await stage.client.write({"jsonrpc": "2.0", "method": method, "params": {"a": 1}})
        for method in UNKNOWN:
            assert (await stage.client.error(method, a=1))["code"] == -32601, method
        assert len(stage.client.log) == before + len(UNKNOWN)
        advertised = json.dumps(await stage.client.initialize()).lower()
        assert not any(word in advertised for word in ("fork", "provider", "document", "nes", "acp"))


@pytest.mark.requirement("jsonrpc.id.exact-echo", "jsonrpc.robust.stray-responses", "jsonrpc.robust.survives-errors")
async def test_an_id_of_zero_and_odd_lines_around_the_handshake(tmp_path: Path) -> None:
    """Field case B12: clients number from 0, and a test for truth takes that for a notification."""
    async with serving(scripted_agent(tmp_path, {"text": "ok"}), tmp_path / "s.db") as server:
        client = server.client
        await client.raw(b"", b"\r")
        first = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 99}}
        client.checker.sent(first)
        await client.raw(json.dumps(first).encode() + b"\r")
        answer = await client.answer(0)
        assert answer["id"] == 0 and answer["result"]["protocolVersion"] == 1
        await client.raw(b"not json at all")
        assert (await client.until(lambda m: m["id"] is None))["error"]["code"] == -32700
        named = {"jsonrpc": "2.0", "id": "n-1", "method": "session/new"}
        await client.write({**named, "params": {"cwd": str(tmp_path), "mcpServers": []}})
        assert "result" in await client.until(lambda m: m.get("id") == "n-1")
        await client.raw(b'{"jsonrpc":"2.0","id":999,"result":{}}')
        bare = {"jsonrpc": "2.0", "id": 3000, "method": "session/prompt"}
        await client.write(bare)
        assert (await client.answer(3000))["error"]["code"] == -32602
        assert len((await client.result("session/list"))["sessions"]) == 1


@pytest.mark.requirement("jsonrpc.params.unknown-keys", "jsonrpc.meta.tolerated")
@pytest.mark.parametrize("meta", [None, {}, {"x": {"y": 1}}], ids=str)
async def test_unknown_keys_and_any_meta_are_taken_and_not_echoed(tmp_path: Path, meta: Any) -> None:
    async with on_stage(tmp_path, text("ok")) as stage:
        extra: Json = {"_meta": meta, "surprise": {"deep": [1]}}
        made = await stage.client.result("session/new", cwd=str(stage.cwd), mcpServers=[], **extra)
        block = {"type": "text", "text": "hi", "annotations": None, **extra}
        response = await stage.client.call("session/prompt", sessionId=stage.session, prompt=[block], **extra)
        assert response["result"] == {"stopReason": "end_turn"}
        listed = await stage.client.result("session/list", **extra)
        assert "_meta" not in made and all("_meta" not in entry for entry in listed["sessions"])


def metas(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [v for k, v in value.items() if k == "_meta"] + [m for v in value.values() for m in metas(v)]
    return [m for v in value for m in metas(v)] if isinstance(value, list) else []


@pytest.mark.requirement("jsonrpc.meta.clean-output", "message-ids.tool-name.no-carrier")
async def test_what_the_agent_sends_has_clean_metadata(tmp_path: Path) -> None:
    """The line checker refuses every key that the official models do not know; the rest is `_meta`."""
    async with on_stage(tmp_path, calls(call("think", thought="x")), text("ok")) as stage:
        await stage.client.prompt(stage.session, "go")
        await stage.client.result("session/list")
        assert all(meta is None or isinstance(meta, dict) for meta in metas(stage.client.log))
        assert "toolName" not in json.dumps(metas(stage.client.log)) and "think" not in str(metas(stage.client.log))


@pytest.mark.requirement("initialize.version.one", "initialize.agent.one-auth-method")
async def test_the_smallest_handshake_is_enough_for_a_prompt(tmp_path: Path) -> None:
    async with serving(scripted_agent(tmp_path, {"text": "ok"}), tmp_path / "s.db") as server:
        result = await server.client.result("initialize", protocolVersion=1, clientCapabilities={})
        assert result["protocolVersion"] == 1 and type(result["protocolVersion"]) is int
        assert isinstance(result["agentCapabilities"], dict) and isinstance(result["authMethods"], list)
        session = await server.client.new(tmp_path)
        assert (await server.client.prompt(session, "hi"))["result"] == {"stopReason": "end_turn"}
    async with serving(scripted_agent(tmp_path, {"text": "ok"}), tmp_path / "s.db") as server:
        result = await server.client.initialize(auth={"terminal": True}, terminal=True)
        assert [(m["id"], m.get("type", "agent")) for m in result["authMethods"]] == [("host-credentials", "agent")]


@pytest.mark.requirement("initialize.order.repeated")
async def test_a_repeated_initialize_disturbs_no_turn(tmp_path: Path) -> None:
    gate = anyio.Event()
    async with on_stage(tmp_path, Reply([Text("a"), Wait(gate), Text("b"), Finish()])) as stage:
        client = stage.client
        prompt = client.send_prompt(stage.session, "hi")
        await client.write(prompt)
        await stage.model.wait_for_call()
        first = next(m for m in client.log if "protocolVersion" in m.get("result", {}))
        again = await client.result("initialize", protocolVersion=1, clientCapabilities={"terminal": True})
        assert again == first["result"]
        gate.set()
        assert (await client.answer(prompt["id"]))["result"] == {"stopReason": "end_turn"}
        assert client.text() == "ab"


CELLS = list(product([False, True], repeat=5))
BASELINE: list[str] = []


@pytest.mark.requirement("capability-matrix.agent.fixed-in-all-cells", "capability-matrix.client.discovery-quiet")
@pytest.mark.parametrize(
    ("read", "write", "terminal", "form", "url"), CELLS, ids=["".join("-+"[on] for on in cell) for cell in CELLS]
)
async def test_the_agent_is_the_same_for_every_client_and_asks_nothing_when_a_session_opens(
    tmp_path: Path, read: bool, write: bool, terminal: bool, form: bool, url: bool
) -> None:
    elicitation: Json = {**({"form": {}} if form else {}), **({"url": {}} if url else {})}
    async with serving(scripted_agent(tmp_path, {"text": "ok"}), tmp_path / "s.db") as server:
        result = await server.client.initialize(
            fs={"readTextFile": read, "writeTextFile": write}, terminal=terminal, elicitation=elicitation
        )
        same = json.dumps([result["agentCapabilities"], result["authMethods"]])
        BASELINE.append(same)
        assert same == BASELINE[0]
        await server.client.new(tmp_path)
        asked = [m["method"] for m in server.client.log if "method" in m and "id" in m]
        assert asked == []


GATED: list[tuple[str, Json]] = [
    ("session/load", {"sessionId": "x", "cwd": "/", "mcpServers": []}),
    ("session/resume", {"sessionId": "x", "cwd": "/"}),
    ("session/list", {}),
    ("session/close", {"sessionId": "x"}),
    ("session/delete", {"sessionId": "x"}),
    ("logout", {}),
]


@pytest.mark.requirement(
    "capability-matrix.agent.unadvertised-method",
    "turn-admission.params.ungated-block",
    "client-mcp.accept.unadvertised-transport",
)
async def test_what_is_not_advertised_does_not_exist(tmp_path: Path) -> None:
    file = scripted_agent(tmp_path, {"text": "ok"})
    async with serving(file, tmp_path / "s.db", capabilities=acp.AgentCapabilities()) as server:
        client = server.client
        result = await client.initialize()
        offered = result["agentCapabilities"]
        assert not offered.get("loadSession") and not offered.get("sessionCapabilities")
        for method, params in GATED:
            assert (await client.error(method, **params))["code"] == -32601, method
        session = await client.new(tmp_path)
        blocks: list[Json] = [
            {"type": "resource", "resource": {"uri": "file:///a", "text": "x"}},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
        ]
        for block in blocks:
            error = await client.error("session/prompt", sessionId=session, prompt=[block])
            assert error["code"] == -32602 and block["type"] in error["message"]
        http = {"type": "http", "name": "h", "url": "https://example.org/mcp", "headers": []}
        error = await client.error("session/new", cwd=str(tmp_path), mcpServers=[http])
        assert error["code"] == -32602 and "http" in error["message"]
        assert (await client.prompt(session, "hi"))["result"] == {"stopReason": "end_turn"}


@pytest.mark.requirement("transport.limits.outbound-ceiling", "tool-lifecycle.interrupt.notification-failure")
async def test_a_report_that_fits_into_no_line_is_sent_without_its_details_and_the_turn_goes_on(
    tmp_path: Path,
) -> None:
    """Two megabytes of control characters are twelve as JSON: no line holds them as raw input."""
    huge = calls(call("think", thought="\x01" * (2 << 20)))
    async with on_stage(tmp_path, huge, text("ok")) as stage:
        assert (await stage.client.prompt(stage.session, "go"))["result"] == {"stopReason": "end_turn"}
        (first,) = stage.client.updates(kind="tool_call")
        assert "rawInput" not in first and first["name"] == "think"
        assert stage.client.updates(kind="tool_call_update")[-1]["status"] == "completed"
        assert stage.client.text() == "ok"


@pytest.mark.requirement("transport.limits.outbound-ceiling", "permission.answer.fail-closed")
async def test_a_call_that_is_too_large_to_be_shown_is_not_approved(tmp_path: Path) -> None:
    huge = calls(call("write_file", path="a.txt", content="\x01" * (2 << 20)))
    async with on_stage(tmp_path, huge, text("ok")) as stage:
        assert (await stage.client.prompt(stage.session, "go"))["result"] == {"stopReason": "end_turn"}
        assert [u["status"] for u in stage.client.updates() if "toolCallId" in u][-1] == "failed"
        assert not (stage.cwd / "a.txt").exists() and stage.client.text() == "ok"
