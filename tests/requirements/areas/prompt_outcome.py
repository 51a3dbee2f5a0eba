from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "prompt.outcome",
    {
        "prompt.outcome.end-turn": "An ordinary end is end_turn.",
        "prompt.outcome.max-tokens": "A last answer cut at its length is max_tokens.",
        "prompt.outcome.refusal": "A last answer that refuses is refusal.",
        "prompt.outcome.max-turn-requests": "The iteration limit without leave to go on is max_turn_requests.",
        "prompt.outcome.cancelled": "A cancelled prompt is cancelled.",
        "prompt.outcome.cancel-wins": "A cancel outranks whatever ended at the same time.",
        "prompt.outcome.after-drain": "The answer waits for the last event of the run.",
        "prompt.outcome.child-sessions-neutral": "How a child ends does not decide how the root ends.",
        "prompt.outcome.recoverable-neutral": "What was recovered from leaves the prompt a success.",
        "prompt.outcome.later-success-wins": "A later good answer replaces an earlier stop.",
        "prompt.outcome.failure-shape": "A fatal end is an error with session, runtime code and text.",
        "prompt.outcome.failure-codes": "Each runtime code is reached by a test.",
        "prompt.outcome.budget-is-error": "A spent budget is a failure, not a stop reason.",
        "prompt.outcome.failure-after-updates": "Updates sent before a failure stay valid.",
        "prompt.outcome.failure-text-redacted": "The failure's text shows no credentials.",
        "prompt.outcome.usable-after-failure": "A failed turn leaves the session usable.",
        "prompt.outcome.missing-session": "Calls on a missing session are not found; a wrong workspace is a params error.",
    },
)
