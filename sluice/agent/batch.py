"""The calls of one answer: each is judged, run and reported, all at the same time, and its result is stored.

What a call may do is decided in `leave`, what it is worth afterwards by the hooks that see its result.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from sluice.agent import arguments, delegation, results
from sluice.agent.bounds import bound
from sluice.agent.calls import Call
from sluice.agent.events import PlanChanged
from sluice.agent.leave import Judge, Leave
from sluice.agent.ports import ToolContext, ToolFailure, ToolResult
from sluice.agent.redaction import masked_value
from sluice.persistence.records import Item

if TYPE_CHECKING:
    from sluice.agent.loop import Run

__all__ = ["MAX_PARALLEL_CALLS", "carry_out"]

log = logging.getLogger(__name__)

MAX_PARALLEL_CALLS = 16
"""Calls of one batch that run at the same time (tools.registry.parallel)."""

REFUSED = {
    "reject": "The user rejected this call.",
    "unanswered": "This call was not approved: the client gave no valid answer to the question.",
    "unattended": "This call needs approval, and there is nobody to ask in this session, so it is denied.",
}
"""What the model is told when a call was asked about and may not run."""


async def carry_out(run: Run) -> None:
    """Carry out the calls of a run; each has ended on return, or was interrupted because the run was dismissed."""
    limiter = anyio.CapacityLimiter(MAX_PARALLEL_CALLS)
    async with anyio.create_task_group() as tasks:
        for call in run.calls:
            tasks.start_soon(_Carrier(run, call).carry, limiter)


@dataclass(frozen=True, slots=True)
class _Carrier:
    """Carries one call from the model's text to its stored result."""

    run: Run
    call: Call

    async def carry(self, limiter: anyio.CapacityLimiter) -> None:
        """Carry the call out, when there is room for it."""
        with self.call.scope:
            async with limiter:
                try:
                    await self._execute()
                except ToolFailure as failure:
                    await self._end("denied", str(failure))

    async def _execute(self) -> None:
        call, talk = self.call, self.run.conversation
        if call.tool is None:
            known = ", ".join(sorted(talk.team.agent.tools)) or "none"
            raise ToolFailure(f"There is no tool named {call.record.name!r}. The tools are: {known}.")
        call.arguments = arguments.parse(call.record.arguments, call.tool.spec)
        if talk.team.agent.config.redact_secrets:
            call.arguments = masked_value(call.arguments)
        judge = Judge(call, talk.team.agent.hooks, talk.place, talk.approval)
        leave = await judge.leave()
        if leave.stops:
            self.run.block(leave.reason)
        if leave.decision == "ask":
            leave = await judge.before_asking(leave)
        decision: str = leave.decision if leave.decision != "ask" else await self._ask_person(judge, leave)
        if decision == "deny" and call.open:
            raise ToolFailure(leave.reason)
        if call.open and decision == "allow":
            await self._perform()

    async def _ask_person(self, judge: Judge, leave: Leave) -> str:
        """Ask; returns allow, deny, or settled when the answer has already ended the call."""
        run, call = self.run, self.call
        assert call.tool is not None
        async with run.asking:  # one dialog at a time (permission.order.serialised)
            # A grant or a mode may have changed while this call waited its turn.
            decision = judge.still(leave)
            if decision != "ask":
                return decision
            call.machine.fire("ask")
            await self._show()
            answer = await run.ports.permission.ask(call.request(await call.preview(self._context())))
            if not call.open:
                return "settled"  # interrupted while the person was thinking: the answer comes too late
            if answer.choice == "cancelled":
                run.dismiss()
                return "settled"
            if answer.choice in REFUSED:
                await self._end("rejected", REFUSED[answer.choice])
                return "settled"
            if answer.choice == "allow_always":
                run.conversation.approval.grants.add(call.tool.name)
        return "allow"

    def _context(self) -> ToolContext:
        ports, talk = self.run.ports, self.run.conversation
        trace = None if ports.tracer is None else ports.tracer.current()
        colleagues = delegation.Delegation(self.run)
        return ToolContext(talk.session_id, self.call.record.id, talk.cwd, talk.roots, ports.owner, trace, colleagues)

    async def _show(self) -> None:
        """Report a call. A report that was cancelled before it was sent counts as not sent, and settle sends it."""
        before = self.call.shown
        try:
            await self.run.ports.sink(self.call.report())
        except anyio.get_cancelled_exc_class():
            self.call.shown = before
            raise

    async def _perform(self) -> None:
        call = self.call
        assert call.tool is not None
        call.machine.fire("start")
        await self._show()
        try:
            with self.run.ports.span(f"execute_tool {call.tool.name}"):
                result = await call.tool.run(call.arguments, self._context())
        except ToolFailure as failure:
            result = ToolResult(str(failure), is_error=True)
        except Exception:
            log.exception("tool %s failed", call.tool.name)
            result = ToolResult("The tool failed unexpectedly; the agent's log has the details.", is_error=True)
        call.diff, event = result.diff, "error" if result.is_error else "result"
        try:
            # Nothing else is awaited between the tool's return and the event.
            text = await results.rewritten(self.run, call, result)
        except anyio.get_cancelled_exc_class():
            # A result that is there counts, cancelled or not; its text is nobody's while it may still be changed.
            call.machine.fire(event)
            call.text = results.WITHHELD
            raise
        await self._end(event, text)
        if result.plan is not None:
            await self.run.ports.sink(PlanChanged(result.plan))
        await results.hear_hooks(self.run, call, result.is_error)

    async def _end(self, event: str, text: str) -> None:
        call = self.call
        if call.machine.state == "pending" and call.shown is None:
            await self._show()
        if not call.open:
            return
        call.machine.fire(event)
        call.text = bound(text)
        await self._show()
        call.stored = True
        await self.run.conversation.add(Item(kind="message", message=call.message()))
