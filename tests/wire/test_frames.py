"""What one line is, and how ours are written."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.wire.errors import BackendError, InvalidRequest, ParseError, RpcError
from sluice.wire.frames import (
    FrameTooLarge,
    Malformed,
    Notification,
    Request,
    Response,
    decode,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
    id_key,
)

LIMIT = 10 * 1024 * 1024


def refused(line: bytes, kind: type[RpcError], id: bytes | None = b"null") -> str:
    message = decode(line)
    assert isinstance(message, Malformed), message
    assert type(message.error) is kind
    assert message.id == id
    return message.error.message


def request(id: str, method: str = '"m"', rest: str = "") -> bytes:
    return f'{{"jsonrpc":"2.0","id":{id},"method":{method}{rest}}}'.encode()


def test_a_request_keeps_its_parts() -> None:
    message = decode(request("1", rest=', "params" : {"a" : [1, 2.50]} , "extra": true'))
    assert message == Request(b"1", ("number", 1), "m", b'{"a" : [1, 2.50]}')


def test_members_may_come_in_any_order_with_blanks_and_escapes() -> None:
    line = b' { "\\u006dethod" : "a\\u002fb" , "id" : 3 , "jsonrpc" : "\\u0032.0" }\t'
    assert decode(line) == Request(b"3", ("number", 3), "a/b", b"")


def test_a_call_without_id_is_a_notification() -> None:
    assert decode(b'{"jsonrpc":"2.0","method":"n","params":[1]}') == Notification("n", b"[1]")


@pytest.mark.requirement("jsonrpc.params.absent")
@pytest.mark.parametrize("rest", ["", ',"params":null'])
def test_absent_and_null_params_are_the_same(rest: str) -> None:
    message = decode(request("1", rest=rest))
    assert isinstance(message, Request)
    assert message.params == b""


@pytest.mark.requirement("jsonrpc.params.shape")
@pytest.mark.parametrize("params", ["1", '"x"', "true", "-1.5"])
def test_scalar_params_are_an_invalid_request(params: str) -> None:
    refused(request("5", rest=f',"params":{params}'), InvalidRequest, b"5")


@pytest.mark.requirement("jsonrpc.id.exact-echo")
@pytest.mark.parametrize(
    "id", ["7", '"7"', '"a-b"', "0", "-3", "9007199254740993", '""', "123456789012345678901", '"\\u00e9"']
)
def test_the_id_is_kept_as_it_was_written(id: str) -> None:
    message = decode(request(id))
    assert isinstance(message, Request)
    assert message.id == id.encode()
    assert encode_result(message.id, {}) == f'{{"jsonrpc":"2.0","id":{id},"result":{{}}}}\n'.encode()


@pytest.mark.requirement("jsonrpc.id.exact-echo")
def test_a_number_and_a_string_are_different_ids() -> None:
    assert id_key(b"7") != id_key(b'"7"')
    assert id_key(b'"a"') == id_key(b'"\\u0061"')
    assert id_key(b"null") != id_key(b'"null"')


@pytest.mark.requirement("jsonrpc.id.null-is-request")
def test_a_null_id_makes_a_request() -> None:
    message = decode(request("null"))
    assert isinstance(message, Request)
    assert message.id == b"null"


@pytest.mark.requirement("jsonrpc.id.bad-type")
@pytest.mark.parametrize("id", ["{}", "[]", "true", "false", "[1]", '{"a":1}'])
def test_ids_of_other_types_are_refused(id: str) -> None:
    refused(request(id), InvalidRequest)


@pytest.mark.requirement("jsonrpc.id.fractional")
@pytest.mark.parametrize("id", ["1.5", "-0.1", "1e-1", "1e999", "1e30"])
def test_fractional_ids_and_those_that_floats_cannot_hold_are_refused(id: str) -> None:
    refused(request(id), InvalidRequest)


@pytest.mark.requirement("jsonrpc.id.integral-float")
@pytest.mark.parametrize("id", ["1.0", "1e0", "10E-1", "-2.00"])
def test_integral_floats_are_echoed_in_their_own_form(id: str) -> None:
    message = decode(request(id))
    assert isinstance(message, Request)
    assert message.id == id.encode()
    assert message.key == ("number", int(float(id)))


def test_an_endless_id_is_refused() -> None:
    refused(request('"' + "x" * 2000 + '"'), InvalidRequest)
    refused(request("1" * 5000), InvalidRequest)


@pytest.mark.requirement("jsonrpc.envelope.bad-method-member")
@pytest.mark.parametrize("method", ["7", '""', "null", "[]", "{}", "true"])
def test_a_method_that_is_no_name_is_refused_under_the_readable_id(method: str) -> None:
    refused(request("5", method), InvalidRequest, b"5")
    refused(request('"x"', method), InvalidRequest, b'"x"')
    refused(f'{{"jsonrpc":"2.0","method":{method}}}'.encode(), InvalidRequest)


@pytest.mark.requirement("jsonrpc.envelope.version-member")
@pytest.mark.parametrize("version", ['"jsonrpc":"1.0",', '"jsonrpc":2.0,', '"jsonrpc":null,', ""])
def test_a_wrong_or_missing_version_is_refused_under_the_readable_id(version: str) -> None:
    refused(f'{{{version}"id":5,"method":"m"}}'.encode(), InvalidRequest, b"5")


@pytest.mark.requirement("jsonrpc.dispatch.notification-silent")
@pytest.mark.parametrize("line", [b'{"method":"n"}', b'{"jsonrpc":"2.0","method":"n","params":7}'])
def test_a_broken_notification_has_no_id_to_answer_under(line: bytes) -> None:
    refused(line, InvalidRequest, None)


@pytest.mark.requirement("jsonrpc.envelope.not-a-request")
@pytest.mark.parametrize(
    "line", [b'{"foo":1}', b"{}", b"1", b'"x"', b"null", b"true", b'{"jsonrpc":"2.0","params":{}}']
)
def test_json_that_is_no_call_is_an_invalid_request(line: bytes) -> None:
    refused(line, InvalidRequest)


@pytest.mark.requirement("jsonrpc.batch.empty", "jsonrpc.batch.refused")
@pytest.mark.parametrize("line", [b"[]", b" [ ] ", b"[1,2]", b"[" + request("1") + b"," + request("2") + b"]"])
def test_batches_are_refused_whole(line: bytes) -> None:
    assert refused(line, InvalidRequest) == "Batches are not supported."


@pytest.mark.requirement("jsonrpc.envelope.parse-error", "transport.limits.strict-json")
@pytest.mark.parametrize(
    "line",
    [
        b'{"id":1,',
        b"nonsense",
        b"[1,",
        b'"open',
        b"{'jsonrpc':'2.0'}",
        b'{"jsonrpc":"2.0","id":1,"method":"m",}',
        b'{"jsonrpc":"2.0","id":1,"method":"m"} // note',
        b'/* note */ {"jsonrpc":"2.0","id":1,"method":"m"}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":NaN}}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":-Infinity}}',
        b'{"jsonrpc":"2.0","id":NaN,"method":"m"}',
        b'{"jsonrpc":"2.0","id":01,"method":"m"}',
        b"{}{}",
        b"NaN",
        b'{"jsonrpc":"2.0","id":1,"method":"a\tb"}',
        b"\x00",
    ],
)
def test_what_is_not_json_is_a_parse_error(line: bytes) -> None:
    refused(line, ParseError)


@pytest.mark.requirement("transport.framing.leading-bom")
def test_a_byte_order_mark_inside_the_stream_is_a_parse_error() -> None:
    refused(b"\xef\xbb\xbf" + request("1"), ParseError)


@pytest.mark.requirement("transport.framing.invalid-utf8")
@pytest.mark.parametrize("bad", [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xe2\x82"])
def test_broken_utf8_is_a_parse_error_wherever_it_stands(bad: bytes) -> None:
    refused(b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"' + bad + b'"}}', ParseError)
    refused(b'{"jsonrpc":"2.0","id":1,"method":"m","x":"' + bad + b'"}', ParseError)
    refused(bad, ParseError)


@pytest.mark.requirement("transport.limits.deep-nesting")
@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("before", [b"", b'{"jsonrpc":"2.0","id":1,"method":"m","params":', b'{"id":'])
@pytest.mark.parametrize("bracket", [b"[]", b'{"a":}'])
def test_very_deep_nesting_is_an_error_and_no_crash(before: bytes, bracket: bytes, closed: bool) -> None:
    opening, closing = bracket[:-1], bracket[-1:]
    line = before + opening * 200_000
    if closed:
        line += b"1" + closing * 200_000 + (b"}" if before else b"")
    refused(line, ParseError)


@pytest.mark.requirement("transport.framing.lone-surrogate")
@pytest.mark.parametrize(
    ("text", "read"),
    [
        (r"\ud800", "\ufffd"),
        (r"a\uD83Db", "a\ufffdb"),
        (r"\ude00", "\ufffd"),
        (r"\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        (r"\ud83d\u0041", "\ufffdA"),
        (r"\\ud800 \ud800", "\\ud800 \ufffd"),
        (r"\\\ud800", "\\\ufffd"),
        (r"\ude00\ud83d", "\ufffd\ufffd"),
        (r"\ud83d\\ude00", "\ufffd\\ude00"),
    ],
)
def test_a_lone_surrogate_is_read_as_the_replacement_character(text: str, read: str) -> None:
    message = decode(request("1", rest=f',"params":{{"text":"{text}"}}'))
    assert isinstance(message, Request)
    assert json.loads(message.params) == {"text": read}


@pytest.mark.requirement("transport.framing.lone-surrogate")
def test_an_id_with_a_lone_surrogate_is_refused_because_it_could_not_be_echoed() -> None:
    refused(request(r'"\ud800"'), InvalidRequest)


def test_a_lone_surrogate_outside_an_object_gets_the_same_answer_as_any_other_value() -> None:
    refused(rb'"\ud800"', InvalidRequest)
    assert refused(rb'["\ud800"]', InvalidRequest) == "Batches are not supported."


def test_responses_are_told_from_calls() -> None:
    assert decode(b'{"jsonrpc":"2.0","id":1,"result":null}') == Response(("number", 1), b"null", None)
    assert decode(b'{"id":"1","error":{"code":1}}') == Response(("string", "1"), None, b'{"code":1}')
    assert decode(b'{"id":[],"result":1,"error":2}') == Response(None, b"1", b"2")
    assert decode(b'{"error":{}}') == Response(None, None, b"{}")


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
members = st.dictionaries(
    st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "x"]),
    json_values | st.sampled_from(["2.0", "m", 1, "a", {}]),
)
almost_json = members.map(lambda value: json.dumps(value).encode())
edits = st.lists(st.tuples(st.integers(0, 200), st.binary(max_size=3), st.integers(0, 3)), max_size=3)


def edited(line: bytes, changes: list[tuple[int, bytes, int]]) -> bytes:
    for at, new, removed in changes:
        line = line[:at] + new + line[at + removed :]
    return line


def strict_json(line: bytes) -> bool:
    def reject(name: str) -> None:
        raise ValueError(name)

    try:
        json.loads(line.decode(), parse_constant=reject)
    except ValueError:
        return False
    return True


@pytest.mark.requirement("transport.limits.strict-json")
@given(line=st.builds(edited, almost_json, edits) | st.binary())
def test_decode_never_raises_and_calls_parse_error_exactly_what_is_not_json(line: bytes) -> None:
    message = decode(line)
    broken = isinstance(message, Malformed) and isinstance(message.error, ParseError)
    # The standard library takes a byte-order mark for text; everything else it judges as we do.
    assert broken != strict_json(line)


@given(value=members)
def test_what_decode_takes_for_a_request_is_one(value: dict[str, Any]) -> None:
    message = decode(json.dumps(value).encode())
    if isinstance(message, Request):
        assert value["jsonrpc"] == "2.0"
        assert json.loads(message.id) == value["id"]
        assert message.method
    elif isinstance(message, Notification):
        assert "id" not in value
    elif isinstance(message, Response):
        assert "method" not in value


class Update(msgspec.Struct, rename="camel", omit_defaults=True):
    some_text: str
    raw: msgspec.Raw = msgspec.Raw(b"{}")


def one_line(frame: bytes) -> Any:
    assert frame.endswith(b"\n")
    assert frame.count(b"\n") == 1
    message = json.loads(frame.decode("utf-8"), parse_constant=lambda name: pytest.fail(name))
    assert message["jsonrpc"] == "2.0"
    return message


@pytest.mark.requirement("jsonrpc.envelope.result-xor-error")
def test_a_result_is_present_even_when_it_is_empty() -> None:
    assert one_line(encode_result(b"1", None)) == {"jsonrpc": "2.0", "id": 1, "result": None}
    assert one_line(encode_result(b"1", {})) == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_params_may_be_a_struct_plain_data_raw_json_or_nothing() -> None:
    assert one_line(encode_notification("n", Update("x")))["params"] == {"someText": "x"}
    assert one_line(encode_notification("n", {"a": [1]}))["params"] == {"a": [1]}
    assert one_line(encode_notification("n", msgspec.Raw(b'{"a":1}')))["params"] == {"a": 1}
    assert "params" not in one_line(encode_notification("n", None))
    assert one_line(encode_request(3, "m", {})) == {"jsonrpc": "2.0", "id": 3, "method": "m", "params": {}}


@pytest.mark.requirement("transport.framing.lf-delimits")
def test_line_ends_inside_strings_and_raw_json_never_end_our_line() -> None:
    text = "a\nb\r\nc\u2028d\u2029e\u0085f\x0bg\x1ch"
    assert one_line(encode_notification("n", {"t": text}))["params"]["t"] == text
    assert one_line(encode_result(b"1", msgspec.Raw(b'{\n "a":\n 1}')))["result"] == {"a": 1}


@pytest.mark.requirement("transport.framing.lone-surrogate", "transport.framing.utf8-always")
def test_a_lone_surrogate_is_written_as_the_replacement_character() -> None:
    params = {"text": "a\ud800b", "list": ["\ud83d\ude00", Update("\udfff", msgspec.Raw(b'{"k":1}'))], "\ud801": 1}
    assert one_line(encode_notification("n", params))["params"] == {
        "text": "a\ufffdb",
        "list": ["\U0001f600", {"someText": "\ufffd", "raw": {"k": 1}}],
        "\ufffd": 1,
    }
    assert one_line(encode_error(b"1", BackendError("x\ud800", {"k": "\ud800"})))["error"]["data"] == {"k": "\ufffd"}


def test_raw_json_with_broken_utf8_is_still_written_as_utf8() -> None:
    assert one_line(encode_notification("n", msgspec.Raw(b'{"a":"\xff"}')))["params"] == {"a": "\ufffd"}


@pytest.mark.requirement("transport.limits.strict-json")
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_lacks_are_written_as_null(value: float) -> None:
    assert one_line(encode_result(b"1", {"a": value}))["result"] == {"a": None}


@given(value=st.dictionaries(st.text(st.characters()), json_values))
def test_whatever_is_written_is_one_line_of_strict_json(value: dict[str, Any]) -> None:
    one_line(encode_notification("n", value))
    one_line(encode_result(b'"x"', value))
    one_line(encode_error(b"null", BackendError("x", value)))


@pytest.mark.requirement("jsonrpc.envelope.error-shape")
def test_the_text_of_an_error_is_one_line_and_never_empty() -> None:
    assert one_line(encode_error(b"1", RpcError("a\nb\t c")))["error"] == {"code": -32603, "message": "a b c"}
    assert one_line(encode_error(b"1", RpcError(" \n ")))["error"]["message"] == "Error"
    assert len(one_line(encode_error(b"1", RpcError("x" * 9999)))["error"]["message"]) == 1000


@pytest.mark.requirement("jsonrpc.envelope.error-shape")
def test_data_without_a_json_form_is_left_out() -> None:
    error = RpcError("m", {"reason": "busy"}, code=-32600)
    assert one_line(encode_error(b"1", error))["error"] == {
        "code": -32600,
        "message": "m",
        "data": {"reason": "busy"},
    }
    assert one_line(encode_error(b"1", RpcError("m", {"o": object()})))["error"] == {"code": -32603, "message": "m"}


@pytest.mark.requirement("transport.limits.outbound-ceiling")
def test_nothing_is_written_above_the_ceiling() -> None:
    big = {"t": "x" * LIMIT}
    answer = one_line(encode_result(b"1", big))
    assert answer["error"] == {
        "code": -32603,
        "message": "The response is larger than a line may be.",
        "data": {"limit": LIMIT},
    }
    assert one_line(encode_error(b"1", RpcError("m", big)))["error"] == {"code": -32603, "message": "m"}
    with pytest.raises(FrameTooLarge):
        encode_notification("n", big)
    with pytest.raises(FrameTooLarge):
        encode_request(1, "m", big)


@pytest.mark.requirement("transport.limits.outbound-ceiling")
def test_the_ceiling_counts_the_whole_line() -> None:
    frame = encode_notification("n", {"t": "x" * 100})
    assert encode_notification("n", {"t": "x" * 100}, len(frame)) == frame
    with pytest.raises(FrameTooLarge):
        encode_notification("n", {"t": "x" * 100}, len(frame) - 1)
