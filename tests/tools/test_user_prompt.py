"""The user_prompt tool without a connection; with one it is tested over the wire."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sluice.agent.ports import ElicitationAnswer, FormQuestion, ToolContext, ToolFailure, UrlQuestion
from sluice.tools import build
from tests.tools.support import Config, call, make, setup

pytestmark = pytest.mark.anyio


class Person:
    """Answers every question, and remembers them."""

    def __init__(self, answer: ElicitationAnswer) -> None:
        self.given = answer
        self.asked: list[tuple[FormQuestion | UrlQuestion, ToolContext | None]] = []

    async def elicit(self, question: FormQuestion | UrlQuestion, owner: ToolContext | None) -> ElicitationAnswer:
        self.asked.append((question, owner))
        return self.given

    def withdraw(self, owner: ToolContext) -> None:
        raise AssertionError("a question ends with its await")


@pytest.mark.requirement("elicitation.embed.headless-declines", "tools.user-prompt.via-elicitation")
async def test_where_nobody_can_be_asked_the_question_is_declined_and_nothing_fails(tmp_path: Path) -> None:
    result = await call(make("user_prompt", tmp_path), tmp_path, "user_prompt", message="Who?")
    assert json.loads(result.text) == {"action": "decline", "reason": "nobody can be asked here"}
    assert not result.is_error


@pytest.mark.requirement("tools.user-prompt.via-elicitation")
@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (ElicitationAnswer("accept", {"a": 1}), {"action": "accept", "content": {"a": 1}}),
        (ElicitationAnswer("decline"), {"action": "decline"}),
        (ElicitationAnswer("decline", reason="why"), {"action": "decline", "reason": "why"}),
        (ElicitationAnswer("cancel"), {"action": "cancel"}),
    ],
)
async def test_the_answer_is_told_as_it_is(tmp_path: Path, answer: ElicitationAnswer, told: dict[str, Any]) -> None:
    person = Person(answer)
    toolset = build(Config("user_prompt"), setup=setup(tmp_path, elicitation=person))
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    result = await call(toolset, tmp_path, "user_prompt", message="Who?", title="T", schema=schema)
    assert json.loads(result.text) == told and not result.is_error
    ((question, owner),) = person.asked
    assert question == FormQuestion("Who?", {**schema, "title": "T"})
    assert owner is not None and owner.call_id == "call"


async def test_bad_arguments_are_told(tmp_path: Path) -> None:
    toolset = make("user_prompt", tmp_path)
    wrong: list[dict[str, Any]] = [{}, {"message": ""}, {"message": "x", "schema": "y"}, {"message": "x", "title": 3}]
    for arguments in wrong:
        with pytest.raises(ToolFailure):
            await call(toolset, tmp_path, "user_prompt", **arguments)
