from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "turn-admission",
    {
        "turn-admission.busy.second-prompt": "A second prompt during a turn is busy, not queued, and harms nothing.",
        "turn-admission.queued.while-draining": "One prompt may wait for a cancelled turn to drain; a cancel drops it.",
        "turn-admission.parallel.other-session": "Sessions run side by side.",
        "turn-admission.params.session-id": "A malformed session id is a params error, an unknown one is not found by name.",
        "turn-admission.params.blocks": "A prompt that is no list of known blocks is a params error.",
        "turn-admission.params.ungated-block": "A block kind that is not advertised is a params error.",
        "turn-admission.live.incremental-order": "Every update of a turn comes before its answer and none after it.",
        "turn-admission.live.full-runtime": "Tools, sub-agents and fallback models all work over the wire.",
        "turn-admission.live.no-user-echo": "The prompt is not echoed.",
        "turn-admission.live.deltas": "Empty deltas are dropped, and thousands of tiny ones all arrive.",
        "turn-admission.commands.same-path": "Slash commands are admitted, cancelled and cleaned up like prompts.",
        "turn-admission.block.all-gates": "Nothing is admitted while a change, a reopening, an unresolved cleanup or a logout is in the way.",
        "turn-admission.release.always": "Every ending frees the session unless cleanup failed.",
        "turn-admission.live.quiet-after-answer": "After a turn's answer its session is silent until the next request.",
    },
)
