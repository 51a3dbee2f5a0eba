"""Where a call goes, and with which headers; checked before anything is sent.

No part of the address that can hold a secret (user, password) stays in it: the HTTP library logs addresses.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit

from sluice.agent.ports import ModelError
from sluice.models.apis import Api
from sluice.models.errors import Endpoint
from sluice.models.settings import ResolvedModel, key_name

__all__ = ["Target", "target"]

_PORTS = {"http": 80, "https": 443}
_SHORTEST_HEADER_SECRET = 8
"""Characters; shorter header values are switches and version numbers, and masking them would garble messages."""


@dataclass(frozen=True, slots=True)
class Target:
    """Everything about the receiver of a call; the repr shows no header, since they hold the key."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    endpoint: Endpoint = field(repr=False)


def target(api: Api, resolved: ResolvedModel) -> Target:
    """Work out address and headers of a model.

    Raises:
        ModelError: the base address is missing or is none, or the key or a header cannot be sent.
    """
    parts, place = _address(resolved)
    host = parts.netloc.rpartition("@")[2]
    headers = _headers(api, resolved, parts)
    secrets = [resolved.key or "", unquote(parts.password or ""), parts.password or ""]
    secrets += [value for value in _configured(resolved).values() if len(value) >= _SHORTEST_HEADER_SECRET]
    endpoint = Endpoint(
        place=place,
        model=resolved.model,
        provider=resolved.provider,
        key_name=key_name(resolved),
        has_key=bool({api.key_header, "authorization"} & headers.keys()),
        secrets=tuple(secrets),
    )
    url = api.place(parts, resolved.model)._replace(netloc=host, fragment="").geturl()
    return Target(url, headers, endpoint)


def _address(resolved: ResolvedModel) -> tuple[SplitResult, str]:
    """The base address in parts, and its host and port for texts."""
    try:
        parts = urlsplit(resolved.base_url or "")
        host, port = parts.hostname, parts.port or _PORTS[parts.scheme]
    except (KeyError, ValueError):
        host, port = None, 0
    if not host:
        text = f"the model {resolved.provider}/{resolved.model} has no usable http(s) address; check base_url"
        raise ModelError("model_error", text)
    return parts, f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _headers(api: Api, resolved: ResolvedModel, parts: SplitResult) -> dict[str, str]:
    headers = {
        "content-type": "application/json",
        "accept": "text/event-stream, application/json",
        "accept-encoding": "identity",
        "user-agent": "sluice",
        **api.headers(resolved),
    }
    if provider := getattr(resolved, "behind_gateway", ""):
        headers["x-sluice-provider"] = provider
    if resolved.key:
        headers[api.key_header] = f"{api.key_scheme}{resolved.key}"
    elif parts.username:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
    headers.update(_configured(resolved))
    for name, value in headers.items():
        if not (name.isascii() and value.isascii() and value.isprintable()):
            secret = name in (api.key_header, "authorization")
            what = f"the key in {key_name(resolved) or 'the configuration'}" if secret else name
            text = f"the model {resolved.provider}/{resolved.model} cannot be asked: {what} is no valid header value"
            raise ModelError("model_error", text)
    return headers


def _configured(resolved: ResolvedModel) -> dict[str, str]:
    """The headers of the agent file, names in lower case."""
    extra = resolved.options.provider_opts.get("http_headers")
    return {str(name).lower(): str(value) for name, value in extra.items()} if isinstance(extra, Mapping) else {}
