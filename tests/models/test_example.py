"""The scripted example: it loads, every word its greeting names works, and its calls fit the real tools."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]  # comes with the MCP library, which ships no stubs for it
import pytest

from sluice.agent.ports import Model, ModelError, ModelResponse, ToolSpec
from sluice.config.load import load
from sluice.config.models import missing_credentials, resolve
from sluice.config.script import load_script
from sluice.models import build
from sluice.models.scripted import Scripted
from sluice.persistence.records import Message
from sluice.tools import ToolsetSetup
from sluice.tools import build as build_toolset
from tests.models.helpers import Heard, ask, assistant, result, user

pytestmark = pytest.mark.anyio

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPT = load_script(EXAMPLES / "scripted-demo.yaml")


async def no_wait(seconds: float) -> None:
    """The script's pauses are for people."""


def example() -> Model:
    file = load(EXAMPLES / "scripted.yaml", {})
    assert file.warnings == ()
    assert missing_credentials(file, {}) == ()
    return Scripted(resolve(file, file.default_agent.model, {}), directory=EXAMPLES, sleep=no_wait)


def tools() -> dict[str, ToolSpec]:
    file = load(EXAMPLES / "scripted.yaml", {})
    setup = ToolsetSetup(cwd="/", env={}, roots=(), config_dir=EXAMPLES)
    toolsets = [build_toolset(toolset, setup=setup) for toolset in file.default_agent.toolsets]
    return {tool.name: tool.spec for toolset in toolsets for tool in toolset.tools()}


async def converse(model: Model, prompt: str, answer: str = "ok") -> list[ModelResponse]:
    """One prompt to its end, each call answered with `answer` (the todo tool with the ids it would give)."""
    history: list[Message] = [user(prompt)]
    responses: list[ModelResponse] = []
    while not responses or responses[-1].tool_calls:
        assert len(responses) < 10
        response = await ask(model, *history)
        responses.append(response)
        history.append(assistant(response.text, *response.tool_calls))
        for call in response.tool_calls:
            text = "Created todo_1, todo_2, todo_3." if call.name == "create_todos" and answer == "ok" else answer
            history.append(result(call.id, text, call.name))
    return responses


async def test_a_first_prompt_is_greeted_and_the_turn_ends() -> None:
    response = await ask(example(), "hi there")
    assert response.finish_reason == "stop"
    words = re.findall(r"- \*\*(\w+)\*\*", response.text)
    assert words == ["demo", "plan", "edit", "slow", "fail"]
    assert {turn.when for turn in SCRIPT.turns if isinstance(turn.when, str)} == set(words)


@pytest.mark.parametrize(
    ("word", "called"),
    [
        ("demo", ["shell"]),
        ("plan", ["think", "create_todos", "update_todos", "update_todos", "update_todos"]),
        ("edit", ["write_file", "edit_file"]),
        ("slow", []),
    ],
)
async def test_each_word_shows_its_calls_and_comes_to_an_end(word: str, called: list[str]) -> None:
    responses = await converse(example(), f"Show me the {word}, please")
    assert [call.name for response in responses for call in response.tool_calls] == called
    assert responses[-1].text
    assert responses[-1].finish_reason == "stop"


@pytest.mark.parametrize("word", ["demo", "edit"])
async def test_a_rejected_call_is_the_last_one(word: str) -> None:
    responses = await converse(example(), word, "The user rejected this call.")
    assert len(responses) == 2
    assert "You said no" in responses[-1].text


async def test_a_second_plan_comes_to_an_end_too() -> None:
    responses = await converse(example(), "plan", "Created todo_4, todo_5, todo_6.")
    assert len(responses) == 2


async def test_fail_shows_an_error_that_is_not_tried_again() -> None:
    heard = Heard()
    with pytest.raises(ModelError) as caught:
        await ask(example(), "fail", heard=heard)
    assert heard.texts
    assert not caught.value.retryable


async def test_an_unknown_word_after_the_greeting_is_told_the_known_ones() -> None:
    response = await ask(example(), user("hi"), assistant("Hello!"), user("what?"))
    assert "**demo**" in response.text


def test_every_call_fits_the_schema_of_a_tool_that_the_agent_has() -> None:
    known = tools()
    for turn in SCRIPT.turns:
        for call in turn.tool_calls:
            jsonschema.validate(json.loads(json.dumps(call.arguments)), dict(known[call.name].parameters))


def test_slow_takes_as_long_as_the_greeting_says() -> None:
    (slow,) = [turn for turn in SCRIPT.turns if turn.when == "slow"]
    assert slow.delay * (1 + len(slow.text)) == 12


def test_build_finds_the_script_beside_the_agent_file() -> None:
    file = load(EXAMPLES / "scripted.yaml", {})
    assert build(resolve(file, "script", {}), directory=EXAMPLES).ref == "scripted/demo"
