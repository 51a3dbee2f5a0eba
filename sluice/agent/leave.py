"""May this call happen now? Hooks, rules and mode, in the one order there is (permission.order.decision-chain).

1. `tool_input_transform` hooks change the arguments, or deny.
2. `tool_guard` hooks deny, or want a person asked whatever the rules say.
3. `pre_tool_use` hooks that preempt deny, or want a person asked unless the session has granted the tool.
4. Rules, then the mode (`permissions.Approval`). A deny of theirs is final and outranks what a hook wants asked.
5. Where the mode alone would ask, and where the default mode lets a tool run because it only reads: the other
   `pre_tool_use` hooks. They may allow, ask, deny, and change the arguments once, after which 2 to 4 come again.
6. `permission_request` hooks, before a person is asked.

What is decided here the tool-call machine is told by the loop, with the events it has always had.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sluice.agent import arguments
from sluice.agent.calls import Call
from sluice.agent.hook_answers import NO_ANSWER, HookAnswer
from sluice.agent.hooks import Hooks, Place
from sluice.agent.permissions import Approval, Decision, Weighed
from sluice.agent.ports import ToolFailure

__all__ = ["DENIED", "Judge", "Leave"]

log = logging.getLogger(__name__)

DENIED = "This call is not allowed here: a rule or the safety mode denies it."

Demand = Literal["", "guard", "preempting", "ordinary"]


@dataclass(frozen=True, slots=True)
class Leave:
    """The answer: `decision`, why it is a denial, and which hooks demand that a person is asked ("" for none).

    `stops`: the hook that denied wants the run to end too.
    """

    decision: Decision
    reason: str = DENIED
    demand: Demand = ""
    stops: bool = False


@dataclass(frozen=True, slots=True)
class Judge:
    """Answers the question for one call; may change its arguments."""

    call: Call
    hooks: Hooks
    place: Place
    approval: Approval

    async def leave(self) -> Leave:
        """Decide. Raises ToolFailure when a hook has given arguments that the tool cannot take."""
        changed = await self._hooks("tool_input_transform", rewrites=True)
        if changed.verdict == "deny":
            return _denied(changed)
        first = await self._ranked()
        if first.decision == "deny" or first.demand or not self._weighed().open:
            return first
        before = self.call.arguments
        answer = await self._hooks("pre_tool_use", rewrites=True)
        if answer.verdict == "deny":
            return _denied(answer)
        if self.call.arguments is not before:
            first = await self._ranked()
            if first.decision == "deny" or first.demand or not self._weighed().open:
                return first
        if answer.verdict == "ask":
            return Leave("ask", demand="ordinary")
        return Leave(answer.verdict or first.decision)

    def still(self, leave: Leave) -> Decision:
        """What holds of an `ask` after a wait: a grant, a rule or another mode may have come meanwhile."""
        weighed = self._weighed()
        if weighed.decision == "deny" or not leave.demand:
            return weighed.decision
        if leave.demand == "preempting" and self.approval.granted(self._name, self.call.arguments):
            return "allow"
        if leave.demand == "ordinary" and not weighed.open:
            return weighed.decision
        return "ask"

    async def before_asking(self, leave: Leave) -> Leave:
        """What `permission_request` hooks say in a person's place; a guard wants the person and no hook."""
        answer = await self._hooks("permission_request")
        if answer.verdict == "deny":
            return _denied(answer)
        return Leave("allow") if answer.verdict == "allow" and leave.demand != "guard" else leave

    @property
    def _name(self) -> str:
        return self.call.record.name

    def _weighed(self) -> Weighed:
        assert self.call.tool is not None, "an unknown tool needs no leave"
        return self.approval.weigh(self.call.tool, self.call.arguments)

    async def _ranked(self) -> Leave:
        """Guards, preempting hooks, rules and mode."""
        guard = await self._hooks("tool_guard")
        if guard.verdict == "deny":
            return _denied(guard)
        early = await self._hooks("pre_tool_use", preempting=True)
        if early.verdict == "deny":
            return _denied(early)
        decision: Decision = self._weighed().decision
        if decision == "deny":
            return Leave(decision)
        if guard.verdict == "ask":
            return Leave("ask", demand="guard")
        if early.verdict == "ask" and not self.approval.granted(self._name, self.call.arguments):
            return Leave("ask", demand="preempting")
        return Leave(decision)

    async def _hooks(self, event: str, *, preempting: bool = False, rewrites: bool = False) -> HookAnswer:
        """The strictest of what the hooks of an event say: deny before ask before allow.

        With `rewrites` the arguments that a hook gives are the call's from there on, also for the hooks after it; of
        `pre_tool_use` hooks only the first may (hooks.pre.updated-input).
        """
        strictest, changed = NO_ANSWER, False
        for hook in self.hooks.of(event, self._name, preempting=preempting):
            answer = await self.hooks.ask(hook, self.place, self.call.said())
            if answer.verdict == "deny":
                return answer
            if answer.updated_input is not None:
                if rewrites and not (changed and event == "pre_tool_use"):
                    self._rewrite(answer.updated_input)
                    changed = True
                else:
                    log.warning("hook %s may not change the input here; its input is not used", hook.label)
            if answer.verdict == "ask" or strictest.verdict is None:
                strictest = answer
        return strictest

    def _rewrite(self, given: Mapping[str, Any]) -> None:
        """Take other arguments, checked like those of a model."""
        assert self.call.tool is not None, "an unknown tool needs no leave"
        try:
            self.call.arguments = arguments.parse(json.dumps(given), self.call.tool.spec)
        except ToolFailure as failure:
            raise ToolFailure(f"A hook changed the arguments of this call, and {failure}") from failure


def _denied(answer: HookAnswer) -> Leave:
    reason = f"A hook denied this call: {answer.reason}" if answer.reason else "A hook denied this call."
    return Leave("deny", reason, stops=answer.stops)
