from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "compaction",
    {
        "compaction.trigger.threshold": "It begins at a share of a known limit.",
        "compaction.trigger.overflow-once": "An overflow triggers it once.",
        "compaction.trigger.manual-any-time": "It can be asked for.",
        "compaction.result.summary-item": "Its outcome is an item, and nothing is deleted.",
        "compaction.result.prompt-rebuild": "The next call gets the summary and the tail.",
        "compaction.result.bounds": "Both are bounded.",
        "compaction.hooks.veto-or-supply": "A hook may forbid or replace it.",
        "compaction.outcome.three": "It is applied, skipped or failed.",
        "compaction.cost.counted": "It costs what it costs.",
        "compaction.concurrency.with-turn": "It never runs beside a turn.",
    },
)
