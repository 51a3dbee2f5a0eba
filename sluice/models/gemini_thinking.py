"""How the Gemini models think: the generation of 2.5 takes a number of tokens, later ones take a level.

Source: Gemini API documentation, "Thinking" and "Thought signatures"; requirement models.options.thinking-budget.
"""

from __future__ import annotations

import re
from typing import Any

from sluice.models.settings import ResolvedModel

__all__ = ["signs", "thinking"]

_BUDGETS = {"minimal": 512, "low": 2048, "medium": 8192, "high": 16_384, "xhigh": 24_576, "max": 24_576}
_LEAST, _MOST, _LEAST_OF_PRO = 512, 24_576, 128
"""Tokens that all models of 2.5 take; the large one cannot do without a few."""

_LEVELS = {"low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "high"}
_LOW_TOKENS, _MEDIUM_TOKENS = 2048, 8192
"""Tokens up to which a budget counts as low and as medium."""

_TOKENS = re.compile(r"gemini-2\.5")
_PLAIN = re.compile(r"gemini-(?:1|2\.0)|(?!gemini)")
"""Models that do not think, and those of other families."""


def signs(model: str) -> bool:
    """Whether the model wants its calls signed: Gemini from 3 on."""
    return not _PLAIN.match(model) and not _TOKENS.match(model)


def thinking(resolved: ResolvedModel) -> dict[str, Any]:
    """The `thinkingConfig` of a request; {} when nothing has to be said.

    Args:
        resolved: the model; `thinking_budget` is tokens (0 is none, below 0 the model decides), an effort, `none`,
            `adaptive` or `adaptive/<effort>`. Thoughts come back as summaries unless `provider_opts.thinking_display`
            is `omitted`.
    """
    if _PLAIN.match(resolved.model):
        return {}
    budget = getattr(resolved.options, "thinking_budget", None)
    wanted = budget.removeprefix("adaptive").removeprefix("/") if isinstance(budget, str) else budget
    shown = resolved.options.provider_opts.get("thinking_display") != "omitted"
    asked = {"includeThoughts": True} if shown else {}
    if wanted is None or wanted == "" or (isinstance(wanted, int) and wanted < 0):
        return asked
    if _TOKENS.match(resolved.model):
        tokens = _tokens(resolved.model, wanted)
        return {**asked, "thinkingBudget": tokens} if tokens else {"thinkingBudget": 0}
    return {**asked, "thinkingLevel": _level(resolved.model, wanted)}


def _tokens(model: str, wanted: int | str) -> int:
    if wanted in ("none", 0):
        return _LEAST_OF_PRO if "pro" in model else 0
    tokens = wanted if isinstance(wanted, int) else _BUDGETS[wanted]
    return min(max(tokens, _LEAST), _MOST)


def _level(model: str, wanted: int | str) -> str:
    """The level; thinking cannot be turned off, so none is the least there is."""
    least = "minimal" if "flash" in model else "low"
    if wanted in ("none", "minimal", 0):
        return least
    if isinstance(wanted, int):
        return "low" if wanted <= _LOW_TOKENS else "medium" if wanted <= _MEDIUM_TOKENS else "high"
    return _LEVELS[wanted]
