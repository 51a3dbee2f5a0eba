"""Questions of an MCP server: to the one call that owns them, or declined."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from sluice.agent.ports import ElicitationAnswer, FormQuestion, ToolContext, UrlQuestion
from tests.mcp.test_servers import SDK, call, running, until

pytestmark = pytest.mark.anyio


class Person:
    """Answers every question that has an owner, as the port says."""

    def __init__(self) -> None:
        self.asked: list[tuple[FormQuestion | UrlQuestion, ToolContext | None]] = []
        self.withdrawn: list[ToolContext] = []

    async def elicit(self, question: FormQuestion | UrlQuestion, owner: ToolContext | None) -> ElicitationAnswer:
        self.asked.append((question, owner))
        return ElicitationAnswer("accept", {"name": "Ada"}) if owner is not None else ElicitationAnswer("decline")

    def withdraw(self, owner: ToolContext) -> None:
        self.withdrawn.append(owner)


async def test_a_question_goes_to_the_call_that_is_running(tmp_path: Path) -> None:
    person = Person()
    async with running(tmp_path, SDK, elicitation=person) as toolset:
        assert (await call(toolset, tmp_path, "ask")).text == "accept Ada"
    ((question, owner),) = person.asked
    assert isinstance(question, FormQuestion) and question.message == "Who are you?"
    assert list(question.schema["properties"]) == ["name"]
    assert owner is not None and owner.call_id == "call" and person.withdrawn == [owner]


async def test_a_question_is_declined_when_two_calls_run(tmp_path: Path) -> None:
    person, marker = Person(), tmp_path / "marker"
    async with running(tmp_path, SDK, elicitation=person) as toolset, anyio.create_task_group() as calls:
        calls.start_soon(lambda: call(toolset, tmp_path, "wait", marker=str(marker)))
        await until(marker.exists)
        assert (await call(toolset, tmp_path, "ask")).text == "decline"
        assert person.asked[0][1] is None
        calls.cancel_scope.cancel()


@pytest.mark.requirement("elicitation.embed.headless-declines")
async def test_where_nobody_can_be_asked_a_question_is_declined_and_no_error(tmp_path: Path) -> None:
    async with running(tmp_path, SDK) as toolset:
        answer = await call(toolset, tmp_path, "ask")
        assert (answer.text, answer.is_error) == ("decline", False)
