"""The one cleanup policy."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from sluice.wire.cleanup import shielded
from tests.wire.support import SECONDS

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("budget", [SECONDS, None])
async def test_cleanup_is_finished_although_everything_around_it_is_cancelled(
    budget: float | None, caplog: pytest.LogCaptureFixture
) -> None:
    steps: list[str] = []
    with anyio.fail_after(SECONDS):
        with anyio.CancelScope() as outer:
            outer.cancel()
            with shielded(budget, "the work of this test") as scope:
                for _ in range(3):
                    await anyio.lowlevel.checkpoint()
                steps.append("cleaned up")
            assert not scope.cancelled_caught
            await anyio.lowlevel.checkpoint()
            steps.append("not reached")
    assert steps == ["cleaned up"]
    assert caplog.text == ""


async def test_a_budget_that_runs_out_is_a_warning_with_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    with anyio.fail_after(SECONDS):
        with shielded(0.01, "waiting for a peer that never answers") as scope:
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "waiting for a peer that never answers" in record.getMessage()
    assert "0.01 s" in record.getMessage()


async def test_an_error_of_the_cleanup_is_not_hidden() -> None:
    with pytest.raises(KeyError), shielded(SECONDS, "failing"):
        raise KeyError
