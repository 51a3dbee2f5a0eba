"""One end of a JSON-RPC connection: ids, order, `$/cancel_request`, and the one way from exceptions to the wire.

Reading is one task, `Peer.read`, and it does not wait for anybody: each line is classified and handed to the router
synchronously, in the order it came. A cancel therefore cannot overtake the request it names, and a request that takes
long cannot delay the next line. Writing is one task too, `Peer.write`; everything else only queues finished lines.

Nothing but this module turns an exception into an error on the wire: an `RpcError` brings its own code, message and
data; anything else becomes -32603 with a fixed text, and its detail goes to the log.

Incoming and outgoing ids are two separate spaces, and ids match with their JSON type.

Source: JSON-RPC 2.0; ACP "$/cancel_request"; requirements `jsonrpc.*`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import anyio
import anyio.lowlevel

from sluice.wire.calls import Calls, RemoteError
from sluice.wire.errors import BackendError, InvalidRequest, RpcError
from sluice.wire.frames import (
    MAX_LINE_BYTES,
    NULL_ID,
    IdKey,
    LineSplitter,
    Malformed,
    Notification,
    Oversized,
    Request,
    Response,
    answered_by,
    decode,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
)
from sluice.wire.incoming import CANCEL_REQUEST, IncomingRequest, Router, named_request
from sluice.wire.outbox import ConnectionLost, Outbox
from sluice.wire.tracing import stamped
from sluice.wire.transport import Transport

__all__ = ["CANCEL_REQUEST", "ConnectionLost", "IncomingRequest", "Peer", "RemoteError", "Router"]

logger = logging.getLogger(__name__)

UNREAD_ANSWERS_BYTES = 64 * 1024 * 1024
"""Bytes of unsent output above which reading pauses.

Updates stop at the outbox's own bound long before. This is for a peer that keeps asking and never reads the answers.
"""

MAX_IN_FLIGHT = 4096
"""Requests of the other side that may wait for their answers at once; a further one is refused.

No client has so many. Without a bound, one that asks faster than it can be answered would fill the memory.
"""

_INTERNAL_ERROR = "Internal error"


class Peer:
    """The JSON-RPC side of one connection.

    Run `read` and `write` in tasks of the owner's task group, once each.

    Args:
        transport: the bytes; closing it is the owner's business.
        limit: longest line in bytes, in either direction.
        tap: shown every line, `tap("in" | "out", line)`, without line ends; for a journal.

    Attributes:
        broken: set when the other end stopped reading.
    """

    def __init__(
        self, transport: Transport, *, limit: int = MAX_LINE_BYTES, tap: Callable[[str, bytes], None] | None = None
    ) -> None:
        self._transport = transport
        self._limit = limit
        self._tap = tap
        self._outbox = Outbox(transport)
        self._live: dict[IdKey, IncomingRequest] = {}
        self._calls = Calls()
        self.broken = self._outbox.broken

    # --- reading

    async def read(self, router: Router) -> None:
        """Read and dispatch until the end of input, or until the transport broke; then call `router.end_of_input`.

        When this task is cancelled, `end_of_input` is not called: whoever cancelled it knows.
        """
        splitter = LineSplitter(self._limit)
        try:
            while data := await self._transport.receive():
                for line in splitter.feed(data):
                    self._take(line, router)
                await anyio.lowlevel.checkpoint()
                if self._outbox.unsent > UNREAD_ANSWERS_BYTES:
                    await self._answers_read()
            for line in splitter.finish():
                self._take(line, router)
        except anyio.BrokenResourceError:
            logger.info("the input broke; taken as its end")
        router.end_of_input()

    async def _answers_read(self) -> None:
        logger.warning("the other end does not read its answers; reading pauses")
        try:
            await self._outbox.room(UNREAD_ANSWERS_BYTES // 2)
        except ConnectionLost:
            logger.debug("reading goes on, answers are dropped")

    def _take(self, line: bytes | Oversized, router: Router) -> None:
        if isinstance(line, Oversized):
            logger.warning("dropped a line of %d bytes, above the limit of %d", line.size, self._limit)
            key = answered_by(line)
            if key is not None and self._calls.waits_for(key):
                # An answer that cannot be read must not leave its request waiting for ever (client-fs.limits.frame).
                self._take_response(Response(key, None, None))
            self._send_error(NULL_ID, InvalidRequest("The line is too long.", {"limit": self._limit}))
            return
        if not line or line.isspace():
            return
        self._show("in", line)
        message = decode(line)
        if isinstance(message, Request):
            self._take_request(message, router)
        elif isinstance(message, Notification):
            self._take_notification(message, router)
        elif isinstance(message, Response):
            self._take_response(message)
        else:
            self._take_malformed(message)

    def _take_request(self, message: Request, router: Router) -> None:
        if message.key in self._live:
            self._send_error(message.id, InvalidRequest("A request with this id is still in flight."))
            return
        if len(self._live) >= MAX_IN_FLIGHT:
            # Refused and not left unread: behind it may be the cancel or the answer that lets the others end.
            self._send_error(message.id, BackendError("Too many requests are in flight.", {"limit": MAX_IN_FLIGHT}))
            return
        request = self._live[message.key] = IncomingRequest(self, message)
        try:
            router.request(request)
        except Exception as error:  # the boundary: whatever it is, the request is answered
            request.fail(error)

    def _take_notification(self, message: Notification, router: Router) -> None:
        try:
            if message.method == CANCEL_REQUEST:
                self._cancel_incoming(message.params)
            else:
                router.notification(message.method, message.params)
        except Exception:  # the boundary: a notification is never answered
            logger.exception("the notification %.100r failed", message.method)

    def _cancel_incoming(self, params: bytes) -> None:
        key = named_request(params)
        request = None if key is None else self._live.get(key)
        if request is not None and request.on_cancel is not None:
            request.on_cancel()

    def _take_response(self, message: Response) -> None:
        if not self._calls.take(message):
            logger.debug("ignored a response that answers nothing")

    def _take_malformed(self, message: Malformed) -> None:
        if self._calls.waits_for(message.key):
            # Neither result nor error: a broken answer, which must fail the request it names and not become a
            # request for an answer in its turn.
            self._take_response(Response(message.key, None, None))
        elif message.id is None:
            logger.warning("ignored a broken notification: %s", message.error.message)
        else:
            self._send_error(message.id, message.error)

    # --- answering; IncomingRequest calls these

    def owes(self, key: IdKey, request: IncomingRequest) -> bool:
        """Whether `request` is still to be answered; its id may already belong to a later one."""
        return self._live.get(key) is request

    def settle(self, key: IdKey, request: IncomingRequest, result: Any, then: Sequence[tuple[str, Any]]) -> None:
        """Answer `request` as `IncomingRequest.answer` says."""
        if not self._release(key, request):
            return
        try:
            frames = [encode_result(request.id, result, self._limit)]
        except Exception as error:  # a result without a JSON form must not leave its request without an answer
            self._send_error(request.id, self._wire_error(error, request.method))
            return
        for method, params in then:
            try:
                frames.append(encode_notification(method, stamped(params), self._limit))
            except Exception:  # the response is still good
                logger.exception("a follow-up %s could not be written", method)
        self._put(*frames)

    def settle_error(self, key: IdKey, request: IncomingRequest, error: BaseException) -> None:
        """Answer `request` as `IncomingRequest.fail` says."""
        if self._release(key, request):
            self._send_error(request.id, self._wire_error(error, request.method))

    def _release(self, key: IdKey, request: IncomingRequest) -> bool:
        if not self.owes(key, request):
            logger.error("ignored a second answer to a request %.100r", request.method)
            return False
        del self._live[key]
        if request.on_answered is not None:
            request.on_answered()
        return True

    def _wire_error(self, error: BaseException, method: str) -> RpcError:
        if isinstance(error, RpcError):
            return error
        logger.error("the request %.100r failed", method, exc_info=error)
        return BackendError(_INTERNAL_ERROR)

    # --- sending

    async def write(self) -> None:
        """Be the writer: send what is queued until `close` was called and all is sent, or the other end is gone.

        When it returns nothing more can be sent, and every request of ours that is still open has failed.
        """
        try:
            await self._outbox.run()
        finally:
            self.fail_outstanding()

    async def notify(self, method: str, params: Any) -> None:
        """Send a notification when there is room in the queue; this wait is the back-pressure.

        Args:
            method: its name.
            params: a msgspec struct, a mapping or `msgspec.Raw`; None leaves the member out.

        Raises:
            ConnectionLost: it cannot be sent any more.
            FrameTooLarge: it does not fit into one line.
        """
        frame = encode_notification(method, stamped(params), self._limit)
        await self._outbox.room()
        self._put(frame)

    def post(self, method: str, params: Any) -> None:
        """Queue a notification now, whatever the queue's length; for the few small ones that must not wait.

        It is dropped when nothing can be sent any more.

        Raises:
            FrameTooLarge: it does not fit into one line.
        """
        self._put(encode_notification(method, stamped(params), self._limit))

    async def request(self, method: str, params: Any, limit: int | None = None) -> Any:
        """Call the other side and wait for its answer, however long it takes.

        When the wait is cancelled, the other side is told with `$/cancel_request`, and its late answer is ignored.

        Args:
            method: its name.
            params: as for `notify`.
            limit: bytes of the answer, as it was sent, above which it counts as malformed; None for a line's limit.

        Returns:
            The result as plain JSON data.

        Raises:
            RemoteError: it answered with an error, or with something that is no answer.
            ConnectionLost: no answer can come any more.
            FrameTooLarge: the request does not fit into one line.
        """
        number = self._calls.next_number()
        frame = encode_request(number, method, stamped(params), self._limit)
        await self._outbox.room()
        call = self._calls.begin(number, limit)
        self._put(frame)
        try:
            return await call.wait()
        except anyio.get_cancelled_exc_class():
            if call.outcome is None:
                self.post(CANCEL_REQUEST, {"requestId": number})
            raise
        finally:
            self._calls.forget(call)

    def fail_outstanding(self) -> None:
        """No answer can come any more: fail every open request of ours now, and every later one at once."""
        self._calls.cut_off()

    def close(self) -> None:
        """Accept nothing more for sending; `write` sends what is queued and returns."""
        self._outbox.close()

    def _send_error(self, id: bytes, error: RpcError) -> None:
        self._put(encode_error(id, error, self._limit))

    def _put(self, *frames: bytes) -> None:
        if not self._outbox.put(b"".join(frames)):
            logger.debug("dropped a message: the connection is closed for sending")
            return
        for frame in frames:
            self._show("out", frame[:-1])

    def _show(self, direction: str, line: bytes) -> None:
        if self._tap is None:
            return
        try:
            self._tap(direction, line)
        except Exception:  # a journal that cannot be written must not end the connection
            logger.exception("the line journal failed")
