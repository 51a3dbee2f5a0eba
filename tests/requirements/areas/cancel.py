from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "cancel",
    {
        "cancel.prompt.answers-cancelled": "A cancelled turn answers cancelled, nothing else.",
        "cancel.prompt.any-wait": "Wherever the turn waits, a cancel ends it without leaking an error.",
        "cancel.prompt.final-updates-first": "Open calls are closed before the answer.",
        "cancel.prompt.idle-noop": "Without a turn a cancel is silent and leaves no mark.",
        "cancel.prompt.double-and-race": "Two cancels, or one that races the end, give one answer.",
        "cancel.prompt.history-consistent": "The next prompt works on a history without open calls.",
        "cancel.permission.answered-first": "A permission dismissed around a cancel runs nothing and the turn is cancelled.",
        "cancel.permission.unanswered": "A permission nobody answers is withdrawn, and its late answer ignored.",
        "cancel.permission.cancelled-alone": "A permission dismissed by itself ends the turn as cancelled.",
        "cancel.request.prompt": "Cancelling the prompt's request ends it with one answer.",
        "cancel.request.unknown": "A cancel that names nothing in flight is ignored, and types must match.",
        "cancel.scope.background-keeps-own": "Background work with a scope of its own survives the foreground's cancel.",
    },
)
