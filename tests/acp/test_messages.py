"""Every message is exactly its JSON, both ways, and the official SDK agrees."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sluice import acp
from sluice.acp.base import convert
from tests.acp.golden_params import PARAMS
from tests.acp.golden_results import RESULTS
from tests.acp.golden_updates import UPDATES
from tests.support.lines import sdk_model, validate_params, validate_result

PARAM_IDS = [f"{method}-{number}" for number, (method, _, _) in enumerate(PARAMS)]
RESULT_IDS = [f"{method}-{number}" for number, (method, _, _) in enumerate(RESULTS)]

NEWER = ("notice", "compaction_update", "compaction_summary_chunk")
OLDER = [row for row in PARAMS if row[2].get("update", {}).get("sessionUpdate") not in NEWER]


def decode(method: str, wire: dict[str, Any]) -> Any:
    row = acp.METHODS[method]
    decoder = acp.decode_params if row.kind == "request" else acp.decode_notification
    return decoder(method, json.dumps(wire).encode(), side="client" if row.receiver == "client" else "agent")


@pytest.mark.parametrize(("method", "message", "wire"), PARAMS, ids=PARAM_IDS)
def test_params_are_encoded_as_their_golden_json(method: str, message: Any, wire: dict[str, Any]) -> None:
    assert json.loads(acp.encode(message)) == wire


@pytest.mark.parametrize(("method", "message", "wire"), PARAMS, ids=PARAM_IDS)
def test_params_come_back_from_their_golden_json(method: str, message: Any, wire: dict[str, Any]) -> None:
    decoded = decode(method, wire)
    assert type(decoded) is type(message)
    assert json.loads(acp.encode(decoded)) == wire


@pytest.mark.parametrize(("method", "message", "wire"), PARAMS, ids=PARAM_IDS)
def test_the_sdk_reads_our_params_in_full(method: str, message: Any, wire: dict[str, Any]) -> None:
    validate_params(method, json.loads(acp.encode(message)))


@pytest.mark.parametrize(("method", "message", "wire"), RESULTS, ids=RESULT_IDS)
def test_results_are_encoded_as_their_golden_json(method: str, message: Any, wire: dict[str, Any]) -> None:
    assert json.loads(acp.encode(message)) == wire


@pytest.mark.parametrize(("method", "message", "wire"), RESULTS, ids=RESULT_IDS)
def test_results_come_back_from_their_golden_json(method: str, message: Any, wire: dict[str, Any]) -> None:
    decoded = acp.decode_result(method, wire)
    assert type(decoded) is type(message)
    assert json.loads(acp.encode(decoded)) == wire


@pytest.mark.parametrize(("method", "message", "wire"), RESULTS, ids=RESULT_IDS)
def test_the_sdk_reads_our_results_in_full(method: str, message: Any, wire: dict[str, Any]) -> None:
    validate_result(method, json.loads(acp.encode(message)))


@pytest.mark.parametrize(("method", "message", "wire"), OLDER)
def test_params_as_the_sdk_spells_them_out_mean_the_same(method: str, message: Any, wire: dict[str, Any]) -> None:
    adapter = sdk_model("params", method)
    spelled_out = adapter.dump_python(adapter.validate_python(wire), mode="json", by_alias=True)
    decoded = decode(method, spelled_out)
    assert type(decoded) is type(message)
    if method != "initialize":
        ours = json.loads(acp.encode(decode(method, without_nulls(spelled_out))))
        assert without_nulls(json.loads(acp.encode(decoded))) == without_nulls(ours)


@pytest.mark.parametrize(("method", "message", "wire"), RESULTS, ids=RESULT_IDS)
def test_results_as_the_sdk_spells_them_out_mean_the_same(method: str, message: Any, wire: dict[str, Any]) -> None:
    adapter = sdk_model("result", method)
    spelled_out = adapter.dump_python(adapter.validate_python(wire), mode="json", by_alias=True)
    decoded = acp.decode_result(method, spelled_out)
    assert type(decoded) is type(message)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def test_the_goldens_cover_every_method_and_every_update() -> None:
    assert {method for method, _, _ in PARAMS} == set(acp.METHODS)
    assert {method for method, _, _ in RESULTS} == {row.name for row in acp.METHODS.values() if row.result}
    tags = {wire["sessionUpdate"] for _, wire in UPDATES}
    assert tags == {member.__struct_config__.tag for member in acp.SessionUpdate.__args__}


@pytest.mark.requirement("initialize.client.unknown-capabilities")
@pytest.mark.parametrize("meta", [None, {}, {"x": {"y": [1, None]}}])
@pytest.mark.parametrize(("method", "message", "wire"), PARAMS, ids=PARAM_IDS)
def test_unknown_keys_and_any_meta_are_tolerated_at_every_depth(
    method: str, message: Any, wire: dict[str, Any], meta: Any
) -> None:
    decoded = decode(method, sprinkle(wire, meta))
    assert type(decoded) is type(message)


def sprinkle(value: Any, meta: Any) -> Any:
    if isinstance(value, dict):
        if "properties" in value:
            return {**value, "_meta": meta}
        return {**{key: sprinkle(item, meta) for key, item in value.items()}, "_meta": meta, "vendor_key": [None]}
    if isinstance(value, list):
        return [sprinkle(item, meta) for item in value]
    return value


@pytest.mark.parametrize(
    ("kind", "tag"), [(acp.AgentMessageChunk, "agent_message_chunk"), (acp.AgentThoughtChunk, "agent_thought_chunk")]
)
def test_a_text_chunk_is_a_complete_update(kind: type[acp.ContentChunk], tag: str) -> None:
    params = acp.text_chunk("s1", "é\n", kind=kind, message_id="m", meta={"traceparent": "t"})
    assert json.loads(acp.encode(params)) == {
        "sessionId": "s1",
        "update": {"sessionUpdate": tag, "content": {"type": "text", "text": "é\n"}, "messageId": "m"},
        "_meta": {"traceparent": "t"},
    }
    assert b"\n" not in acp.encode(params)


def test_messages_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        acp.TextContent("a").text = "b"  # type: ignore[misc]  # the very thing that must fail


def test_a_stdio_server_has_no_type_on_the_wire() -> None:
    wire = json.loads(acp.encode(acp.McpServerStdio("s", "/bin/s", [], [])))
    assert wire == {"name": "s", "command": "/bin/s", "args": [], "env": []}


def test_a_base_of_a_union_decodes_only_objects() -> None:
    with pytest.raises(ValueError, match="Expected `object`"):
        convert(3, acp.McpServer)
