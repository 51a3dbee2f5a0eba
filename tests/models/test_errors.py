from __future__ import annotations

import time
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.models.errors import Endpoint, refused, retry_after, stream_failed, unreachable

ENDPOINT = Endpoint("host:443", "gpt-x", "openai", "OPENAI_API_KEY", True, ("top-secret-value",))


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
    ],
)
def test_how_long_the_server_asks_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_a_date_counts_from_now() -> None:
    wait = retry_after({"retry-after": formatdate(time.time() + 60, usegmt=True)})
    assert wait is not None
    assert 50 < wait <= 60


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error": {"message": "the reason"}}', "the reason"),
        (b'{"error": "the reason"}', "the reason"),
        (b'{"message": "the reason"}', "the reason"),
        (b'{"detail": "the reason"}', "the reason"),
        (b'{"detail": [{"msg": "the reason"}]}', "the reason"),
        (b'[{"error": {"message": "the reason"}}]', "the reason"),
        (b"the reason", "the reason"),
        (b"\xff the reason", "the reason"),
    ],
)
def test_the_servers_words_are_quoted_whatever_their_form(body: bytes, words: str) -> None:
    assert words in refused(ENDPOINT, 400, {}, body).text


@pytest.mark.parametrize("body", [b"", b"<html><body>oops</body></html>", b"null", b"[]", b"{}", b"3"])
def test_an_answer_without_words_still_gives_a_sentence(body: bytes) -> None:
    text = refused(ENDPOINT, 502, {}, body).text
    assert text.startswith("the model server at host:443 failed (HTTP 502)")
    assert "<" not in text


def test_a_wait_is_only_told_where_waiting_helps() -> None:
    headers = {"retry-after": "3"}
    assert refused(ENDPOINT, 503, headers, b"").retry_after == 3
    assert refused(ENDPOINT, 400, headers, b"").retry_after is None


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
        "Input is too long for requested model.",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "the request exceeds the available context size, try increasing it",
        "Please reduce the length of the messages or completion.",
        "exceed_context_size_error",
    ],
)
def test_overflow_is_known_by_its_words_and_never_tried_again(message: str) -> None:
    error = refused(ENDPOINT, 400, {}, message.encode())
    assert (error.code, error.retryable) == ("context_exceeded", False)


@given(st.integers(300, 599), st.binary(max_size=200), st.booleans())
def test_any_answer_is_one_error_that_is_safe_to_show(status: int, body: bytes, has_key: bool) -> None:
    endpoint = Endpoint("host:443", "gpt-x", "openai", "OPENAI_API_KEY", has_key, ("top-secret-value",))
    error = refused(endpoint, status, {}, body[:50] + b" top-secret-value " + body[50:])
    assert error.code in {"model_error", "rate_limited", "context_exceeded", "request_too_large", "media_too_large"}
    assert error.status == status
    assert "top-secret-value" not in error.text
    assert error.text.isprintable() or "\ufffd" in error.text or not error.text.isascii()
    assert "\n" not in error.text


LEAF = st.none() | st.integers() | st.text(max_size=20)
KEYS = st.sampled_from(["message", "code", "type", "detail", "error", "status"])


@given(LEAF | st.dictionaries(KEYS, LEAF | st.lists(LEAF, max_size=2) | st.dictionaries(KEYS, LEAF, max_size=2)))
def test_any_error_object_inside_a_stream_is_one_error(value: object) -> None:
    assert "\n" not in stream_failed(ENDPOINT, value).text


def test_a_systems_words_about_a_connection_are_bounded_too() -> None:
    text = unreachable(ENDPOINT, "x\n" * 500 + "top-secret-value").text
    assert len(text) < 250
    assert "\n" not in text
