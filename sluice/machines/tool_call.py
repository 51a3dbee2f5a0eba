"""The tool call machine: what may be shown of a call, and has it ended?

One per call (ACP page "Tool Calls"). Declared here and drawn from here; driven by `compiled.CompiledToolCall`,
because a model may open a thousand calls at once.
"""

from __future__ import annotations

from typing import ClassVar

from statemachine import Event, State

from sluice.machines.base import Machine

__all__ = ["ToolCall"]


class ToolCall(Machine):
    """A call of a tool. Why a failed call failed is told by the event that failed it."""

    machine: ClassVar[str] = "tool"

    pending = State("pending", initial=True)
    awaiting_permission = State("awaiting_permission")
    in_progress = State("in_progress")
    completed = State("completed", final=True)
    failed = State("failed", final=True)

    ask = Event(pending.to(awaiting_permission), name="ask")
    start = Event(in_progress.from_(pending, awaiting_permission), name="start")
    denied = Event(pending.to(failed), name="denied")  # by policy, nobody was asked
    rejected = Event(awaiting_permission.to(failed), name="rejected")  # by the person who was asked
    # Only what has not begun is interrupted. A call in progress may have had its effect: its real result counts.
    interrupted = Event(failed.from_(pending, awaiting_permission), name="interrupted")
    result = Event(in_progress.to(completed), name="result")
    error = Event(in_progress.to(failed), name="error")
    outcome_unknown = Event(in_progress.to(failed), name="outcome_unknown")  # it began and nobody saw it end
