"""elicitation/create: a question of a tool to the person at the client, as a form or as a page to visit.

Specification page: https://agentclientprotocol.com/protocol/elicitation. Both modes are negotiated by themselves; a
question of a mode that the client lacks is declined here, and so is a form that cannot be checked in full or that
asks for a credential: secrets are for pages, never for forms. Only a clear and valid answer is ever an acceptance. A
page is shown with its address and never opened from here; `elicitation/complete` is not sent, because nobody here
knows when a page has done its work.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio

from sluice import acp, machines
from sluice.acp.base import convert
from sluice.acp.forms import FormError, check_content, check_schema
from sluice.acp.validation import BadAnswer, decode_result
from sluice.agent.ports import ElicitationAnswer, FormQuestion, ToolContext, UrlQuestion
from sluice.handlers.screening import asks_for_credential
from sluice.wire import tracing
from sluice.wire.frames import FrameTooLarge
from sluice.wire.peer import ConnectionLost, RemoteError

if TYPE_CHECKING:
    from sluice.handlers.session import Incarnation

__all__ = ["MAX_BYTES", "MAX_PENDING", "ClientElicitation", "Pending"]

log = logging.getLogger(__name__)

MAX_BYTES = 256 * 1024
"""Bytes of a question's params, and of an answer, as sent and as we would write it (elicitation.limits.256-kib)."""

MAX_PENDING = 128
"""Questions that may be open on one connection at the same time (elicitation.limits.128-pending)."""

ADDRESS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:/?#[]@!$&'()*+,;=%")
"""The characters of an address (RFC 3986); with others in it, a person and a browser may read two addresses."""

Question = FormQuestion | UrlQuestion


class Declined(Exception):
    """The question is not put, or its answer is none; the text says why, for the tool."""


@dataclass(slots=True)
class Pending:
    """A question that is open at the client."""

    owner: ToolContext
    machine: machines.Elicitation
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)


class ClientElicitation:
    """The elicitation port of one incarnation of a session."""

    def __init__(self, live: Incarnation) -> None:
        self.live = live

    async def elicit(self, question: Question, owner: ToolContext | None) -> ElicitationAnswer:
        """Ask on behalf of one call; see `sluice.agent.ports.Elicitation`."""
        key = uuid.uuid4().hex
        machine = machines.Elicitation(key=key, record=self.live.connection.record)
        try:
            if owner is None:
                raise Declined("it is not clear which call the question belongs to")
            params = self._params(question, key)
            # The task is the server's; the question belongs to the call (tracing.mcp.owning-call).
            with tracing.under(owner.trace if isinstance(owner.trace, tracing.Trace) else None):
                answer = await self._ask(question, params, Pending(owner, machine))
        except Declined as why:
            machine.fire("decline")
            return ElicitationAnswer("decline", reason=str(why))
        return answer or ElicitationAnswer("cancel", reason="the call that asked has ended")

    def withdraw(self, owner: ToolContext) -> None:
        """End the open questions of a call that has ended."""
        for pending in self.live.connection.elicitations.values():
            if pending.owner == owner:
                pending.scope.cancel()

    # --- what may be asked

    def _params(self, question: Question, key: str) -> acp.CreateElicitationRequest:
        """The request, when everything about it is in order. Raises Declined."""
        live, can = self.live, self.live.connection.capabilities
        if live.entry.live is not live or live.entry.machine.state != "open":
            raise Declined("the session is being closed")
        if len(live.connection.elicitations) >= MAX_PENDING:
            raise Declined(f"{MAX_PENDING} questions are open already")
        params: acp.CreateElicitationRequest | None
        if isinstance(question, FormQuestion):
            params = _form(question, live.id) if can.elicitation_form else None
        else:
            params = _page(question, live.id, key) if can.elicitation_url else None
        if params is None:
            raise Declined("the client cannot ask in this way")
        try:
            size = len(acp.encode(params))
        except (ValueError, TypeError, RecursionError) as error:
            raise Declined("the question is no text that can be sent") from error
        if size > MAX_BYTES:
            raise Declined(f"the question is larger than {MAX_BYTES} bytes")
        return params

    # --- asking

    async def _ask(
        self, question: Question, params: acp.CreateElicitationRequest, pending: Pending
    ) -> ElicitationAnswer | None:
        """Put the question; None when it was withdrawn. Raises Declined for everything that is no clear answer."""
        connection, machine = self.live.connection, pending.machine
        connection.elicitations[machine.key] = pending
        event, answer = "withdraw", None
        try:
            with pending.scope:
                said = await connection.peer.request("elicitation/create", params, MAX_BYTES)
                answer = _read(question, said)
                event = answer.action
        except (RemoteError, ConnectionLost, FrameTooLarge, BadAnswer, FormError) as error:
            log.info("a question of session %s was declined: %s", self.live.id, error)
            # What was wrong with a form says nothing of what a person typed.
            event, why = (
                "",
                f"the answer does not fit: {error}" if isinstance(error, FormError) else "no usable answer",
            )
            raise Declined(why) from error
        finally:
            del connection.elicitations[machine.key]
            if event:
                machine.fire(event)
        return answer


def _form(question: FormQuestion, session_id: str) -> acp.ElicitationFormMode:
    schema = dict(question.schema)
    try:
        check_schema(schema)
    except (FormError, RecursionError) as error:
        raise Declined(f"the form is not supported: {error}") from error
    if asks_for_credential(question.message, schema):
        raise Declined("a form must not ask for a credential")
    return acp.ElicitationFormMode(question.message, convert(schema, acp.ElicitationSchema), session_id)


def _page(question: UrlQuestion, session_id: str, key: str) -> acp.ElicitationUrlMode:
    try:
        parts = urlsplit(question.url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise Declined("the address is not valid") from error
    if not set(question.url) <= ADDRESS or parts.scheme not in ("http", "https") or not host or port == 0:
        raise Declined("the address must be an http or https address")
    if "@" in parts.netloc:
        raise Declined("the address must not carry user info")
    return acp.ElicitationUrlMode(question.message, key, question.url, session_id)


def _read(question: Question, said: Any) -> ElicitationAnswer:
    """The answer. Raises BadAnswer or FormError when it is none."""
    try:
        size = len(acp.encode(said))
    except (ValueError, TypeError, RecursionError) as error:
        raise BadAnswer("the answer cannot be written again") from error
    if size > MAX_BYTES:
        raise BadAnswer("the answer is too large")
    answer: acp.CreateElicitationResponse = decode_result("elicitation/create", said)
    if answer.action == "accept":
        content = check_content(question.schema, answer.content) if isinstance(question, FormQuestion) else None
        return ElicitationAnswer("accept", content)
    if answer.action == "decline":
        return ElicitationAnswer("decline")
    if answer.action == "cancel":
        return ElicitationAnswer("cancel")
    raise BadAnswer("the action is unknown")
