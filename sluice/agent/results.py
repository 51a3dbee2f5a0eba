"""What a tool gave, before it is stored, shown or sent, and what hooks say of it afterwards.

A diff is for the client that the edit was made for, and nothing here touches it
(tool-locations-diffs.diff.not-transformed).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.agent.calls import Call
from sluice.agent.ports import ToolResult
from sluice.agent.redaction import mask_known

if TYPE_CHECKING:
    from sluice.agent.loop import Run

__all__ = ["WITHHELD", "hear_hooks", "rewritten"]

WITHHELD = "The tool has ended; its output is left out, because the hooks that change it were cancelled."
"""What stands for the output when nobody can say what it would have become."""


async def rewritten(run: Run, call: Call, result: ToolResult) -> str:
    """The text of a result as everybody gets it: secrets masked, then changed by `tool_response_transform` hooks.

    Each hook is told what the one before has made of it. One that blocks withholds the text, for good.
    """
    agent = run.conversation.team.agent
    masks = agent.config.redact_secrets
    text = mask_known(result.text) if masks else result.text
    for hook in agent.hooks.of("tool_response_transform", call.record.name):
        answer = await agent.hooks.ask(hook, run.conversation.place, _said(call, text, result.is_error))
        if answer.stops:
            run.block(answer.reason)
        if answer.verdict == "deny":
            return f"A hook has withheld this result: {answer.reason}" if answer.reason else "A hook has withheld it."
        if answer.updated_response is not None:
            text = mask_known(answer.updated_response) if masks else answer.updated_response
    return text


async def hear_hooks(run: Run, call: Call, is_error: bool) -> None:
    """Run the `post_tool_use` hooks of a call that has ended; they may add context, or stop the run."""
    hooks = run.conversation.team.agent.hooks
    for hook in hooks.of("post_tool_use", call.record.name):
        answer = await hooks.ask(hook, run.conversation.place, _said(call, call.text or "", is_error))
        if answer.context and answer.verdict != "deny":
            run.context.append(answer.context)
        if answer.stops or answer.verdict == "deny":
            run.block(answer.reason)
            return


def _said(call: Call, text: str, is_error: bool) -> dict[str, Any]:
    return {**call.said(), "tool_response": text, "tool_error": is_error}
