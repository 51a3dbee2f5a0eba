from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "plan",
    {
        "plan.source.typed-metadata": "Todo lists become plans by their typed metadata.",
        "plan.source.no-text-guessing": "Text is never read as a plan.",
        "plan.clear.empty-entries": "An emptied list clears the plan.",
        "plan.form.stable-update": "The whole plan is sent each time.",
    },
)
