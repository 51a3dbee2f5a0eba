"""References that stand for several models: an alloy (`a,b`) and `first_available`.

An alloy is asked one member at a time and needs all of them; `first_available` is one model, the first whose
credentials exist. Source: requirements models.ref.alloy, models.ref.first-available.
"""

from __future__ import annotations

from collections.abc import Mapping

from sluice.config.decode import Context, entries, items, join
from sluice.config.errors import ConfigError
from sluice.config.references import Catalog, check_reference
from sluice.config.schema import ModelConfig
from sluice.config.tree import Node

__all__ = ["candidates", "check_choice", "check_cycles", "is_choice", "is_nested", "members"]

_ALONE = ("first_available", "description")
_OF_ALLOY = ("model", "description")


def is_choice(model: ModelConfig) -> bool:
    """Whether an entry of `models` chooses among others instead of being one."""
    return bool(model.first_available) or _is_alloy(model)


def _is_alloy(model: ModelConfig) -> bool:
    return not model.provider and "," in model.model


def members(models: Mapping[str, ModelConfig], ref: str) -> tuple[str, ...]:
    """The references of an alloy, alloys inside it taken apart too; the reference itself when it is none."""
    entry = models.get(ref)
    listed = entry.model if entry is not None and _is_alloy(entry) else ref if entry is None else ""
    if "," not in listed:
        return (ref,)
    parts = (part.strip() for part in listed.split(","))
    return tuple(dict.fromkeys(member for part in parts for member in members(models, part)))


def is_nested(models: Mapping[str, ModelConfig], name: str) -> bool:
    """Whether an entry is an alloy with an alloy among its members."""
    entry = models[name]
    return _is_alloy(entry) and any(len(members(models, part.strip())) > 1 for part in entry.model.split(","))


def candidates(models: Mapping[str, ModelConfig], ref: str) -> tuple[str, ...]:
    """What `first_available` lists, in order; () for any other reference."""
    entry = models.get(ref)
    return entry.first_available if entry is not None else ()


def check_choice(ctx: Context, node: Node, model: ModelConfig, catalog: Catalog) -> None:
    """An entry that chooses among others: the others exist, and nothing else is set.

    Raises:
        ConfigError: a reference is wrong, or a key stands beside `first_available`.
    """
    key = join("models", model.name)
    written = entries(ctx, node, key)
    if not model.first_available:
        check_reference(ctx, written["model"], join(key, "model"), model.model, catalog)
        for name in written.keys() - set(_OF_ALLOY):
            ctx.warn(written[name], join(key, name), "has no effect on an alloy; set it on its members")
        return
    for name, child in written.items():
        if name not in _ALONE:
            raise ctx.error(child, join(key, name), "first_available stands alone; set this on the models it names")
    places = items(ctx, written["first_available"], join(key, "first_available"))
    for (path, place), ref in zip(places, model.first_available, strict=True):
        if len(members(catalog.models, ref)) > 1 or "," in ref:
            raise ctx.error(place, path, "an alloy cannot be one of first_available; name single models")
        check_reference(ctx, place, path, ref, catalog)


def check_cycles(ctx: Context, models: Mapping[str, ModelConfig]) -> None:
    """No entry may choose itself, directly or through others.

    Raises:
        ConfigError: one does.
    """
    for name, model in models.items():
        seen: set[str] = set()
        waiting = list(_chosen(model))
        while waiting:
            ref = waiting.pop()
            if ref == name:
                raise ConfigError(ctx.file, model.line, join("models", name), "chooses itself, through its members")
            if ref in models and ref not in seen:
                seen.add(ref)
                waiting += _chosen(models[ref])


def _chosen(model: ModelConfig) -> tuple[str, ...]:
    if _is_alloy(model):
        return tuple(part.strip() for part in model.model.split(","))
    return model.first_available
