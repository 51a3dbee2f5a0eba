"""The Responses API: what the adapter writes, what it reads, and that the server of the tests takes it."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.agent.ports import Delta, Model, ModelError, ModelRequest
from sluice.models import build
from sluice.models.apis import StreamError
from sluice.models.names import WireNames
from sluice.models.openai_responses import request_body
from sluice.models.openai_responses_answer import Answer
from sluice.persistence.records import Message, Part
from tests.models.helpers import KEY, Heard, Resolved, ask, asked, assistant, made, result, user
from tests.support import model_server as ms
from tests.support.chat_rules import Refused
from tests.support.model_server import ModelServer, Reply
from tests.support.responses_dialect import Responses
from tests.support.responses_rules import Sealed, check_request

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("models.providers.openai-responses")]

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02" + b"\x00" * 8)
GPT = Resolved(provider="openai", model="gpt-5.6", api="openai_responses")
PLAIN = replace(GPT, model="gpt-4o")
SUMMARIES = {"thinking_display": "summarized"}


@asynccontextmanager
async def talking(*replies: Any, resolved: Resolved = GPT) -> AsyncIterator[tuple[ModelServer, Model]]:
    async with ModelServer(replies, dialect=Responses()) as server:
        model = build(replace(resolved, base_url=server.base_url))
        try:
            yield server, model
        finally:
            await model.aclose()
    assert server.unscripted == [] and server.refusals == []


def body_of(*messages: Message | str, resolved: Resolved = GPT, **more: Any) -> dict[str, Any]:
    request = replace(asked(*messages), **more)
    return request_body(resolved, request, WireNames(tool.name for tool in request.tools))[0]


async def test_a_streamed_answer_with_everything_in_it() -> None:
    made = ms.calls(ms.call("shell", cmd="ls"), ms.call("shell"), usage=ms.Usage(100, 9, 60, 4, 30))
    steps = [ms.Thought("Hm, m"), ms.Text("Look"), ms.Text("ing."), *made.steps]
    async with talking(Reply(steps), resolved=GPT.with_options(provider_opts=SUMMARIES)) as (server, model):
        heard = Heard()
        response = await ask(model, "hi", heard=heard)
    assert [(delta.channel, delta.text) for delta in heard.deltas] == [
        *(("thought", "Hm"), ("thought", ", m"), ("content", "Look"), ("content", "ing."))
    ]
    assert (response.text, response.thought, response.finish_reason) == ("Looking.", "Hm, m", "tool_calls")
    assert [(call.name, call.arguments) for call in response.tool_calls] == [
        *(("shell", '{"cmd": "ls"}'), ("shell", "{}"))
    ]
    assert response.usage is not None
    used = response.usage
    assert (used.input_tokens, used.output_tokens, used.reasoning_tokens) == (100, 9, 4)
    assert (used.cached_input_tokens, used.cached_write_tokens) == (60, 30)
    assert used.cost == pytest.approx((10 * 4.0 + 60 * 0.4 + 30 * 5.0 + 9 * 20.0) / 1e6)
    request = server.requests[0]
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert (request.body["store"], request.body["include"]) == (False, ["reasoning.encrypted_content"])
    assert request.body["reasoning"] == {"summary": "auto"}


@pytest.mark.requirement("models.options.sampling", "models.options.thinking-budget")
def test_options_are_sent_only_when_they_are_set() -> None:
    options = {"temperature": 0.5, "top_p": 0.9, "parallel_tool_calls": False, "max_tokens": 77}
    body = body_of("hi", resolved=PLAIN.with_options(**options, frequency_penalty=1.0))
    check_request(body, Sealed())
    assert (body["temperature"], body["top_p"], body["parallel_tool_calls"]) == (0.5, 0.9, False)
    assert body["max_output_tokens"] == 77 and "frequency_penalty" not in body
    assert set(body_of("hi", resolved=PLAIN)) == {"model", "input", "stream", "store", "tools"}
    assert body_of("hi", resolved=PLAIN, max_output_tokens=3)["max_output_tokens"] == 16
    form = {"name": "n", "schema": {"type": "object"}, "strict": True}
    assert body_of("hi", structured_output=form)["text"] == {"format": {"type": "json_schema", **form}}
    assert body_of("hi", resolved=GPT.with_options(thinking_budget="low"))["reasoning"] == {"effort": "low"}
    assert body_of("hi", resolved=GPT.with_options(thinking_budget="none"))["reasoning"] == {"effort": "none"}
    extra = {"extra_body": {"truncation": "auto", "store": True, "input": []}}
    body = body_of("hi", resolved=GPT.with_options(provider_opts=extra))
    assert (body["truncation"], body["store"], len(body["input"])) == ("auto", False, 1)


def test_the_system_text_is_the_instructions() -> None:
    system = [Message("system", (Part("text", text),)) for text in ("Help.", " ", "Well.")]
    assert body_of(*system, "hi")["instructions"] == "Help.\n\nWell."


def test_media_are_sent_or_told_in_words() -> None:
    data = PNG.decode()
    parts = (
        Part("text", "see"),
        Part("image", data=data, mime_type="image/png", size=33),
        Part("document", data=data, mime_type="application/pdf", name="a.pdf", size=33),
        Part("audio", data=data, mime_type="audio/wav", size=33),
    )
    body = body_of(Message("user", parts))
    check_request(body, Sealed())
    content = body["input"][0]["content"]
    assert [part["type"] for part in content] == ["input_text", "input_image", "input_file", "input_text"]
    assert "audio/wav" in content[3]["text"]
    unable = GPT.with_options(capabilities={"image": False, "pdf": False})
    found = body_of(Message("user", parts), resolved=unable)["input"][0]["content"]
    assert [part["type"] for part in found] == ["input_text"]


PIECES = st.lists(
    st.sampled_from([ms.Thought("why"), ms.Text("so "), ms.Text("\n\n"), ms.ToolCalls([ms.call("shell")])]),
    min_size=1,
    max_size=6,
)


@given(PIECES, st.sampled_from(["stop", "length"]))
def test_whatever_an_answer_is_made_of_goes_back_as_it_came(steps: Sequence[Any], finish: str) -> None:
    dialect = Responses()
    body = body_of("go")
    steps = [*steps, ms.Finish(finish)]
    answer = Answer(WireNames(["shell"]), request_body(GPT, asked("go"), WireNames(["shell"]))[1].prefix.mark)
    voice = dialect.voice(body, steps)
    for event in [*voice.begin(), *(event for step in steps for event in voice.events(step)), *voice.end()]:
        answer.absorb(event.split(b"data: ")[1].strip())
    response = answer.response()
    ours = [replace(call, id=f"our{n}") for n, call in enumerate(response.tool_calls)]
    stored = [
        replace(assistant(response.text, *ours), carried=response.carried),
        *(result(call.id) for call in ours),
    ]
    again = body_of("go", *stored, "on")
    dialect.check("/v1/responses", {}, again)
    if any(isinstance(step, ms.ToolCalls) for step in steps[-2:-1]):
        assert dialect.carried(again) == sum(isinstance(step, ms.Thought) for step in steps)
    other = body_of("went", *stored, "on")
    dialect.check("/v1/responses", {}, other)
    assert dialect.carried(other) == 0


def test_the_phase_of_a_text_goes_back_with_it() -> None:
    answer = Answer(WireNames(), "mark")
    part = {"type": "output_text", "text": "a"}
    item = {"type": "message", "role": "assistant", "phase": "commentary", "content": [part]}
    answer.absorb(json.dumps({"type": "response.completed", "response": {"output": [item]}}).encode())
    assert json.loads(answer.response().carried)["pieces"] == [{"text": 1, "phase": "commentary"}]


def whole(**fields: Any) -> bytes:
    return json.dumps({"object": "response", "status": "completed", "model": "m", **fields}).encode()


def test_an_answer_in_one_piece_is_understood() -> None:
    output = [
        {"type": "reasoning", "summary": []},
        {"type": "message", "content": [{"type": "output_text", "text": "hi"}]},
        {"type": "function_call", "call_id": "c", "name": "x", "arguments": '{"a": 1}'},
        {"type": "something_new"},
        "nothing",
    ]
    answer = Answer(WireNames())
    assert answer.absorb(whole(output=output, usage={"input_tokens": 3})) == [Delta("content", "hi")]
    response = answer.response()
    assert [(call.id, call.arguments) for call in response.tool_calls] == [("c", '{"a": 1}')]
    assert (response.finish_reason, response.model, response.carried) == ("tool_calls", "m", "")


def test_a_refusal_is_shown_and_is_one() -> None:
    answer = Answer(WireNames())
    refusal = {"type": "response.refusal.delta", "output_index": 0, "delta": "I will not."}
    assert answer.absorb(json.dumps(refusal).encode()) == (Delta("content", "I will not."),)
    answer.absorb(json.dumps({"type": "response.completed", "response": {}}).encode())
    assert (answer.response().finish_reason, answer.response().text) == ("refusal", "I will not.")
    answer = Answer(WireNames())
    answer.absorb(whole(output=[{"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}]))
    assert (answer.response().finish_reason, answer.response().text) == ("refusal", "No.")


def test_summaries_of_several_thoughts_stand_apart() -> None:
    answer = Answer(WireNames())
    for index in (0, 1):
        head = {"type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": index}
        answer.absorb(json.dumps(head).encode())
        delta = {"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "x"}
        answer.absorb(json.dumps(delta).encode())
    answer.absorb(json.dumps({"type": "response.completed", "response": {}}).encode())
    assert answer.response().thought == "x\n\nx"


@pytest.mark.parametrize(
    ("event", "code", "retryable"),
    [
        ({"type": "error", "code": "server_error", "message": "oops"}, "model_error", True),
        ({"type": "error", "code": "rate_limit_exceeded", "message": "slow"}, "rate_limited", False),
        (
            {
                "type": "response.failed",
                "response": {"error": {"code": "context_length_exceeded", "message": "long"}},
            },
            "context_exceeded",
            False,
        ),
        ({"type": "response.failed", "response": {"status": "failed"}}, "model_error", True),
    ],
)
async def test_an_error_inside_the_stream(event: dict[str, Any], code: str, retryable: bool) -> None:
    raw = ms.Raw(b"event: x\ndata: " + json.dumps(event).encode() + b"\n\n")
    async with talking(Reply([ms.Text("a"), raw, ms.Stall()])) as (_, model):
        with pytest.raises(ModelError) as caught:
            await ask(model, "hi")
    assert (caught.value.code, caught.value.retryable) == (code, retryable)
    with pytest.raises(StreamError):
        Answer(WireNames()).absorb(json.dumps(event).encode())


@given(st.lists(st.sampled_from("uars"), max_size=8))
def test_any_valid_history_is_taken(kinds: list[str]) -> None:
    messages: list[Message | str] = ["begin"]
    for number, kind in enumerate(kinds):
        if kind == "u":
            messages.append(f"user {number}")
        elif kind == "a":
            messages.append(assistant(f"answer {number}"))
        else:
            ids = [f"c{number}.{each}" for each in range(2)]
            messages.append(assistant("text" if kind == "s" else "", *(made(each, arguments="") for each in ids)))
            messages += [result(each) for each in ids]
    check_request(body_of(*messages, "end"), Sealed())


# --- what the server of the tests refuses ------------------------------------------------------------------------

GOOD = body_of("hi", assistant("a", made("c1")), result("c1"), "on")
ITEMS = GOOD["input"]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"messages": []}, "Unknown parameter"),
        ({"input": []}, "'input'"),
        ({"input": ITEMS[:3]}, "No tool output"),
        ({"input": [*ITEMS[:3], ITEMS[0]]}, "No tool output"),
        ({"input": [ITEMS[0], ITEMS[3]]}, "No tool call"),
        ({"input": ITEMS[:2]}, "no user's"),
        ({"input": [{"role": "user", "content": "x", "type": "text"}]}, "Invalid value"),
        ({"input": [{"type": "reasoning", "id": "rs_1", "summary": []}, ITEMS[0]]}, "could not be verified"),
        ({"max_output_tokens": 3}, "below minimum"),
        ({"temperature": 0.5}, "Unsupported parameter"),
        ({"model": "gpt-4o"}, "Encrypted content"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools"),
        ({"tools": [{**GOOD["tools"][0], "strict": True}]}, "additionalProperties"),
        ({"reasoning": {"effort": "huge"}}, "effort"),
    ],
)
def test_an_invalid_request_is_refused(changed: dict[str, Any], reason: str) -> None:
    check_request(GOOD, Sealed())
    with pytest.raises(Refused, match=reason):
        check_request({**GOOD, **changed}, Sealed())


def test_a_thought_without_what_it_led_to_is_refused() -> None:
    sealed = Sealed()
    item = sealed.seal("hm", shown=False)
    with pytest.raises(Refused, match="required following item"):
        check_request({**GOOD, "input": [ITEMS[0], item, ITEMS[0]]}, sealed)


async def test_a_service_that_wants_a_thought_that_is_missing_gets_none_at_all() -> None:
    first = Reply([ms.Thought("hm"), ms.ToolCalls([ms.call("shell", cmd="ls")])])
    message = "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'."
    refusal = Reply(status=400, error=Responses().error(400, message))
    async with talking(first, refusal, ms.text("a")) as (server, model):
        response = await ask(model, "go")
        answer = replace(assistant("", *response.tool_calls), carried=response.carried)
        assert (await ask(model, "go", answer, result(response.tool_calls[0].id))).text == "a"
    assert [Responses().carried(request.body) for request in server.requests] == [0, 1, 0]


async def test_a_request_without_tools_has_none() -> None:
    async with talking(ms.text("a"), resolved=PLAIN) as (server, model):
        await model.complete(ModelRequest((user("hi"),)), Heard())
    assert set(server.requests[0].body) == {"model", "input", "stream", "store"}
