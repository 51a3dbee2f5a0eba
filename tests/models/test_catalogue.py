"""The bundled facts of well-known models."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from sluice.agent.ports import ModelRequest
from sluice.config.providers import NOT_BUILT, PROVIDERS
from sluice.config.schema import Cost
from sluice.models import catalogue
from sluice.models.names import WireNames
from sluice.models.openai_chat_history import request_body
from sluice.models.settings import prices, window
from sluice.models.thinking import thinking_options
from tests.models.helpers import Resolved

ROWS = [
    (provider, model)
    for provider, models in json.loads(Path(catalogue.__file__).with_suffix(".json").read_text())["models"].items()
    for model in models
]


@pytest.mark.requirement("models.catalog.offline")
@pytest.mark.parametrize(("provider", "model"), ROWS, ids=lambda value: value)
def test_every_row_makes_sense(provider: str, model: str) -> None:
    known = catalogue.facts(provider, model)
    assert known is not None and (provider in PROVIDERS or provider in NOT_BUILT)
    assert known.context >= 8000
    assert 0 <= known.cost.cache_read <= known.cost.input <= known.cost.output < 1000
    assert set(known.efforts) <= {"none", "minimal", "low", "medium", "high", "xhigh"}
    for effort in known.efforts:
        assert thinking_options("openai", model, effort) if provider == "openai" else True


def test_the_date_of_the_facts_is_said_and_shown_in_the_docs() -> None:
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", catalogue.as_of())
    docs = Path(__file__).parents[2] / "docs" / "models.md"
    assert catalogue.as_of() in docs.read_text(encoding="utf-8")


@pytest.mark.requirement("usage-cost.cost.no-estimate", "models.options.capabilities-and-cost")
def test_the_agent_file_wins_and_an_unknown_model_has_no_facts() -> None:
    model = Resolved("http://x/v1")
    assert (window(model), prices(model)) == (128_000, Cost(2.5, 10.0, 1.25, 2.5))
    written = model.with_options(provider_opts={"context_size": 4096}, cost=Cost())
    assert (window(written), prices(written)) == (4096, Cost())
    assert catalogue.facts("openai", "gpt-4o-of-mine") is None and catalogue.facts("mine", "gpt-4o") is None


def test_one_call_can_be_bounded_below_the_configuration() -> None:
    model = Resolved("http://x/v1")
    bounded = ModelRequest((), max_output_tokens=500)
    assert request_body(model, bounded, WireNames(()))["max_tokens"] == 500
    assert request_body(model.with_options(max_tokens=100), bounded, WireNames(()))["max_tokens"] == 100
