"""A model behind an HTTP service, whatever its API.

One `complete` is one HTTP call; whether to try again is the caller's decision. The answer is streamed and handed on
piece by piece; cancelling closes the connection, so the server stops working too.

Source: requirements models.providers.*; the formats are in the modules of the APIs.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import anyio
import anyio.to_thread
import msgspec

from sluice.agent.ports import Delta, ModelError, ModelRequest, ModelResponse
from sluice.models.apis import Answer, Api, Asked, StreamError
from sluice.models.endpoint import target
from sluice.models.errors import NotTakenBack, refused, stream_failed, unreachable
from sluice.models.http import CONNECT_TIMEOUT, new_client
from sluice.models.pricing import priced
from sluice.models.settings import ResolvedModel, prices, window
from sluice.models.sse import MAX_EVENT, EventSplitter, EventTooLarge

if TYPE_CHECKING:
    import httpx

__all__ = ["IDLE_TIMEOUT", "OnDelta", "Remote"]

IDLE_TIMEOUT = 300.0
"""Seconds a stream may be silent before it counts as broken (requirement models.stream.idle-timeout)."""

TAIL_TIMEOUT = 2.0
"""Seconds to wait for the usage after the finish reason: it follows at once where it follows at all."""

END_TIMEOUT = 0.1
"""Seconds to wait for the end of the body after the last word: worth a connection that can be used again, and no
more.
"""

_ERROR_BODY = 64 * 1024
"""Bytes of an error's body that are read; messages are short, and error pages are not shown."""

OnDelta = Callable[[Delta], Awaitable[None]]


class Remote:
    """The model of one session. Used by one call at a time; the connection is kept between calls."""

    def __init__(self, api: Api, resolved: ResolvedModel, *, idle_timeout: float = IDLE_TIMEOUT) -> None:
        """Keep the settings; nothing is opened before the first call.

        Args:
            api: the wire format.
            resolved: the model, its endpoint and its key. `provider_opts` may hold `http_headers` and `extra_body`.
            idle_timeout: seconds of silence after which the answer counts as broken.

        Raises:
            ModelError: the base address is missing or is no http(s) address, or the key cannot be sent.
        """
        self._api = api
        self._resolved = resolved
        self._idle_timeout = idle_timeout
        self._target = target(api, resolved)
        self._endpoint = self._target.endpoint
        self._client: httpx.AsyncClient | None = None
        self._opening = anyio.Lock()
        self._distrusted: frozenset[str] = frozenset()

    @property
    def ref(self) -> str:
        """The reference shown to people, `provider/model`."""
        return f"{self._resolved.provider}/{self._resolved.model}"

    @property
    def context_size(self) -> int | None:
        """The context window in tokens the configuration names, else the catalogue; None when unknown."""
        return window(self._resolved)

    async def complete(self, request: ModelRequest, on_delta: OnDelta) -> ModelResponse:
        """Ask once.

        Args:
            request: the prompt; each tool call in its history has exactly one result.
            on_delta: awaited for each piece of text or thought, in order.

        Raises:
            ModelError: the server could not be reached, refused the call or broke it off.
        """
        asked = self._api.ask(self._resolved, request, self._distrusted)
        try:
            return await self._answered(asked, request, on_delta)
        except NotTakenBack:
            if not asked.carried:
                raise
            # The service does not know its own signed pieces again (another account, a changed service). Every
            # history is valid without them, and with them every further call would fail.
            self._distrusted |= asked.carried
        return await self._answered(self._api.ask(self._resolved, request, self._distrusted), request, on_delta)

    async def aclose(self) -> None:
        """Close the connection; may be called more than once."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _answered(self, asked: Asked, request: ModelRequest, on_delta: OnDelta) -> ModelResponse:
        answer = asked.answer
        try:
            await self._exchange(await self._open(), msgspec.json.encode(asked.body), answer, on_delta)
            response = answer.response()
        except BaseException:
            if (used := priced(answer.usage, prices(self._resolved))) is not None:
                request.spent(used)
            raise
        return replace(response, usage=priced(response.usage, prices(self._resolved)))

    async def _open(self) -> httpx.AsyncClient:
        # Tasks that are worked on side by side begin with calls at the same time: one client serves them all, since
        # a second one would take the place of the first, which nobody closes then.
        async with self._opening:
            if self._client is None:
                # httpx takes about 80 ms to load and the certificates 20 ms: not on the event loop, and not before
                # the first call.
                self._client = await anyio.to_thread.run_sync(new_client, self._target.url, self._idle_timeout)
            return self._client

    async def _exchange(self, client: httpx.AsyncClient, body: bytes, answer: Answer, on_delta: OnDelta) -> None:
        import httpx

        try:
            async with client.stream(
                "POST", self._target.url, content=body, headers=self._target.headers
            ) as response:
                if response.status_code != httpx.codes.OK:
                    text = await _read_some(response, _ERROR_BODY)
                    raise refused(self._endpoint, response.status_code, response.headers, text)
                await self._read(response, answer, on_delta)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            # A connection that breaks after the last word of the answer has cost nothing but the accounting.
            if not answer.complete:
                raise self._broken(error) from None
        except StreamError as error:
            raise stream_failed(self._endpoint, error.error) from None
        except msgspec.DecodeError:
            raise unreachable(self._endpoint, "sent an answer that is not valid JSON") from None
        except EventTooLarge:
            raise unreachable(
                self._endpoint, "sent more in one piece than any answer needs", retryable=False
            ) from None

    async def _read(self, response: httpx.Response, answer: Answer, on_delta: OnDelta) -> None:
        kind = response.headers.get("content-type", "")
        if "json" in kind:
            for delta in answer.absorb(await _read_some(response, MAX_EVENT)):
                await on_delta(delta)
            answer.done = True
        elif "html" in kind:
            text = f"answered with a web page and not as {self._api.words}; check base_url"
            raise unreachable(self._endpoint, text, retryable=False)
        else:
            await _read_events(response, answer, on_delta)

    def _broken(self, error: Exception) -> ModelError:
        import httpx

        if isinstance(error, httpx.ConnectTimeout):
            return unreachable(self._endpoint, f"did not answer within {CONNECT_TIMEOUT:.0f} seconds")
        if isinstance(error, httpx.ConnectError):
            return unreachable(self._endpoint, f"cannot be reached ({error}); is it running, and is base_url right?")
        if isinstance(error, httpx.ReadTimeout):
            return unreachable(self._endpoint, f"was silent for {self._idle_timeout:.0f} seconds")
        if isinstance(error, httpx.InvalidURL | httpx.UnsupportedProtocol):
            return unreachable(self._endpoint, "has no usable http(s) address; check base_url", retryable=False)
        if isinstance(error, httpx.DecodingError):
            return unreachable(self._endpoint, "sent a body that cannot be unpacked")
        return unreachable(self._endpoint, "closed the connection before its answer was complete")


async def _read_events(response: httpx.Response, answer: Answer, on_delta: OnDelta) -> None:
    splitter = EventSplitter()
    async with aclosing(_pieces(response)) as pieces:
        async for piece in pieces:
            for data in splitter.feed(piece):
                for delta in answer.absorb(data):
                    await on_delta(delta)
            if answer.complete:
                await _read_tail(pieces, splitter, answer)
                break
    rest = splitter.end()
    if rest is not None and not answer.complete:
        for delta in answer.absorb(rest):
            await on_delta(delta)


async def _read_tail(pieces: AsyncGenerator[bytes, None], splitter: EventSplitter, answer: Answer) -> None:
    """Read what follows the finish reason: the usage, and the end, which leaves the connection fit for the next call.

    Bounded, because some servers keep the stream open. Most often the end has arrived already and nothing is waited
    for.
    """
    # Whatever is wrong with the tail, the answer itself is there.
    with suppress(StreamError, msgspec.DecodeError, EventTooLarge):
        with anyio.move_on_after(END_TIMEOUT if answer.done else TAIL_TIMEOUT) as waiting:
            async for piece in pieces:
                for data in splitter.feed(piece):
                    answer.absorb(data)
                if answer.done:
                    waiting.deadline = min(waiting.deadline, anyio.current_time() + END_TIMEOUT)


def _pieces(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    """The body as it arrives; unpacked only when the server packed it though it was asked not to."""
    packed = response.headers.get("content-encoding", "identity") != "identity"
    pieces = response.aiter_bytes() if packed else response.aiter_raw()
    return cast("AsyncGenerator[bytes, None]", pieces)


async def _read_some(response: httpx.Response, limit: int) -> bytes:
    held = bytearray()
    async with aclosing(cast("AsyncGenerator[bytes, None]", response.aiter_bytes())) as pieces:
        async for piece in pieces:
            held += piece
            if len(held) >= limit:
                break
    return bytes(held[:limit])
