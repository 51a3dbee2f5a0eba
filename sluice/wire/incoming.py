"""Requests of the other side: alive until they are answered, and whom the reader hands them to.

Source: JSON-RPC 2.0; ACP "$/cancel_request"; requirements `jsonrpc.*`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from sluice.wire.frames import IdKey, Request, id_key

if TYPE_CHECKING:
    from sluice.wire.peer import Peer

__all__ = ["CANCEL_REQUEST", "IncomingRequest", "Router", "named_request"]

CANCEL_REQUEST = "$/cancel_request"
"""The notification that withdraws a request: `{"requestId": id}`."""


class IncomingRequest:
    """A request of the other side, alive until it is answered; answer it exactly once, from any task.

    Attributes:
        id: raw JSON of the id.
        method: exactly as sent.
        params: raw JSON, b"" when absent or null.
        on_cancel: called synchronously by the reader whenever `$/cancel_request` names this id, or None to ignore it.
            It does not answer by itself.
        on_answered: called once, when the answer is being queued; must not raise.
    """

    def __init__(self, peer: Peer, message: Request) -> None:
        self.id = message.id
        self.method = message.method
        self.params = message.params
        self.on_cancel: Callable[[], None] | None = None
        self.on_answered: Callable[[], None] | None = None
        self._peer = peer
        self._key = message.key

    @property
    def answered(self) -> bool:
        """Whether the answer is queued."""
        return not self._peer.owes(self._key, self)

    def answer(self, result: Any, then: Sequence[tuple[str, Any]] = ()) -> None:
        """Queue the successful response, and directly behind it the notifications of `then`.

        They are one entry of the queue: nothing comes between them. A second answer is logged and ignored. A result
        that cannot be written becomes an internal error; a follow-up that cannot be written is dropped and logged.

        Args:
            result: a msgspec struct, plain JSON data or `msgspec.Raw`; None is written as null.
            then: method and params of each notification.
        """
        self._peer.settle(self._key, self, result, then)

    def fail(self, error: BaseException) -> None:
        """Queue the error response: an `RpcError` as it is, anything else as an internal error with a fixed text."""
        self._peer.settle_error(self._key, self, error)


class Router(Protocol):
    """What the reader calls. All three are ordinary functions, called in read order; they must not block."""

    def request(self, request: IncomingRequest) -> None:
        """Take a request, answer it now or later. An exception answers it at once."""

    def notification(self, method: str, params: bytes) -> None:
        """Take a notification. An exception is logged and never answered."""

    def end_of_input(self) -> None:
        """The other side will send nothing more. Called once."""


class _CancelParams(msgspec.Struct):
    request_id: msgspec.Raw = msgspec.field(name="requestId")


_CANCEL_PARAMS = msgspec.json.Decoder(_CancelParams)


def named_request(params: bytes) -> IdKey | None:
    """The id of the request that a cancel names; None when it names none."""
    try:
        return id_key(bytes(_CANCEL_PARAMS.decode(params).request_id))
    except (msgspec.DecodeError, RecursionError):
        return None
