"""One tool call from its first report to its result: the machine, its cancel scope, and what it shows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import anyio

from sluice.agent import presentation
from sluice.agent.attempts import new_id
from sluice.agent.events import Diff, ToolChanged
from sluice.agent.ports import ApprovalRequest, Tool, ToolContext, ToolFailure
from sluice.machines import CompiledToolCall, Transition
from sluice.persistence.records import Message, Part, ToolCallRecord

__all__ = ["OPEN", "WIRE_STATUS", "Call"]

log = logging.getLogger(__name__)

PREVIEW_SECONDS = 5.0
"""How long a question waits for the diff of what it is about; without one it is asked all the same."""

WIRE_STATUS: Mapping[str, str] = {
    "pending": "pending",
    "awaiting_permission": "pending",
    "in_progress": "in_progress",
    "completed": "completed",
    "failed": "failed",
}
"""State of the tool-call machine -> status on the wire: a call that waits for leave is pending."""

OPEN = frozenset({"pending", "awaiting_permission", "in_progress"})
"""The states in which a call has not ended."""


class Call:
    """One call of a batch. Its machine decides; this object holds what belongs to it.

    Attributes:
        record: id, name and argument text as stored.
        machine: the tool-call machine.
        scope: cancelled when the call is interrupted; the result of a call that ends all the same still counts.
        tool: the tool that is called, None for an unknown name.
        text: the result's text, None until there is one.
        shown: the last report that was sent, None before the first.
    """

    def __init__(
        self,
        record: ToolCallRecord,
        tool: Tool | None,
        cwd: str,
        note: Callable[[Transition], None] | None = None,
    ) -> None:
        self.record = record
        self.tool = tool
        self.cwd = cwd
        self.machine = CompiledToolCall(key=record.id, record=note)
        self.scope = anyio.CancelScope()
        self.arguments: Mapping[str, Any] = {}
        self.text: str | None = None
        self.diff: Diff | None = None
        self.stored = False
        self.shown: str | None = None

    @property
    def open(self) -> bool:
        """Whether the call has not ended."""
        return self.machine.state in OPEN

    @property
    def status(self) -> str:
        """Completed or failed for a call that has ended."""
        return WIRE_STATUS[self.machine.state]

    def interrupt(self) -> None:
        """Take the event `interrupted` where the machine has a row for it, and cancel the call's scope.

        A running call has no such row: only its scope is cancelled, and its real result still counts.
        """
        if self.machine.can("interrupted"):
            self.machine.fire("interrupted")
        if self.machine.state != "completed":
            self.scope.cancel()

    def said(self) -> dict[str, Any]:
        """What a hook is told about the call."""
        return {
            "tool_name": self.record.name,
            "tool_use_id": self.record.id,
            "tool_input": dict(self.arguments),
        }

    def request(self, diff: Diff | None) -> ApprovalRequest:
        """What a person is asked about this call; `diff` is what it would change, None when that is not known."""
        assert self.tool is not None, "an unknown tool is never asked about"
        return ApprovalRequest(
            self.record.id,
            self.record.name,
            presentation.title(self.tool, self.arguments),
            presentation.kind(self.record.name, self.tool.read_only),
            self.arguments,
            presentation.locations(self.arguments, self.cwd),
            diff,
        )

    async def preview(self, context: ToolContext) -> Diff | None:
        """What the call would change, for the person who is asked; a question never fails or waits long for it."""
        assert self.tool is not None, "an unknown tool is never asked about"
        if self.tool.preview is None:
            return None
        with anyio.move_on_after(PREVIEW_SECONDS):
            try:
                return await self.tool.preview(self.arguments, context)
            except ToolFailure as failure:
                log.info("no preview of %s: %s", self.record.name, failure)
            except Exception:
                log.exception("the preview of %s failed", self.record.name)
        return None

    def report(self) -> ToolChanged:
        """What to tell the sink now; the first report carries what later ones leave out."""
        first = self.shown is None
        status = WIRE_STATUS[self.machine.state]
        self.shown = status
        read_only = self.tool is not None and self.tool.read_only
        title = presentation.title(self.tool or self.record.name, self.arguments)
        return ToolChanged(
            call_id=self.record.id,
            name=self.record.name,
            title=title,
            kind=presentation.kind(self.record.name, read_only),
            status=status,
            first=first,
            arguments=self.arguments if first else None,
            locations=presentation.locations(self.arguments, self.cwd) if first else (),
            text=None if self.open else self.text,
            diff=None if self.open else self.diff,
        )

    def message(self) -> Message:
        """The call's result as it is stored and goes to the model; "" while there is none."""
        return Message(
            role="tool",
            parts=(Part(type="text", text=self.text or ""),),
            id=new_id(),
            tool_call_id=self.record.id,
            tool_name=self.record.name,
            status=self.status,
        )
