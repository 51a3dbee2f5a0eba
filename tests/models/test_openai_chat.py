from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
import pytest

from sluice.agent.ports import Delta, Model, ModelError, ModelRequest
from sluice.config.schema import Cost
from sluice.models import build
from sluice.models.openai_chat import API
from sluice.models.remote import IDLE_TIMEOUT, Remote
from sluice.persistence.records import Message, Part
from tests.models.helpers import KEY, Heard, Resolved, ask, asked, assistant, result, user
from tests.support import model_server as ms
from tests.support.model_server import ModelServer, Reply

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02\x00\x00\x00" + b"\x00" * 4


@asynccontextmanager
async def talking(*replies: Any, resolved: Resolved | None = None) -> AsyncIterator[tuple[ModelServer, Model]]:
    async with ModelServer(replies) as server:
        model = build(Resolved(server.base_url) if resolved is None else replace(resolved, base_url=server.base_url))
        try:
            yield server, model
        finally:
            await model.aclose()
    assert server.unscripted == []


async def failed(model: Model, *messages: Any) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await ask(model, *(messages or ("hi",)))
    assert KEY not in str(caught.value)
    assert "\n" not in caught.value.text
    return caught.value


@pytest.mark.requirement("models.providers.openai-chat")
async def test_a_streamed_answer_arrives_in_pieces_and_whole() -> None:
    async with talking(ms.text("Hel", "lo", usage=ms.Usage(12, 3, 4, 2))) as (server, model):
        heard = Heard()
        response = await ask(model, "hi", heard=heard)
    assert heard.texts == ["Hel", "lo"]
    assert (response.text, response.finish_reason, response.model) == ("Hello", "stop", "gpt-4o")
    assert response.usage is not None
    assert response.usage.input_tokens == 12
    assert response.usage.output_tokens == 3
    assert response.usage.cached_input_tokens == 4
    assert response.usage.reasoning_tokens == 2
    assert server.refusals == []
    assert server.requests[0].body["messages"] == [{"role": "user", "content": "hi"}]
    assert server.requests[0].body["stream_options"] == {"include_usage": True}


async def test_tool_calls_and_their_results_make_a_history_the_server_takes() -> None:
    first = ms.calls(ms.call("shell", cmd="ls"), ms.call("shell", cmd="pwd"), text="Looking.")
    async with talking(first, ms.text("done")) as (server, model):
        response = await ask(model, "go")
        assert [(call.name, call.arguments) for call in response.tool_calls] == [
            ("shell", '{"cmd": "ls"}'),
            ("shell", '{"cmd": "pwd"}'),
        ]
        assert response.finish_reason == "tool_calls"
        ids = [call.id for call in response.tool_calls]
        again = await ask(
            model, "go", assistant("Looking.", *response.tool_calls), result(ids[0]), result(ids[1], "")
        )
        assert again.text == "done"
    assert server.refusals == []


async def test_reasoning_goes_to_the_thought_channel() -> None:
    reply = Reply([ms.Thought("hm"), ms.Thought("m", key="reasoning"), ms.Text("yes")])
    async with talking(reply) as (_, model):
        heard = Heard()
        response = await ask(model, "hi", heard=heard)
    assert heard.deltas == [Delta("thought", "hm"), Delta("thought", "m"), Delta("content", "yes")]
    assert response.thought == "hmm"


async def test_no_key_means_no_authorization_header() -> None:
    async with talking(ms.text("a"), resolved=Resolved(key=None)) as (server, model):
        await ask(model, "hi")
    assert "authorization" not in server.requests[0].headers


async def test_the_key_and_configured_headers_are_sent() -> None:
    resolved = Resolved().with_options(provider_opts={"http_headers": {"X-Team": "blue"}})
    async with talking(ms.text("a"), resolved=resolved) as (server, model):
        await ask(model, "hi")
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert server.requests[0].headers["x-team"] == "blue"


@pytest.mark.requirement("models.options.sampling")
async def test_options_are_sent_only_when_they_are_set() -> None:
    options = {"temperature": 0.0, "max_tokens": 9, "top_p": 0.5, "frequency_penalty": 1.0, "presence_penalty": -1.0}
    full = Resolved().with_options(**options, parallel_tool_calls=False, provider_opts={"extra_body": {"seed": 7}})
    async with talking(ms.text("a"), ms.text("a"), resolved=full) as (server, model):
        await ask(model, "hi")
        await model.complete(ModelRequest((user("hi"),)), Heard())
    first, toolless = (request.body for request in server.requests)
    assert {key: first[key] for key in options} == options
    assert first["parallel_tool_calls"] is False
    assert first["seed"] == 7
    assert "parallel_tool_calls" not in toolless
    assert "tools" not in toolless
    async with talking(ms.text("a")) as (server, model):
        await ask(model, "hi")
    assert set(server.requests[0].body) == {"model", "messages", "stream", "stream_options", "tools"}


@pytest.mark.requirement("models.credentials.missing-named")
async def test_a_refused_key_is_told_by_the_name_of_its_variable() -> None:
    reply = ms.failure(401, f"Incorrect API key provided: {KEY}. Bearer {KEY}")
    resolved = Resolved().with_options(token_key="TEAM_KEY")
    async with talking(reply, resolved=resolved) as (_, model):
        error = await failed(model)
    assert "TEAM_KEY" in error.text
    assert (error.code, error.retryable, error.status) == ("model_error", False, 401)


@pytest.mark.parametrize("status", [408, 500, 502, 503, 504, 529])
async def test_failures_of_the_server_may_be_tried_again(status: int) -> None:
    async with talking(ms.failure(status)) as (_, model):
        error = await failed(model)
    assert (error.code, error.retryable, error.status) == ("model_error", True, status)


async def test_a_rate_limit_tells_how_long_to_wait() -> None:
    async with talking(ms.failure(429, headers={"retry-after": "7"})) as (_, model):
        error = await failed(model)
    assert (error.code, error.retryable, error.retry_after) == ("rate_limited", False, 7.0)


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (ms.failure(400, "too long", code="context_length_exceeded"), "context_exceeded"),
        (ms.failure(400, "This model's maximum context length is 8192 tokens"), "context_exceeded"),
        (ms.failure(500, "prompt exceeds the available context size"), "context_exceeded"),
        (ms.failure(413, "entity too large"), "request_too_large"),
        (ms.failure(400, "image exceeds 5 MB maximum"), "media_too_large"),
        (ms.failure(400, "unknown field"), "model_error"),
        (ms.failure(404, "model not found"), "model_error"),
    ],
)
async def test_a_request_at_fault_is_not_tried_again(reply: Reply, code: str) -> None:
    async with talking(reply) as (_, model):
        error = await failed(model)
    assert (error.code, error.retryable) == (code, False)


async def test_a_server_that_is_not_there_is_named_by_host_and_port() -> None:
    async with ModelServer() as server:
        pass
    model = build(Resolved(server.base_url))
    error = await failed(model)
    await model.aclose()
    assert f"127.0.0.1:{server.port}" in error.text
    assert error.retryable


@pytest.mark.parametrize(
    "steps",
    [
        [ms.Text("Hel"), ms.Close()],
        [ms.Text("Hel"), ms.Close(done=True)],
        [ms.Text("Hel"), ms.Finish(None)],
        [ms.Text("Hel"), ms.Raw(b'data: {"choices": [{"del'), ms.Close(done=True)],
        [ms.Text("Hel"), ms.Raw(b'data: {"choices": [{"del\n\n'), ms.Finish()],
        [ms.Finish(None), ms.Raw(b"data: [DONE]\n\n")],
    ],
)
async def test_an_answer_that_breaks_off_may_be_tried_again(steps: list[Any]) -> None:
    async with talking(Reply(steps)) as (_, model):
        error = await failed(model)
    assert (error.code, error.retryable) == ("model_error", True)


@pytest.mark.requirement("models.stream.idle-timeout")
async def test_a_silent_stream_counts_as_broken() -> None:
    async with ModelServer([Reply([ms.Text("a"), ms.Stall()])]) as server:
        assert IDLE_TIMEOUT == 300
        model = Remote(API, Resolved(server.base_url), idle_timeout=0.05)
        error = await failed(model)
        await server.wait_for_abort()
        await model.aclose()
    assert error.retryable
    assert "silent" in error.text


async def test_cancelling_closes_the_connection_at_the_server() -> None:
    async with talking(Reply([ms.Text("a"), ms.Stall()]), ms.text("b")) as (server, model):
        started = anyio.Event()

        async def on_delta(delta: Delta) -> None:
            started.set()

        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(model.complete, asked("hi"), on_delta)
                await started.wait()
                tasks.cancel_scope.cancel()
            await server.wait_for_abort()
        assert (await ask(model, "hi")).text == "b"


@pytest.mark.requirement("models.providers.openai-chat")
async def test_an_image_reaches_the_server() -> None:
    data = base64.b64encode(PNG).decode()
    message = Message("user", (Part("text", "what is it?"), Part("image", data=data, mime_type="image/png", size=33)))
    async with talking(ms.text("a dot")) as (server, model):
        await ask(model, message)
    assert server.refusals == []
    assert server.requests[0].body["messages"][0]["content"] == [
        {"type": "text", "text": "what is it?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
    ]


async def test_the_context_window_is_that_of_the_configuration_else_of_the_catalogue() -> None:
    assert build(replace(Resolved("http://x/v1"), model="nobody-knows")).context_size is None
    assert build(Resolved("http://x/v1")).context_size == 128_000
    named = Resolved("http://x/v1").with_options(provider_opts={"context_size": 4096})
    assert build(named).context_size == 4096
    assert build(named.with_options(context_size=8192)).context_size == 8192
    assert build(named).ref == "openai/gpt-4o"


@pytest.mark.requirement("models.usage.recorded")
async def test_the_cost_follows_the_configured_prices() -> None:
    resolved = Resolved().with_options(cost=Cost(input=2.0, output=4.0, cache_read=1.0))
    async with talking(ms.text("a", usage=ms.Usage(1_000_000, 500_000, 500_000)), resolved=resolved) as (_, model):
        response = await ask(model, "hi")
    assert response.usage is not None
    assert response.usage.cost == pytest.approx(1.0 + 0.5 + 2.0)


async def test_the_thinking_budget_is_sent() -> None:
    async with talking(ms.text("a"), resolved=Resolved().with_options(thinking_budget="low")) as (server, model):
        await ask(model, "hi")
    assert server.requests[0].body["reasoning_effort"] == "low"


async def test_the_connection_serves_several_calls() -> None:
    async with talking(ms.text("a"), ms.text("b")) as (server, model):
        await ask(model, "hi")
        await ask(model, "hi")
    assert server.connections == 1
