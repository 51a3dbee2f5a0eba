from __future__ import annotations

import base64
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.agent.ports import ModelRequest, ToolSpec
from sluice.models.names import WireNames
from sluice.models.openai_chat_history import request_body, to_chat
from sluice.persistence.records import Message, Part, ToolCallRecord
from tests.models.helpers import Options, Resolved, asked, assistant, made, result, user
from tests.support.chat_rules import check_request

PNG = base64.b64encode(
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02\x00\x00\x00" + b"\x00" * 8
).decode()
IMAGE = Part("image", data=PNG, mime_type="image/png", name="a.png", size=41)
PDF = Part("document", data="AAAA", mime_type="application/pdf", name="a.pdf", size=3)
WAV = Part("audio", data="AAAA", mime_type="audio/wav", size=3)
NAMES = WireNames()


def system(text: str) -> Message:
    return Message("system", (Part("text", text),))


def content(*parts: Part, **capabilities: bool) -> object:
    (message,) = to_chat([Message("user", parts)], NAMES, capabilities)
    return message["content"]


def test_a_whole_conversation_is_taken_by_a_strict_server() -> None:
    history = [
        system("You are Sluice."),
        system("Today is Monday."),
        user("go"),
        assistant("", made("c1"), made("c2", "weird name", "not json")),
        result("c1"),
        result("c2", "", "weird name"),
        assistant(""),
        assistant("done"),
        user("and again"),
    ]
    body = request_body(Resolved("http://x/v1"), asked(*history), NAMES)
    check_request(body)
    messages = body["messages"]
    assert [message["role"] for message in messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
        "user",
    ]
    assert messages[0]["content"] == "You are Sluice.\n\nToday is Monday."
    assert messages[2]["content"] is None
    assert json.loads(messages[2]["tool_calls"][1]["function"]["arguments"]) == {"invalid_arguments": "not json"}


@given(st.lists(st.tuples(st.text(max_size=5), st.text(max_size=80), st.text(max_size=20)), max_size=5))
def test_any_calls_a_model_made_up_can_be_sent_again(calls: list[tuple[str, str, str]]) -> None:
    records = [ToolCallRecord(f"{number}{given}", name, text) for number, (given, name, text) in enumerate(calls)]
    history = [user("go"), assistant("said", *records), *(result(record.id) for record in records), user("on")]
    check_request(request_body(Resolved("http://x/v1"), asked(*history), NAMES))


def test_text_stays_a_string_and_documents_stand_apart() -> None:
    document = Part("document", text="def f(): ...", mime_type="text/x-python", name="f.py", size=12)
    assert content(Part("text", "look at "), Part("text", "this")) == "look at this"
    assert content(Part("text", "look"), document, Part("text", "ok?")) == (
        "look\n\n[document f.py text/x-python]\ndef f(): ...\n\nok?"
    )


def test_an_image_is_sent_in_its_place() -> None:
    assert content(Part("text", "see"), IMAGE, Part("text", "?")) == [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "text", "text": "?"},
    ]


@pytest.mark.requirement("attachments.document.binary-model-dependent")
def test_a_medium_the_model_cannot_take_is_told_in_words() -> None:
    assert content(Part("text", "see"), IMAGE, image=False) == (
        "see\n\n[image a.png image/png, 41 bytes: left out, this model cannot take it]"
    )
    assert "left out" in str(content(PDF))
    assert "left out" in str(content(WAV))
    assert PNG not in str(content(IMAGE, image=False))


def test_media_the_model_can_take_are_sent() -> None:
    assert content(PDF, pdf=True) == [
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"}}
    ]
    assert content(WAV, audio=True) == [{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}]


def test_an_empty_message_is_not_sent() -> None:
    assert to_chat([user(""), user("  "), assistant(""), assistant(" "), system("")], NAMES) == []
    assert to_chat([Message("user", (Part("text"), Part("document", name="x")))], NAMES) == []


def test_a_result_is_never_empty() -> None:
    (message,) = to_chat([result("a", "")], NAMES)
    assert message["content"] == "(no output)"


def test_long_ids_are_shortened_alike_in_call_and_result() -> None:
    long = "x" * 80
    call, answer = to_chat([assistant("", made(long)), result(long)], NAMES)
    assert call["tool_calls"][0]["id"] == answer["tool_call_id"]
    assert len(answer["tool_call_id"]) <= 40


def test_a_tool_stands_once_and_has_an_object_schema() -> None:
    tools = [ToolSpec("a", "first", {}), ToolSpec("a", "second", {}), ToolSpec("b.c", "odd", {"type": "object"})]
    body = request_body(Resolved("http://x/v1"), asked("hi", tools=tools), NAMES)
    check_request(body)
    assert [tool["function"]["description"] for tool in body["tools"]] == ["first", "odd"]


def test_the_thought_of_an_answer_is_not_sent_back() -> None:
    (message,) = to_chat([replace(assistant("yes"), thought="hm")], NAMES)
    assert message == {"role": "assistant", "content": "yes"}


def test_structured_output_asks_for_the_schema() -> None:
    wanted = {"name": "answer", "strict": True, "schema": {"type": "object"}}
    request = ModelRequest((user("hi"),), structured_output=wanted)
    body = request_body(Resolved("http://x/v1"), request, NAMES)
    assert body["response_format"] == {"type": "json_schema", "json_schema": wanted}


@pytest.mark.parametrize(
    ("provider", "model", "key"),
    [
        ("openai", "gpt-4o", "max_tokens"),
        ("openai", "gpt-5-mini", "max_completion_tokens"),
        ("openai", "o3", "max_completion_tokens"),
        ("groq", "gpt-5-like", "max_tokens"),
    ],
)
def test_the_token_limit_has_the_name_the_model_takes(provider: str, model: str, key: str) -> None:
    resolved = Resolved("http://x/v1", provider=provider, model=model, options=Options(max_tokens=7))
    body = request_body(resolved, asked("hi"), NAMES)
    assert {name for name in body if "tokens" in name} == {key}


def test_extra_body_is_laid_over_but_cannot_take_the_history_or_the_stream_away() -> None:
    extra = {"messages": [], "stream": False, "service_tier": "flex", "model": "other"}
    resolved = Resolved("http://x/v1").with_options(provider_opts={"extra_body": extra})
    body = request_body(resolved, asked("hi"), NAMES)
    assert (body["stream"], len(body["messages"])) == (True, 1)
    assert (body["service_tier"], body["model"]) == ("flex", "other")
