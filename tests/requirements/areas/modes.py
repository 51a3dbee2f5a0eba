from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "modes",
    {
        "modes.list.five-ids": "The modes are default, strict, balanced, restricted and autonomous.",
        "modes.set.legacy-path": "The older method changes the same setting under the same rule.",
        "modes.set.unknown": "An unknown mode changes nothing.",
        "modes.set.both-updates": "A change sends both updates, no change sends none.",
        "modes.set.update-key": "The update names the mode as currentModeId.",
        "modes.default.read-only-auto": "In default mode read-only tools run and all others ask.",
        "modes.default.not-balanced": "In default mode even a safe command asks.",
        "modes.default.clears-autonomous": "Choosing default takes back blanket approval.",
        "modes.strict.asks-all": "Strict asks about everything.",
        "modes.balanced.labels": "Balanced asks about what is not known to be safe.",
        "modes.restricted.never-asks": "Restricted denies instead of asking.",
        "modes.autonomous.allows-all": "Autonomous runs whatever no rule stops.",
        "modes.precedence.kept": "Rules, guards and hooks outrank every mode.",
        "modes.precedence.team-ask-yields": "In autonomous mode a team's ask rule does not ask.",
        "modes.grants.survive-switch": "A tool allowed for the session stays allowed.",
        "modes.scope.dispatcher-only": "The docs say that modes do not reach into an external harness.",
        "modes.persist.unknown-stored": "A stored mode nobody knows is treated as strict.",
    },
)
