"""The line checker itself: it lets a clean conversation pass and finds each kind of fault."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.acp.golden_updates import UPDATES
from tests.support.lines import LineChecker, check_line

FULL = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "elicitation": {"form": {}, "url": {}},
    "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
}
INITIALIZED = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}, "authMethods": []}
CHUNK = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hi"}}


def line(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def request(number: Any, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def update(body: dict[str, Any], session_id: str = "s1") -> bytes:
    return line(method="session/update", params={"sessionId": session_id, "update": body})


def connected(capabilities: dict[str, Any] | None = None) -> LineChecker:
    checker = LineChecker()
    checker.sent(request(0, "initialize", protocolVersion=1, clientCapabilities=capabilities))
    checker.received(line(id=0, result=INITIALIZED))
    checker.sent(request(1, "session/new", cwd="/w", mcpServers=[]))
    checker.received(line(id=1, result={"sessionId": "s1"}))
    return checker


def test_a_clean_conversation_passes() -> None:
    checker = connected(FULL)
    checker.sent(request("p", "session/prompt", sessionId="s1", prompt=[{"type": "text", "text": "hi"}]))
    for _, wire in UPDATES:
        checker.received(update(wire))
    checker.received(line(**request(0, "fs/read_text_file", sessionId="s1", path="/w/a")))
    assert checker.agent_requests == {"0": "fs/read_text_file"}
    checker.sent({"jsonrpc": "2.0", "id": 0, "result": {"content": ""}})
    assert checker.agent_requests == {}
    checker.received(line(method="$/cancel_request", params={"requestId": 0}))
    assert [open_request["id"] for open_request in checker.unanswered] == ["p"]
    assert checker.received(line(id="p", result={"stopReason": "end_turn"}))["id"] == "p"
    assert checker.unanswered == []


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "no JSON"),
        (b"hello\n", "no JSON"),
        (b"\xff\n", "no JSON"),
        (b"[]\n", "no JSON object"),
        (b"{}\n", "jsonrpc"),
        (b'{"jsonrpc":"1.0"}\n', "jsonrpc"),
        (b'{"jsonrpc":"2.0","id":1,"id":2}', "given twice"),
        (b'{"jsonrpc":"2.0","id":NaN}', "NaN"),
        (b'{"jsonrpc":"2.0",\n"id":1}', "more than one line"),
        (b'{"jsonrpc":"2.0"}\n\n', "more than one line"),
        (line(id=1), "exactly one"),
        (line(id=1, result={}, error={}), "exactly one"),
        (line(id=1, result={}, extra=1), "exactly one"),
        (line(result={}), "exactly one"),
        (line(id=None, error={"code": "x", "message": "m"}), "int32"),
        (line(id=None, error={"code": True, "message": "m"}), "int32"),
        (line(id=None, error={"code": 2**31, "message": "m"}), "int32"),
        (line(id=None, error={"code": -32700, "message": ""}), "one non-empty line"),
        (line(id=None, error={"code": -32700, "message": "a\nb"}), "one non-empty line"),
        (line(id=None, error={"code": -32700, "message": "m", "x": 1}), "code, message"),
        (line(id=None, error="x"), "code, message"),
        (line(id=None, error={"code": 1, "message": "m", "data": "Traceback (most recent call last)"}), "traceback"),
        (line(id=7, result={}), "never sent"),
        (line(id=None, result={}), "never sent"),
        (line(method="session/update"), "method, params"),
        (line(method="session/update", params={}, _meta={}), "method, params"),
        (line(method="session/update", params=[]), "object"),
        (line(method="session/new", params={}), "nothing a client handles"),
        (line(method="_acme/x", params={}), "nothing a client handles"),
        (line(method="fs/read_text_file", params={}), "nothing a client handles"),
    ],
)
def test_a_faulty_envelope_is_found(raw: bytes, reason: str) -> None:
    with pytest.raises(AssertionError, match=reason):
        LineChecker().received(raw)


def test_an_error_without_an_id_answers_what_had_no_readable_id() -> None:
    check_line(line(id=None, error={"code": -32700, "message": "Parse error", "data": [1]}))


def test_an_id_is_answered_once_and_with_its_own_type() -> None:
    checker = connected()
    checker.sent(request(7, "session/list"))
    with pytest.raises(AssertionError, match="never sent"):
        checker.received(line(id="7", result={"sessions": []}))
    checker.received(line(id=7, result={"sessions": []}))
    with pytest.raises(AssertionError, match="answered twice"):
        checker.received(line(id=7, result={"sessions": []}))


def test_a_second_request_with_a_live_id_is_answered_by_the_error() -> None:
    checker = connected()
    checker.sent(request(7, "session/prompt", sessionId="s1", prompt=[]))
    checker.sent(request(7, "session/list"))
    checker.received(line(id=7, error={"code": -32600, "message": "The id is in use"}))
    checker.received(line(id=7, result={"stopReason": "end_turn"}))


@pytest.mark.parametrize(
    ("method", "result", "reason"),
    [
        ("session/prompt", {}, "SDK"),
        ("session/prompt", {"stopReason": "done"}, "SDK"),
        ("session/prompt", {"stopReason": "end_turn", "extra": 1}, "understood"),
        ("session/prompt", {"stopReason": "end_turn", "_meta": 3}, "understood"),
        ("session/list", {"sessions": [{"sessionId": "s"}]}, "SDK|understood"),
        ("session/close", None, "no object"),
        ("session/cancel", {}, "no request"),
        ("nope/x", {}, "no request"),
        ("session/set_config_option", {"configOptions": [{"type": "select", "id": "m", "name": "M",
                                                          "currentValue": "x", "options": []}]}, "not among"),
        ("session/set_config_option", {"configOptions": [{"type": "boolean", "id": "m", "name": "M",
                                                          "currentValue": True}]}, "boolean"),
        ("session/new", {"sessionId": "s2", "modes": {"currentModeId": "x", "availableModes": []}}, "not among"),
        ("session/new", {"sessionId": "s1"}, "before"),
        ("session/new", {"sessionId": ""}, "empty"),
    ],
)  # fmt: skip
def test_a_faulty_result_is_found(method: str, result: Any, reason: str) -> None:
    checker = connected()
    checker.sent(request(5, method))
    with pytest.raises(AssertionError, match=reason):
        checker.received(line(id=5, result=result))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({}, "SDK"),
        ({"sessionUpdate": "nope"}, "SDK"),
        ({**CHUNK, "extra": 1}, "understood"),
        ({**CHUNK, "_meta": []}, "understood"),
        ({**CHUNK, "content": {"type": "text", "text": ""}}, "without text"),
        ({"sessionUpdate": "tool_call", "toolCallId": "t"}, "SDK"),
        ({"sessionUpdate": "tool_call", "toolCallId": "t", "title": ""}, "empty title"),
        ({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T", "name": 3}, "name"),
        ({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T", "kind": "run"}, "SDK|understood"),
        ({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T", "locations": [{"path": "a"}]}, "absolute"),
        ({"sessionUpdate": "tool_call_update", "toolCallId": "t",
          "locations": [{"path": "/a", "line": 0}]}, "from 1"),
        ({"sessionUpdate": "tool_call_update", "toolCallId": "t",
          "content": [{"type": "diff", "path": "a", "newText": ""}]}, "absolute"),
        ({"sessionUpdate": "tool_call_update", "toolCallId": "t",
          "content": [{"type": "text", "text": "x"}]}, "SDK|understood"),
        ({"sessionUpdate": "usage_update", "used": None, "size": 1}, "SDK"),
        ({"sessionUpdate": "usage_update", "used": 0, "size": 0}, "no size"),
        ({"sessionUpdate": "current_mode_update", "modeId": "m"}, "SDK"),
        ({"sessionUpdate": "available_commands_update",
          "availableCommands": [{"name": "/x", "description": ""}]}, "slash"),
        ({"sessionUpdate": "notice", "severity": "info", "title": "t"}, "session.notices"),
        ({"sessionUpdate": "notice", "severity": "info", "title": ""}, "length"),
        ({"sessionUpdate": "notice", "severity": "info", "title": "t", "x": 1}, "do not belong"),
        ({"sessionUpdate": "compaction_update", "compactionId": "c", "status": "completed"}, "session.compaction"),
    ],
)  # fmt: skip
def test_a_faulty_update_is_found(body: dict[str, Any], reason: str) -> None:
    with pytest.raises(AssertionError, match=reason):
        connected().received(update(body))


def test_an_update_for_a_session_nobody_opened_is_found() -> None:
    checker = connected()
    with pytest.raises(AssertionError, match="neither made, loaded nor resumed"):
        checker.received(update(CHUNK, "s2"))
    checker.sent(request(5, "session/load", sessionId="s2", cwd="/w", mcpServers=[]))
    checker.received(update(CHUNK, "s2"))


@pytest.mark.requirement("capability-matrix.client.no-ungated-call")
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("fs/read_text_file", {"path": "/w/a"}),
        ("fs/write_text_file", {"path": "/w/a", "content": ""}),
        ("terminal/create", {"command": "/bin/sh"}),
        ("terminal/release", {"terminalId": "t"}),
        ("elicitation/create", {"mode": "url", "message": "m", "elicitationId": "e", "url": "https://example.org/"}),
        ("elicitation/create", {"mode": "form", "message": "m",
                                "requestedSchema": {"type": "object", "properties": {}}}),
    ],
)  # fmt: skip
def test_a_call_the_client_did_not_allow_is_found(method: str, params: dict[str, Any]) -> None:
    message = line(**request(0, method, sessionId="s1", **params))
    connected(FULL).received(message)
    with pytest.raises(AssertionError, match="the client has no"):
        connected({}).received(message)


@pytest.mark.parametrize(
    ("method", "params", "reason"),
    [
        ("fs/read_text_file", {"path": "a"}, "absolute"),
        ("fs/read_text_file", {"path": "/a", "line": 0}, "from 1"),
        ("fs/write_text_file", {"path": "a", "content": ""}, "absolute"),
        ("terminal/create", {"command": "sh", "cwd": "a"}, "absolute"),
        ("session/request_permission", {"toolCall": {"toolCallId": "t"}, "options": []}, "options"),
        ("session/request_permission", {"toolCall": {"toolCallId": "t"}, "options": [
            {"optionId": "a", "name": "A", "kind": "allow_once"},
            {"optionId": "a", "name": "B", "kind": "reject_once"}]}, "unique"),
        ("elicitation/create", {"mode": "url", "message": "m", "elicitationId": "e", "url": "https://example.org/",
                                "requestId": 1}, "exactly one|SDK|understood"),
    ],
)  # fmt: skip
def test_a_faulty_request_is_found(method: str, params: dict[str, Any], reason: str) -> None:
    with pytest.raises(AssertionError, match=reason):
        connected(FULL).received(line(**request(0, method, sessionId="s1", **params)))


def test_a_reused_request_id_and_a_stray_cancellation_are_found() -> None:
    checker = connected(FULL)
    message = line(**request(0, "terminal/kill", sessionId="s1", terminalId="t"))
    checker.received(message)
    with pytest.raises(AssertionError, match="twice at once"):
        checker.received(message)
    with pytest.raises(AssertionError, match="never sent"):
        checker.received(line(method="$/cancel_request", params={"requestId": 1}))


def test_a_repeated_initialize_does_not_change_what_live_sessions_may_use() -> None:
    checker = connected(FULL)
    checker.sent(request(9, "initialize", protocolVersion=1))
    checker.received(line(id=9, result=INITIALIZED))
    checker.received(line(**request(0, "terminal/kill", sessionId="s1", terminalId="t")))


def test_a_single_line_is_checked_against_what_was_sent() -> None:
    sent = request(1, "session/close", sessionId="s")
    assert check_line(line(id=1, result={}), sent)["result"] == {}
    check_line(update(CHUNK, "any"))
    check_line(update({"sessionUpdate": "notice", "severity": "x", "title": "t"}), capabilities=FULL)
    with pytest.raises(AssertionError):
        check_line(line(id=2, result={}), sent)


@pytest.mark.parametrize("junk", [[], 3, None, "x", {"method": "session/cancel"}, {"result": {}}])
def test_what_is_sent_without_an_id_expects_no_answer(junk: Any) -> None:
    checker = LineChecker()
    checker.sent(junk)
    assert checker.unanswered == []
