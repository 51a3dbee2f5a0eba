"""How the Claude models think, as data: which form of the request each generation takes, and what turns it off.

Older generations take a number of tokens, newer ones an effort and decide for themselves; some think unless they are
told not to, some cannot be told. The newest refuse sampling options. A name that is not listed is taken for the
newest generation when it begins with `claude-`, else for a compatible service of the older form.

Source: Claude API documentation, "Extended thinking", "Adaptive thinking", "Effort" and the migration guides of the
models; requirement models.options.thinking-budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sluice.models.settings import ResolvedModel

__all__ = ["Family", "family", "thinking"]

BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16_384, "xhigh": 32_768, "max": 32_768}
"""Effort -> tokens, for the models that take tokens."""

LEAST_BUDGET = 1024
"""Tokens; the service refuses less."""

_LOW_TOKENS, _MEDIUM_TOKENS = 2048, 8192
"""Tokens up to which a budget counts as low and as medium effort, for the models that take an effort."""


@dataclass(frozen=True, slots=True)
class Family:
    """What the models whose names begin alike have in common.

    Attributes:
        form: `tokens`, `effort`, or `both`; "" for models that do not think.
        unasked: whether they think when nothing is said.
        off: the type that turns thinking off; "" where leaving it out does, None where nothing does.
        efforts: the efforts that are taken, least first.
        sampling: whether `temperature` and `top_p` are taken.
        max_tokens: tokens of one answer when nothing is said; the service wants a number.
    """

    form: Literal["", "tokens", "effort", "both"]
    unasked: bool = False
    off: str | None = ""
    efforts: tuple[str, ...] = ("low", "medium", "high", "xhigh", "max")
    sampling: bool = False
    max_tokens: int = 64_000


_NEWEST = Family("effort", unasked=True, off=None)
_COMPATIBLE = Family("tokens", sampling=True, max_tokens=8192)
_TOKENS = Family("tokens", sampling=True, max_tokens=32_000)
_BOTH = Family("both", efforts=("low", "medium", "high", "max"), sampling=True)
_ASKED = Family("effort")
_UNLESS_TOLD = Family("effort", unasked=True, off="disabled")

_FAMILIES = (
    (("claude-opus-5-5", "claude-fable-", "claude-mythos-"), _NEWEST),
    (("claude-sonnet-5-5",), Family("effort", unasked=True, off="between_tools")),
    (("claude-haiku-5-5", "claude-opus-5", "claude-sonnet-5"), _UNLESS_TOLD),
    (("claude-opus-4-7", "claude-opus-4-8"), _ASKED),
    (("claude-opus-4-6", "claude-sonnet-4-6"), _BOTH),
    (("claude-opus-4", "claude-sonnet-4", "claude-haiku-4", "claude-3-7"), _TOKENS),
    (("claude-3-5",), Family("", sampling=True, max_tokens=8192)),
    (("claude-3", "claude-2"), Family("", sampling=True, max_tokens=4096)),
    (("claude-",), _NEWEST),
)
"""Beginnings of names -> family; the first that fits counts."""


def family(model: str) -> Family:
    """The family of a model by its name, as the provider spells it."""
    return next((found for names, found in _FAMILIES if model.startswith(names)), _COMPATIBLE)


def thinking(resolved: ResolvedModel, room: int, *, unbroken: bool) -> dict[str, Any]:
    """The keys `thinking` and `output_config` of a request; {} when nothing has to be said.

    Args:
        resolved: the model; `thinking_budget` is tokens (0 is none, below 0 the model decides), an effort, `none`,
            `adaptive` or `adaptive/<effort>`. `provider_opts.thinking_display` says how thoughts come back.
        room: tokens that the whole answer may have.
        unbroken: whether the last answer, if its tools have just run, begins with the thoughts it began with. The
            models that take tokens refuse to think on behind an answer without them.
    """
    kind = family(resolved.model)
    wanted = _effort(getattr(resolved.options, "thinking_budget", None))
    if not kind.form or (wanted is None and not kind.unasked):
        return {}
    if wanted == "none" or wanted == 0:
        return _off(kind)
    if kind.form == "tokens" or (kind.form == "both" and isinstance(wanted, int)):
        tokens = wanted if isinstance(wanted, int) else BUDGETS.get(wanted or "", BUDGETS["medium"])
        tokens = min(tokens, room - LEAST_BUDGET)
        if tokens < LEAST_BUDGET or not unbroken:
            return {}
        return {"thinking": {"type": "enabled", "budget_tokens": tokens}}
    if isinstance(wanted, int):
        wanted = "low" if wanted <= _LOW_TOKENS else "medium" if wanted <= _MEDIUM_TOKENS else "high"
    display = resolved.options.provider_opts.get("thinking_display", "summarized")
    asked: dict[str, Any] = {"thinking": {"type": "adaptive", "display": display}}
    if wanted:
        asked["output_config"] = {"effort": _nearest(wanted, kind.efforts)}
    return asked


def _effort(budget: int | str | None) -> int | str | None:
    """Tokens, an effort, "none", "" for a model that decides by itself, None when nothing is said."""
    if isinstance(budget, int):
        return budget if budget >= 0 else ""
    return None if budget is None else budget.removeprefix("adaptive").removeprefix("/")


def _off(kind: Family) -> dict[str, Any]:
    if kind.off is None:
        # The nearest there is: it thinks as little as it can.
        return {"output_config": {"effort": kind.efforts[0]}}
    return {"thinking": {"type": kind.off}} if kind.off else {}


def _nearest(effort: str, efforts: tuple[str, ...]) -> str:
    """The effort itself, else the next lower that is taken, else the least."""
    order = ("minimal", "low", "medium", "high", "xhigh", "max")
    below = [one for one in efforts if order.index(one) <= order.index(effort)]
    return below[-1] if below else efforts[0]
