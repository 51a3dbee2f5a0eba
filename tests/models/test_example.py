"""The scripted example: it loads, every word its greeting names works, and its calls fit the real tools."""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sluice.agent.ports import Model, ModelError, ModelResponse, Tool, ToolContext
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


@asynccontextmanager
async def real_tools(cwd: Path) -> AsyncIterator[dict[str, Tool]]:
    """The tools of the example, at work in `cwd`."""
    file = load(EXAMPLES / "scripted.yaml", {})
    setup = ToolsetSetup(cwd=str(cwd), env=os.environ, roots=(), config_dir=EXAMPLES)
    toolsets = [build_toolset(toolset, setup=setup) for toolset in file.default_agent.toolsets]
    for toolset in toolsets:
        await toolset.start()
    try:
        yield {tool.name: tool for toolset in toolsets for tool in toolset.tools()}
    finally:
        for toolset in toolsets:
            await toolset.stop()


async def converse(
    tools: Mapping[str, Tool], cwd: Path, prompt: str, history: list[Message], denied: str = ""
) -> list[ModelResponse]:
    """One prompt to its end: each call is run, or answered with `denied`."""
    model = example()
    history.append(user(prompt))
    responses: list[ModelResponse] = []
    while not responses or responses[-1].tool_calls:
        assert len(responses) < 10
        response = await ask(model, *history)
        responses.append(response)
        history.append(assistant(response.text, *response.tool_calls))
        for call in response.tool_calls:
            text = denied
            if not denied:
                context = ToolContext("s", call.id, str(cwd))
                outcome = await tools[call.name].run(json.loads(call.arguments), context)
                assert not outcome.is_error
                text = outcome.text
            history.append(result(call.id, text, call.name))
    return responses


async def test_a_first_prompt_is_greeted_and_the_turn_ends() -> None:
    response = await ask(example(), "hi there")
    assert response.finish_reason == "stop"
    words = re.findall(r"- \*\*(\w+)\*\*", response.text)
    assert words == ["demo", "plan", "edit", "slow", "fail"]
    assert {turn.when for turn in SCRIPT.turns if isinstance(turn.when, str)} == set(words)


@pytest.mark.parametrize(
    ("word", "called", "end"),
    [
        ("demo", ["shell"], "a real process"),
        ("plan", ["think", "create_todos", "update_todos", "update_todos", "update_todos"], "All three steps"),
        ("edit", ["write_file", "edit_file"], "Done"),
        ("slow", [], "You let me finish."),
    ],
)
async def test_each_word_works_with_the_real_tools(tmp_path: Path, word: str, called: list[str], end: str) -> None:
    async with real_tools(tmp_path) as tools:
        responses = await converse(tools, tmp_path, f"Show me the {word}, please", [])
    assert [call.name for response in responses for call in response.tool_calls] == called
    assert end in responses[-1].text
    assert responses[-1].finish_reason == "stop"
    if word == "edit":
        assert (tmp_path / "sluice-demo.txt").read_text() == "Sluice was here.\nThis line has changed.\n"


@pytest.mark.parametrize("word", ["demo", "edit"])
@pytest.mark.parametrize(
    "denied", ["The user rejected this call.", "This call is not allowed here: a rule denies it."]
)
async def test_a_rejected_call_is_the_last_one(tmp_path: Path, word: str, denied: str) -> None:
    responses = await converse({}, tmp_path, word, [], denied)
    assert len(responses) == 2
    assert "said no" in responses[-1].text


async def test_the_whole_tour_can_be_taken_twice_in_one_session(tmp_path: Path) -> None:
    history: list[Message] = []
    async with real_tools(tmp_path) as tools:
        for word in ("hello", "demo", "plan", "edit", "slow") * 2:
            responses = await converse(tools, tmp_path, word, history)
            assert responses[-1].finish_reason == "stop"
            assert responses[-1].text
            assert "said no" not in responses[-1].text


async def test_fail_shows_an_error_that_is_not_tried_again() -> None:
    heard = Heard()
    with pytest.raises(ModelError) as caught:
        await ask(example(), "fail", heard=heard)
    assert heard.texts
    assert not caught.value.retryable


async def test_an_unknown_word_after_the_greeting_is_told_the_known_ones() -> None:
    response = await ask(example(), user("hi"), assistant("Hello!"), user("what?"))
    assert "**demo**" in response.text


def test_slow_takes_as_long_as_the_greeting_says() -> None:
    (slow,) = [turn for turn in SCRIPT.turns if turn.when == "slow"]
    assert slow.delay * (1 + len(slow.text)) == 12


def test_build_finds_the_script_beside_the_agent_file() -> None:
    file = load(EXAMPLES / "scripted.yaml", {})
    assert build(resolve(file, "script", {}), directory=EXAMPLES).ref == "scripted/demo"
