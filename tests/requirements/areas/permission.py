from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "permission",
    {
        "permission.request.shape": "A request names a reported call and sound options, allow first.",
        "permission.request.three-choices": "Allow, always allow this tool here, and reject.",
        "permission.request.enough-to-decide": "Title and input show what is at stake.",
        "permission.grant.tool-only": "Always covers that tool in that session.",
        "permission.grant.shell-words": "Rules for the shell match words and let no second command through.",
        "permission.answer.reject": "A rejected call fails, and the turn goes on.",
        "permission.answer.fail-closed": "Whatever is no clear yes is a no.",
        "permission.answer.no-timeout": "No clock ends the wait.",
        "permission.iteration-limit.exact-continue": "At the iteration limit only the exact choice goes on.",
        "permission.order.decision-chain": "Guards, hooks, rules, mode and question come in a fixed order.",
        "permission.order.serialised": "One question at a time.",
        "permission.non-interactive.denies": "Without anybody to ask, asking means no.",
        "permission.status.not-inferred": "What is shown never decides what may run.",
    },
)
