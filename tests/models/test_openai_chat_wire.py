"""What an OpenAI-compatible server may put on the wire, byte by byte: the same client against raw sockets."""

from __future__ import annotations

import base64
import gzip
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.agent.ports import Delta, ModelError, ModelResponse
from sluice.models import build
from sluice.models.endpoint import target
from sluice.models.openai_chat import API
from sluice.models.remote import Remote
from tests.models.helpers import KEY, Heard, Options, Resolved, ask, asked, cut
from tests.support import model_server as ms
from tests.support.model_server import ModelServer, Reply

pytestmark = pytest.mark.anyio

EVENTS = (
    ": hello\n\n"
    'data: {"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
    'data: {"choices":[{"index":0,"delta":{"reasoning":"hé"}}]}\r\n\r\n'
    'data: {"choices":[{"index":0,"delta":{"content":"grüß"}}]}\n\n'
    'data: {"choices":[{"index":0,"delta":{"content":" 😀"}}]}\n\n'
    'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"shell",'
    '"arguments":"{\\"cmd\\":"}}]}}]}\n\n'
    'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\\"ls\\"}"}}]}}]}\n\n'
    'data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}\n\n'
    'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\n'
    "data: [DONE]\n\n"
).encode()
SSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"


def chunked(*bodies: bytes) -> bytes:
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(body), body) for body in bodies)
    return SSE + b"transfer-encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


def sized(body: bytes, head: bytes = SSE) -> bytes:
    return head + b"content-length: %d\r\n\r\n" % len(body) + body


@asynccontextmanager
async def raw_server(*answers: Sequence[bytes], stays_open: bool = False) -> AsyncIterator[str]:
    """Sends the pieces of one answer to each request, as they are; then hangs up, unless it stays open."""
    left = list(answers)

    async def serve(stream: SocketStream) -> None:
        async with stream:
            head = b""
            while b"\r\n\r\n" not in head:
                head += await stream.receive()
            head, _, body = head.partition(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            while len(body) < length:
                body += await stream.receive()
            for piece in left.pop(0):
                await stream.send(piece)
            if stays_open:
                await anyio.sleep_forever()

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        yield f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}/v1"
        tasks.cancel_scope.cancel()


async def heard_from(pieces: Sequence[bytes], **more: Any) -> tuple[ModelResponse, Heard]:
    async with raw_server(pieces, **more) as url:
        model = Remote(API, Resolved(url))
        heard = Heard()
        with anyio.fail_after(20):
            response = await ask(model, "hi", heard=heard)
        await model.aclose()
    return response, heard


def check(response: ModelResponse, heard: Heard) -> None:
    assert heard.deltas == [Delta("thought", "hé"), Delta("content", "grüß"), Delta("content", " 😀")]
    assert (response.text, response.finish_reason) == ("grüß 😀", "tool_calls")
    assert [(call.id, call.name, call.arguments) for call in response.tool_calls] == [("c", "shell", '{"cmd":"ls"}')]
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens) == (3, 2)


FRAMINGS = {
    "one chunk": chunked(EVENTS),
    "a chunk for every byte": chunked(*(bytes([byte]) for byte in EVENTS)),
    "a chunk for every event": chunked(*(event + b"\n\n" for event in EVENTS.split(b"\n\n") if event)),
    "content-length": sized(EVENTS),
    "until the end": SSE + b"connection: close\r\n\r\n" + EVENTS,
}


@pytest.mark.parametrize("framing", FRAMINGS)
async def test_every_framing_gives_the_same_answer(framing: str) -> None:
    check(*await heard_from([FRAMINGS[framing]]))


async def test_an_answer_sent_byte_by_byte_is_the_same() -> None:
    check(*await heard_from([bytes([byte]) for byte in chunked(EVENTS[:300], EVENTS[300:])]))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_an_answer_cut_anywhere_in_http_and_in_sse_is_the_same(data: st.DataObject) -> None:
    places = st.lists(st.integers(0, len(EVENTS)), max_size=8)
    stream = chunked(*(piece for piece in cut(EVENTS, data.draw(places)) if piece))
    pieces = [piece for piece in cut(stream, data.draw(st.lists(st.integers(0, len(stream)), max_size=8))) if piece]
    check(*anyio.run(heard_from, pieces))


async def test_a_packed_stream_is_unpacked() -> None:
    check(*await heard_from([sized(gzip.compress(EVENTS), SSE + b"content-encoding: gzip\r\n")]))


async def test_a_whole_object_in_place_of_a_stream_is_taken() -> None:
    message = {"content": "hi", "tool_calls": [{"id": "c", "function": {"name": "x", "arguments": "{}"}}]}
    body = {"model": "m", "choices": [{"message": message, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3}}
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
    response, heard = await heard_from([sized(json.dumps(body).encode(), head)])
    assert heard.texts == ["hi"]
    assert (response.text, response.finish_reason, len(response.tool_calls)) == ("hi", "tool_calls", 1)


async def test_a_server_that_keeps_the_stream_open_after_done_is_not_waited_for() -> None:
    whole = SSE + b"transfer-encoding: chunked\r\n\r\n" + b"%x\r\n%s\r\n" % (len(EVENTS), EVENTS)
    check(*await heard_from([whole], stays_open=True))


async def test_a_connection_that_breaks_after_the_finish_reason_costs_only_the_usage() -> None:
    events = EVENTS[: EVENTS.index(b'data: {"choices":[],"usage"')]
    whole = SSE + b"transfer-encoding: chunked\r\n\r\n" + b"%x\r\n%s\r\n" % (len(events), events)
    response, _ = await heard_from([whole])
    assert (response.finish_reason, response.usage) == ("tool_calls", None)


async def test_a_stream_without_finish_reason_but_with_done_is_an_answer() -> None:
    response, _ = await heard_from([chunked(b'data: {"choices":[{"delta":{"content":"a"}}]}\n\ndata: [DONE]\n\n')])
    assert (response.text, response.finish_reason) == ("a", "stop")


async def failure_of(pieces: Sequence[bytes]) -> ModelError:
    async with raw_server(pieces) as url:
        model = Remote(API, Resolved(url))
        with anyio.fail_after(20), pytest.raises(ModelError) as caught:
            await ask(model, "hi")
        await model.aclose()
    assert KEY not in caught.value.text
    assert "\n" not in caught.value.text
    assert len(caught.value.text) < 600
    return caught.value


@pytest.mark.parametrize(
    ("data", "code", "retryable"),
    [
        ({"error": {"message": "overloaded", "type": "server_error"}}, "model_error", True),
        ({"error": {"message": "busy", "code": 503}}, "model_error", True),
        ({"error": {"message": "slow down", "code": 429}}, "rate_limited", False),
        ({"error": {"message": "Rate limit reached", "type": "rate_limit_error"}}, "rate_limited", False),
        ({"error": {"message": "maximum context length is 5"}}, "context_exceeded", False),
        ({"error": {"message": "bad", "type": "invalid_request_error"}}, "model_error", False),
        ({"error": f"oops {KEY}"}, "model_error", True),
        ({"object": "error", "message": "gone", "code": 500}, "model_error", True),
        ({"error": {"message": {"deep": KEY}}}, "model_error", True),
    ],
)
async def test_an_error_inside_the_stream(data: Any, code: str, retryable: bool) -> None:
    event = f"data: {json.dumps(data)}\n\n".encode()
    error = await failure_of([chunked(EVENTS[: EVENTS.index(b'data: {"choices":[{"index":0,"delta":{"tool')], event)])
    assert (error.code, error.retryable) == (code, retryable)


@pytest.mark.parametrize(
    "whole",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n",
        chunked(b"data: nonsense\n\n"),
        chunked(b""),
        SSE + b"transfer-encoding: chunked\r\n\r\nzz\r\n",
        SSE + b"content-length: 500\r\n\r\ndata: {",
        sized(b"not gzip", SSE + b"content-encoding: gzip\r\n"),
        sized(b"{}", b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"),
        sized(b"{", b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"),
    ],
)
async def test_what_is_no_answer_may_be_tried_again(whole: bytes) -> None:
    error = await failure_of([whole] if whole else [])
    assert (error.code, error.retryable) == ("model_error", True)


@pytest.mark.parametrize(
    "whole",
    [
        sized(b"<html>Welcome</html>", b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n"),
        b"HTTP/1.1 301 Moved\r\nlocation: http://elsewhere/\r\ncontent-length: 0\r\n\r\n",
        sized(b"<html>nothing here</html>", b"HTTP/1.1 404 Not Found\r\ncontent-type: text/html\r\n"),
    ],
)
async def test_a_wrong_address_is_told_with_its_remedy(whole: bytes) -> None:
    error = await failure_of([whole])
    assert not error.retryable
    assert "base_url" in error.text
    assert "<" not in error.text


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 413, 422, 429, 500, 503])
async def test_no_error_holds_the_key_or_a_configured_header(status: int) -> None:
    secret = "abcdef0123456789"
    message = f"no: {KEY}\nBearer {KEY} x-team={secret} {secret}\r\n" + "x" * 2000
    async with ModelServer([ms.failure(status, message)]) as server:
        options = Options(provider_opts={"http_headers": {"X-Team": secret}})
        model = build(Resolved(server.base_url, options=options))
        with pytest.raises(ModelError) as caught:
            await ask(model, "hi")
        await model.aclose()
    assert secret not in str(caught.value)
    assert KEY not in str(caught.value)
    assert "\n" not in caught.value.text
    assert len(caught.value.text) < 600


async def test_a_server_that_wants_a_key_is_told_by_the_variable_to_set() -> None:
    async with ModelServer([ms.failure(401, "missing key")]) as server:
        model = build(Resolved(server.base_url, provider="mistral", key=None))
        with pytest.raises(ModelError, match="set MISTRAL_API_KEY"):
            await ask(model, "hi")
        await model.aclose()


@pytest.mark.parametrize("url", [None, "", "ftp://host/v1", "host:80/v1", "http://host:99999/v1", "http:///v1"])
def test_an_address_that_cannot_be_used_is_an_error_before_the_first_call(url: str | None) -> None:
    with pytest.raises(ModelError, match="base_url"):
        build(Resolved(url))


@pytest.mark.parametrize("key", ["kéy", "a\nb", "\x7f"])
def test_a_key_that_cannot_be_sent_is_an_error_that_does_not_show_it(key: str) -> None:
    with pytest.raises(ModelError, match="OPENAI_API_KEY") as caught:
        build(Resolved("http://x/v1", key=key))
    assert key not in caught.value.text


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        ("http://h/v1", "http://h/v1/chat/completions"),
        ("http://h/v1/", "http://h/v1/chat/completions"),
        ("http://h/v1/chat/completions", "http://h/v1/chat/completions"),
        ("https://h:8/v1?api-version=2#x", "https://h:8/v1/chat/completions?api-version=2"),
        ("http://me:pass@[::1]:8/v1", "http://[::1]:8/v1/chat/completions"),
    ],
)
def test_the_address_of_the_call(base_url: str, url: str) -> None:
    assert target(API, Resolved(base_url)).url == url


def test_a_login_in_the_address_becomes_a_header_and_is_a_secret() -> None:
    made = target(API, Resolved("http://me:pa%40ss@h/v1", key=None))
    assert made.headers["authorization"] == "Basic " + base64.b64encode(b"me:pa@ss").decode()
    assert "pa@ss" in made.endpoint.secrets
    assert "pa@ss" not in repr(made)
    assert "authorization" not in repr(made)
    assert made.endpoint.place == "h:80"


def test_an_api_that_is_not_built_is_told() -> None:
    with pytest.raises(ModelError, match="telepathy"):
        build(Resolved("http://x/v1", api="telepathy"))


def test_making_a_model_loads_no_http_library() -> None:
    code = (
        "import sys; from sluice.models import build; from tests.models.helpers import Resolved;"
        " build(Resolved('https://x/v1')); sys.exit(any(name in sys.modules for name in ('httpx', 'h11')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_an_exception_of_the_listener_is_its_own_and_closes_the_stream() -> None:
    class Gone(Exception):
        pass

    async def on_delta(delta: Delta) -> None:
        raise Gone

    async with ModelServer([Reply([ms.Text("a"), ms.Stall()])]) as server:
        model = build(Resolved(server.base_url))
        with pytest.raises(Gone):
            await model.complete(asked("hi"), on_delta)
        await server.wait_for_abort()
        await model.aclose()


async def test_a_slow_listener_holds_the_server_back() -> None:
    piece = "x" * 65536
    async with ModelServer([ms.text(*[piece] * 400)]) as server:
        model = build(Resolved(server.base_url))
        gate = anyio.Event()
        count = 0

        async def on_delta(delta: Delta) -> None:
            nonlocal count
            count += 1
            await gate.wait()

        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(model.complete, asked("hi"), on_delta)
                await server.wait_for_call(1)
                await anyio.wait_all_tasks_blocked()
                assert not server.requests[0].finished.is_set()
                gate.set()
        assert count == 400
        await model.aclose()


async def test_cancelling_before_the_first_byte_closes_the_connection() -> None:
    async with ModelServer([Reply([ms.Text("a")], before=anyio.Event())]) as server:
        model = build(Resolved(server.base_url))
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(model.complete, asked("hi"), Heard())
                await server.wait_for_call(1)
                tasks.cancel_scope.cancel()
            await server.wait_for_abort()
        await model.aclose()


async def test_a_model_can_be_closed_twice_and_before_it_was_used() -> None:
    async with ModelServer([ms.text("a")]) as server:
        model = build(Resolved(server.base_url))
        await model.aclose()
        assert (await ask(model, "hi")).text == "a"
        await model.aclose()
        await model.aclose()


def test_it_runs_on_trio_too() -> None:
    check(*anyio.run(heard_from, [chunked(EVENTS)], backend="trio"))
