"""One HTTP request that a configuration has described, and its answer as the result of a tool.

An argument never changes where the request goes; redirects are not followed; what is read of an answer is bounded.
Requirements `tools.api.configured-call`, `tools.openapi.operations`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import anyio
import anyio.to_thread

from sluice.agent.ports import ToolFailure, ToolResult
from sluice.outbound import AddressPolicy, proxy_for
from sluice.tools import web

if TYPE_CHECKING:
    import httpx

__all__ = ["MAX_OUTPUT", "TIMEOUT", "Call", "Limits", "as_json", "exchange", "merged", "result", "segment"]

TIMEOUT = 30.0
"""Seconds for one request when the configuration does not say."""

MAX_OUTPUT = 30_000
"""Bytes of an answer that the model is shown when the configuration does not say."""


@dataclass(frozen=True, slots=True)
class Call:
    """What is sent: an absolute http or https URL, and `content` as the body, None for none."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    content: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a request may take, in seconds, and how many bytes of its answer are read."""

    seconds: float = TIMEOUT
    output: int = MAX_OUTPUT


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: the status, the media type without parameters, the text, and whether its end is missing."""

    status: int
    type: str
    text: str
    cut: bool


def segment(name: str, value: Any) -> str:
    """An argument as a part of a path. Raises ToolFailure for one that would climb up the path."""
    said = web.said(value)
    if said in (".", ".."):
        raise ToolFailure(f"the argument {name!r} must not be {said!r}")
    return quote(said, safe="")


def merged(*groups: Mapping[str, str]) -> dict[str, str]:
    """Header fields of several groups, names in small letters; a later group outranks an earlier one."""
    return {name.lower(): value for group in groups for name, value in group.items()}


def as_json(value: Any) -> bytes:
    """A body of type application/json. Raises ToolFailure for half a character."""
    return web.encoded(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


async def result(
    call: Call, env: Mapping[str, str], limits: Limits, policy: AddressPolicy | None = None
) -> ToolResult:
    """Send a request and tell the model what came back; see `exchange`."""
    answer = await exchange(call, env, limits, policy)
    notice = f"\n[the answer is longer than {limits.output} bytes; its end is missing]" if answer.cut else ""
    failed = answer.status >= 400
    head = f"HTTP status {answer.status}\n" if failed else ""
    return ToolResult(f"{head}{answer.text or '(nothing)'}{notice}", is_error=failed)


async def exchange(call: Call, env: Mapping[str, str], limits: Limits, policy: AddressPolicy | None = None) -> Answer:
    """Send one request and read its answer.

    Args:
        call: the request.
        env: where a proxy is looked up.
        limits: of time and of what is read.
        policy: judges the address when somebody else than the operator has named it; None when the operator has.

    Raises:
        ToolFailure: nothing came back, or a redirect, or no text; the text never holds the address.
    """
    try:
        with anyio.fail_after(limits.seconds):
            return await _sent(call, env, limits.output, policy)
    except TimeoutError:
        raise ToolFailure(f"it took longer than {limits.seconds:g} seconds") from None


async def _sent(call: Call, env: Mapping[str, str], limit: int, policy: AddressPolicy | None) -> Answer:
    if policy is None:
        parts = urlsplit(call.url)
        return await _once(call, "", proxy_for(parts.scheme, parts.hostname or "", env), limit)
    proxy, addresses = await web.reach(web.origin(call.url), policy, env)
    for address in addresses[:-1]:
        try:
            return await _once(call, address, None, limit)
        except web.Unreachable:
            continue
    return await _once(call, addresses[-1] if addresses else "", proxy, limit)


async def _once(call: Call, address: str, proxy: str | None, limit: int) -> Answer:
    import httpx

    client = await anyio.to_thread.run_sync(partial(web.new_client, proxy, urlsplit(call.url).scheme))
    try:
        async with client:
            headers = merged(web.HEADERS, call.headers)
            request = client.build_request(call.method, call.url, content=call.content, headers=headers)
            web.direct(request, address)
            response = await client.send(request, stream=True)
            try:
                return await _read(response, limit)
            finally:
                await response.aclose()
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise web.Unreachable("its server could not be connected to") from error
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        # The text of the error may hold the address, whose query may be nobody's business.
        raise ToolFailure(f"the request failed ({type(error).__name__})") from error


async def _read(response: httpx.Response, limit: int) -> Answer:
    status = response.status_code
    if 300 <= status < 400:
        raise ToolFailure(f"it answered with HTTP status {status}; redirects are not followed")
    return Answer(status, *await web.body_of(response, limit))
