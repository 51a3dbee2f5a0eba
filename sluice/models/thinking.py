"""`thinking_budget` in the words of OpenAI and of the servers that are compatible.

OpenAI and most others take `reasoning_effort`; OpenRouter takes an object `reasoning` that also knows token counts.
Source: requirement models.options.thinking-budget; OpenAI API reference "reasoning_effort"; OpenRouter, "Reasoning
Tokens".
"""

from __future__ import annotations

from typing import Any

__all__ = ["reasons", "thinking_options"]

_EFFORTS = {"minimal": "minimal", "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh", "max": "xhigh"}
_LOW_TOKENS, _MEDIUM_TOKENS = 2048, 8192
"""Tokens up to which a budget counts as low and as medium effort, for servers that know no token counts."""


_REASONING_MODELS = ("o1", "o3", "o4", "gpt-5", "gpt-6")
"""Beginnings of the names of OpenAI's models that reason."""


def reasons(provider: str, model: str) -> bool:
    """Whether a model is known to reason before it answers: one of OpenAI's families that do."""
    return provider == "openai" and model.startswith(_REASONING_MODELS)


def thinking_options(provider: str, model: str, budget: int | str | None) -> dict[str, Any]:
    """The keys of the request body for a budget; none when it is not set, or when the model is to decide.

    Args:
        provider: the provider's name.
        model: the model's name; OpenAI's families differ in the least effort they take.
        budget: tokens (0 is none, below 0 the model decides), an effort's name, `none`, `adaptive` or
            `adaptive/<effort>`.
    """
    if budget is None:
        return {}
    if isinstance(budget, int):
        effort = _effort_of(budget)
        if provider == "openrouter" and budget > 0:
            return {"reasoning": {"max_tokens": budget}}
    else:
        effort = budget.removeprefix("adaptive").removeprefix("/")
    if effort == "none":
        return _without_thinking(provider, model)
    if effort not in _EFFORTS:
        return {}
    effort = _EFFORTS[effort]
    if provider == "openrouter":
        return {"reasoning": {"effort": effort}}
    return {"reasoning_effort": effort}


def _effort_of(tokens: int) -> str:
    if tokens < 0:
        return ""
    if tokens == 0:
        return "none"
    if tokens <= _LOW_TOKENS:
        return "low"
    return "medium" if tokens <= _MEDIUM_TOKENS else "high"


def _without_thinking(provider: str, model: str) -> dict[str, Any]:
    if provider == "openrouter":
        return {"reasoning": {"enabled": False}}
    if provider != "openai":
        return {"reasoning_effort": "none"}
    if model.startswith(("o1", "o3", "o4")):
        return {"reasoning_effort": "low"}
    if model.startswith(("gpt-5.", "gpt-6")):
        return {"reasoning_effort": "none"}
    # The first gpt-5 cannot do without; models that do not reason refuse the key altogether.
    return {"reasoning_effort": "minimal"} if model.startswith("gpt-5") else {}
