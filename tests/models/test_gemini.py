"""Gemini models: what the adapter writes, what it reads, and that the server of the tests takes it."""

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

from sluice.agent.ports import Delta, Model, ModelError, ModelRequest, ToolSpec
from sluice.models import build
from sluice.models.apis import StreamError
from sluice.models.gemini import request_body
from sluice.models.gemini_answer import Answer
from sluice.models.names import WireNames
from sluice.persistence.records import Message, Part
from tests.models.helpers import KEY, Heard, Resolved, ask, asked, assistant, made, result, user
from tests.support import model_server as ms
from tests.support.chat_rules import Refused
from tests.support.gemini_dialect import Gemini
from tests.support.gemini_rules import UNSIGNED, Signed, check_request
from tests.support.model_server import ModelServer, Reply

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("models.providers.gemini")]

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02" + b"\x00" * 8)
FLASH = Resolved(provider="google", model="gemini-3.8-flash", api="gemini")
EVERY = (
    *(
        "gemini-4-argon",
        "gemini-3.8-flash",
        "gemini-3.1-pro",
        "gemini-2.5-pro",
        "gemini-2.5-flash",
        "gemini-flash-latest",
    ),
    *("gemini-2.5-flash-lite", "gemini-2.0-flash", "gemma-9"),
)
BUDGETS = (None, -1, 0, 10, 5000, 99_999, "none", "minimal", "low", "medium", "high", "xhigh", "max", "adaptive/low")


def path_of(model: str) -> str:
    return f"/v1beta/models/{model}:streamGenerateContent?alt=sse"


@asynccontextmanager
async def talking(*replies: Any, resolved: Resolved = FLASH) -> AsyncIterator[tuple[ModelServer, Model]]:
    async with ModelServer(replies, dialect=Gemini()) as server:
        model = build(replace(resolved, base_url=server.base_url))
        try:
            yield server, model
        finally:
            await model.aclose()
    assert server.unscripted == [] and server.refusals == []


def body_of(*messages: Message | str, resolved: Resolved = FLASH, **more: Any) -> dict[str, Any]:
    request = replace(asked(*messages), **more)
    return request_body(resolved, request, WireNames((tool.name for tool in request.tools), letter_first=True))[0]


def config_of(*messages: Message | str, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = body_of(*(messages or ("hi",)), **more).get("generationConfig", {})
    return found


async def test_a_streamed_answer_with_everything_in_it() -> None:
    made = ms.calls(ms.call("shell", cmd="ls"), ms.call("shell"), usage=ms.Usage(100, 9, 60, 4))
    steps = [ms.Thought("Hm, m"), ms.Text("Look"), ms.Text("ing."), *made.steps]
    async with talking(Reply(steps)) as (server, model):
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
    assert used.cached_input_tokens == 60
    assert used.cost == pytest.approx((40 * 0.75 + 60 * 0.075 + 9 * 3.75) / 1e6)
    request = server.requests[0]
    assert (request.headers["x-goog-api-key"], request.path) == (KEY, path_of("gemini-3.8-flash"))
    assert "authorization" not in request.headers


@pytest.mark.parametrize("path", ["", "/", "/v1beta", "/v1beta/models/"])
async def test_the_address_may_be_written_with_or_without_its_path(path: str) -> None:
    async with ModelServer([ms.text("a")], dialect=Gemini()) as server:
        model = build(replace(FLASH, base_url=f"http://127.0.0.1:{server.port}{path}"))
        assert (await ask(model, "hi")).text == "a"
        await model.aclose()


@pytest.mark.requirement("models.options.thinking-budget")
@pytest.mark.parametrize("model", EVERY)
@pytest.mark.parametrize("budget", BUDGETS)
def test_every_model_takes_every_budget_as_it_is_written(model: str, budget: int | str | None) -> None:
    resolved = replace(FLASH, model=model).with_options(thinking_budget=budget, temperature=1.5, max_tokens=9000)
    check_request(path_of(model), body_of("hi", resolved=resolved), Signed())


@pytest.mark.requirement("models.options.thinking-budget")
@pytest.mark.parametrize(
    ("model", "budget", "said"),
    [
        ("gemini-2.5-flash", None, {"includeThoughts": True}),
        ("gemini-2.5-flash", 5000, {"includeThoughts": True, "thinkingBudget": 5000}),
        ("gemini-2.5-flash", "low", {"includeThoughts": True, "thinkingBudget": 2048}),
        ("gemini-2.5-flash", "none", {"thinkingBudget": 0}),
        ("gemini-2.5-pro", 0, {"includeThoughts": True, "thinkingBudget": 128}),
        ("gemini-3.8-flash", -1, {"includeThoughts": True}),
        ("gemini-3.8-flash", "max", {"includeThoughts": True, "thinkingLevel": "high"}),
        ("gemini-3.8-flash", 5000, {"includeThoughts": True, "thinkingLevel": "medium"}),
        ("gemini-3.8-flash", "none", {"includeThoughts": True, "thinkingLevel": "minimal"}),
        ("gemini-3.1-pro", "none", {"includeThoughts": True, "thinkingLevel": "low"}),
        ("gemini-2.0-flash", "high", None),
    ],
)
def test_how_a_budget_is_said(model: str, budget: int | str | None, said: dict[str, Any] | None) -> None:
    resolved = replace(FLASH, model=model).with_options(thinking_budget=budget)
    assert config_of(resolved=resolved).get("thinkingConfig") == said
    quiet = resolved.with_options(provider_opts={"thinking_display": "omitted"})
    assert "includeThoughts" not in config_of(resolved=quiet).get("thinkingConfig", {})


@pytest.mark.requirement("models.options.sampling")
def test_options_are_sent_only_when_they_are_set() -> None:
    options = {"temperature": 0.5, "top_p": 0.9, "frequency_penalty": 1.0, "presence_penalty": -1.0, "max_tokens": 77}
    found = config_of(resolved=replace(FLASH, model="gemma-9").with_options(**options))
    assert found == {
        "temperature": 0.5,
        "topP": 0.9,
        "frequencyPenalty": 1.0,
        "presencePenalty": -1.0,
        "maxOutputTokens": 77,
    }
    assert config_of(max_output_tokens=50)["maxOutputTokens"] == 50
    assert set(body_of("hi", resolved=replace(FLASH, model="gemma-9"))) == {"contents", "tools"}
    form = {"name": "n", "schema": {"type": "object"}}
    assert config_of(structured_output=form)["responseJsonSchema"] == {"type": "object"}
    older = replace(FLASH, model="gemini-2.5-flash")
    assert "responseJsonSchema" not in config_of(resolved=older, structured_output=form)
    assert "responseJsonSchema" in config_of(resolved=older, structured_output=form, tools=())
    extra = {"extra_body": {"cachedContent": "c", "contents": []}}
    body = body_of("hi", resolved=FLASH.with_options(provider_opts=extra))
    assert (body["cachedContent"], len(body["contents"])) == ("c", 1)


def test_results_stand_alone_behind_their_calls_and_names_begin_with_a_letter() -> None:
    tools = [ToolSpec(name, "d", {"type": "object"}) for name in ("9lives", "a.b")]
    system = Message("system", (Part("text", "Help."),))
    history = [
        *(system, user("one"), user("two")),
        assistant("Looking.", made("a.b", "9lives"), made("c", "no such tool!", "[]")),
        *(result("a.b", "", "9lives"), replace(result("c", "failed", "no such tool!"), status="failed")),
        *(user("three"), Message("assistant", ()), user("four")),
    ]
    body = body_of(*history, tools=tools)
    check_request(path_of("gemini-3.8-flash"), body, Signed())
    assert [content["role"] for content in body["contents"]] == ["user", "model", "user", "user"]
    answered = [part["functionResponse"]["response"] for part in body["contents"][2]["parts"]]
    assert answered == [{"result": "(no output)"}, {"error": "failed"}]
    assert [call["functionCall"]["args"] for call in body["contents"][1]["parts"][1:]] == [
        {"cmd": "ls"},
        {"invalid_arguments": "[]"},
    ]
    names = WireNames(["9lives"], letter_first=True)
    assert names.wire("9lives").startswith("_9lives_") and names.ours(names.wire("9lives")) == "9lives"


@pytest.mark.requirement("audio.provider.gemini")
def test_media_are_sent_inline_with_the_parameters_of_their_type_or_told_in_words() -> None:
    data = PNG.decode()
    parts = (
        Part("text", "see"),
        Part("image", data=data, mime_type="image/png", size=33),
        Part("audio", data=data, mime_type="audio/l16;rate=16000", size=33),
        Part("document", data=data, mime_type="application/pdf", name="a.pdf", size=33),
        Part("image", data=data, mime_type="image/gif", size=33),
    )
    body = body_of(Message("user", parts))
    check_request(path_of("gemini-3.8-flash"), body, Signed())
    content = body["contents"][0]["parts"]
    assert [part.get("inlineData", {}).get("mimeType", "text") for part in content] == [
        *("text", "image/png", "audio/l16;rate=16000", "application/pdf", "text")
    ]
    assert content[2]["inlineData"]["data"] == data and "image/gif" in content[4]["text"]
    unable = FLASH.with_options(capabilities={"image": False, "pdf": False, "audio": False})
    assert len(body_of(Message("user", parts), resolved=unable)["contents"][0]["parts"]) == 1


def test_a_call_of_another_model_says_that_it_is_not_signed() -> None:
    history = [user("go"), assistant("", made("a"), made("b")), result("a"), result("b")]
    calls = body_of(*history)["contents"][1]["parts"]
    assert [call.get("thoughtSignature") for call in calls] == [UNSIGNED, UNSIGNED]
    older = body_of(*history, resolved=replace(FLASH, model="gemini-2.5-pro"))["contents"][1]["parts"]
    assert "thoughtSignature" not in older[0]


PIECES = st.lists(
    st.sampled_from([ms.Thought("why"), ms.Text("so "), ms.Text("\n\n"), ms.ToolCalls([ms.call("shell")] * 2)]),
    min_size=1,
    max_size=6,
)


@given(PIECES)
def test_whatever_an_answer_is_made_of_goes_back_as_it_came(steps: Sequence[Any]) -> None:
    dialect = Gemini()
    body = body_of("go")
    steps = [*steps, ms.Finish()]
    answer = Answer(WireNames(["shell"]), request_body(FLASH, asked("go"), WireNames(["shell"]))[1].prefix.mark)
    voice = dialect.voice(body, steps)
    for event in (event for step in steps for event in voice.events(step)):
        answer.absorb(event.split(b"data: ")[1].strip())
    response = answer.response()
    ours = [replace(call, id=f"our{n}") for n, call in enumerate(response.tool_calls)]
    stored = [
        replace(assistant(response.text, *ours), carried=response.carried),
        *(result(call.id) for call in ours),
    ]
    again = body_of("go", *stored)
    if again["contents"][-1]["role"] == "model":
        again = body_of("go", *stored, "on")
    if ours and "thoughtSignature" not in json.dumps(again):
        return  # the server of the tests signs thoughts; a call without one is a thing of older models
    dialect.check(path_of("gemini-2.5-pro"), {}, again) if ours else dialect.check(path_of(FLASH.model), {}, again)
    assert dialect.carried(again) == sum(isinstance(step, ms.Thought) for step in steps)
    other = body_of("went", *stored, "on")
    dialect.check(path_of(FLASH.model), {}, other)
    assert dialect.carried(other) == 0


def chunk(parts: Sequence[Any] = (), finish: str | None = None, **more: Any) -> bytes:
    candidate = {"content": {"parts": list(parts)}, **({"finishReason": finish} if finish else {})}
    return json.dumps({"candidates": [candidate], **more}).encode()


def test_a_text_is_signed_where_it_was_signed() -> None:
    answer = Answer(WireNames(), "mark")
    answer.absorb(
        chunk([{"text": "a"}, {"text": "b"}, {"text": "cd", "thoughtSignature": "S"}, {"text": "e"}, "odd"])
    )
    answer.absorb(chunk([{"text": "", "thoughtSignature": "T"}, {"executableCode": {}}], "STOP"))
    pieces = json.loads(answer.response().carried)["pieces"]
    own = {"own": {"text": "", "thoughtSignature": "T"}}
    assert pieces == [{"text": 2}, {"text": 2, "signature": "S"}, {"text": 1}, {"text": 0}, own]
    assert answer.response().text == "abcde"


def test_calls_without_an_id_get_one_each() -> None:
    answer = Answer(WireNames(), "mark")
    answer.absorb(chunk([{"functionCall": {"name": "x"}}, {"functionCall": {"name": "x", "args": {"a": 1}}}], "STOP"))
    calls = answer.response().tool_calls
    assert [call.arguments for call in calls] == ["{}", '{"a": 1}'] and len({call.id for call in calls}) == 2


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (chunk([{"text": "a"}], "STOP"), "stop"),
        (chunk([{"text": "a"}], "MAX_TOKENS"), "length"),
        (chunk([{"text": "a"}], "RECITATION"), "refusal"),
        (json.dumps({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}).encode(), "refusal"),
        (chunk([{"text": "a"}], "SOMETHING_NEW"), "stop"),
    ],
)
def test_how_an_answer_ends(data: bytes, reason: str) -> None:
    answer = Answer(WireNames())
    answer.absorb(data)
    assert (answer.complete, answer.response().finish_reason) == (True, reason)


@pytest.mark.parametrize("data", [chunk([{"text": "a"}]), chunk((), "MALFORMED_FUNCTION_CALL"), b"{}"])
def test_what_is_no_answer_may_be_tried_again(data: bytes) -> None:
    answer = Answer(WireNames())
    answer.absorb(data)
    with pytest.raises(ModelError) as caught:
        answer.response()
    assert caught.value.retryable


def test_an_error_inside_the_stream_is_one() -> None:
    with pytest.raises(StreamError):
        Answer(WireNames()).absorb(json.dumps(Gemini().error(503, "overloaded")).encode())


@pytest.mark.parametrize(
    ("status", "error", "code", "wait", "words"),
    [
        (
            400,
            {"message": "API key not valid. Please pass a valid API key."},
            "model_error",
            None,
            "refused the key in",
        ),
        (
            429,
            {
                "message": "Resource has been exhausted",
                "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}],
            },
            "rate_limited",
            34.5,
            "allows no more requests",
        ),
        (
            400,
            {"message": "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576)."},
            "context_exceeded",
            None,
            "too long",
        ),
        (503, {"message": "The model is overloaded.", "details": "none"}, "model_error", None, "failed (HTTP 503)"),
    ],
)
async def test_errors_of_the_service(
    status: int, error: dict[str, Any], code: str, wait: float | None, words: str
) -> None:
    async with talking(Reply(status=status, error=[{"error": {"code": status, **error}}])) as (_, model):
        with pytest.raises(ModelError) as caught:
            await ask(model, "hi")
    assert (caught.value.code, caught.value.retry_after) == (code, wait)
    assert words in caught.value.text and KEY not in caught.value.text


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
    for model in ("gemini-3.8-flash", "gemini-2.5-pro"):
        check_request(path_of(model), body_of(*messages, "end", resolved=replace(FLASH, model=model)), Signed())


# --- what the server of the tests refuses ------------------------------------------------------------------------

GOOD = body_of("hi", assistant("a", made("c1")), result("c1"))
TURNS = GOOD["contents"]


def unsigned(turn: dict[str, Any]) -> dict[str, Any]:
    parts = [{key: value for key, value in part.items() if key != "thoughtSignature"} for part in turn["parts"]]
    return {**turn, "parts": parts}


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"messages": []}, "Unknown name"),
        ({"contents": []}, "not specified"),
        ({"contents": [TURNS[0], TURNS[0]]}, "same side"),
        ({"contents": TURNS[:2]}, "immediately after"),
        ({"contents": [TURNS[0], TURNS[1], TURNS[0]]}, "number of function response parts"),
        ({"contents": [TURNS[0], TURNS[2]]}, "number of function response parts"),
        ({"contents": [TURNS[0], unsigned(TURNS[1]), TURNS[2]]}, "missing a thought_signature"),
        ({"contents": [{"role": "assistant", "parts": [{"text": "a"}]}]}, "valid role"),
        ({"contents": [{"role": "user", "parts": [{"text": " "}]}]}, "empty text"),
        ({"contents": [{"role": "user", "parts": [{"text": "a", "thoughtSignature": "x"}]}]}, "Invalid thought"),
        ({"tools": [{"functionDeclarations": [{"name": "9", "parametersJsonSchema": {}}]}]}, "Invalid function name"),
        ({"generationConfig": {"max_tokens": 3}}, "Unknown name"),
        ({"generationConfig": {"thinkingConfig": {"thinkingBudget": 3}}}, "not supported"),
    ],
)
def test_an_invalid_request_is_refused(changed: dict[str, Any], reason: str) -> None:
    check_request(path_of(FLASH.model), GOOD, Signed())
    with pytest.raises(Refused, match=reason):
        check_request(path_of(FLASH.model), {**GOOD, **changed}, Signed())


async def test_a_request_without_tools_has_none() -> None:
    async with talking(ms.text("a")) as (server, model):
        heard = Heard()
        await model.complete(ModelRequest((user("hi"),)), heard)
    assert heard.deltas == [Delta("content", "a")]
    assert set(server.requests[0].body) == {"contents", "generationConfig"}
