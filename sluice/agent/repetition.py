"""The guard against a model that makes the same tool calls again and again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from sluice.agent.outcome import TurnFailure
from sluice.persistence.records import ToolCallRecord

__all__ = ["POLLING_TOOLS", "Repetition"]

POLLING_TOOLS = frozenset(
    {
        *("list_background_agents", "view_background_agent", "wait_background_agents"),
        *("list_background_jobs", "view_background_job", "wait_background_job"),
    }
)
"""Tools that are called again and again with the same arguments while something else works."""


@dataclass(slots=True)
class Repetition:
    """Counts equal batches in a row: same tools, same arguments, same order."""

    batch: str = ""
    times: int = 0

    def check(self, calls: Sequence[ToolCallRecord], limit: int) -> None:
        """Take the next batch. A batch that only looks after background work does not count.

        Raises:
            TurnFailure: loop_detected, when it came `limit` times in a row (0 = never).
        """
        if all(call.name in POLLING_TOOLS for call in calls):
            return
        batch = json.dumps([(call.name, _canonical(call.arguments)) for call in calls])
        self.times = self.times + 1 if batch == self.batch else 1
        self.batch = batch
        if limit and self.times >= limit:
            raise TurnFailure("loop_detected", f"The model made the same tool calls {limit} times in a row.")


def _canonical(text: str) -> str:
    try:
        return json.dumps(json.loads(text or "{}"), sort_keys=True)
    except ValueError:
        return text
