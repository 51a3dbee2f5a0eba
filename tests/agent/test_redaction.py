"""What is masked, and what is left as it is."""

from __future__ import annotations

import json
import re

import pytest

from sluice.agent import redaction
from sluice.agent.redaction import MASK, mask_known, masked_message, masked_value
from sluice.persistence.records import Message, Part, ToolCallRecord

PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----"
SECRETS = (
    "sk-" + "a1" * 12,
    *(f"gh{kind}_" + "a1" * 18 for kind in "pousr"),
    "github_pat_" + "a1" * 22,
    *(f"xox{kind}-1234567890-abc" for kind in "abeprs"),
    "AKIA" + "A1" * 8,
    "ASIA" + "A1" * 8,
    "AIza" + "a1" * 16,
    "glpat-" + "a1" * 9,
    "hf_" + "a1" * 16,
    "eyJhbGciOiJ9.eyJzdWIiOiIx.c2lnbmF0dXJl",
    PEM,
    PEM[:40],
)


@pytest.mark.parametrize("secret", SECRETS)
def test_each_known_form_is_masked_in_the_middle_of_a_text_and_once(secret: str) -> None:
    text = f"x = '{secret}'" if secret != PEM[:40] else secret
    masked = mask_known(text)
    assert secret not in masked and masked.count(MASK) == 1 and mask_known(masked) == masked


@pytest.mark.parametrize("text", ["", "sk-ill", "password = hunter2", "the ghp_ prefix", "AKIA", "eyJ begins a JWT"])
def test_ordinary_text_stays(text: str) -> None:
    assert mask_known(text) == text


@pytest.mark.parametrize(
    "piece", ["eyJaaaaaaaa-", "eyJaaaaaaaa.", "-----BEGIN A ", "-----BEGIN PRIVATE KEY ", "ghp_aaaa-", "xoxb-", "sk-"]
)
def test_a_text_made_of_beginnings_is_read_once(piece: str) -> None:
    text = "PRIVATE KEY-----" + piece * (1_000_000 // len(piece))  # a search from each would take minutes
    masked = mask_known(text)
    assert masked.startswith("PRIVATE KEY-----") and mask_known(masked) == masked


def test_the_hints_skip_nothing_that_the_pattern_finds() -> None:
    pattern = redaction._KNOWN
    for secret in SECRETS:
        assert pattern.search(secret) is not None and any(hint in secret for hint in redaction._HINTS)


def test_values_are_masked_at_any_depth_and_keep_their_shape() -> None:
    value = {"a": [SECRETS[0], 1, None, {"b": (SECRETS[1], True)}]}
    assert masked_value(value) == {"a": [MASK, 1, None, {"b": [MASK, True]}]}


def test_a_message_keeps_what_is_sealed_or_binary_and_its_arguments_stay_json() -> None:
    message = Message(
        "assistant",
        (Part("text", text=PEM), Part("image", data=SECRETS[0], name=f"{SECRETS[1]}.png")),
        thought=f"it is {SECRETS[2]}",
        tool_calls=(
            ToolCallRecord("1", "w", json.dumps({"text": f"é {PEM[:50]}", "n": 1})),
            ToolCallRecord("2", "w", f"broken {SECRETS[0]}"),
            ToolCallRecord("3", "w", '{"a":  1}'),
        ),
        carried=SECRETS[3],
    )
    masked = masked_message(message)
    assert [part.text for part in masked.parts] == [MASK, ""]
    assert (masked.parts[1].data, masked.parts[1].name) == (SECRETS[0], f"{MASK}.png")
    assert (masked.thought, masked.carried) == (f"it is {MASK}", SECRETS[3])
    first, second, third = (call.arguments for call in masked.tool_calls)
    assert json.loads(first) == {"text": f"é {MASK}", "n": 1}
    assert (second, third) == (f"broken {MASK}", '{"a":  1}')
    assert re.fullmatch(r"[^\\]*", first)
