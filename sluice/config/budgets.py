"""The `budget` and `budgets` of an agent file: ceilings on money, tokens and time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

from sluice.config.decode import Context, Shape, decode, describe, entries, join, shape
from sluice.config.duration import seconds
from sluice.config.schema import BudgetConfig
from sluice.config.suggest import did_you_mean
from sluice.config.tree import Node

__all__ = ["BUDGET_SHAPE", "check_budgets", "read_budget", "read_budgets"]

BUDGET_SHAPE: Shape = {**shape(BudgetConfig, drop=("path",)), "max_time": Node}


def read_budget(ctx: Context, node: Node | None, key: str) -> BudgetConfig | None:
    """One ceiling, None when none is written.

    Raises:
        ConfigError: a key or a value is wrong, or no limit is set.
    """
    if node is None:
        return None
    values = decode(ctx, node, key, BUDGET_SHAPE)
    if not values:
        raise ctx.error(node, key, "a budget needs max_cost, max_tokens or max_time")
    if "max_time" in values:
        values["max_time"] = _seconds(ctx, values["max_time"], join(key, "max_time"))
    return BudgetConfig(path=key, **values)


def read_budgets(ctx: Context, node: Node | None) -> Mapping[str, BudgetConfig]:
    """The named ceilings.

    Raises:
        ConfigError: as for `read_budget`.
    """
    named = entries(ctx, node, "budgets") if node is not None else {}
    found = {name: read_budget(ctx, child, join("budgets", name)) for name, child in named.items()}
    return MappingProxyType({name: budget for name, budget in found.items() if budget is not None})


def check_budgets(ctx: Context, node: Node, key: str, names: Collection[str], known: Collection[str]) -> None:
    """The named ceilings an agent spends from.

    Raises:
        ConfigError: one does not exist.
    """
    for name in names:
        if name not in known:
            raise ctx.error(node, key, f'unknown budget "{name}"{did_you_mean(name, known)}')


def _seconds(ctx: Context, node: Node, key: str) -> float:
    """A number of seconds, or a text such as `90s`, `5m` or `1h30m`."""
    found = seconds(node.value)
    if found is None:
        raise ctx.error(node, key, f"expected seconds or a duration such as 5m, got {describe(node)}")
    if found == 0:
        raise ctx.error(node, key, "a duration is more than nothing")
    return found
