"""Params and results are decoded strictly where the protocol is strict, and an error names the field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice import acp
from sluice.wire.errors import InvalidParams, InvalidRequest, MethodNotFound, ParseError, RpcError
from tests.acp.strategies import JSON, near_params

STDIO = {"name": "s", "command": "/bin/s", "args": [], "env": []}
NEW = {"cwd": "/w", "mcpServers": []}
TEXT = {"type": "text", "text": "hi"}


def decode(method: str, params: Any, *, side: Any = "agent") -> Any:
    return acp.decode_params(method, json.dumps(params).encode(), side=side)


def refused(method: str, params: Any, *, side: Any = "agent") -> InvalidParams:
    with pytest.raises(InvalidParams) as caught:
        decode(method, params, side=side)
    error = caught.value
    assert error.code == -32602
    assert error.data is not None
    assert error.message.strip()
    assert len(error.message.splitlines()) == 1
    assert error.data["path"] in error.message
    return error


def path_of(method: str, params: Any, *, side: Any = "agent") -> str:
    data = refused(method, params, side=side).data
    assert data is not None
    return str(data["path"])


# The envelope of the params


@pytest.mark.parametrize(
    "method", ["nope/x", "session/fork", "session/update", "session/cancel", "_acme/x", "Logout"]
)
def test_a_request_the_agent_does_not_handle_is_not_found(method: str) -> None:
    with pytest.raises(MethodNotFound):
        acp.decode_params(method, b"{}")


@pytest.mark.parametrize("method", ["nope/x", "session/new", "document/didOpen", "session/update"])
def test_a_notification_the_agent_does_not_handle_is_not_found(method: str) -> None:
    with pytest.raises(MethodNotFound):
        acp.decode_notification(method, b"{}")


def test_each_side_finds_its_own_methods() -> None:
    assert isinstance(
        decode("terminal/kill", {"sessionId": "s", "terminalId": "t"}, side="client"), acp.KillTerminalRequest
    )
    with pytest.raises(MethodNotFound):
        decode("session/new", NEW, side="client")


@pytest.mark.parametrize("raw", [b"", b"null", b"{}"])
def test_missing_and_null_params_are_an_empty_object(raw: bytes) -> None:
    assert acp.decode_params("logout", raw) == acp.LogoutRequest()
    assert acp.decode_params("session/list", raw) == acp.ListSessionsRequest()
    with pytest.raises(InvalidParams):
        acp.decode_params("session/prompt", raw)


def test_params_by_position_are_invalid_params() -> None:
    assert path_of("session/list", []) == "$"
    assert path_of("session/list", [{}]) == "$"


@pytest.mark.parametrize("raw", [b"3", b'"x"', b"true", b"1.5"])
def test_scalar_params_are_an_invalid_request(raw: bytes) -> None:
    with pytest.raises(InvalidRequest):
        acp.decode_params("session/list", raw)


@pytest.mark.parametrize("raw", [b'{"cwd":"\\ud800"}', b'{"cwd":"\xff"}', b"{", b"[" * 100_000, b'{"a":' * 100_000])
def test_text_that_turns_out_to_be_no_json_is_a_parse_error(raw: bytes) -> None:
    with pytest.raises(ParseError):
        acp.decode_params("session/list", raw)


# initialize


@pytest.mark.requirement("initialize.version.malformed")
@pytest.mark.parametrize("version", ["1", 1.5, 1.0, -1, 65536, None, True, [], {}, 2**80])
def test_a_protocol_version_that_is_no_uint16_is_invalid(version: Any) -> None:
    assert path_of("initialize", {"protocolVersion": version}) == "$.protocolVersion"


@pytest.mark.requirement("initialize.version.malformed")
def test_a_missing_protocol_version_is_invalid() -> None:
    assert path_of("initialize", {}) == "$.protocolVersion"


@pytest.mark.requirement("initialize.version.newer-requested", "initialize.version.zero")
@pytest.mark.parametrize("version", [0, 1, 2, 7, 65535])
def test_every_uint16_is_a_version_even_with_fields_of_a_newer_protocol(version: int) -> None:
    request = decode("initialize", {"protocolVersion": version, "info": {"name": "x"}, "capabilities": {}})
    assert request.protocol_version == version
    assert request.capabilities == acp.ClientCapabilities()


@pytest.mark.requirement("initialize.client.missing-capabilities")
@pytest.mark.parametrize("value", [None, {}, 3, "x", [], True, {"fs": 3}, {"terminal": "yes"}])
def test_no_client_capabilities_fail_initialize(value: Any) -> None:
    request = decode("initialize", {"protocolVersion": 1, "clientCapabilities": value})
    assert request.capabilities == acp.ClientCapabilities()


def test_capabilities_are_seen_through_the_request() -> None:
    request = decode(
        "initialize", {"protocolVersion": 1, "clientCapabilities": {"fs": {"readTextFile": True}, "x": 1}}
    )
    assert request.capabilities == acp.ClientCapabilities(fs_read=True)


@pytest.mark.parametrize("value", [None, 3, {}, {"name": "x"}, {"name": 1, "version": "1"}])
def test_a_client_nobody_can_name_may_connect(value: Any) -> None:
    assert decode("initialize", {"protocolVersion": 1, "clientInfo": value}).client_info is None


# Session set-up


@pytest.mark.requirement("session.new.cwd-required")
@pytest.mark.parametrize("method", ["session/new", "session/load", "session/resume"])
@pytest.mark.parametrize("cwd", [None, "", "rel", "./x", "~", "~/x", "C:\\x", 3, ["/w"], "/a\0b", " /w"])
def test_a_cwd_that_is_no_absolute_path_is_invalid(method: str, cwd: Any) -> None:
    assert path_of(method, {**NEW, "sessionId": "s", "cwd": cwd}) == "$.cwd"


@pytest.mark.requirement("session.new.cwd-required")
def test_a_missing_cwd_is_invalid() -> None:
    assert path_of("session/new", {"mcpServers": []}) == "$.cwd"


@pytest.mark.requirement("session.new.mcp-list-required")
def test_a_new_session_needs_a_list_of_servers_but_null_will_do() -> None:
    assert path_of("session/new", {"cwd": "/w"}) == "$.mcpServers"
    assert decode("session/new", {"cwd": "/w", "mcpServers": None}).mcp_servers == []


@pytest.mark.parametrize("extra", [{}, {"mcpServers": None}])
def test_a_load_needs_a_list_of_servers_and_a_resume_does_not(extra: dict[str, Any]) -> None:
    base = {"sessionId": "s", "cwd": "/w", **extra}
    assert path_of("session/load", base) == "$.mcpServers"
    assert decode("session/resume", base).mcp_servers == ()


@pytest.mark.requirement("session.new.extra-roots-optional")
@pytest.mark.parametrize("extra", [{}, {"additionalDirectories": None}, {"additionalDirectories": []}])
def test_no_extra_roots_are_no_extra_roots(extra: dict[str, Any]) -> None:
    assert list(decode("session/new", {**NEW, **extra}).additional_directories) == []


@pytest.mark.requirement("session.new.extra-roots-invalid")
@pytest.mark.parametrize(
    ("roots", "path"),
    [
        (["rel"], "[0]"),
        (["/a", ""], "[1]"),
        ([3], "[0]"),
        ([None], "[0]"),
        ("x", ""),
        ({"a": 1}, ""),
        (["/a", "~"], "[1]"),
    ],
)
def test_an_extra_root_that_is_no_absolute_path_is_invalid(roots: Any, path: str) -> None:
    assert path_of("session/new", {**NEW, "additionalDirectories": roots}) == f"$.additionalDirectories{path}"


@pytest.mark.requirement("session.new.extra-roots-invalid")
def test_extra_roots_keep_their_order_and_may_repeat() -> None:
    roots = ["/b", "/a", "/b"]
    assert decode("session/new", {**NEW, "additionalDirectories": roots}).additional_directories == roots


@pytest.mark.parametrize("cwd", ["", "rel", "~", 3])
def test_a_list_is_filtered_by_an_absolute_path_only(cwd: Any) -> None:
    assert path_of("session/list", {"cwd": cwd}) == "$.cwd"


def test_a_cursor_is_a_string() -> None:
    assert path_of("session/list", {"cursor": 3}) == "$.cursor"
    assert decode("session/list", {"cursor": None, "cwd": None}) == acp.ListSessionsRequest()


def test_a_delete_names_a_session() -> None:
    assert path_of("session/delete", {"sessionId": ""}) == "$.sessionId"
    assert decode("session/delete", {"sessionId": "x"}).session_id == "x"


@pytest.mark.requirement("turn-admission.params.session-id")
@pytest.mark.parametrize(
    "method",
    ["session/prompt", "session/close", "session/delete", "session/load", "session/resume", "session/set_mode"],
)
@pytest.mark.parametrize("params", [{}, {"sessionId": None}, {"sessionId": 3}, {"sessionId": ["s"]}])
def test_a_session_id_is_a_string(method: str, params: dict[str, Any]) -> None:
    full = {"cwd": "/w", "mcpServers": [], "prompt": [TEXT], "modeId": "m", **params}
    assert path_of(method, full) == "$.sessionId"


# Prompts


@pytest.mark.requirement("turn-admission.params.blocks")
@pytest.mark.parametrize(
    ("prompt", "path"),
    [
        (None, "$.prompt"),
        ("hi", "$.prompt"),
        ({}, "$.prompt"),
        ([], "$.prompt"),
        ([3], "$.prompt[0]"),
        ([None], "$.prompt[0]"),
        ([{"text": "hi"}], "$.prompt[0].type"),
        ([TEXT, {"type": "video"}], "$.prompt[1].type"),
        ([{"type": 3}], "$.prompt[0].type"),
        ([{"type": "text"}], "$.prompt[0].text"),
        ([{"type": "text", "text": None}], "$.prompt[0].text"),
        ([{"type": "image", "data": "AA=="}], "$.prompt[0].mimeType"),
        ([{"type": "resource", "resource": {"uri": "x"}}], "$.prompt[0].resource"),
        ([{"type": "resource", "resource": {"uri": "x", "text": 3}}], "$.prompt[0].resource.text"),
        ([{"type": "resource", "resource": "x"}], "$.prompt[0].resource"),
    ],
    ids=json.dumps,
)
def test_a_prompt_is_a_list_of_known_blocks(prompt: Any, path: str) -> None:
    assert path_of("session/prompt", {"sessionId": "s", "prompt": prompt}) == path


def test_nulls_of_optional_fields_are_tolerated() -> None:
    block = {"type": "text", "text": "hi", "annotations": None, "_meta": None, "field_meta": None}
    link = {"type": "resource_link", "uri": "", "name": "x", "title": None, "size": None, "mimeType": None}
    assert len(decode("session/prompt", {"sessionId": "s", "prompt": [block, link]}).prompt) == 2


# Modes and config options


@pytest.mark.requirement("config-options.set.rejects")
@pytest.mark.parametrize("value", [3, None, 1.5, [], {}, ["default"]])
def test_the_value_of_an_option_is_a_string_or_a_boolean(value: Any) -> None:
    params = {"sessionId": "s", "configId": "model", "value": value}
    assert path_of("session/set_config_option", params) == "$.value"


def test_an_option_needs_a_value() -> None:
    assert path_of("session/set_config_option", {"sessionId": "s", "configId": "model"}) == "$.value"


def test_the_boolean_form_is_decoded_so_that_it_can_be_refused_by_option() -> None:
    params = {"sessionId": "s", "configId": "model", "type": "boolean", "value": True}
    request = decode("session/set_config_option", params)
    assert (request.value, request.type) == (True, "boolean")


@pytest.mark.requirement("config-options.set.stray-type")
@pytest.mark.parametrize("kind", ["id", "select", "", "_x"])
def test_a_stray_type_does_not_matter_to_a_string_value(kind: str) -> None:
    params = {"sessionId": "s", "configId": "model", "type": kind, "value": "default"}
    assert decode("session/set_config_option", params).value == "default"


# Notifications


@pytest.mark.parametrize("request_id", [0, -3, 7, "7", "", None, 9007199254740993])
def test_a_cancelled_request_id_keeps_its_type(request_id: Any) -> None:
    raw = json.dumps({"requestId": request_id}).encode()
    assert acp.decode_notification("$/cancel_request", raw) == acp.CancelRequestNotification(request_id)


@pytest.mark.parametrize("params", [{}, {"requestId": 1.5}, {"requestId": True}, {"requestId": {}}, []])
def test_a_cancelled_request_id_that_is_none_is_invalid(params: Any) -> None:
    with pytest.raises(InvalidParams):
        acp.decode_notification("$/cancel_request", json.dumps(params).encode())


def test_a_cancel_with_stray_keys_is_understood() -> None:
    raw = b'{"sessionId":"s","reason":null,"field_meta":null}'
    assert acp.decode_notification("session/cancel", raw) == acp.CancelNotification("s")


# Nothing else ever escapes


def only_rpc_errors(method: str, raw: bytes) -> None:
    row = acp.METHODS[method]
    decoder = acp.decode_params if row.kind == "request" else acp.decode_notification
    try:
        decoder(method, raw, side="client" if row.receiver == "client" else "agent")
    except RpcError as error:
        assert len(error.message.splitlines()) == 1
        json.dumps(error.data)


@given(st.sampled_from(sorted(acp.METHODS)), JSON)
def test_any_json_is_decoded_or_refused(method: str, params: Any) -> None:
    only_rpc_errors(method, json.dumps(params).encode())


@given(near_params())
def test_params_with_one_wrong_place_are_decoded_or_refused(found: tuple[str, Any]) -> None:
    method, params = found
    only_rpc_errors(method, json.dumps(params, ensure_ascii=False).encode("utf-8", "surrogatepass"))


@given(st.sampled_from(sorted(acp.METHODS)), st.binary(max_size=40))
def test_any_bytes_are_decoded_or_refused(method: str, raw: bytes) -> None:
    only_rpc_errors(method, raw)


def test_a_reason_quotes_no_more_than_a_line() -> None:
    error = refused("session/prompt", {"sessionId": "s", "prompt": [{"type": "x\ny" * 5000}]})
    assert len(error.message) < 400
