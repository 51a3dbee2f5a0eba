"""The `models` and `providers` of an agent file."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from sluice.config.choices import check_choice, check_cycles, is_choice
from sluice.config.decode import Context, Shape, decode, entries, join, shape
from sluice.config.providers import PROVIDERS
from sluice.config.references import Catalog, address_problem, base_provider, check_provider, check_weights
from sluice.config.schema import ModelConfig, ProviderConfig
from sluice.config.tree import Node

__all__ = ["MODEL_SHAPE", "PROVIDER_SHAPE", "read_catalog"]

MODEL_SHAPE: Shape = shape(ModelConfig)
PROVIDER_SHAPE: Shape = shape(ProviderConfig)


def read_catalog(ctx: Context, models: Node | None, providers: Node | None) -> Catalog:
    """Read both maps and check every reference between them.

    Raises:
        ConfigError: a key, a value or a reference is wrong.
    """
    declared = {name: _provider(ctx, name, node) for name, node in _named(ctx, providers, "providers")}
    for name, node in _named(ctx, providers, "providers"):
        _check_provider_entry(ctx, name, node, declared)
    raw = dict(_named(ctx, models, "models"))
    catalog = Catalog(
        MappingProxyType({name: _model(ctx, name, node) for name, node in raw.items()}), MappingProxyType(declared)
    )
    check_cycles(ctx, catalog.models)
    for name, node in raw.items():
        _check_model_entry(ctx, node, catalog.models[name], catalog)
    return catalog


def _named(ctx: Context, node: Node | None, key: str) -> list[tuple[str, Node]]:
    return list(entries(ctx, node, key).items()) if node is not None else []


def _provider(ctx: Context, name: str, node: Node) -> ProviderConfig:
    key = join("providers", name)
    values = decode(ctx, node, key, PROVIDER_SHAPE, ("providers.*",))
    # An entry called `local` is somebody's server, and has an address; the embedded model needs no entry.
    values.setdefault("provider", name if name in PROVIDERS and name != "local" else "openai")
    return ProviderConfig(name=name, line=node.line, **_frozen(values))


def _check_provider_entry(ctx: Context, name: str, node: Node, declared: dict[str, ProviderConfig]) -> None:
    entry, key = declared[name], join("providers", name)
    check_provider(ctx, _at(node, "provider"), join(key, "provider"), entry.provider, {})
    if entry.base_url is not None:
        problem = address_problem(name, declared)
        if problem is not None:
            raise ctx.error(_at(node, "base_url"), join(key, "base_url"), problem)
    base = PROVIDERS.get(entry.provider)
    if entry.api_type is not None and base is not None and base.api != "openai_chatcompletions":
        message = f'provider "{entry.provider}" has an API of its own; api_type is for OpenAI and what is compatible'
        raise ctx.error(_at(node, "api_type"), join(key, "api_type"), message)


def _model(ctx: Context, name: str, node: Node) -> ModelConfig:
    values = decode(ctx, node, join("models", name), MODEL_SHAPE, ("models.*",))
    return ModelConfig(name=name, line=node.line, **_frozen(values))


def _check_model_entry(ctx: Context, node: Node, model: ModelConfig, catalog: Catalog) -> None:
    """An entry has a provider and a model, unless it only chooses among others."""
    key = join("models", model.name)
    if is_choice(model):
        check_choice(ctx, node, model, catalog)
        return
    if not model.model:
        raise ctx.error(_at(node, "model"), join(key, "model"), "a model needs the provider's name for it")
    if not model.provider:
        raise ctx.error(_at(node, "provider"), join(key, "provider"), "a model needs a provider")
    check_provider(ctx, _at(node, "provider"), join(key, "provider"), model.provider, catalog.providers)
    base = base_provider(model.provider, catalog.providers)
    check_weights(ctx, _at(node, "model"), join(key, "model"), base, model.model)
    problem = address_problem(model.provider, catalog.providers, model.base_url)
    if problem is not None:
        raise ctx.error(_at(node, "base_url"), join(key, "base_url"), problem)


def _at(node: Node, key: str) -> Node:
    """Where a key stands, else the mapping that lacks it."""
    children = node.value if isinstance(node.value, dict) else {}
    return children.get(key, node)


def _frozen(values: dict[str, Any]) -> dict[str, Any]:
    """The values with their mappings made read-only."""
    return {key: MappingProxyType(value) if isinstance(value, dict) else value for key, value in values.items()}
