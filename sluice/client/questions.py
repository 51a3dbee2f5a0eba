"""Questions of an agent to a person (elicitation): what a program offers that opts in to `elicitation/create`.

    questions = Questions(on_form=show_form, on_page=ask_to_open)
    handlers = ClientHandlers(requests=questions.requests())
    options = ClientOptions(capabilities={"elicitation": questions.capabilities()})

The program shows; what may be shown and what may be sent is decided here. A form that has anything unknown in it is
declined unseen, a page is opened only after the person has seen its whole address, and only over http or https.

Source: https://agentclientprotocol.com/protocol/elicitation; requirement
`acp-provider.client.optional-elicitation`.
"""

from __future__ import annotations

import logging
import webbrowser
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

import anyio.to_thread

from sluice.acp.forms import FormError, check_content, check_schema
from sluice.client.connection import RequestHandler
from sluice.client.reading import members, text
from sluice.wire.errors import InvalidParams

__all__ = ["Accepted", "Cancelled", "Declined", "Field", "Form", "Page", "Questions", "Reply"]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Field:
    """One input of a form.

    Attributes:
        kind: text, number, integer, a switch (boolean), or several choices (array).
        choices: (value, title) of each; a text with choices is one of them.
        default: what stands in the input at first, None for nothing.
        limits: the rest of the field's schema: lengths, bounds, pattern and format, under their ACP names.
    """

    name: str
    kind: Literal["string", "number", "integer", "boolean", "array"]
    title: str
    description: str = ""
    required: bool = False
    default: Any = None
    choices: tuple[tuple[str, str], ...] = ()
    limits: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Form:
    """A form to be filled in.

    Attributes:
        message: what the agent asks for.
        session_id: the session it belongs to, None for one about a request.
        values: what stands in the inputs: the defaults, or what was given before and did not fit.
        problem: why it did not fit; "" the first time.
    """

    message: str
    fields: tuple[Field, ...]
    session_id: str | None = None
    title: str = ""
    description: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""


@dataclass(frozen=True)
class Page:
    """A page to be visited; nothing of it has been fetched.

    Attributes:
        url: the whole address, to be shown as it is.
        host: the host in it, to be shown by itself.
        warning: what is odd about the host; "" for nothing.
    """

    message: str
    url: str
    host: str
    session_id: str | None = None
    warning: str = ""


@dataclass(frozen=True)
class Accepted:
    """The person agrees; `values` by field are what was filled in."""

    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Declined:
    """The person says no."""


@dataclass(frozen=True)
class Cancelled:
    """The person has closed the question without an answer."""


Reply: TypeAlias = Accepted | Declined | Cancelled

_ACTIONS: Mapping[type[Reply], str] = {Accepted: "accept", Declined: "decline", Cancelled: "cancel"}
_DECLINED = {"action": "decline"}


class Questions:
    """What a program answers to its agent's questions.

    Args:
        on_form: shows a form and returns what became of it; None offers no forms.
        on_page: shows an address and returns whether the person agrees; None offers no pages.
        browse: opens an address that the person has agreed to; it may block.
    """

    def __init__(
        self,
        on_form: Callable[[Form], Awaitable[Reply]] | None = None,
        on_page: Callable[[Page], Awaitable[Reply]] | None = None,
        browse: Callable[[str], object] = webbrowser.open,
    ) -> None:
        self._on_form = on_form
        self._on_page = on_page
        self._browse = browse

    def capabilities(self) -> Mapping[str, Any]:
        """The value of `clientCapabilities.elicitation`."""
        offered = {"form": self._on_form, "url": self._on_page}
        return {mode: {} for mode, handler in offered.items() if handler is not None}

    def requests(self) -> Mapping[str, RequestHandler]:
        """The handlers, for `ClientHandlers.requests`."""
        return {"elicitation/create": self._create}

    async def _create(self, params: Mapping[str, Any]) -> Any:
        mode = params.get("mode")
        if mode == "form" and self._on_form is not None:
            return await self._form(params, self._on_form)
        if mode == "url" and self._on_page is not None:
            return await self._page(params, self._on_page)
        raise InvalidParams("this client has not offered this kind of question", {"path": "$.mode"})

    async def _form(self, params: Mapping[str, Any], ask: Callable[[Form], Awaitable[Reply]]) -> Any:
        schema = params.get("requestedSchema")
        try:
            check_schema(schema)
        except FormError as error:
            # What cannot be shown as it is meant is not shown as something else.
            log.warning("a form of the agent is declined: %s", error)
            return _DECLINED
        form = _form_of(members(params), members(schema))
        while True:
            reply = await ask(form)
            if not isinstance(reply, Accepted):
                return {"action": _ACTIONS[type(reply)]}
            given = {name: value for name, value in reply.values.items() if value is not None}
            try:
                return {"action": "accept", "content": check_content(members(schema), given)}
            except FormError as error:
                form = replace(form, values=given, problem=str(error))

    async def _page(self, params: Mapping[str, Any], ask: Callable[[Page], Awaitable[Reply]]) -> Any:
        url = text(params.get("url")) or ""
        page = _page_of(url, params)
        if page is None:
            log.warning("a page of the agent is declined: its address is none of http or https that can be shown")
            return _DECLINED
        reply = await ask(page)
        if isinstance(reply, Accepted):
            await anyio.to_thread.run_sync(self._browse, url, abandon_on_cancel=True)
        return {"action": _ACTIONS[type(reply)]}


def _form_of(params: Mapping[str, Any], schema: Mapping[str, Any]) -> Form:
    required = schema.get("required", [])
    fields = tuple(_field(name, each, name in required) for name, each in schema.get("properties", {}).items())
    return Form(
        text(params.get("message")) or "",
        fields,
        text(params.get("sessionId")),
        schema.get("title", ""),
        schema.get("description", ""),
        {each.name: each.default for each in fields if each.default is not None},
    )


_SHOWN = frozenset({"type", "title", "description", "default", "enum", "oneOf", "items"})


def _field(name: str, schema: Mapping[str, Any], required: bool) -> Field:
    return Field(
        name,
        schema["type"],
        schema.get("title", name),
        schema.get("description", ""),
        required,
        schema.get("default"),
        _choices(schema),
        {key: value for key, value in schema.items() if key not in _SHOWN},
    )


def _choices(schema: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    items = schema.get("items", schema)
    titled = items.get("anyOf", items.get("oneOf"))
    if titled is not None:
        return tuple((option["const"], option["title"]) for option in titled)
    return tuple((value, value) for value in items.get("enum", ()))


def _page_of(url: str, params: Mapping[str, Any]) -> Page | None:
    """The page to ask about; None for an address that is not opened."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return None
    hidden = any(not one.isprintable() or one.isspace() for one in url)
    if parts.scheme not in ("http", "https") or not host or "@" in parts.netloc or "\\" in url or hidden:
        return None
    return Page(
        text(params.get("message")) or "", url, host, text(params.get("sessionId")), _oddity(parts.scheme, host)
    )


def _oddity(scheme: str, host: str) -> str:
    if any(label.startswith("xn--") for label in host.split(".")) or not host.isascii():
        return "The host's name is written in other letters than it seems; it may imitate another one."
    return "The address is not protected by https." if scheme == "http" else ""
