from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "usage-cost",
    {
        "usage-cost.gauge.root-only": "The gauge is the root's.",
        "usage-cost.gauge.handoff-and-compaction": "A handoff or compaction replaces it.",
        "usage-cost.cost.by-session-id": "Costs add up by session.",
        "usage-cost.cost.repeats-replace": "A repeated figure replaces the earlier.",
        "usage-cost.cost.restored-descendants": "Restored children are counted once.",
        "usage-cost.cost.no-estimate": "What has no price is not guessed.",
        "usage-cost.background.no-unsolicited": "Background use is told with the next turn.",
        "usage-cost.command.same-aggregate": "Text and update come from one sum.",
        "usage-cost.drain.keeps-counting": "Draining streams count on.",
        "usage-cost.limit.needed-for-update": "No gauge before the limit is known.",
        "usage-cost.limit.unknown-in-text": "The text can do without it.",
        "usage-cost.limit.agent-switch-unknown": "A switched agent makes it unknown.",
        "usage-cost.limit.no-inference": "It is not guessed from names.",
        "usage-cost.limit.after-model-change": "A new model makes it unknown.",
        "usage-cost.shape.update": "Numbers are whole and never null, and cost is shown when positive.",
    },
)
