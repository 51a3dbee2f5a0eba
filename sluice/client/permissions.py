"""Permission requests: asked once, answered once, withdrawn when nobody wants the answer any more.

Source: https://agentclientprotocol.com/protocol/tool-calls ("Requesting Permission")
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import anyio

from sluice.client.reading import items, members, text
from sluice.client.session import Session, Turn
from sluice.client.updates import ToolRow, ToolUpdate, read_tool_update
from sluice.wire.errors import RequestCancelled
from sluice.wire.peer import IncomingRequest

__all__ = [
    "Decision",
    "PermissionDesk",
    "PermissionHandler",
    "PermissionOption",
    "PermissionRequest",
    "choose_option",
]

_log = logging.getLogger(__name__)

Decision: TypeAlias = Literal["allow_once", "allow_always", "reject"]
"""What a user can decide."""

_KINDS: Mapping[Decision, tuple[str, ...]] = {
    "allow_always": ("allow_always", "allow_once", "reject_once", "reject_always"),
    "allow_once": ("allow_once", "reject_once", "reject_always"),
    "reject": ("reject_once", "reject_always"),
}
"""The option kinds that serve a decision, best first and never wider than what was decided."""


@dataclass(frozen=True)
class PermissionOption:
    """One answer on offer.

    Attributes:
        kind: allow_once, allow_always, reject_once, reject_always, or a word this client does not know.
    """

    option_id: str
    name: str
    kind: str


@dataclass(frozen=True)
class PermissionRequest:
    """A question of the agent.

    Attributes:
        row: the tool call in question with everything known of it; its call_id is empty if the agent named none.
        options: the usable answers in the agent's order.
        raw: the parameters as plain data.
    """

    session_id: str
    row: ToolRow
    options: tuple[PermissionOption, ...]
    raw: Mapping[str, Any]


PermissionHandler: TypeAlias = Callable[[PermissionRequest], Awaitable[str | None]]
"""Answers with an option id, or None for "cancelled". It is cancelled when the question is withdrawn."""


def choose_option(options: Sequence[PermissionOption], decision: Decision) -> str | None:
    """Find the option that carries out a decision, by kind, whatever the order or the names.

    Args:
        options: what the agent offers.
        decision: what the user decided.

    Returns:
        The option id; when the agent lacks the kind, that of the next stricter one; None when nothing fits, which
        is answered as cancelled. Options of unknown kinds are never picked.
    """
    for kind in _KINDS[decision]:
        for option in options:
            if option.kind == kind:
                return option.option_id
    return None


@dataclass(eq=False)
class _Open:
    """A question without an answer yet."""

    incoming: IncomingRequest
    session: Session
    turn: Turn | None
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)


class PermissionDesk:
    """The open permission requests of a connection.

    Every path that answers takes the request off the list first, in one step without an await; so a user's answer,
    an interrupt, a withdrawal and the end of the connection may race and still give exactly one answer.
    """

    def __init__(self, spawn: Callable[..., None], handler: PermissionHandler | None) -> None:
        self._spawn = spawn
        self._handler = handler
        self._open: list[_Open] = []

    def ask(self, incoming: IncomingRequest, params: Mapping[str, Any], session: Session | None) -> None:
        """Take a `session/request_permission` in.

        Args:
            incoming: the request, answered by this desk.
            params: its parameters as plain data.
            session: the session it names, or None when we do not know it.
        """
        turn = session.turn if session is not None else None
        if session is None or (turn is not None and turn.interrupted.is_set()):
            # A user who has pressed stop is not asked again.
            incoming.answer({"outcome": {"outcome": "cancelled"}})
            return
        entry = _Open(incoming, session, turn)
        self._open.append(entry)
        incoming.on_cancel = lambda: self._withdrawn_by_agent(entry)
        self._spawn(self._serve, entry, _read_request(params, session))

    def withdraw(self, session: Session | None = None, turn: Turn | None = None) -> None:
        """Answer open requests as cancelled and cancel their handlers.

        Args:
            session: only those of this session; None for all.
            turn: only those asked in this turn; None for all.
        """
        for entry in tuple(self._open):
            if (session is None or entry.session is session) and (turn is None or entry.turn is turn):
                self._settle(entry, None)
                entry.scope.cancel()

    async def _serve(self, entry: _Open, request: PermissionRequest) -> None:
        with entry.scope:
            self._settle(entry, await self._decide(request))

    async def _decide(self, request: PermissionRequest) -> str | None:
        if self._handler is None:
            return choose_option(request.options, "reject")
        try:
            chosen = await self._handler(request)
        except Exception:
            # A broken user interface must not leave the agent waiting, nor approve anything.
            _log.exception("the permission handler failed; answered as cancelled")
            return None
        return chosen if any(chosen == option.option_id for option in request.options) else None

    def _settle(self, entry: _Open, chosen: str | None) -> None:
        if entry in self._open:
            self._open.remove(entry)
            selected = {"outcome": "selected", "optionId": chosen}
            entry.incoming.answer({"outcome": {"outcome": "cancelled"} if chosen is None else selected})

    def _withdrawn_by_agent(self, entry: _Open) -> None:
        if entry in self._open:
            self._open.remove(entry)
            entry.incoming.fail(RequestCancelled("the permission request was withdrawn"))
            entry.scope.cancel()


def _read_request(params: Mapping[str, Any], session: Session) -> PermissionRequest:
    # As an announcement: what an ended call under the same id was says nothing of the one that is asked for.
    update = read_tool_update(members(params.get("toolCall")), announced=True) or ToolUpdate("")
    return PermissionRequest(
        session_id=session.id,
        row=session.rows.preview(update),
        options=tuple(
            PermissionOption(option_id, text(entry.get("name")) or option_id, text(entry.get("kind")) or "")
            for entry in items(params.get("options"))
            if (option_id := text(entry.get("optionId")))
        ),
        raw=params,
    )
