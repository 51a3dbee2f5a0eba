"""The other agents of a team: a task for one of them, and a conversation that goes on with another.

A delegated task is a run like any other, below the run that delegated it: the same loop, a conversation of its own
that is stored as a session below this one, the same approval, and the same person who is asked. Requirements
`teams.delegate.*`, `teams.handoff.*`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import anyio

from sluice.agent.books import Books
from sluice.agent.conversation import Append, Conversation
from sluice.agent.events import CompactionChanged, Event, UsageChanged
from sluice.agent.history import text_message
from sluice.agent.outcome import Outcome
from sluice.agent.ports import Background, ToolFailure, ToolResult
from sluice.agent.team import Team
from sluice.persistence.records import Item, Message

if TYPE_CHECKING:
    from sluice.agent.loop import Ports, Run

__all__ = [
    "MAX_DEPTH",
    "BackgroundAgents",
    "Delegation",
    "Nest",
    "Nested",
    "Switch",
    "answer_of",
    "below",
    "forced",
    "go_on",
    "last_answer",
    "nested_in",
    "settle",
    "switch",
]

MAX_DEPTH = 10
"""Tasks that may stand below each other (teams.delegate.depth-and-cycles)."""

NO_ANSWER = "The agent ended without an answer."

UNFINISHED = {
    "max_tokens": "[the answer was cut off at the limit of tokens]",
    "max_turn_requests": "[the agent stopped at its limit of model calls; the task may not be finished]",
}
"""Stop reason -> what is said behind the answer of an agent that did not end by itself."""


@dataclass(frozen=True, slots=True)
class Nested:
    """A session below another one, stored and empty, for one task.

    `append` stores its items; `ports` lead to the person of the root session; `keep` stores what the task's model
    calls have cost (USD) and what its context holds (tokens).
    """

    session_id: str
    append: Append
    ports: Ports
    keep: Callable[[float, int], Awaitable[None]]


Nest = Callable[[str, str], Awaitable[Nested]]
"""Makes a session: the id of the one above, the agent that works in it. Raises what the store raises."""

Switch = Callable[[Conversation, str], Awaitable[None]]
"""Lets another agent hold a conversation: stored, in force and told, as far as somebody stores and listens."""


class BackgroundAgents(Background, Protocol):
    """Where agents work in the background: the session that owns them."""

    async def start(self, run: Run, agent: str, task: Message) -> str:
        """Let an agent work on a task that a call of `run` has given it; returns the task's id.

        Raises:
            ToolFailure: too many work already, or what the call belongs to is being ended.
        """
        ...


async def switch(talk: Conversation, agent: str) -> None:
    """Let another agent hold a conversation that nobody keeps."""
    talk.switch_agent(agent)


class Delegation:
    """What a call of one run can ask of the other agents; see `ports.Colleagues`."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def hand_over(self, agent: str) -> ToolResult:
        """Let another agent go on once this batch has ended; raises ToolFailure when one is chosen already."""
        run = self._run
        if run.heir and run.heir != agent:
            raise ToolFailure(f"The conversation goes to {run.heir} already.")
        if agent == run.conversation.team.current:
            raise ToolFailure(f"{agent} has the conversation already.")
        run.heir = agent
        return ToolResult(f"The conversation goes on with {agent}.")

    async def transfer(self, agent: str, task: str) -> ToolResult:
        """Let another agent do a task.

        Returns:
            Its last answer.

        Raises:
            ToolFailure: it is at work above this run, the tasks stand too deep, or it failed.
        """
        self._check(agent)
        return await self._given(agent, task)

    async def fork(self, task: str) -> ToolResult:
        """Let the agent of this run do a task in a session of its own; see `ports.Colleagues`."""
        self._check_depth()
        return await self._given(self._run.conversation.team.current, task)

    async def _given(self, agent: str, task: str) -> ToolResult:
        run, nest = self._run, self._run.ports.nest
        if nest is None:
            raise ToolFailure("No task can be given to another agent here.")
        nested = await nested_in(run, nest, agent)
        run.spending.count_time(run.conversation)
        child = below(run, nested, agent)
        run.children.append(child)
        try:
            outcome = await child.run(_task(task))
        finally:
            # Cleanup policy: what was said and done is stored whatever ends the task; the store has its own bound.
            with anyio.CancelScope(shield=True):
                await settle(child, nested)
            run.children.remove(child)
        if outcome.stop_reason == "cancelled":
            # Whoever dismisses a question of a task means the turn.
            run.dismiss()
        return ToolResult(answer_of(child, outcome))

    @property
    def background(self) -> BackgroundAgents:
        """The agents in the background; raises ToolFailure where none can be."""
        if self._run.ports.background is None:
            raise ToolFailure("No agent can work in the background here.")
        return self._run.ports.background

    async def run_background(self, agent: str, task: str) -> ToolResult:
        """Let another agent do a task while this run goes on; see `ports.Colleagues`."""
        self._check(agent)
        task_id = await self.background.start(self._run, agent, _task(task))
        return ToolResult(f"{agent} works on it as {task_id}.")

    def _check(self, agent: str) -> None:
        """Raises ToolFailure for an agent at work above this run, and for a task that would stand too deep."""
        if agent in [one.conversation.team.current for one in _upwards(self._run)]:
            raise ToolFailure(f"{agent} is at work above this task: tasks are not given in circles.")
        self._check_depth()

    def _check_depth(self) -> None:
        if len(list(_upwards(self._run))) > MAX_DEPTH:
            raise ToolFailure(f"Tasks stand at most {MAX_DEPTH} deep below each other.")


def _task(text: str) -> Message:
    return replace(text_message("user", text), implicit=True)


async def nested_in(run: Run, nest: Nest, agent: str) -> Nested:
    """A stored session below the one of a run, with its place in that one's history: both or neither, since one that
    stands in no history would be paid for and never shown.
    """
    talk = run.conversation
    with anyio.CancelScope(shield=True):
        nested = await nest(talk.session_id, agent)
        await talk.add(Item(kind="sub_session", session_id=nested.session_id))
    return nested


def answer_of(child: Run, outcome: Outcome) -> str:
    """The last answer of a task that has ended, and what has to be known of its end.

    Raises:
        ToolFailure: it failed, was stopped or refused.
    """
    if outcome.failure is not None:
        raise ToolFailure(f"The task failed: {outcome.failure.text}")
    if outcome.stop_reason == "cancelled":
        raise ToolFailure("The task was stopped.")
    said = last_answer(child.conversation) or NO_ANSWER
    if outcome.stop_reason == "refusal":
        raise ToolFailure(f"The agent refused the task: {said}")
    notice = UNFINISHED.get(outcome.stop_reason)
    return f"{said}\n{notice}" if notice else said


def _upwards(run: Run) -> Iterator[Run]:
    """This run and those above it."""
    one: Run | None = run
    while one is not None:
        yield one
        one = one.above


def _root(run: Run) -> Conversation:
    return list(_upwards(run))[-1].conversation


def below(run: Run, nested: Nested, agent: str, *, apart: bool = False) -> Run:
    """The run of a task: with the approval, the budgets and the tools' places of the conversation above.

    `apart` says that the run above does not wait for it, so its time is its own.
    """
    talk = run.conversation
    books, root = Books(), _root(run).books

    def of_root(event: Event) -> Event | None:
        if isinstance(event, CompactionChanged):
            return None  # a client would take it for one of the conversation that it shows
        # The gauge is the root's alone; the cost is that of all.
        if not isinstance(event, UsageChanged):
            return event
        root.report(nested.session_id, books.own_cost)
        return UsageChanged(root.context_tokens, root.limit, root.cost)

    async def sink(event: Event) -> None:
        if (shown := of_root(event)) is not None:
            await nested.ports.sink(shown)

    def post(event: Event) -> None:
        if (shown := of_root(event)) is not None:
            nested.ports.post(shown)

    conversation = Conversation(
        nested.session_id,
        talk.cwd,
        Team(talk.team.agents, agent),
        nested.append,
        talk.roots,
        approval=talk.approval,
        books=books,
        budgets=talk.budgets,
    )
    return run.below(conversation, replace(nested.ports, sink=sink, post=post), apart=apart)


async def settle(child: Run, nested: Nested) -> None:
    """What must be done after a task, shielded, whatever ended it. Raises what the store raises."""
    await child.settle()
    books = child.conversation.books
    _root(child).books.report(nested.session_id, books.own_cost)
    await nested.keep(books.own_cost, books.context_tokens)


def last_answer(talk: Conversation) -> str:
    """What the agent of a conversation has said last, "" for nothing."""
    answers = (item.message for item in reversed(talk.items) if item.message is not None)
    return next((message.text.strip() for message in answers if message.role == "assistant"), "")


# --- another agent goes on ---------------------------------------------------------------------------------------


def forced(run: Run, outcome: Outcome) -> bool:
    """Whether the agent's file sends the conversation on after a natural end; then it has an heir.

    Nobody gets it who has had it in this run: a circle would never end (teams.handoff.forced).
    """
    heir = run.conversation.team.agent.config.force_handoff
    if outcome.stop_reason != "end_turn" or heir is None or heir in run.asked:
        return False
    run.heir = heir
    return True


async def go_on(run: Run) -> None:
    """Let the heir have the conversation: all of the history, its own instruction, model and tools."""
    talk, heir = run.conversation, run.heir
    run.heir = ""
    run.spending.count_time(talk)
    if talk.items and talk.items[-1].message is not None and talk.items[-1].message.role == "assistant":
        # Forced on behind an answer: a model is asked by a message of the user's side only.
        asked = f"{talk.team.current} has answered; now it is your turn."
        await talk.add(Item(kind="message", message=replace(text_message("user", asked), implicit=True)))
    await run.ports.switch(talk, heir)
    run.model = talk.team.agent.begin_turn()
