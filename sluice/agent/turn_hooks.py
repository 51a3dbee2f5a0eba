"""Hooks at the events of a turn and of a session: they may say something to the model, and stop the turn.

What they say goes with every call of the run and is stored nowhere (hooks.context.transient); only what a
`session_start` hook says is part of the conversation from then on. A hook that blocks makes the turn fail with
`hook_blocked` (hooks.stop.blocked-outcome). After the end nothing is left to block, so a refusal is only logged.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sluice.agent.conversation import Conversation
from sluice.agent.history import text_message
from sluice.agent.outcome import Outcome, TurnFailure
from sluice.agent.ports import ModelResponse
from sluice.persistence.records import Item, Message

if TYPE_CHECKING:
    from sluice.agent.loop import Run

__all__ = ["after_call", "before_call", "begin", "begin_session", "end", "end_session", "stop", "submit"]

log = logging.getLogger(__name__)

REASONS = {"hook_blocked", "loop_detected", "budget_exceeded"}
"""Runtime codes that `turn_end` is told as they are; every other failure is an error."""


async def begin_session(run: Run) -> None:
    """Before the first message of a session; what is said is stored in front of it. Raises TurnFailure."""
    said = await _said(run, "session_start", {"source": "startup"})
    if said:
        message = text_message("user", "\n\n".join(said), implicit=True)
        await run.conversation.add(Item(kind="message", message=message))


async def submit(run: Run, message: Message) -> None:
    """Before a person's prompt is stored. Raises TurnFailure; the prompt is stored nowhere then."""
    run.context += await _said(run, "user_prompt_submit", {"prompt": message.text})


async def begin(run: Run) -> None:
    """Before the first call of a turn. Raises TurnFailure."""
    run.context += await _said(run, "turn_start", {})


async def before_call(run: Run) -> None:
    """Before each call of a model. Raises TurnFailure."""
    agent = run.conversation.team.agent
    told = {"model_id": agent.model.ref, "iteration": run.asked.get(agent.name, 0)}
    run.context += await _said(run, "before_llm_call", told)


async def after_call(run: Run, response: ModelResponse) -> None:
    """After each answer of a model, which is stored already. Raises TurnFailure."""
    usage = {} if response.usage is None else {"usage": asdict(response.usage)}
    told = {"model_id": run.conversation.team.agent.model.ref, "stop_response": response.text, **usage}
    run.context += await _said(run, "after_llm_call", told)


async def stop(run: Run, response: ModelResponse) -> None:
    """When a model has nothing more to call. Raises TurnFailure."""
    messages = (item.message for item in reversed(run.conversation.items))
    asked = next((m.text for m in messages if m is not None and m.role == "user" and not m.implicit), "")
    await _said(run, "stop", {"stop_response": response.text, "last_user_message": asked})


async def end(talk: Conversation, outcome: Outcome) -> None:
    """After a turn that was not cancelled from outside: `on_error` when it failed, then `turn_end`."""
    failure = outcome.failure
    reason = "canceled" if outcome.stop_reason == "cancelled" else "normal"
    if failure is not None:
        reason = failure.code if failure.code in REASONS else "error"
        await _tell(talk, "on_error", {"error_code": failure.code, "error": failure.text})
    await _tell(talk, "turn_end", {"reason": reason})


async def end_session(talk: Conversation) -> None:
    """When a session in which something was said is closed."""
    if talk.items:
        await _tell(talk, "session_end", {"reason": "other"})


async def _said(run: Run, event: str, told: Mapping[str, Any]) -> list[str]:
    """What the hooks of an event say to the model. Raises TurnFailure when one blocks."""
    talk, said = run.conversation, []
    hooks = talk.team.agent.hooks
    for hook in hooks.of(event):
        answer = await hooks.ask(hook, talk.place, told)
        if answer.verdict == "deny":
            run.block(answer.reason)
            raise TurnFailure("hook_blocked", run.blocked or "")
        if answer.context:
            said.append(answer.context)
    return said


async def _tell(talk: Conversation, event: str, told: Mapping[str, Any]) -> None:
    """Run the hooks of an event that has nothing to stop."""
    hooks = talk.team.agent.hooks
    for hook in hooks.of(event):
        answer = await hooks.ask(hook, talk.place, told)
        if answer.verdict == "deny":
            log.warning("hook %s blocks what has ended already", hook.label)
