"""The budgets of an agent file."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.config.errors import ConfigError
from sluice.config.load import loads

AGENT = "agents:\n  root:\n    model: openai/gpt-5\n"


@pytest.mark.requirement("config-file.budget.limits")
@pytest.mark.parametrize(
    ("written", "seconds"), [("90", 90), ("1.5", 1.5), ("90s", 90), ("5m", 300), ("1h30m", 5400), ("0.5s", 0.5)]
)
def test_limits_are_read_with_their_place(written: str, seconds: float) -> None:
    named = f"budgets:\n  small: {{max_time: {written}}}\n"
    text = f"{AGENT}    budgets: [small]\nbudget: {{max_cost: 2, max_tokens: 10}}\n{named}"
    file = loads(text, Path("agent.yaml"), {})
    assert file.warnings == () and file.default_agent.budgets == ("small",)
    assert file.budget is not None
    assert (file.budget.path, file.budget.max_cost, file.budget.max_tokens) == ("budget", 2, 10)
    assert (file.budgets["small"].path, file.budgets["small"].max_time) == ("budgets.small", seconds)


@pytest.mark.requirement("config-file.budget.limits", "config-file.errors.before-start")
@pytest.mark.parametrize(
    ("text", "key"),
    [
        (f"{AGENT}budget: {{}}\n", "budget"),
        (f"{AGENT}budget: {{max_cost: 0}}\n", "budget.max_cost"),
        (f"{AGENT}budget: {{max_tokens: -1}}\n", "budget.max_tokens"),
        (f"{AGENT}budget: {{max_time: soon}}\n", "budget.max_time"),
        (f"{AGENT}budget: {{max_time: 0s}}\n", "budget.max_time"),
        (f"{AGENT}budget: {{max_money: 3}}\n", "budget.max_money"),
        (f"{AGENT}budgets: {{small: 3}}\n", "budgets.small"),
        (f"{AGENT}    budgets: [smal]\nbudgets: {{small: {{max_cost: 1}}}}\n", "agents.root.budgets"),
        (f"{AGENT}    compaction_threshold: 1.5\n", "agents.root.compaction_threshold"),
        (f"{AGENT}    compaction_model: nobody\n", "agents.root.compaction_model"),
        (f"{AGENT}    structured_output: {{name: x}}\n", "agents.root.structured_output.schema"),
    ],
)
def test_what_is_wrong_is_an_error_at_its_key(text: str, key: str) -> None:
    with pytest.raises(ConfigError) as raised:
        loads(text, Path("agent.yaml"), {})
    assert raised.value.key == key
