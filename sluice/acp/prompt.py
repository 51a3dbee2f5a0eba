"""The prompt turn's requests and the two cancellations.

Source: ACP "Prompt Turn" and "Cancellation".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from sluice.acp.base import Message
from sluice.acp.content import ContentBlock

__all__ = ["CancelNotification", "CancelRequestNotification", "PromptRequest", "PromptResponse", "StopReason"]

StopReason = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]


class PromptRequest(Message, frozen=True):
    """Start a turn with this message; validation has seen to it that the prompt is not empty."""

    session_id: str
    prompt: Sequence[ContentBlock]


class PromptResponse(Message, frozen=True):
    """The turn has ended, and why."""

    stop_reason: StopReason


class CancelNotification(Message, frozen=True):
    """`session/cancel`: end the turn of the session."""

    session_id: str


class CancelRequestNotification(Message, frozen=True):
    """`$/cancel_request`: the sender no longer wants the answer to its request; the id keeps its JSON type."""

    request_id: int | str | None
