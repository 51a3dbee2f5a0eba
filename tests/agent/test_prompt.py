"""What is added to a prompt for a turn, and what is left out of the history that is sent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from sluice.agent import prompt
from sluice.agent.conversation import Conversation
from sluice.agent.history import text_message
from sluice.agent.team import Agent, Team
from sluice.config.schema import AgentConfig
from sluice.persistence.records import Item, Message, ToolCallRecord
from tests.agent.test_compaction import Writer
from tests.support.model_server import text
from tests.support.setup import on_stage

pytestmark = pytest.mark.anyio


def talking(cwd: Path, history: Sequence[Message] = (), **config: Any) -> Conversation:
    items = [Item(kind="message", message=message, position=n) for n, message in enumerate(history)]

    async def append(_: Sequence[Item]) -> Sequence[int]:
        raise AssertionError("nothing of a prompt is stored")

    agent = Agent(AgentConfig("root", "test/writer", instruction="Help.", **config), Writer(None))
    return Conversation("s", str(cwd), Team({"root": agent}, "root"), append, items=items)


async def system_of(talk: Conversation) -> str:
    return (await prompt.messages(talk))[0].text


@pytest.mark.requirement("config-file.agents.context-extras")
async def test_date_and_surroundings_are_added_when_wanted(tmp_path: Path) -> None:
    assert await system_of(talking(tmp_path)) == "Help."
    text = await system_of(talking(tmp_path, add_date=True, add_environment_info=True))
    assert text.startswith("Help.\n\n") and date.today().isoformat() in text
    assert f"Working directory: {tmp_path}" in text and "Git repository: no" in text
    (tmp_path / ".git").mkdir()
    assert "Git repository: yes" in await system_of(talking(tmp_path, add_environment_info=True))


@pytest.mark.requirement("config-file.agents.context-extras")
async def test_prompt_files_are_the_nearest_and_the_one_at_home_and_are_read_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    deep = work / "a" / "b"
    for place in (home, deep, work / ".hidden"):
        place.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    talk = talking(work / "a", add_prompt_files=("AGENTS.md", "NONE.md"))
    assert await system_of(talk) == "Help."
    (home / "AGENTS.md").write_text("from home")
    (work / "AGENTS.md").write_text("from work")
    (deep / "AGENTS.md").write_text("from below")
    (work / ".hidden" / "AGENTS.md").write_text("hidden")
    text = await system_of(talk)
    assert text.index("from work") < text.index("from home") and "from below" not in text
    (work / "a" / "AGENTS.md").write_text("nearer")
    assert "nearer" in await system_of(talk) and "from work" not in await system_of(talk)
    deeper = await system_of(talking(work, add_prompt_files=("AGENTS.md",), add_prompt_files_depth=2))
    assert str(deep / "AGENTS.md") in deeper and "from below" not in deeper and "hidden" not in deeper
    assert str(deep) not in await system_of(talking(work, add_prompt_files=("AGENTS.md",), add_prompt_files_depth=1))


def exchange(number: int, result: str = "r") -> list[Message]:
    call = ToolCallRecord(f"c{number}", "t", json.dumps({"n": number, "text": "x" * 300}))
    return [
        text_message("user", f"u{number}"),
        Message("assistant", tool_calls=(call,)),
        text_message("tool", result, tool_call_id=call.id, tool_name="t", status="completed"),
        text_message("assistant", f"a{number}"),
    ]


@pytest.mark.requirement("config-file.agents.limits")
async def test_the_oldest_answers_go_first_and_people_stay(tmp_path: Path) -> None:
    history = [*exchange(1), *exchange(2), text_message("user", "u3")]

    async def sent(most: int | None) -> list[str]:
        talk = talking(tmp_path, history, num_history_items=most)
        return [f"{message.role[0]}{message.text}" for message in (await prompt.messages(talk))[1:]]

    assert await sent(None) == await sent(9) == ["uu1", "a", "tr", "aa1", "uu2", "a", "tr", "aa2", "uu3"]
    assert await sent(8) == ["uu1", "aa1", "uu2", "a", "tr", "aa2", "uu3"]
    assert await sent(1) == ["uu1", "uu2", "uu3"]


@pytest.mark.requirement("config-file.agents.limits")
async def test_long_results_are_cut_in_the_middle_and_old_calls_lose_their_texts(tmp_path: Path) -> None:
    history = [*exchange(1, "A" * 500 + "B" * 500), *exchange(2, "C" * 100)]
    cut = await prompt.messages(talking(tmp_path, history, max_tool_result_tokens=50))
    (first, second) = (message.text for message in cut if message.role == "tool")
    assert first.startswith("A" * 100 + "\n[800 characters left out]\n") and first.endswith("B" * 100)
    assert second == "C" * 100
    old = await prompt.messages(talking(tmp_path, history, max_old_tool_call_tokens=150))
    (first, second) = (message.text for message in old if message.role == "tool")
    assert first == prompt.LEFT_OUT and second == "C" * 100
    arguments = [message.tool_calls[0].arguments for message in old if message.tool_calls]
    assert arguments[0] == "{}" and json.loads(arguments[1])["n"] == 2
    assert [replace(message, parts=()) for message in cut] == [replace(m, parts=()) for m in ([*cut[:1], *history])]


@pytest.mark.requirement("config-file.agents.context-extras", "config-file.agents.welcome-message")
async def test_over_the_wire_nothing_of_it_is_stored_and_the_welcome_is_not_for_the_model(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    notes = tmp_path / "project" / "NOTES.md"
    notes.write_text("first notes")
    agent = {"add_prompt_files": ["NOTES.md"], "add_date": True, "welcome_message": "Hello person"}
    async with on_stage(tmp_path, text("1"), text("2"), agent=agent) as stage:
        await stage.client.prompt(stage.session, "a")
        notes.write_text("second notes")
        await stage.client.prompt(stage.session, "b")
        first, second = (str(request.messages) for request in stage.model.requests)
        assert "first notes" in first and "second notes" in second and "first notes" not in second
        assert "Hello person" not in first + second
        await stage.client.result("session/close", sessionId=stage.session)
        before = len(stage.client.log)
        await stage.client.result("session/load", sessionId=stage.session, cwd=str(stage.cwd), mcpServers=[])
        assert "notes" not in str(stage.client.log[before:])
