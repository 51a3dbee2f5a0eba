"""Claude models: what the adapter writes, what it reads, and that the server of the tests takes it."""

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
from sluice.models.anthropic_answer import Answer
from sluice.models.anthropic_history import request_body
from sluice.models.names import WireNames
from sluice.persistence.records import Message, Part
from tests.models.helpers import KEY, Heard, Resolved, ask, asked, assistant, cut, made, result, user
from tests.support import model_server as ms
from tests.support.anthropic_dialect import Anthropic
from tests.support.anthropic_rules import Signatures, check_request
from tests.support.chat_rules import Refused
from tests.support.model_server import ModelServer, Reply

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("models.providers.anthropic")]

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02" + b"\x00" * 8)
CLAUDE = Resolved(provider="anthropic", model="claude-sonnet-5-5", api="anthropic")
HEADERS = {"anthropic-version": "2023-06-01"}
EVERY = (
    *(
        "claude-opus-5-5",
        "claude-sonnet-5-5",
        "claude-haiku-5-5",
        "claude-opus-5",
        "claude-sonnet-5",
        "claude-fable-5-1",
    ),
    *("claude-mythos-5", "claude-opus-4-8", "claude-opus-4-7", "claude-opus-4-6", "claude-sonnet-4-6"),
    *(
        "claude-opus-4-5",
        "claude-sonnet-4-5",
        "claude-haiku-4-5",
        "claude-3-7-sonnet-latest",
        "claude-3-5-haiku-latest",
    ),
    *("claude-opus-9", "M2-of-somebody"),
)
BUDGETS = (
    None,
    -1,
    0,
    500,
    5000,
    50_000,
    "none",
    "minimal",
    "low",
    "high",
    "xhigh",
    "max",
    "adaptive",
    "adaptive/low",
)


@asynccontextmanager
async def talking(*replies: Any, resolved: Resolved = CLAUDE) -> AsyncIterator[tuple[ModelServer, Model]]:
    async with ModelServer(replies, dialect=Anthropic()) as server:
        model = build(replace(resolved, base_url=server.base_url))
        try:
            yield server, model
        finally:
            await model.aclose()
    assert server.unscripted == [] and server.refusals == []


def body_of(*messages: Message | str, resolved: Resolved = CLAUDE, **more: Any) -> dict[str, Any]:
    request = replace(asked(*messages), **more)
    return request_body(resolved, request, WireNames(tool.name for tool in request.tools))[0]


async def test_a_streamed_answer_with_everything_in_it() -> None:
    made = ms.calls(ms.call("shell", cmd="ls"), ms.call("shell"), usage=ms.Usage(100, 9, 60, written=30))
    steps = [ms.Thought("Hm, m"), ms.Text("Look"), ms.Text("ing."), *made.steps]
    async with talking(Reply(steps)) as (_, model):
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
    assert (used.input_tokens, used.output_tokens) == (100, 9)
    assert (used.cached_input_tokens, used.cached_write_tokens) == (60, 30)
    assert used.cost == pytest.approx((10 * 2.0 + 60 * 0.1 + 30 * 2.5 + 9 * 10.0) / 1e6)
    assert response.model == "claude-sonnet-5-5"


async def test_the_key_goes_into_its_own_header_and_the_version_is_said() -> None:
    resolved = CLAUDE.with_options(provider_opts={"http_headers": {"Anthropic-Beta": "new-thing"}})
    async with talking(ms.text("a"), resolved=resolved) as (server, model):
        await ask(model, "hi")
    headers = server.requests[0].headers
    assert (headers["x-api-key"], headers["anthropic-beta"]) == (KEY, "new-thing")
    assert "authorization" not in headers


async def test_a_refused_key_is_told_by_the_name_of_its_variable() -> None:
    error = Anthropic().error(401, f"invalid x-api-key {KEY}")
    async with talking(Reply(status=401, error=error)) as (_, model):
        with pytest.raises(ModelError) as caught:
            await ask(model, "hi")
    assert "refused the key in ANTHROPIC_API_KEY" in caught.value.text and KEY not in str(caught.value)


async def test_a_busy_service_says_how_long_to_wait() -> None:
    replies = [
        Reply(status=status, error=Anthropic().error(status, "later"), headers={"retry-after": "7"})
        for status in (529, 429)
    ]
    found = []
    async with talking(*replies) as (_, model):
        for _ in replies:
            with pytest.raises(ModelError) as caught:
                await ask(model, "hi")
            found.append((caught.value.code, caught.value.retryable, caught.value.retry_after))
    assert found == [("model_error", True, 7.0), ("rate_limited", False, 7.0)]


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/", "/v1/messages"])
async def test_the_address_may_be_written_with_or_without_its_path(path: str) -> None:
    async with ModelServer([ms.text("a")], dialect=Anthropic()) as server:
        model = build(replace(CLAUDE, base_url=server.base_url + path))
        assert (await ask(model, "hi")).text == "a"
        await model.aclose()


async def test_a_server_that_does_not_stream_is_understood() -> None:
    resolved = CLAUDE.with_options(provider_opts={"extra_body": {"stream": False, "metadata": {"user_id": "u"}}})
    async with talking(ms.text("a"), resolved=resolved) as (server, model):
        assert (await ask(model, "hi")).text == "a"
    assert (server.requests[0].body["stream"], server.requests[0].body["metadata"]) == (True, {"user_id": "u"})
    answer = Answer(WireNames())
    whole = {
        "type": "message",
        "model": "m",
        "content": [
            {"type": "text", "text": "hi"},
            {"type": "tool_use", "id": "t", "name": "x", "input": {"a": 1}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 3, "output_tokens": 2},
    }
    assert answer.absorb(json.dumps(whole).encode()) == [Delta("content", "hi")]
    assert [call.arguments for call in answer.response().tool_calls] == ['{"a": 1}']


EVENTS = [
    {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 3, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "ping"},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "grüß 😀"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "something_new", "delta": None},
    {"type": "content_block_delta", "index": 9, "delta": {"type": "text_delta", "text": "nowhere"}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}},
    {"type": "message_stop"},
]


def test_what_is_not_known_of_a_stream_is_passed_over() -> None:
    answer = Answer(WireNames())
    for event in EVENTS:
        answer.absorb(json.dumps(event).encode())
    assert (answer.response().text, answer.response().carried) == ("grüß 😀", "")
    assert answer.usage is not None and (answer.usage.input_tokens, answer.usage.output_tokens) == (3, 7)


@pytest.mark.parametrize("cut_at", range(len(EVENTS) - 2))
def test_a_stream_that_ends_before_its_stop_reason_may_be_tried_again(cut_at: int) -> None:
    answer = Answer(WireNames())
    for event in EVENTS[:cut_at]:
        answer.absorb(json.dumps(event).encode())
    with pytest.raises(ModelError) as caught:
        answer.response()
    assert caught.value.retryable


# --- what is asked -----------------------------------------------------------------------------------------------


@pytest.mark.requirement("models.options.thinking-budget")
@pytest.mark.parametrize("model", EVERY)
@pytest.mark.parametrize("budget", BUDGETS)
def test_every_model_takes_every_budget_as_it_is_written(model: str, budget: int | str | None) -> None:
    resolved = replace(CLAUDE, model=model).with_options(thinking_budget=budget, temperature=0.5, max_tokens=9000)
    check_request(HEADERS, body_of("hi", resolved=resolved), Signatures())


@pytest.mark.requirement("models.options.thinking-budget")
@pytest.mark.parametrize(
    ("model", "budget", "asked_for"),
    [
        ("claude-sonnet-4-5", None, {}),
        ("claude-sonnet-4-5", "low", {"thinking": {"type": "enabled", "budget_tokens": 2048}}),
        ("claude-sonnet-4-5", 6000, {"thinking": {"type": "enabled", "budget_tokens": 6000}}),
        ("claude-sonnet-4-5", 100_000, {"thinking": {"type": "enabled", "budget_tokens": 30_976}}),
        ("claude-sonnet-4-5", "none", {}),
        ("claude-opus-4-6", 6000, {"thinking": {"type": "enabled", "budget_tokens": 6000}}),
        ("claude-opus-4-6", "xhigh", {"effort": "high"}),
        ("claude-opus-4-8", None, {}),
        ("claude-opus-4-8", "xhigh", {"effort": "xhigh"}),
        ("claude-opus-4-8", 6000, {"effort": "medium"}),
        ("claude-opus-5", None, {"effort": None}),
        ("claude-opus-5", "adaptive", {"effort": None}),
        ("claude-opus-5", "none", {"thinking": {"type": "disabled"}}),
        ("claude-sonnet-5-5", 0, {"thinking": {"type": "between_tools"}}),
        ("claude-opus-5-5", "none", {"output_config": {"effort": "low"}}),
        ("claude-3-5-haiku-latest", "high", {}),
    ],
)
def test_how_a_budget_is_said(model: str, budget: int | str | None, asked_for: dict[str, Any]) -> None:
    body = body_of("hi", resolved=replace(CLAUDE, model=model).with_options(thinking_budget=budget))
    if "effort" in asked_for:
        effort = asked_for["effort"]
        asked_for = {"thinking": {"type": "adaptive", "display": "summarized"}}
        asked_for |= {"output_config": {"effort": effort}} if effort else {}
    assert {key: body[key] for key in ("thinking", "output_config") if key in body} == asked_for


@pytest.mark.requirement("models.options.sampling")
def test_options_are_sent_where_the_model_takes_them() -> None:
    options = {"temperature": 0.5, "top_p": 0.9, "frequency_penalty": 1.0, "parallel_tool_calls": False}
    older = replace(CLAUDE, model="claude-haiku-4-5").with_options(**options, max_tokens=77)
    body = body_of("hi", resolved=older)
    assert (body["temperature"], body["top_p"], body["max_tokens"]) == (0.5, 0.9, 77)
    assert body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    assert "frequency_penalty" not in body
    assert "temperature" not in body_of("hi", resolved=CLAUDE.with_options(temperature=0.5))
    assert body_of("hi", resolved=CLAUDE.with_options(max_tokens=100), max_output_tokens=50)["max_tokens"] == 50
    form = {"name": "n", "schema": {"type": "object"}}
    assert body_of("hi", structured_output=form)["output_config"]["format"]["schema"] == {"type": "object"}


def test_the_prompt_is_marked_for_the_cache_where_the_next_call_will_look() -> None:
    history = [Message("system", (Part("text", "Help."),)), user("a"), assistant("b"), user("c"), assistant("d")]
    body = body_of(*history, "e")
    found = [("system", block) for block in body["system"] if "cache_control" in block]
    found += [
        (message["content"][0]["text"], block)
        for message in body["messages"]
        for block in message["content"]
        if "cache_control" in block
    ]
    assert [place for place, _ in found] == ["system", "c", "e"]
    assert "cache_control" in body_of("a")["tools"][-1]
    assert "cache_control" not in json.dumps(body_of(*history, "e")["tools"])


def test_results_stand_first_and_together_and_turns_alternate() -> None:
    history: list[Message | str] = [
        *("one", "two"),
        assistant("Looking.", made("a.b"), made("c", "no such tool!")),
        *(result("a.b", ""), replace(result("c", "failed"), status="failed")),
        *("three", Message("assistant", ()), "four"),
    ]
    body = body_of(*history)
    check_request(HEADERS, body, Signatures())
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    answered = body["messages"][2]["content"]
    assert [block["type"] for block in answered] == ["tool_result", "tool_result", "text", "text"]
    assert answered[0]["content"] == "(no output)" and answered[1]["is_error"] is True


def test_media_are_sent_or_told_in_words() -> None:
    data = PNG.decode()
    parts = (
        Part("text", "see"),
        Part("image", data=data, mime_type="image/png", size=33),
        Part("image", data=data, mime_type="image/tiff", size=33),
        Part("document", data=data, mime_type="application/pdf", name="a.pdf", size=33),
        Part("audio", data=data, mime_type="audio/wav", size=33),
    )
    body = body_of(Message("user", parts))
    check_request(HEADERS, body, Signatures())
    content = body["messages"][0]["content"]
    assert [block["type"] for block in content] == ["text", "image", "text", "document", "text"]
    assert "image/tiff" in content[2]["text"] and "audio/wav" in content[4]["text"]
    unable = CLAUDE.with_options(capabilities={"image": False, "pdf": False})
    assert [
        block["type"] for block in body_of(Message("user", parts), resolved=unable)["messages"][0]["content"]
    ] == ["text"]


async def test_a_model_that_takes_a_budget_thinks_on_only_behind_its_own_thoughts() -> None:
    older = replace(CLAUDE, model="claude-sonnet-4-5").with_options(thinking_budget="low")
    first = Reply([ms.Thought("hm"), ms.ToolCalls([ms.call("shell", cmd="ls")])])
    async with talking(first, ms.text("a"), ms.text("b"), resolved=older) as (server, model):
        response = await ask(model, "go")
        answer = replace(assistant("", *response.tool_calls), carried=response.carried)
        ids = [call.id for call in response.tool_calls]
        await ask(model, "go", answer, result(ids[0]))
        await ask(model, "go", replace(answer, carried=""), result(ids[0]))
    assert ["thinking" in request.body for request in server.requests] == [True, True, False]


PIECES = st.lists(
    st.sampled_from(
        [
            ms.Thought("why"),
            ms.Thought("x", key="redacted"),
            ms.Text("so "),
            ms.Text("\n\n"),
            ms.ToolCalls([ms.call("shell")]),
        ]
    ),
    min_size=1,
    max_size=6,
)


@given(PIECES, st.sampled_from(["claude-sonnet-5-5", "claude-opus-4-8"]))
def test_whatever_an_answer_is_made_of_goes_back_as_it_came(steps: Sequence[Any], model: str) -> None:
    dialect = Anthropic()
    resolved = replace(CLAUDE, model=model)
    body = body_of("go", resolved=resolved)
    answer = Answer(
        WireNames(["shell"]), request_body(resolved, asked("go"), WireNames(["shell"]))[1].replay.prefix.mark
    )
    voice = dialect.voice(body, steps)
    events = [*voice.begin(), *(event for step in steps for event in voice.events(step))]
    events += [*voice.events(ms.Finish("tool_calls")), *voice.end()]
    for event in events:
        answer.absorb(event.split(b"data: ")[1].strip())
    response = answer.response()
    ours = [replace(call, id=f"our{n}") for n, call in enumerate(response.tool_calls)]
    stored = [
        replace(assistant(response.text, *ours), carried=response.carried),
        *(result(call.id) for call in ours),
    ]
    again = body_of("go", *stored, "on", resolved=resolved)
    dialect.check("/v1/messages", HEADERS, again)
    assert dialect.carried(again) == sum(isinstance(step, ms.Thought) for step in steps)
    other = body_of("went", *stored, "on", resolved=resolved)
    dialect.check("/v1/messages", HEADERS, other)
    assert dialect.carried(other) == 0


@pytest.mark.parametrize("carried", ["nonsense", "{}", '{"mark": "x", "pieces": [1]}', '{"mark": 3, "pieces": []}'])
def test_what_another_version_has_kept_is_passed_over(carried: str) -> None:
    body = body_of("go", replace(assistant("a"), carried=carried), "on")
    check_request(HEADERS, body, Signatures())


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
            messages.append(assistant("text" if kind == "s" else "", *(made(each) for each in ids)))
            messages += [result(each) for each in ids]
    check_request(HEADERS, body_of(*messages, "end"), Signatures())


# --- what the server of the tests refuses ------------------------------------------------------------------------

GOOD = body_of(
    "hi", assistant("a", made("c1")), result("c1"), "on", resolved=replace(CLAUDE, model="claude-haiku-4-5")
)
TURNS = GOOD["messages"]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"frequency_penalty": 1}, "Extra inputs"),
        ({"messages": []}, "at least one"),
        ({"messages": [TURNS[0], TURNS[0]]}, "alternate"),
        ({"messages": TURNS[1:]}, "alternate"),
        ({"messages": TURNS[:2]}, "prefill"),
        ({"messages": [*TURNS[:2], TURNS[0]]}, "without `tool_result`"),
        (
            {"messages": [TURNS[0], {"role": "assistant", "content": [{"type": "text", "text": "a"}]}, TURNS[2]]},
            "unexp",
        ),
        ({"messages": [*TURNS[:2], {"role": "user", "content": TURNS[2]["content"][::-1]}]}, "come first"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": " "}]}]}, "non-whitespace"),
        ({"messages": [{"role": "user", "content": [{"type": "audio"}]}]}, "no audio"),
        ({"tools": [{"name": "a b", "input_schema": {}}]}, "pattern"),
        ({"tools": [], "tool_choice": {"type": "auto"}}, "only be specified with tools"),
        ({"temperature": 1.5}, "range"),
        ({"thinking": {"type": "adaptive"}}, "adaptive"),
        ({"thinking": {"type": "enabled", "budget_tokens": 100}}, "at least 1024"),
        ({"model": "claude-opus-5", "thinking": {"type": "enabled", "budget_tokens": 2000}}, "not supported"),
        ({"model": "claude-opus-5-5", "thinking": {"type": "disabled"}}, "not supported"),
        ({"model": "claude-opus-5", "temperature": 0.5}, "deprecated"),
        ({"output_config": {"effort": "none"}}, "no such effort"),
    ],
)
def test_an_invalid_request_is_refused(changed: dict[str, Any], reason: str) -> None:
    check_request(HEADERS, GOOD, Signatures())
    with pytest.raises(Refused, match=reason):
        check_request(HEADERS, {**GOOD, **changed}, Signatures())


def test_thoughts_that_came_back_changed_are_refused() -> None:
    signatures = Signatures()
    first = body_of("hi")
    block = signatures.sign(first, "hm")
    answer = {"role": "assistant", "content": [block, {"type": "text", "text": "a"}]}
    good = {
        **first,
        "messages": [*first["messages"], answer, {"role": "user", "content": [{"type": "text", "text": "b"}]}],
    }
    check_request(HEADERS, good, signatures)
    other = {"role": "user", "content": [{"type": "text", "text": "ho"}]}
    for changed, reason in (
        ({**good, "model": "claude-opus-5-5"}, "another model"),
        ({**good, "system": [{"type": "text", "text": "new"}]}, "bound to a different conversation"),
        ({**good, "messages": [other, *good["messages"][1:]]}, "bound to a different conversation"),
    ):
        with pytest.raises(Refused, match=reason):
            check_request(HEADERS, changed, signatures)
    block["thinking"] = "ha"
    with pytest.raises(Refused, match="Invalid `signature`"):
        check_request(HEADERS, json.loads(json.dumps(good).replace('"ha"', '"he"')), signatures)


def test_an_answer_cut_anywhere_is_the_same() -> None:
    data = b"".join(b"event: x\ndata: " + json.dumps(event).encode() + b"\n\n" for event in EVENTS)
    from sluice.models.sse import EventSplitter

    for place in range(0, len(data), 7):
        splitter, answer = EventSplitter(), Answer(WireNames())
        for piece in cut(data, [place]):
            for event in splitter.feed(piece):
                answer.absorb(event)
        assert answer.response().text == "grüß 😀"


async def test_a_request_without_tools_has_none() -> None:
    async with talking(ms.text("a")) as (server, model):
        await model.complete(ModelRequest((user("hi"),)), Heard())
    assert set(server.requests[0].body) == {"model", "max_tokens", "messages", "stream", "thinking"}
