"""The turn: ask the model, run the tools it calls, ask again, until it has nothing more to call.

One `Run` is one prompt. It pushes events into its sink and knows only ports. `run` is cancelled from outside like any
other coroutine; `settle` is what must still happen afterwards, whatever ended the run: open calls get their last
report, and what was said or done so far is stored.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import anyio

from sluice.agent import batch, compaction, delegation, prompt, turn_hooks
from sluice.agent.answers import misfit, question_of, response_form, shows_tools
from sluice.agent.attempts import Attempts, new_id
from sluice.agent.calls import Call
from sluice.agent.conversation import Conversation
from sluice.agent.events import Event, Sink, TextDelta, UsageChanged, Warned
from sluice.agent.history import text_message
from sluice.agent.outcome import CANCELLED, Failure, Outcome, TurnFailure
from sluice.agent.ports import (
    AnswerCache,
    Model,
    ModelRequest,
    ModelResponse,
    PermissionPort,
    Tracer,
)
from sluice.agent.repetition import Repetition
from sluice.agent.spending import Spending
from sluice.machines import Transition
from sluice.persistence.records import Item, Message

__all__ = ["Ports", "Run"]

log = logging.getLogger(__name__)

MORE_ITERATIONS = 10
"""How many model calls a person's `continue` at the iteration limit buys."""

STOP_REASONS = {"length": "max_tokens", "refusal": "refusal"}
"""Finish reason of the final model response -> stop reason; every other one is an ordinary end."""


@dataclass(slots=True)
class Ports:
    """The way out of a run: `sink` waits for room, `post` never waits (for the few reports of a drain).

    `owner` is the id of the background task that the run is, "" for the foreground turn. `tracer` is None when the
    run belongs to no trace. `nest` makes the sessions that delegated tasks work in, None where no task can be
    delegated; `switch` lets another agent hold a conversation and keeps that in mind. `background` is where agents
    can work in the background, None for nowhere.
    """

    sink: Sink
    post: Callable[[Event], None]
    permission: PermissionPort
    note: Callable[[Transition], None] | None = None
    owner: str = ""
    tracer: Tracer | None = None
    nest: delegation.Nest | None = None
    switch: delegation.Switch = delegation.switch
    background: delegation.BackgroundAgents | None = None

    def span(self, name: str) -> AbstractContextManager[None]:
        """A span around one model call or one tool call."""
        return nullcontext() if self.tracer is None else self.tracer.span(name)


@dataclass(slots=True)
class Run:
    """One prompt, or one delegated task, on its way through model and tools.

    Attributes:
        model: what answers the agent that has the conversation: of an alloy, the member that was picked for this run,
            whatever is picked for others meanwhile. None before the run has begun.
        above: the run that delegated this one, None for a prompt.
        children: the delegated runs that this one waits for.
        heir: the agent that goes on with the conversation after this batch, "" for the one that has it.
        asked: agent -> how often its model was asked in this run.
        context: what hooks have said to the model; it goes with every call of the run and is stored nowhere.
        blocked: why a hook stopped the run, None while none has.
    """

    conversation: Conversation
    ports: Ports
    calls: list[Call] = field(default_factory=list)
    attempts: Attempts | None = None
    asking: anyio.Lock = field(default_factory=anyio.Lock)
    dismissed: bool = False
    repetition: Repetition = field(default_factory=Repetition)
    cache: AnswerCache | None = None
    question: str | None = None
    spending: Spending = field(default_factory=Spending)
    model: Model | None = None
    above: Run | None = None
    children: list[Run] = field(default_factory=list)
    heir: str = ""
    asked: dict[str, int] = field(default_factory=dict)
    context: list[str] = field(default_factory=list)
    blocked: str | None = None

    async def run(self, message: Message) -> Outcome:
        """Store the user's message, then go round until the model has nothing more to call.

        Returns the natural outcome; a failure of the model is an outcome too. Raises what the store raises.
        """
        try:
            outcome = await self._turn(message)
        except TurnFailure as ended:
            await self._remember(ended.failure)
            outcome = Outcome(failure=ended.failure)
        finally:
            self.spending.count_time(self.conversation)
        await turn_hooks.end(self.conversation, outcome)
        return outcome

    async def _turn(self, message: Message) -> Outcome:
        if not message.implicit:  # a person's; a delegated task is no session of theirs
            if not self.conversation.items:
                await turn_hooks.begin_session(self)
            await turn_hooks.submit(self, message)
        await self.conversation.add(Item(kind="message", message=message))
        self.model = self.conversation.team.agent.begin_turn()
        await turn_hooks.begin(self)
        return await self._from_cache(message) or await self._agents()

    async def _from_cache(self, asked: Message) -> Outcome | None:
        """Answer from the response cache, as one message with an id of its own; None when it has no answer.

        A miss is remembered: the first final answer of the run is what is kept for the question.
        """
        agent = self.conversation.team.agent
        question = question_of(asked, agent.config.cache)
        if agent.answers is None or question is None:
            return None
        answer = await agent.answers.get(question)
        if not answer or shows_tools(answer) or await misfit(answer, agent.config.structured_output):
            self.cache, self.question = agent.answers, question
            return None
        message = text_message("assistant", answer, id=new_id(), agent=agent.name, finish_reason="stop")
        await self.conversation.add(Item(kind="message", message=message))
        await self.ports.sink(TextDelta(message.id, answer))
        return Outcome()

    async def _finish(self, response: ModelResponse) -> Outcome:
        """The end of the turn: the final answer has the form that was asked for, and is kept if there is a cache.

        Raises TurnFailure for an answer of another form; it is in the history all the same. A refusal is no answer.
        """
        form = self.conversation.team.agent.config.structured_output
        if form is not None and response.finish_reason != "refusal":
            problem = await misfit(response.text, form)
            if problem:
                cut = " (the answer was cut off at the limit of tokens)" if response.finish_reason == "length" else ""
                text = f"The answer does not fit the schema {form.name}: {problem}{cut}."
                raise TurnFailure("structured_output_failed", text)
        cache, question = self.cache, self.question
        self.cache = self.question = None  # only the first final answer of a run
        keep = response.finish_reason == "stop" and bool(response.text) and not shows_tools(response.text)
        if keep and cache is not None and question is not None:
            await cache.put(question, response.text)
        return Outcome(STOP_REASONS.get(response.finish_reason, "end_turn"))

    async def _agents(self) -> Outcome:
        """One agent after the other, as long as each hands the conversation on; the last one's outcome is the run's
        (teams.handoff.same-session).
        """
        while (outcome := await self._rounds()) is None:
            await delegation.go_on(self)
        return outcome

    def below(self, conversation: Conversation, ports: Ports, *, apart: bool = False) -> Run:
        """The run of a task that is delegated from here; questions are asked one at a time in all that wait for each
        other. With `apart` nobody waits for it.
        """
        if apart:
            return Run(conversation, ports, above=self)
        return Run(conversation, ports, asking=self.asking, spending=self.spending, above=self)

    def every_call(self) -> list[Call]:
        """The calls of this run and of those below it: all of them belong to the turn, which interrupts them and
        ends behind them.
        """
        return [*self.calls, *(call for child in self.children for call in child.every_call())]

    async def _rounds(self) -> Outcome | None:
        """Ask and run what is asked for until the agent has no more calls; None when another agent goes on."""
        agent = self.conversation.team.agent
        config, used = agent.config, self.asked.get(agent.name, 0)
        limit = config.max_iterations
        agent.list_for_turn()
        while True:
            await self.spending.check(self.conversation, self.ports.sink)
            if limit and used >= limit:
                title = f"The agent reached its limit of {limit} model calls. Continue?"
                if not await self.ports.permission.ask_to_continue(title):
                    return Outcome("max_turn_requests")
                limit = used + MORE_ITERATIONS
            used = self.asked[agent.name] = used + 1
            response = await self._ask_model()
            if not response.tool_calls:
                await turn_hooks.stop(self, response)
                outcome = await self._finish(response)
                return None if delegation.forced(self, outcome) else outcome
            self.repetition.check(response.tool_calls, config.max_consecutive_tool_calls)
            await batch.carry_out(self)
            if self.dismissed:
                await self.settle()
            self.calls = []
            if self.dismissed:
                return CANCELLED
            if self.blocked is not None:
                raise TurnFailure("hook_blocked", self.blocked)
            if self.heir:
                return None

    async def _ask_model(self) -> ModelResponse:
        """Ask, with room for the answer: compact when the window is nearly full, and once when it overflowed."""
        talk = self.conversation
        if compaction.due(talk):
            await self._compact("threshold")
        try:
            return await self._one_answer()
        except TurnFailure as overflow:
            if overflow.failure.code != "context_exceeded" or not talk.team.agent.config.session_compaction:
                raise
            if not await self._compact("overflow"):
                raise
        return await self._one_answer()

    async def _compact(self, reason: compaction.Reason) -> bool:
        """Compact on the way; a failure is told and recovered from. Returns whether the history is shorter now."""
        talk = self.conversation
        made = await compaction.compact(talk, compaction.Way(self.ports.sink, self.ports.post), reason)
        if made.outcome == "failed":
            await self.ports.sink(Warned(f"The conversation could not be compacted: {made.text}"))
        if made.outcome == "applied":
            limit = (self.model or talk.team.agent.model).context_size
            await self.ports.sink(UsageChanged(talk.books.context_tokens, limit, talk.books.cost))
        return made.outcome == "applied"

    async def _one_answer(self) -> ModelResponse:
        talk, agent = self.conversation, self.conversation.team.agent
        await turn_hooks.before_call(self)
        tools = [tool.spec for tool in agent.tools.values()]
        form = response_form(agent.config.structured_output)
        request = ModelRequest(await prompt.messages(talk, self.context), tools, form, spent=talk.spent)
        self.attempts = Attempts(self.model or agent.model, self.ports.sink, agent.fallback)
        with self.ports.span(f"chat {agent.model.ref}"):
            response = await self.attempts.complete(request)
        # No await until the calls stand: from here on the whole reply is stored, not its parts.
        asked, message = self.attempts.model, self.attempts.message(response, agent.name)
        self.attempts = None
        await talk.add(Item(kind="message", message=message))
        self.calls = [
            Call(record, agent.tools.get(record.name), talk.cwd, self.ports.note) for record in message.tool_calls
        ]
        if response.usage is not None:
            talk.books.observe(response.usage, asked.context_size)
            warning = talk.budgets.charge(agent.name, response.usage)
            if warning is not None:
                await self.ports.sink(Warned(warning))
            await self.ports.sink(UsageChanged(talk.books.context_tokens, talk.books.limit, talk.books.cost))
        await turn_hooks.after_call(self, response)
        return response

    def block(self, reason: str) -> None:
        """End the run once this batch has ended, because a hook wants it; the first reason counts."""
        if self.blocked is None:
            self.blocked = f"A hook stopped the turn: {reason}" if reason else "A hook stopped the turn."

    def dismiss(self) -> None:
        """End the run as if the person had stopped it: what has not ended of this batch is interrupted."""
        self.dismissed = True
        for call in self.every_call():
            call.interrupt()

    async def settle(self) -> None:
        """After the run, whatever ended it: close what is open, show it, store it. Called shielded; never waits
        for the client.
        """
        for call in self.calls:
            if call.machine.can("interrupted"):
                call.machine.fire("interrupted")
            elif call.open:
                call.machine.fire("outcome_unknown")
                call.text = "Interrupted while it ran; it may have had side effects."
            if call.text is None:
                call.text = "Cancelled before it ran."
            if call.shown != call.status:
                self.ports.post(call.report())
        items = [Item(kind="message", message=call.message()) for call in self.calls if not call.stored]
        for call in self.calls:
            call.stored = True
        if self.attempts is not None:
            partial = self.attempts.partial(self.conversation.team.agent.name)
            if partial is not None:
                items.insert(0, Item(kind="message", message=partial))
        self.attempts = None
        if items:
            await self.conversation.add(*items)
        await self.conversation.file()

    async def _remember(self, failure: Failure) -> None:
        """Keep what a failed turn had said so far, then the error, so that a load shows both. What a budget stopped
        was told and stored already.
        """
        await self.settle()
        if failure.code == "budget_exceeded":
            return
        await self.conversation.add(Item(kind="error", code=failure.code, text=failure.text))
