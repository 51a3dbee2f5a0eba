"""The short crash run of every test run; `make crash` is the long one."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.crash.runs import crash

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("store.items.saved-during-turn", "shutdown.restart.sessions-survive")
async def test_twenty_kills_at_random_points_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    outcome = await crash(tmp_path, 20, seed)
    assert (outcome.kills, outcome.lost) == (20, []), f"seed {seed}"
    assert outcome.sessions > 3
