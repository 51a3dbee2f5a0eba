from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sluice.agent.ports import ModelRequest, ToolContext, ToolResult, ToolSpec
from sluice.models.local.prompt import RESULT_SHARE, prepared
from sluice.persistence.records import Message, Part
from sluice.tools.filesystem_specs import tool
from tests.models.helpers import assistant, made, result, user

READ = ToolSpec(
    "read_file",
    "Returns the text of a file.",
    {
        "type": "object",
        "properties": {"path": {"type": "string", "description": "Where"}, "line": {"type": "integer"}},
        "required": ["path"],
    },
)


def system(text: str) -> Message:
    return Message("system", (Part("text", text),))


def test_the_model_is_told_who_it_is_before_everything_else() -> None:
    made_ready = prepared(ModelRequest([system("Be kind."), system("Be brief."), user("hi")]), "1.5b", 8192)
    first, last = made_ready.messages
    assert first.role == "system" and first.text.startswith("You are Qwen2.5-Coder-1.5B-Instruct, ")
    assert first.text.endswith("Be kind.\n\nBe brief.") and last.text == "hi"


def test_a_tool_is_offered_with_what_it_needs_and_nothing_more() -> None:
    (slim,) = prepared(ModelRequest([user("hi")], [READ]), "0.5b", 8192).tools
    assert slim.parameters["properties"] == {"path": {"type": "string"}}
    assert (slim.name, slim.description) == (READ.name, READ.description)


def test_a_tool_without_required_parameters_keeps_them_all() -> None:
    spec = ToolSpec("list", "Lists.", {"type": "object", "properties": {"path": {"type": "string"}}})
    (slim,) = prepared(ModelRequest([user("hi")], [spec]), "0.5b", 8192).tools
    assert slim.parameters["properties"] == {"path": {"type": "string"}}


def test_the_offered_tools_are_shown_in_use_and_others_are_not() -> None:
    messages = prepared(ModelRequest([user("hi")], [READ]), "0.5b", 8192).messages
    called = [call.name for message in messages for call in message.tool_calls]
    assert called == ["read_file", "read_file"]
    answered = [message.tool_call_id for message in messages if message.role == "tool"]
    assert answered == [call.id for message in messages for call in message.tool_calls]


def test_a_tool_of_the_same_name_with_other_parameters_is_not_shown_in_use() -> None:
    other = ToolSpec("read_file", "Another.", {"type": "object", "properties": {"uri": {}}, "required": ["uri"]})
    assert [m.role for m in prepared(ModelRequest([user("hi")], [other]), "0.5b", 8192).messages] == [
        "system",
        "user",
    ]


def test_the_examples_fit_the_real_tools() -> None:
    names = ("read_file", "list_directory", "search_files_content", "write_file")
    specs = [tool(name, _never).spec for name in names]
    messages = prepared(ModelRequest([user("hi")], specs), "0.5b", 8192).messages
    assert {call.name for message in messages for call in message.tool_calls} == set(names)


async def _never(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
    raise AssertionError


def test_the_beginning_stays_the_same_as_the_conversation_grows() -> None:
    history = [system("Be kind."), user("read it"), assistant("", made("a", "read_file")), result("a", "x" * 99999)]
    shorter = prepared(ModelRequest(history[:2], [READ]), "0.5b", 8192).messages
    longer = prepared(ModelRequest(history, [READ]), "0.5b", 8192).messages
    assert list(longer)[: len(shorter)] == list(shorter)


def test_a_long_result_is_cut_to_a_share_of_the_window_and_says_so() -> None:
    cut = prepared(ModelRequest([user("x"), assistant("", made("a")), result("a", "y" * 10000)]), "0.5b", 4096)
    text = cut.messages[-1].text
    kept = 4096 // RESULT_SHARE * 3
    assert text == "y" * kept + f"\n[cut: {10000 - kept} more characters do not fit this model]"
    assert cut.messages[-1].tool_call_id == "a"
