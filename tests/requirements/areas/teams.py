from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "teams",
    {
        "teams.delegate.transfer-task": "A task goes to a child and its answer comes back.",
        "teams.delegate.only-listed": "Only to those that are listed.",
        "teams.delegate.depth-and-cycles": "Not too deep and not in circles.",
        "teams.delegate.inherits": "Children inherit what is allowed.",
        "teams.delegate.nested-store": "They are stored where they happened.",
        "teams.delegate.permission-owner": "Their questions go to the root.",
        "teams.handoff.same-session": "A handoff stays in the session.",
        "teams.handoff.forced": "It can be forced.",
        "teams.handoff.current-agent-per-session": "Who speaks is known per session.",
        "teams.background.own-scope": "Background agents outlive the turn, within limits.",
        "teams.background.non-interactive": "They cannot ask.",
        "teams.background.results": "Their results can be had.",
    },
)
