"""The one cleanup policy: what must still be done when everything around it is already cancelled.

Cleanup runs shielded, so that the cancellation which caused it cannot cut it short; it has a budget, so that it
cannot hang what waits for it; and it has a reason, so that a budget which ran out says in the log what was left
undone.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager

import anyio

__all__ = ["shielded"]

logger = logging.getLogger(__name__)


@contextmanager
def shielded(budget: float | None, why: str) -> Iterator[anyio.CancelScope]:
    """Run a block of cleanup that outer cancellation does not reach.

    Use it as a plain `with` around awaits, in the task that owns what is cleaned up. Leaving the block at its
    deadline is not an error; ask the scope's `cancelled_caught` where the difference matters.

    Args:
        budget: seconds until the block is given up, or None to wait as long as it takes (for work whose own parts
            are bounded).
        why: what the block does, in a few words; it is logged as a warning when the budget ran out.

    Yields:
        The shielding cancel scope.
    """
    deadline = math.inf if budget is None else anyio.current_time() + budget
    with anyio.CancelScope(deadline=deadline, shield=True) as scope:
        yield scope
    if scope.cancelled_caught:
        logger.warning("gave up after %.3g s: %s", budget or 0.0, why)
