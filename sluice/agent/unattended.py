"""The permission port of a session in which nobody can be asked: background agents, and calls over MCP."""

from __future__ import annotations

from sluice.agent.ports import ApprovalAnswer, ApprovalRequest

__all__ = ["DenyAll"]


class DenyAll:
    """Turns every question into a denial (requirement `permission.non-interactive.denies`)."""

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Nobody answers; the model is told that this is why."""
        return ApprovalAnswer("unattended")

    async def ask_to_continue(self, title: str) -> bool:
        """Never past a limit that somebody should have been asked about."""
        return False
