from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "shutdown",
    {
        "shutdown.refuse.new-work": "Once it has begun nothing new is let in.",
        "shutdown.cancel.admitted": "Every request that was read is answered exactly once before the store closes.",
        "shutdown.join.final": "It waits without a deadline of its own, and nothing is called done early.",
        "shutdown.errors.toolset-stop": "A toolset that cannot be stopped shows in the log and the exit status.",
        "shutdown.eof.clean-exit": "End of input ends everything and exits 0 within two seconds when nothing is open at the client.",
        "shutdown.signal.first-clean": "The first signal is like end of input; a second one may force the exit.",
        "shutdown.restart.sessions-survive": "Stored sessions can be opened by the next process.",
        "shutdown.scope.unmanaged-tools": "The docs say what is not undone.",
    },
)
