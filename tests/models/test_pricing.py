from __future__ import annotations

import pytest

from sluice.config.schema import Cost
from sluice.models.pricing import priced
from sluice.persistence.records import Usage


def test_cached_input_has_its_own_price() -> None:
    usage = priced(Usage(1_000_000, 500_000, cached_input_tokens=400_000), Cost(2.0, 8.0, 0.5, 0.0))
    assert usage is not None
    assert usage.cost == pytest.approx(0.6 * 2 + 0.4 * 0.5 + 0.5 * 8)


@pytest.mark.requirement("models.usage.recorded")
def test_no_price_is_not_the_same_as_free() -> None:
    unpriced, free = priced(Usage(10, 10), None), priced(Usage(10, 10), Cost())
    assert unpriced is not None
    assert free is not None
    assert unpriced.cost is None
    assert free.cost == 0.0
    assert priced(None, Cost()) is None
