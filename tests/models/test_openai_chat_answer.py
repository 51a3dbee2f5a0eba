from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.agent.ports import Delta, ModelError, ModelResponse
from sluice.models.apis import StreamError
from sluice.models.names import WireNames
from sluice.models.openai_chat_answer import Answer, read_usage
from sluice.persistence.records import Usage


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> bytes:
    return json.dumps({"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **more}).encode()


def answer(*chunks: bytes, names: WireNames | None = None) -> ModelResponse:
    made = Answer(names or WireNames())
    for data in (*chunks, b"[DONE]"):
        made.absorb(data)
    return made.response()


def calls(*deltas: Any, finish: str = "tool_calls") -> list[tuple[str, str, str]]:
    response = answer(*(chunk({"tool_calls": delta}) for delta in deltas), chunk(finish=finish))
    return [(call.id, call.name, call.arguments) for call in response.tool_calls]


def test_pieces_are_assembled_by_index() -> None:
    assert calls(
        [{"index": 0, "id": "a", "type": "function", "function": {"name": "x", "arguments": ""}}],
        [{"index": 1, "id": "b", "function": {"name": "y", "arguments": "{"}}],
        [{"index": 0, "function": {"arguments": '{"p"'}}],
        [{"index": 0, "function": {"arguments": ": 1}"}}, {"index": 1, "function": {"arguments": "}"}}],
    ) == [("a", "x", '{"p": 1}'), ("b", "y", "{}")]


def test_several_calls_in_one_delta() -> None:
    assert calls(
        [
            {"index": 0, "id": "a", "function": {"name": "x", "arguments": "{}"}},
            {"index": 1, "id": "b", "function": {"name": "y", "arguments": "{}"}},
        ]
    ) == [("a", "x", "{}"), ("b", "y", "{}")]


def test_a_missing_index_is_made_up_for_by_the_id() -> None:
    assert calls(
        [{"id": "a", "function": {"name": "x", "arguments": "{"}}],
        [{"id": "b", "function": {"name": "y", "arguments": "{}"}}],
        [{"id": "a", "function": {"arguments": "}"}}],
    ) == [("a", "x", "{}"), ("b", "y", "{}")]


def test_missing_index_and_id_follow_the_order() -> None:
    found = calls(
        [{"function": {"name": "x", "arguments": {"p": 1}}}, {"function": {"name": "y", "arguments": {}}}],
        [{"function": {"name": "z"}}, {"function": {"name": "w"}}],
    )
    assert [(name, arguments) for _, name, arguments in found] == [
        ("x", '{"p": 1}'),
        ("y", "{}"),
        ("z", "{}"),
        ("w", "{}"),
    ]
    assert len({given for given, _, _ in found}) == 4
    assert all(given for given, _, _ in found)


def test_a_name_in_pieces_is_joined_and_a_repeated_one_is_not() -> None:
    assert calls(
        [{"index": 0, "id": "a", "function": {"name": "read_"}}],
        [{"index": 0, "function": {"name": "file", "arguments": "{}"}}],
    ) == [("a", "read_file", "{}")]
    assert calls(
        [{"index": 0, "id": "a", "function": {"name": "x", "arguments": "{"}}],
        [{"index": 0, "id": "a", "function": {"name": "x", "arguments": "}"}}],
    ) == [("a", "x", "{}")]


def test_one_index_for_two_whole_calls_gives_two_calls() -> None:
    assert calls(
        [{"index": 0, "id": "a", "function": {"name": "x", "arguments": "{}"}}],
        [{"index": 0, "id": "b", "function": {"name": "x", "arguments": '{"p": 2}'}}],
    ) == [("a", "x", "{}"), ("b", "x", '{"p": 2}')]


def test_a_new_id_for_every_piece_is_still_one_call() -> None:
    assert calls(
        [{"index": 0, "id": "a", "function": {"name": "x", "arguments": "{"}}],
        [{"index": 0, "id": "b", "function": {"arguments": "}"}}],
    ) == [("a", "x", "{}")]


def test_the_older_function_call_is_a_tool_call() -> None:
    response = answer(
        chunk({"function_call": {"name": "x", "arguments": "{"}}),
        chunk({"function_call": {"arguments": "}"}}),
        chunk(finish="function_call"),
    )
    assert [(call.name, call.arguments) for call in response.tool_calls] == [("x", "{}")]
    assert response.finish_reason == "tool_calls"


def test_our_names_come_back() -> None:
    names = WireNames(["srv.v2/run"])
    data = chunk({"tool_calls": [{"index": 0, "function": {"name": names.wire("srv.v2/run"), "arguments": "{}"}}]})
    assert answer(data, chunk(finish="tool_calls"), names=names).tool_calls[0].name == "srv.v2/run"


def test_a_call_cut_off_by_the_length_limit_is_left_out() -> None:
    deltas = [
        [{"index": 0, "id": "a", "function": {"name": "x", "arguments": '{"p": 1}'}}],
        [{"index": 1, "id": "b", "function": {"name": "rm", "arguments": '{"path": "/tm'}}],
    ]
    assert calls(*deltas, finish="length") == [("a", "x", '{"p": 1}')]


def test_broken_arguments_of_a_whole_call_are_kept_for_the_error_the_model_gets() -> None:
    assert calls([{"index": 0, "id": "a", "function": {"name": "x", "arguments": "{oops"}}]) == [("a", "x", "{oops")]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "refusal"),
        ("tool_calls", "stop"),
        ("some_new_reason", "stop"),
    ],
)
def test_finish_reasons(given: str, expected: str) -> None:
    assert answer(chunk({"content": "a"}), chunk(finish=given)).finish_reason == expected


def test_an_answer_with_calls_that_ends_with_stop_is_one_with_calls() -> None:
    data = chunk({"tool_calls": [{"index": 0, "function": {"name": "x", "arguments": "{}"}}]}, "stop")
    assert answer(data).finish_reason == "tool_calls"


def test_a_refusal_is_shown_and_told() -> None:
    response = answer(chunk({"refusal": "I can"}), chunk({"refusal": "not."}), chunk(finish="stop"))
    assert (response.text, response.finish_reason, response.tool_calls) == ("I cannot.", "refusal", ())


@pytest.mark.parametrize("reason", ["error", "abort", "network_error"])
def test_a_server_that_gives_up_half_way_may_be_asked_again(reason: str) -> None:
    with pytest.raises(ModelError) as caught:
        answer(chunk({"content": "a"}), chunk(finish=reason))
    assert caught.value.retryable


@pytest.mark.parametrize(
    "data",
    [
        b'{"error": {"message": "m"}}',
        b'{"error": "m", "choices": []}',
        b'{"object": "error", "message": "m", "code": 400}',
    ],
)
def test_an_error_in_place_of_a_chunk(data: bytes) -> None:
    with pytest.raises(StreamError):
        Answer(WireNames()).absorb(data)


@pytest.mark.parametrize("data", [b'{"choices": [{"delta"', b"[1]", b"1", b"nonsense", b'{"choices": 3}', b"\xff"])
def test_what_is_no_chunk_is_a_decode_error(data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        Answer(WireNames()).absorb(data)


def test_nulls_and_odd_types_are_tolerated() -> None:
    response = answer(
        b'{"choices": null}',
        b'{"choices": [], "usage": null, "model": null, "prompt_filter_results": []}',
        b'{"choices": [{"index": null, "delta": null, "finish_reason": null}]}',
        b'{"choices": [{"delta": {"content": null, "tool_calls": null, "role": 7}}]}',
        b'{"choices": [{"delta": {"content": [{"type": "text", "text": "a"}, {"type": "x"}, 3]}}]}',
        b'{"choices": [{"delta": {"tool_calls": [null, 3]}}], "usage": 7}',
        chunk(finish="stop"),
    )
    assert (response.text, response.usage) == ("a", None)


def test_half_an_emoji_does_not_break_the_stream() -> None:
    response = answer(
        chunk({"content": "a"}), b'{"choices": [{"delta": {"content": "\\ud83d"}}]}', chunk(finish="stop")
    )
    assert response.text == "a\ufffd"
    response.text.encode()


def test_both_reasoning_fields_are_one_thought() -> None:
    made = Answer(WireNames())
    assert made.absorb(chunk({"reasoning_content": "x", "reasoning": "x"})) == [Delta("thought", "x")]


@pytest.mark.requirement("models.usage.recorded")
def test_usage_counts() -> None:
    assert read_usage(
        {
            "prompt_tokens": 100,
            "completion_tokens": 20,
            "prompt_tokens_details": {"cached_tokens": 60},
            "completion_tokens_details": {"reasoning_tokens": 8},
        }
    ) == Usage(100, 20, 60, 8)
    assert read_usage({"prompt_tokens": 5, "prompt_cache_hit_tokens": 3}) == Usage(5, 0, 3, 0)
    assert read_usage({"prompt_tokens": "x", "completion_tokens": None, "prompt_tokens_details": 3}) == Usage()
    assert read_usage(None) is None


@given(st.lists(st.text(max_size=20), max_size=20))
def test_the_pieces_are_the_text(pieces: list[str]) -> None:
    made = Answer(WireNames())
    heard = [delta.text for piece in pieces for delta in made.absorb(chunk({"content": piece}))]
    made.absorb(chunk(finish="stop"))
    assert heard == [piece for piece in pieces if piece]
    assert made.response().text == "".join(pieces)
