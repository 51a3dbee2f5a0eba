"""What one part of an agent file says about another: model references, providers, agents.

Everything that can be known without credentials is an error here, at load; a provider that is not built is a warning
here and an error when a session needs it. Source: requirements config-file.errors.before-start, models.ref.forms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from sluice.config.decode import Context
from sluice.config.providers import NOT_BUILT, PROVIDERS, known_providers
from sluice.config.schema import ModelConfig, ProviderConfig
from sluice.config.suggest import did_you_mean
from sluice.config.tree import Node
from sluice.config.values import Frozen
from sluice.config.weights import WEIGHTS

__all__ = [
    "Catalog",
    "address_problem",
    "base_provider",
    "check_agents",
    "check_provider",
    "check_reference",
    "check_weights",
]


class Catalog(Frozen, frozen=True):
    """The models and providers that a file declares."""

    models: Mapping[str, ModelConfig]
    providers: Mapping[str, ProviderConfig]


def base_provider(name: str, providers: Mapping[str, ProviderConfig]) -> str:
    """The id of the provider built in that a name stands for: that of its entry, else the name itself."""
    return providers[name].provider if name in providers else name


def check_reference(ctx: Context, node: Node, key: str, ref: str, catalog: Catalog) -> None:
    """A model reference: a name from `models`, `auto`, `local`, `provider/model`, or several with commas (an alloy).

    Raises:
        ConfigError: it is none of these.
    """
    if ref in catalog.models or ref in ("auto", "local"):
        return
    if "," in ref:
        for member in ref.split(","):
            check_reference(ctx, node, key, member.strip(), catalog)
        return
    provider, slash, model = ref.partition("/")
    if not slash:
        near = did_you_mean(ref, {*catalog.models, "auto", "local"})
        raise ctx.error(
            node, key, f'unknown model "{_shown(node, ref)}"{near or "; write a name from models or provider/model"}'
        )
    if not provider or not model:
        raise ctx.error(node, key, f'"{_shown(node, ref)}" is not of the form provider/model')
    check_provider(ctx, node, key, provider, catalog.providers)
    check_weights(ctx, node, key, base_provider(provider, catalog.providers), model)
    problem = None if provider in catalog.providers else address_problem(provider, catalog.providers)
    if problem is not None:
        raise ctx.error(node, key, problem)


def check_provider(ctx: Context, node: Node, key: str, name: str, providers: Mapping[str, ProviderConfig]) -> None:
    """A provider's name: an entry of `providers` or a provider of the format.

    Raises:
        ConfigError: it is neither.
    """
    if name in providers:
        return  # an entry was checked where it stands
    if name in NOT_BUILT:
        ctx.warn(node, key, f'provider "{name}" is known but not built yet; sessions that need it will fail')
    elif name not in PROVIDERS:
        near = did_you_mean(name, {*providers, *known_providers()})
        raise ctx.error(node, key, f'unknown provider "{_shown(node, name)}"{near}')


def check_weights(ctx: Context, node: Node, key: str, provider: str, model: str) -> None:
    """The name of the embedded model's weights, when that is the provider.

    Raises:
        ConfigError: there are none of that name.
    """
    if provider == "local" and model not in WEIGHTS:
        raise ctx.error(node, key, f'unknown local model "{_shown(node, model)}"; there are {" and ".join(WEIGHTS)}')


def _shown(node: Node, text: str) -> str:
    """What an error shows: the text as written when a variable was put into it, for its value may be a secret."""
    return node.raw if "${" in node.raw else text


def address_problem(name: str, providers: Mapping[str, ProviderConfig], own: str | None = None) -> str | None:
    """What is wrong with the address of a model, None when nothing is.

    Args:
        name: its provider.
        providers: the entries of the file.
        own: its own base URL; else that of its provider's entry counts, else the one built in.
    """
    url = own or (providers[name].base_url if name in providers else None)
    if url is None:
        built_in = PROVIDERS.get(base_provider(name, providers))
        missing = built_in is not None and built_in.base_url is None and built_in.api not in ("scripted", "local")
        return f'provider "{name}" needs a base_url' if missing else None
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        usable = False
    return None if usable else "expected an http or https URL"


def check_agents(ctx: Context, named: Iterable[tuple[str, Node, str]], agents: Iterable[str]) -> tuple[str, ...]:
    """Names of other agents; one from a registry (with `/` or `:`) is warned about and left out.

    Args:
        ctx: the load.
        named: path, place and name of each.
        agents: the agents of the file.

    Raises:
        ConfigError: an agent does not exist.
    """
    known = set(agents)
    local = []
    for key, node, name in named:
        if name in known:
            local.append(name)
        elif "/" in name or ":" in name:
            ctx.warn(node, key, "agents from a registry are known but not built yet; this one is left out")
        else:
            raise ctx.error(node, key, f'unknown agent "{name}"{did_you_mean(name, known)}')
    return tuple(local)
