"""A models gateway: one address and one login in place of those of the providers.

It is named by a variable (or the flag that sets it), never by an agent file: where prompts go is the operator's
choice. The gateway is asked in the words of each provider's own API, at the paths that API has, and is told which
provider is meant. Source: requirement models.gateway.replaces-endpoints.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from sluice.config.expand import Environ
from sluice.config.providers import Api, Provider

__all__ = ["GATEWAY", "LOGIN", "at_gateway", "gateway_of"]

GATEWAY = "SLUICE_MODELS_GATEWAY"
"""The variable with its address, without the path of any API."""

LOGIN = "SLUICE_MODELS_GATEWAY_TOKEN"
"""The variable with what it is shown in place of a provider's key."""

_PATHS: Mapping[Api, str] = {
    "openai_chatcompletions": "/v1",
    "openai_responses": "/v1",
    "anthropic": "",
    "gemini": "/v1beta",
}


def gateway_of(provider: Provider, env: Environ) -> str | None:
    """The gateway's address for the models of a provider built in, None when there is no gateway for them.

    Services without a key are on this machine or in this house, and stay where they are.
    """
    if provider.key is None or provider.api not in _PATHS:
        return None
    return (env.get(GATEWAY) or "").strip() or None


def at_gateway(address: str, api: Api) -> str | None:
    """The base address of an API at the gateway, None when the address is no http or https URL."""
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        usable = False
    return parts._replace(path=parts.path.rstrip("/") + _PATHS[api]).geturl() if usable else None
