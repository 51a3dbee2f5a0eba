from __future__ import annotations

from typing import Any

import pytest

from sluice.models.thinking import thinking_options


@pytest.mark.requirement("models.options.thinking-budget")
@pytest.mark.parametrize(
    ("provider", "model", "budget", "expected"),
    [
        ("openai", "gpt-5", None, {}),
        ("openai", "gpt-5", "high", {"reasoning_effort": "high"}),
        ("openai", "gpt-5", "max", {"reasoning_effort": "xhigh"}),
        ("openai", "gpt-5", "adaptive", {}),
        ("openai", "gpt-5", "adaptive/low", {"reasoning_effort": "low"}),
        ("openai", "gpt-5", 1024, {"reasoning_effort": "low"}),
        ("openai", "gpt-5", 4096, {"reasoning_effort": "medium"}),
        ("openai", "gpt-5", 20000, {"reasoning_effort": "high"}),
        ("openai", "gpt-5", -1, {}),
        ("openai", "gpt-5-mini", "none", {"reasoning_effort": "minimal"}),
        ("openai", "gpt-5.1", 0, {"reasoning_effort": "none"}),
        ("openai", "o3", "none", {"reasoning_effort": "low"}),
        ("openai", "gpt-4o", "none", {}),
        ("ollama", "qwen3", "none", {"reasoning_effort": "none"}),
        ("openrouter", "x/y", "none", {"reasoning": {"enabled": False}}),
        ("openrouter", "x/y", 5000, {"reasoning": {"max_tokens": 5000}}),
        ("openrouter", "x/y", "low", {"reasoning": {"effort": "low"}}),
    ],
)
def test_a_budget_is_told_in_the_providers_words(
    provider: str, model: str, budget: Any, expected: dict[str, Any]
) -> None:
    assert thinking_options(provider, model, budget) == expected
