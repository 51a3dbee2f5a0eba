from __future__ import annotations

import pytest

from sluice.config.duration import seconds


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("1m", 60.0),
        ("1m30s", 90.0),
        ("500ms", 0.5),
        ("1.5h", 5400.0),
        ("2d", 172800.0),
        (30, 30.0),
        (0.5, 0.5),
        (0, 0.0),
    ],
)
def test_a_length_of_time_is_read_in_seconds(written: object, expected: float) -> None:
    assert seconds(written) == expected


@pytest.mark.parametrize("written", ["", "1", "m", "1 m x", "-1s", -1, True, None, [], "1w", "99999d", 1e300])
def test_what_is_none_is_none(written: object) -> None:
    assert seconds(written) is None
