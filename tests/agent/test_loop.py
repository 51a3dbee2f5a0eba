"""One run of the loop without a peer: nobody to ask, and reports that do not get out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import anyio
import pytest

from sluice.agent.conversation import Conversation
from sluice.agent.events import Event, ToolChanged
from sluice.agent.history import text_message
from sluice.agent.loop import Ports, Run
from sluice.agent.permissions import Approval
from sluice.agent.ports import Delta, ModelRequest, ModelResponse, Tool, ToolContext, ToolResult, ToolSpec
from sluice.agent.team import Agent, Team
from sluice.agent.unattended import DenyAll
from sluice.config.schema import AgentConfig
from sluice.persistence.records import Item, ToolCallRecord

pytestmark = pytest.mark.anyio


class Played:
    """A model that gives its responses in order."""

    ref = "played/model"
    context_size = None

    def __init__(self, *responses: ModelResponse) -> None:
        self.responses = list(responses)
        self.requests: list[ModelRequest] = []

    async def complete(self, request: ModelRequest, on_delta: Callable[[Delta], Awaitable[None]]) -> ModelResponse:
        await anyio.lowlevel.checkpoint()
        self.requests.append(request)
        return self.responses.pop(0)

    async def aclose(self) -> None:
        """Nothing to release."""


class Stored:
    """What the store was given."""

    def __init__(self) -> None:
        self.items: list[Item] = []

    async def append(self, items: Sequence[Item]) -> Sequence[int]:
        self.items.extend(items)
        return range(len(self.items) - len(items), len(self.items))

    def results(self) -> list[tuple[str, str]]:
        messages = [item.message for item in self.items if item.message is not None]
        return [(message.status or "", message.text) for message in messages if message.role == "tool"]


CALL = ModelResponse("", tool_calls=(ToolCallRecord("c", "touch", "{}"),), finish_reason="tool_calls")
END = ModelResponse("done")


class OneTool:
    """A toolset of one tool that needs no life."""

    instruction = ""

    def __init__(self, tool: Tool) -> None:
        self.tool = tool

    async def start(self) -> None:
        """Nothing to start."""

    def tools(self) -> Sequence[Tool]:
        return (self.tool,)

    async def stop(self) -> None:
        """Nothing to stop."""


class Bench:
    """A run with one tool, `touch`, that counts how often it ran."""

    def __init__(self, *responses: ModelResponse, approval: Approval | None = None, **config: Any) -> None:
        self.ran = 0
        self.stored = Stored()
        self.reports: list[ToolChanged] = []
        self.posted: list[ToolChanged] = []
        self.model = Played(*responses)
        tool = Tool(ToolSpec("touch", "", {"type": "object"}), self._touch)
        agent = Agent(AgentConfig("root", "played/model", **config), self.model, [OneTool(tool)])
        agent.refresh()
        team = Team({"root": agent}, "root")
        talk = Conversation("s", "/", team, self.stored.append, approval=approval or Approval())
        self.run = Run(talk, Ports(self.sink, self._post, DenyAll()))

    async def _touch(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        self.ran += 1
        return ToolResult("touched")

    async def sink(self, event: Event) -> None:
        if isinstance(event, ToolChanged):
            self.reports.append(event)

    def _post(self, event: Event) -> None:
        if isinstance(event, ToolChanged):
            self.posted.append(event)


@pytest.mark.requirement("permission.non-interactive.denies")
@pytest.mark.parametrize(("mode", "ran"), [("default", 0), ("strict", 0), ("balanced", 0), ("autonomous", 1)])
async def test_without_anybody_to_ask_a_question_is_a_denial_and_the_turn_goes_on(mode: str, ran: int) -> None:
    bench = Bench(CALL, END, approval=Approval(mode))
    outcome = await bench.run.run(text_message("user", "go"))
    assert (outcome.stop_reason, bench.ran) == ("end_turn", ran)
    ((status, told),) = bench.stored.results()
    assert status == ("completed" if ran else "failed")
    if not ran:
        assert "nobody to ask" in told
        assert [report.status for report in bench.reports] == ["pending", "failed"]


@pytest.mark.requirement("permission.non-interactive.denies")
async def test_without_anybody_to_ask_a_limit_is_the_end() -> None:
    bench = Bench(CALL, END, approval=Approval("autonomous"), max_iterations=1)
    assert (await bench.run.run(text_message("user", "go"))).stop_reason == "max_turn_requests"


@pytest.mark.requirement("tool-lifecycle.interrupt.notification-failure", "tool-lifecycle.interrupt.known-results")
async def test_a_report_that_fails_undoes_nothing_and_is_not_sent_again() -> None:
    bench = Bench(CALL, END, approval=Approval("autonomous"))

    async def lost(event: Event) -> None:
        if isinstance(event, ToolChanged) and event.status == "completed":
            raise ConnectionError("lost")

    bench.run.ports.sink = lost
    with pytest.raises(BaseExceptionGroup):
        await bench.run.run(text_message("user", "go"))
    await bench.run.settle()
    assert bench.posted == []
    assert bench.stored.results() == [("completed", "touched")]


@pytest.mark.requirement("tool-lifecycle.interrupt.known-results")
async def test_a_report_that_was_cancelled_before_it_went_out_is_sent_by_settle_with_the_real_result() -> None:
    bench = Bench(CALL, END, approval=Approval("autonomous"))
    waiting = anyio.Event()

    async def full(event: Event) -> None:
        if isinstance(event, ToolChanged) and event.status == "completed":
            waiting.set()
            await anyio.sleep_forever()
        await bench.sink(event)

    bench.run.ports.sink = full
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.run.run, text_message("user", "go"))
        with anyio.fail_after(5):
            await waiting.wait()
        tasks.cancel_scope.cancel()
    await bench.run.settle()
    await bench.run.settle()
    assert [(report.status, report.text) for report in bench.posted] == [("completed", "touched")]
    assert bench.stored.results() == [("completed", "touched")]
