"""session/request_permission: a person decides whether a tool call may run.

Specification page: https://agentclientprotocol.com/protocol/tool-calls (requesting permission).
"""

from __future__ import annotations

import logging
from typing import Any, cast

from sluice import acp
from sluice.acp.tools import ToolKind
from sluice.acp.validation import permission_outcome
from sluice.agent.attempts import new_id
from sluice.agent.ports import ApprovalAnswer, ApprovalRequest
from sluice.handlers.updates import diff_of, shown_name
from sluice.wire.frames import FrameTooLarge
from sluice.wire.peer import ConnectionLost, Peer, RemoteError

__all__ = ["ClientPermission"]

log = logging.getLogger(__name__)

OPTIONS = (
    acp.PermissionOption("allow", "Allow", "allow_once"),
    acp.PermissionOption("allow-always", "Always allow this tool in this session", "allow_always"),
    acp.PermissionOption("reject", "Reject", "reject_once"),
)
"""allow_once first; the label says exactly how far "always" goes (permission.grant.tool-only)."""

CONTINUE = (
    acp.PermissionOption("continue", "Continue", "allow_once"),
    acp.PermissionOption("stop", "Stop", "reject_once"),
)


class ClientPermission:
    """The permission port of one session, answered by the client. Fails closed: whatever is not a clear yes is no."""

    def __init__(self, peer: Peer, session_id: str) -> None:
        self.peer = peer
        self.session_id = session_id

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Ask about a call that was reported already. No wall clock ends the wait (permission.answer.no-timeout)."""
        call = acp.ToolCallUpdate(
            request.call_id,
            title=request.title,
            kind=cast("ToolKind", request.kind),
            status="pending",
            content=diff_of(request.diff) or None,
            locations=[acp.ToolCallLocation(path, line) for path, line in request.locations] or None,
            raw_input=dict(request.arguments),
            name=shown_name(request.name),
        )
        chosen = await self._choose(call, OPTIONS)
        if chosen == "allow":
            return ApprovalAnswer("allow")
        if chosen == "allow-always":
            return ApprovalAnswer("allow_always")
        # tool-calls: "cancelled" follows a cancel; alone it means that the person dismissed the dialog.
        if chosen is None:
            return ApprovalAnswer("cancelled")
        return ApprovalAnswer("reject" if chosen == "reject" else "unanswered")

    async def ask_to_continue(self, title: str) -> bool:
        """Ask at the iteration limit; only the exact option continues (permission.iteration-limit.exact-continue)."""
        call = acp.ToolCallUpdate(new_id(), title=title, kind="execute", status="pending")
        return await self._choose(call, CONTINUE) == "continue"

    async def _choose(self, call: acp.ToolCallUpdate, options: tuple[acp.PermissionOption, ...]) -> str | None:
        """The chosen option id, None for a cancelled outcome, "" for every answer that is no answer."""
        params = acp.RequestPermissionRequest(self.session_id, call, options)
        try:
            answer: Any = await self.peer.request("session/request_permission", params)
        except (RemoteError, ConnectionLost, FrameTooLarge) as error:
            # What cannot be shown cannot be approved.
            log.info("a permission request was not answered: %s", type(error).__name__)
            return ""
        outcome = permission_outcome(answer, {option.option_id for option in options})
        if outcome is None:
            return ""
        return outcome.option_id if isinstance(outcome, acp.SelectedPermissionOutcome) else None
