"""The model server of the tests: what it refuses, what it records, and that it can be called from anywhere."""

from __future__ import annotations

import base64
import json
import struct
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from sluice.models import build
from tests.models.helpers import Resolved, ask, asked
from tests.support import model_server as ms
from tests.support.chat_rules import Refused, check_request, image_size
from tests.support.model_server import ModelServer, Reply

USER = {"role": "user", "content": "hi"}
CALL = {"id": "c1", "type": "function", "function": {"name": "shell", "arguments": "{}"}}
ASSISTANT = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "ok"}


def png(width: int, height: int) -> str:
    data = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sIIBBBBB", 13, b"IHDR", width, height, 8, 2, 0, 0, 0)
    return "data:image/png;base64," + base64.b64encode(data).decode()


def image(url: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}


def calling(name: str, arguments: str = "{}") -> list[Any]:
    function = {"name": name, "arguments": arguments}
    return [USER, changed(ASSISTANT, tool_calls=[changed(CALL, function=function)]), RESULT]


def tool(**function: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "a", **function}}


def changed(message: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    return {**message, **fields}


def test_a_valid_request_is_taken() -> None:
    system = {"role": "system", "content": "s"}
    check_request(
        {"model": "m", "messages": [system, USER, ASSISTANT, RESULT, {"role": "assistant", "content": "a"}, USER]}
    )
    check_request({"model": "m", "messages": [image(png(10, 10))]})


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([], "empty"),
        ([{"role": "robot", "content": "x"}], "role"),
        ([{"role": "user", "content": ""}], "no content"),
        ([{"role": "user", "content": []}], "no content"),
        ([{"role": "assistant", "content": "a"}, USER], "begins with the assistant"),
        ([USER, {"role": "system", "content": "s"}, USER], "inside the conversation"),
        ([USER, ASSISTANT], "at the end"),
        ([USER, ASSISTANT, USER], "without a result"),
        ([USER, ASSISTANT, RESULT, RESULT], "waits for no result"),
        ([USER, RESULT], "waits for no result"),
        ([USER, ASSISTANT, changed(RESULT, content="")], "no content"),
        ([USER, ASSISTANT, changed(RESULT, tool_call_id="c2")], "waits for no result"),
        ([USER, {"role": "assistant", "content": None}, USER], "no content"),
        ([USER, {"role": "assistant", "content": "", "tool_calls": [CALL]}, RESULT], "no content"),
        ([USER, {"role": "assistant", "content": "a", "tool_calls": []}, USER], "empty tool_calls"),
        ([USER, changed(ASSISTANT, tool_calls=[CALL, CALL]), RESULT, RESULT], "again"),
        ([USER, ASSISTANT, RESULT, ASSISTANT, RESULT], "again"),
        ([USER, changed(ASSISTANT, tool_calls=[changed(CALL, id="")]), RESULT], "id"),
        (calling("a.b"), "pattern"),
        (calling("a", "{"), "JSON"),
        (calling("a", "1"), "object"),
        ([USER, {"role": "assistant", "content": "a"}], "last message"),
        ([image(png(8001, 1))], "pixels"),
        ([image(png(2001, 1))] * 21, "21 images"),
        ([image("data:image/png;base64,!!")], "data url"),
        ([image("data:image/png;base64,AAAA")], "cannot be read"),
        ([image("data:image/png;base64," + "A" * (5 * 1024 * 1024 + 4))], "5 MiB"),
    ],
)
def test_an_invalid_history_is_refused(messages: list[Any], reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        check_request({"model": "m", "messages": messages})


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"model": ""}, "model"),
        ({"tools": []}, "empty"),
        ({"tools": [tool(name="a b")]}, "pattern"),
        ({"tools": [tool(), tool()]}, "twice"),
        ({"tools": [tool(parameters={"type": "string"})]}, "object schema"),
        ({"tools": [tool(parameters={"type": "object", "required": 1})]}, "JSON schema"),
        ({"temperature": 3}, "range"),
        ({"parallel_tool_calls": False}, "without tools"),
        ({"stream_options": {}}, "without stream"),
    ],
)
def test_invalid_options_are_refused(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        check_request({"model": "m", "messages": [USER], **fields})


def test_image_sizes_are_read_from_the_header() -> None:
    jpeg = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08" + struct.pack(">HH", 20, 30) + b"\x03" * 9
    assert image_size(jpeg) == (30, 20)
    assert image_size(b"GIF89a" + struct.pack("<HH", 5, 6)) == (5, 6)
    assert image_size(b"nothing") is None


def post(url: str, body: Any) -> tuple[int, Any]:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_a_caller_without_an_event_loop_is_served_too() -> None:
    with ms.running_in_thread(ms.calls(ms.call("shell", cmd="ls"))) as server:
        url = server.base_url + "/chat/completions"
        status, answer = post(url, {"model": "m", "messages": [USER]})
        assert status == 200
        assert answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "shell"
        status, answer = post(url, {"model": "m", "messages": [USER, ASSISTANT]})
        assert (status, answer["error"]["type"]) == (400, "invalid_request_error")
        assert len(server.refusals) == 1
        assert post(url, {"model": "m", "messages": [USER]})[0] == 500
        assert len(server.unscripted) == 1
        assert post(server.base_url + "/nothing", {})[0] == 404


@pytest.mark.anyio
async def test_a_reply_waits_for_the_test() -> None:
    headers, rest = anyio.Event(), anyio.Event()
    reply = Reply([ms.Text("a"), ms.Wait(rest), ms.Text("b")], before=headers)
    async with ModelServer([reply]) as server:
        model = build(Resolved(server.base_url))
        heard: list[str] = []

        async def on_delta(delta: Any) -> None:
            heard.append(delta.text)
            rest.set()

        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(model.complete, asked("hi"), on_delta)
                await server.wait_for_call(1)
                assert heard == []
                headers.set()
        assert heard == ["a", "b"]
        assert server.requests[0].finished.is_set()
        await model.aclose()


@pytest.mark.anyio
async def test_a_reply_may_depend_on_the_request() -> None:
    async with ModelServer(default=lambda recorded: ms.text(recorded.messages[-1]["content"].upper())) as server:
        model = build(Resolved(server.base_url))
        assert (await ask(model, "one")).text == "ONE"
        assert (await ask(model, "two")).text == "TWO"
        await model.aclose()
    assert [request.tools for request in server.requests] == [["shell"], ["shell"]]
