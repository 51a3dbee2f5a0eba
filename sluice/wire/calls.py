"""Requests of our own that wait for their answer: numbers, matching, and what an answer says.

Source: JSON-RPC 2.0 section 5; jsonrpc.id.own-ids-unique, jsonrpc.id.typed-response-match, jsonrpc.robust.*.
"""

from __future__ import annotations

import logging
from itertools import count
from typing import Any

import anyio
import msgspec

from sluice.wire.frames import IdKey, Response
from sluice.wire.outbox import ConnectionLost

__all__ = ["Call", "Calls", "RemoteError"]

logger = logging.getLogger(__name__)


class RemoteError(Exception):
    """The other side answered a request of ours with an error.

    It is no `RpcError`: what a peer says about our request is not by itself the answer to one of its own.

    Attributes:
        code: its error code; 0 when the answer itself was malformed.
        message: its text.
        data: its data, plain JSON, or None.
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message
        self.data = data


class Call:
    """One request on its way.

    Attributes:
        number: its id, unique for the connection.
        limit: bytes of an answer above which it counts as none; None for the limit of a line.
        outcome: None while it waits.
    """

    def __init__(self, number: int, limit: int | None = None) -> None:
        self.number = number
        self.limit = limit
        self.outcome: Response | ConnectionLost | None = None
        self._done = anyio.Event()

    def settle(self, outcome: Response | ConnectionLost) -> None:
        """End the wait."""
        self.outcome = outcome
        self._done.set()

    async def wait(self) -> Any:
        """Wait for the outcome.

        Returns:
            The result as plain JSON data.

        Raises:
            RemoteError: the answer is an error, malformed, or above its limit.
            ConnectionLost: no answer can come any more.
        """
        await self._done.wait()
        if isinstance(self.outcome, Response):
            size = len(self.outcome.result or b"") + len(self.outcome.error or b"")
            if self.limit is not None and size > self.limit:
                raise RemoteError(0, "the answer is too large")
            return _read(self.outcome)
        raise ConnectionLost("no answer can come any more")


class Calls:
    """The requests of ours that are open on one connection."""

    def __init__(self) -> None:
        self._open: dict[IdKey, Call] = {}
        self._numbers = count(1)
        self._cut_off = anyio.Event()

    def next_number(self) -> int:
        """Return an id that was never used on this connection."""
        return next(self._numbers)

    def begin(self, number: int, limit: int | None = None) -> Call:
        """Register a request before it is sent.

        Raises:
            ConnectionLost: no answer can come any more.
        """
        if self._cut_off.is_set():
            raise ConnectionLost("no answer can come any more")
        call = self._open["number", number] = Call(number, limit)
        return call

    def forget(self, call: Call) -> None:
        """Stop waiting; an answer that comes late is ignored."""
        self._open.pop(("number", call.number), None)

    def waits_for(self, key: IdKey | None) -> bool:
        """Whether an answer under this id would be taken."""
        return key in self._open

    def take(self, response: Response) -> bool:
        """Give an answer to the request it names.

        Returns:
            False when no open request has this id, with this JSON type.
        """
        call = None if response.key is None else self._open.pop(response.key, None)
        if call is not None:
            call.settle(response)
        return call is not None

    def cut_off(self) -> None:
        """Fail every open request now, and every later one when it begins."""
        self._cut_off.set()
        waiting, self._open = self._open, {}
        for call in waiting.values():
            call.settle(ConnectionLost("no answer can come any more"))


class _ErrorMember(msgspec.Struct):
    code: int
    message: str
    data: Any = None


_ERROR_MEMBER = msgspec.json.Decoder(_ErrorMember)


def _read(response: Response) -> Any:
    """Return the result or raise the error; a null member beside the other one counts as absent (some send both)."""
    result, error = response.result, response.error
    if error == b"null" and result is not None:
        error = None
    try:
        if error is None and result is not None:
            return msgspec.json.decode(result)
        if error is not None and result in (None, b"null"):
            said = _ERROR_MEMBER.decode(error)
            raise RemoteError(said.code, said.message, said.data)
    except (msgspec.DecodeError, RecursionError):
        logger.info("an answer could not be read")
    raise RemoteError(0, "the answer is malformed")
