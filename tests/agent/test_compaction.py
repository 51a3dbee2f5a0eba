"""Where a compaction cuts, for any history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.agent.compaction import MAX_TAIL, Way, compact, occupied
from sluice.agent.conversation import Conversation
from sluice.agent.history import conversation, text_message
from sluice.agent.ports import ModelRequest, ModelResponse
from sluice.agent.team import Agent, Team
from sluice.agent.tokens import estimate
from sluice.config.schema import AgentConfig
from sluice.persistence.records import Item, Message, ToolCallRecord


class Writer:
    """A model that writes a summary and keeps what it was asked."""

    ref = "test/writer"

    def __init__(self, context_size: int | None) -> None:
        self.context_size = context_size
        self.asked: list[ModelRequest] = []

    async def complete(self, request: ModelRequest, on_delta: Any) -> ModelResponse:
        self.asked.append(request)
        return ModelResponse("S" * 10)

    async def aclose(self) -> None:
        """Nothing is held."""


def talking(messages: Sequence[Message], model: Writer) -> Conversation:
    stored = [Item(kind="message", message=message, position=n) for n, message in enumerate(messages)]

    async def append(items: Sequence[Item]) -> Sequence[int]:
        return range(len(stored), len(stored) + len(items))

    agent = Agent(AgentConfig("root", "test/writer"), model)
    return Conversation("s", "/", Team({"root": agent}, "root"), append, items=stored)


async def nowhere(_: Any) -> None:
    """Nobody listens."""


WAY = Way(nowhere, lambda _: None)


@st.composite
def turns(draw: st.DrawFn) -> list[Message]:
    messages: list[Message] = []
    for number in range(draw(st.integers(0, 6))):
        messages.append(text_message("user", "u" * draw(st.integers(1, 3000)), id=f"u{number}"))
        for step in range(draw(st.integers(0, 2))):
            made = [ToolCallRecord(f"c{number}.{step}.{n}", "t", "{}") for n in range(draw(st.integers(1, 3)))]
            messages.append(Message("assistant", tool_calls=tuple(made)))
            answered = draw(st.integers(0, len(made)))
            messages += [
                text_message("tool", "r" * draw(st.integers(1, 3000)), tool_call_id=one.id, tool_name="t")
                for one in made[:answered]
            ]
        if draw(st.booleans()):
            messages.append(text_message("assistant", "a" * draw(st.integers(1, 3000))))
    return messages


@pytest.mark.requirement(
    "compaction.result.prompt-rebuild", "compaction.result.bounds", "compaction.result.summary-item"
)
@given(
    messages=turns(),
    window=st.sampled_from([None, 1000, 20_000]),
    reason=st.sampled_from(["manual", "overflow", "threshold"]),
)
def test_any_history_is_cut_between_whole_groups_and_nothing_is_lost(
    messages: list[Message], window: int | None, reason: Any
) -> None:
    model = Writer(window)
    talk = talking(messages, model)
    before = list(talk.items)
    made = anyio.run(compact, talk, WAY, reason)
    assert talk.items[: len(before)] == before
    if made.outcome == "skipped":
        assert model.asked == [] and talk.items == before
        assert reason != "manual" or not messages
        return
    assert made.outcome == "applied"
    summary, *tail = conversation(talk.items)
    assert "S" * 10 in summary.text
    kept = talk.items[-1].first_kept
    if kept is None:
        assert tail == []
        return
    assert messages[kept].role in ("user", "assistant")
    assert tail == conversation(before[kept:])
    bound = min(MAX_TAIL, window // 5) if window else MAX_TAIL
    waiting = reason != "manual" and len(tail) == 1 and tail[0].role == "user"
    assert waiting or estimate(messages[kept:]) <= bound
    assert reason == "manual" or messages[-1].role != "user" or tail[-1] == messages[-1]


def test_a_second_compaction_summarises_the_first_and_what_came_after() -> None:
    model = Writer(None)
    talk = talking([text_message("user", "at first"), text_message("assistant", "two")], model)
    anyio.run(compact, talk, WAY, "manual")
    anyio.run(talk.add, Item(kind="message", message=text_message("user", "three")))
    anyio.run(compact, talk, WAY, "manual")
    asked = model.asked[1].messages[-1].text
    assert "S" * 10 in asked and "three" in asked and "at first" not in asked
    assert len(conversation(talk.items)) == 1


def test_what_is_occupied_follows_the_last_report_and_starts_anew_after_a_summary() -> None:
    from sluice.persistence.records import Usage

    answered = replace(text_message("assistant", "two"), usage=Usage(5000, 100))
    talk = talking([text_message("user", "one"), answered, text_message("user", "x" * 350)], Writer(None))
    assert occupied(talk) == 5100 + 105
    talk.items.append(Item(kind="summary", text="S", first_kept=2, position=3))
    assert occupied(talk) < 250
