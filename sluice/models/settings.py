"""What a model needs to know about its configuration, as protocols that `sluice.config` fulfils."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from sluice.config.providers import PROVIDERS
from sluice.config.schema import Cost
from sluice.models.catalogue import facts

__all__ = ["ModelOptions", "ResolvedModel", "context_size", "key_name", "prices", "window"]


class ModelOptions(Protocol):
    """The options of one model in the agent file; None means "not set" and is never sent."""

    @property
    def temperature(self) -> float | None:
        """Sampling temperature."""
        ...

    @property
    def max_tokens(self) -> int | None:
        """The most tokens one answer may have."""
        ...

    @property
    def top_p(self) -> float | None:
        """Nucleus sampling share."""
        ...

    @property
    def frequency_penalty(self) -> float | None:
        """Penalty for repeated tokens, by count."""
        ...

    @property
    def presence_penalty(self) -> float | None:
        """Penalty for repeated tokens, by presence."""
        ...

    @property
    def parallel_tool_calls(self) -> bool | None:
        """Whether one answer may hold several tool calls."""
        ...

    @property
    def provider_opts(self) -> Mapping[str, Any]:
        """Options that only one provider knows (`http_headers`, `extra_body`, `script`, ...)."""
        ...


class ResolvedModel(Protocol):
    """A model reference with its endpoint and key looked up.

    `key` is the credential itself (None: send none). It is used for the Authorization header only and is never
    written to an error or a log.
    """

    @property
    def provider(self) -> str:
        """The provider's name, the first half of `provider/model`."""
        ...

    @property
    def model(self) -> str:
        """The model's name as the provider knows it."""
        ...

    @property
    def api(self) -> str:
        """Which wire format, as `sluice.config.providers.Api` names it."""
        ...

    @property
    def base_url(self) -> str | None:
        """The endpoint's base address, None where the format has none (scripted)."""
        ...

    @property
    def key(self) -> str | None:
        """The credential, None when the provider takes none."""
        ...

    @property
    def options(self) -> ModelOptions:
        """The options of the agent file."""
        ...

    @property
    def weights(self) -> str:
        """The file with the weights of the embedded model, "" for every other model."""
        ...


def context_size(options: ModelOptions) -> int | None:
    """The context window in tokens that the configuration names, None when it names none.

    `context_size` of the model wins over `provider_opts.context_size`.
    """
    for value in (getattr(options, "context_size", None), options.provider_opts.get("context_size")):
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def window(resolved: ResolvedModel) -> int | None:
    """The context window in tokens: the configuration's, else the catalogue's, None when neither knows it."""
    known = facts(resolved.provider, resolved.model)
    return context_size(resolved.options) or (known.context if known is not None else None)


def prices(resolved: ResolvedModel) -> Cost | None:
    """What tokens cost: the configuration's word, else the catalogue's, None for a model without a price."""
    stated: Cost | None = getattr(resolved.options, "cost", None)
    if stated is not None:
        return stated
    known = facts(resolved.provider, resolved.model)
    return known.cost if known is not None else None


def key_name(resolved: ResolvedModel) -> str:
    """The variable that a model's key comes from, for texts; "" when there is none, or it is not known.

    It is what `sluice.config` says it is; else `token_key` of the model, else the variable of a built-in provider.
    """
    named = getattr(resolved, "key_name", None)
    if named is None:
        provider = PROVIDERS.get(resolved.provider)
        named = getattr(resolved.options, "token_key", None) or (provider.key if provider is not None else None)
    return str(named or "")
