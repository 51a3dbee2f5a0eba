"""The agent's permission requests: answered by the runtime mode, or put to the host as approvals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import anyio
import anyio.lowlevel

from sluice.client.errors import ClientError
from sluice.client.permissions import Decision, PermissionOption, PermissionRequest, choose_option
from sluice.client.provider.events import ApprovalRequested, ApprovalWithdrawn, ChatEvent
from sluice.client.provider.policy import RuntimeMode, allowed_unasked
from sluice.client.provider.rows import draw
from sluice.client.reading import members, text

__all__ = ["Approvals"]


@dataclass(eq=False)
class _Approval:
    """A question that is open at the host.

    Attributes:
        answered: set with the decision; the option it means is `chosen`.
    """

    options: tuple[PermissionOption, ...]
    answered: anyio.Event = field(default_factory=anyio.Event)
    chosen: str | None = None


class Approvals:
    """The open approvals of one chat.

    Whoever ends an approval takes it off the list first, in one step without an await, so each is ended once.

    Args:
        emit: takes each event.
        present: tells the runtime mode the chat has now.
    """

    def __init__(self, emit: Callable[[ChatEvent], None], present: Callable[[], RuntimeMode]) -> None:
        self._emit = emit
        self._present = present
        self._open: dict[str, _Approval] = {}
        self._asked = 0

    async def decide(self, request: PermissionRequest) -> str | None:
        """Answer a request; the handler of `ClientHandlers.on_permission`.

        Returns:
            The option to take; None for "cancelled".
        """
        # A request whose turn has ended before this task ran is not shown at all.
        await anyio.lowlevel.checkpoint()
        kind = text(members(request.raw.get("toolCall")).get("kind")) or request.row.kind
        allowed = next((option.option_id for option in request.options if option.kind == "allow_once"), None)
        if allowed is not None and allowed_unasked(self._present(), kind):
            return allowed
        return await self._ask(request, kind)

    async def _ask(self, request: PermissionRequest, kind: str) -> str | None:
        self._asked += 1
        approval_id, approval = f"approval-{self._asked}", _Approval(request.options)
        self._open[approval_id] = approval
        always = any(option.kind == "allow_always" for option in request.options)
        answers: tuple[Decision, ...] = (
            ("allow_once", "allow_always", "reject") if always else ("allow_once", "reject")
        )
        self._emit(ApprovalRequested(approval_id, draw(request.row), kind, answers, request.raw))
        try:
            await approval.answered.wait()
        finally:
            self._withdraw(approval_id)
        return approval.chosen

    def answer(self, approval_id: str, decision: Decision) -> None:
        """Carry a decision out, by the agent's option for it or the next stricter one.

        Raises:
            ClientError: the approval is not open (any more).
        """
        approval = self._open.pop(approval_id, None)
        if approval is None:
            raise ClientError(f"no open approval {approval_id!r}")
        approval.chosen = choose_option(approval.options, decision)
        approval.answered.set()

    def withdraw(self) -> None:
        """Tell the host that every open approval is gone."""
        for approval_id in tuple(self._open):
            self._withdraw(approval_id)

    def _withdraw(self, approval_id: str) -> None:
        if self._open.pop(approval_id, None) is not None:
            self._emit(ApprovalWithdrawn(approval_id))
