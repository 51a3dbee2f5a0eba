from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.models.redact import LIMIT, MASK, one_line, redact

SECRET = "zq8Xk2Lm9vTr4W"


@pytest.mark.requirement("prompt.outcome.failure-text-redacted")
@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: sk-TEST-123.",
        "synthetic failure key=sk-TEST-123",
        "Authorization: Bearer TEST-123abc",
        'header {"authorization": "Bearer TEST-123abc"}',
        "authorization=Basic TEST-123abc==",
        "api_key: TEST-123abc is wrong",
        'the "x-api-key": "TEST-123abc" was refused',
        "?access_token=TEST-123abc&x=1",
        "password = TEST-123abc",
        "http://me:TEST-123abc@host/v1",
        "key AIzaTEST-123abcdefgh",
        "token ghp_TEST-123abcdef",
        "eyJTEST-123abc.def.ghi",
    ],
)
def test_what_looks_like_a_credential_is_masked(text: str) -> None:
    assert "TEST-123" not in redact(text)
    assert MASK in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "This model's maximum context length is 8192 tokens, however you requested 9000 tokens.",
        "the model server refused the key in OPENAI_API_KEY (HTTP 401)",
        "max_tokens is too large: 5000. At most 4096 completion tokens are supported",
        "Unrecognized request argument supplied: keyboard",
    ],
)
def test_ordinary_messages_stay_as_they_are(text: str) -> None:
    assert redact(text) == text


@given(st.text(max_size=200), st.text(max_size=200))
def test_a_known_secret_never_survives(before: str, after: str) -> None:
    assert SECRET not in one_line(f"{before}{SECRET}{after}", [SECRET])


@given(st.text(max_size=700))
def test_the_result_is_one_bounded_line(text: str) -> None:
    line = one_line(text)
    assert len(line) <= LIMIT
    assert line == line.strip()
    assert not any(ord(character) < 32 or character in "\x7f\x85\u2028\u2029" for character in line)


def test_a_secret_at_the_cut_is_masked_before_the_text_is_cut() -> None:
    line = one_line("x" * (LIMIT - 5) + " " + SECRET, [SECRET])
    assert SECRET[:4] not in line
