from __future__ import annotations

import pytest

from sluice.agent.answers import question_of, shows_tools
from sluice.config.schema import CacheConfig
from sluice.persistence.records import Message, Part


def asked(*parts: Part | str) -> Message:
    return Message("user", tuple(Part("text", part) if isinstance(part, str) else part for part in parts))


@pytest.mark.requirement("config-file.agents.cache")
@pytest.mark.parametrize(
    ("case_sensitive", "trim_spaces", "same"),
    [(False, False, "hello  "), (True, False, "Hello  "), (False, True, "hello"), (True, True, "Hello")],
)
def test_what_counts_as_the_same_question_is_configured(case_sensitive: bool, trim_spaces: bool, same: str) -> None:
    config = CacheConfig(True, case_sensitive, trim_spaces)
    assert question_of(asked("Hello  "), config) == same


@pytest.mark.parametrize(
    "prompt",
    [
        asked(" "),
        asked("What is this?", Part("image", data="AA==", mime_type="image/png")),
        asked("And this?", Part("document", text="x", name="a.txt")),
    ],
)
def test_an_attachment_or_nothing_is_no_question(prompt: Message) -> None:
    assert question_of(prompt, CacheConfig(True)) is None
    assert question_of(asked("Hello"), CacheConfig(False)) is None


@pytest.mark.requirement("message-ids.cache.xml-tool-miss")
@pytest.mark.parametrize(
    "answer",
    [
        "Sure. <tool_call>{}</tool_call>",
        '<function_calls><invoke name="shell">',
        "<x:function_calls>",
        "<function=shell>",
        "</tool_result>",
        "<|tool_call|>",
        "< TOOL_USE id='1' >",
    ],
)
def test_a_tool_call_written_out_is_noticed(answer: str) -> None:
    assert shows_tools(answer)


@pytest.mark.parametrize("answer", ["a < b and function > c", "<b>bold</b>", "functions: f<x>", "tool_call", ""])
def test_other_text_is_not(answer: str) -> None:
    assert not shows_tools(answer)
