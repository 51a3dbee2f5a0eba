"""The embedded model behind the agent's `Model` port: an engine of this process, asked like any other chat server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from sluice.agent.ports import Delta, ModelError, ModelRequest, ModelResponse
from sluice.config.schema import Capabilities
from sluice.config.values import replace
from sluice.models.local.engines import Address, Engines, Spec
from sluice.models.local.prompt import CALL_BIAS, CALL_MARK, front, prepared
from sluice.models.openai_chat import API
from sluice.models.remote import OnDelta, Remote
from sluice.models.settings import ModelOptions, ResolvedModel, context_size

__all__ = ["CONTEXT", "MAX_CONTEXT", "LocalChat"]

CONTEXT = 8192
"""The context window in tokens when `context_size` does not say: one that fits into a small machine's memory."""

MAX_CONTEXT = 32768
"""The window these models were trained for, in tokens."""

ANSWER_TOKENS = 1024
"""The longest answer in tokens when `max_tokens` does not say: a small model that repeats itself never stops."""


@dataclass(frozen=True, slots=True)
class _Served:
    """The model as the engine serves it, for the chat client."""

    provider: str
    model: str
    api: str
    base_url: str | None
    key: str | None
    options: ModelOptions
    weights: str = ""


class LocalChat:
    """The embedded model of one session.

    Args:
        resolved: the model; `weights` is the file that the engine loads.
        engines: the engines of this process; None for one of its own, which ends with this object.
    """

    def __init__(self, resolved: ResolvedModel, engines: Engines | None = None) -> None:
        self._resolved = resolved
        self._own = Engines() if engines is None else None
        spec = Spec(resolved.weights, self.context_size)
        self._engine = (engines or cast(Engines, self._own)).engine(spec)
        self._address: Address | None = None
        self._chats: tuple[Remote, ...] = ()

    @property
    def ref(self) -> str:
        """The reference shown to people, `provider/model`."""
        return f"{self._resolved.provider}/{self._resolved.model}"

    @property
    def context_size(self) -> int:
        """The context window in tokens."""
        return min(context_size(self._resolved.options) or CONTEXT, MAX_CONTEXT)

    async def complete(self, request: ModelRequest, on_delta: OnDelta) -> ModelResponse:
        """Ask once; the first call of this process also starts the engine.

        Raises:
            ModelError: the engine cannot be started, ended while it answered, or refused the call.
        """
        first, further = await self._connected()
        chat = first if request.tools and request.messages[-1].role == "user" else further
        await self._read_ahead(further, request)
        try:
            return await chat.complete(prepared(request, self._resolved.model, self.context_size), on_delta)
        except ModelError as error:
            how = await self._engine.ended() if error.retryable else None
            if how is None:
                raise
            if self._engine.known is not None:
                await self._engine.known.distrust()
            text = f"the local model's process {how}; the next call starts it again"
            raise ModelError("model_error", text, retryable=True) from None

    async def _read_ahead(self, chat: Remote, request: ModelRequest) -> None:
        """Once for an engine's process: have it know what stands in front, from the disk if it is there."""
        async with self._engine.reading:
            unread = self._engine.unread
            leading = front(request, self._resolved.model, self.context_size)
            if unread is None or leading is None:
                return

            async def read() -> bool:
                try:
                    await chat.complete(leading, _unheard)
                except ModelError:
                    return False  # the call itself meets it too, and says it
                return True

            await unread.ready(leading, read)
            self._engine.unread, self._engine.known = None, unread

    async def aclose(self) -> None:
        """Close the connection; the engine stays for the other sessions. May be called more than once."""
        chats, self._chats = self._chats, ()
        for chat in chats:
            await chat.aclose()
        if self._own is not None:
            await self._own.aclose()

    async def _connected(self) -> tuple[Remote, ...]:
        """The clients of the engine as it runs now: one for the first step of a turn, one for the further ones."""
        address = await self._engine.address()
        if not self._chats or address != self._address:
            for chat in self._chats:
                await chat.aclose()
            bias = CALL_BIAS.get(self._resolved.model, 0.0)
            self._chats = tuple(Remote(API, self._served(address, extra)) for extra in (_biased(bias), {}))
            self._address = address
        return self._chats

    def _served(self, address: Address, extra_body: Mapping[str, Any]) -> _Served:
        resolved = self._resolved
        options = _options(resolved.options, extra_body)
        api = "openai_chatcompletions"
        return _Served(resolved.provider, resolved.model, api, address.base_url, address.key, options)


async def _unheard(delta: Delta) -> None:
    """Nobody hears what the model says to what stands in front."""


def _biased(bias: float) -> dict[str, Any]:
    return {"logit_bias": [[CALL_MARK, bias]]} if bias else {}


def _options(options: ModelOptions, extra_body: Mapping[str, Any]) -> ModelOptions:
    """The options with what a small text model needs where the file says nothing."""
    given = options.provider_opts.get("extra_body")
    provider_opts = {
        **options.provider_opts,
        # The engine's server now and then closes a kept connection under the next request; a new one to the loopback
        # costs nothing.
        "http_headers": {"connection": "close"},
        "extra_body": {**extra_body, **(given if isinstance(given, Mapping) else {})},
    }
    configured = cast(Any, options)
    return cast(
        ModelOptions,
        replace(
            configured,
            # Greedy: at the usual temperatures a small model wanders off, in tool calls first of all.
            temperature=0.0 if options.temperature is None else options.temperature,
            max_tokens=options.max_tokens or ANSWER_TOKENS,
            parallel_tool_calls=options.parallel_tool_calls or False,
            capabilities=Capabilities(image=False, pdf=False, audio=False),
            provider_opts=provider_opts,
        ),
    )
