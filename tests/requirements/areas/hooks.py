from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "hooks",
    {
        "hooks.events.core-set": "The documented events fire.",
        "hooks.contract.stdin-json": "A hook reads one object and may answer one.",
        "hooks.contract.exit-codes": "Its exit code speaks.",
        "hooks.contract.timeout": "It has a time limit.",
        "hooks.guard.fail-closed": "A guard that fails denies.",
        "hooks.guard.matcher": "Hooks match by name.",
        "hooks.pre.preempting": "Some outrank the mode.",
        "hooks.pre.updated-input": "Input may be changed once.",
        "hooks.post.transform-output": "Output may be changed before anybody sees it.",
        "hooks.context.transient": "Added context is not stored, but for the session's start.",
        "hooks.sources.order": "Sources come in order.",
        "hooks.builtin.redact-secrets": "Secrets are masked by default.",
        "hooks.stop.blocked-outcome": "A hook can stop the run.",
    },
)
