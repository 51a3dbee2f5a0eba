from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "session.close",
    {
        "session.close.result-means-drained": "Success means that turn, background work and toolsets have ended.",
        "session.close.ends-prompt-cancelled": "The running prompt is answered as cancelled first.",
        "session.close.mcp-first": "Client servers are told to stop before anything is waited for.",
        "session.close.joins-reconnects": "Loads and resumes under way are cancelled and joined.",
        "session.close.then-no-update": "After the answer the session says nothing more.",
        "session.close.then-unknown": "After the answer it does not exist here.",
        "session.close.concurrent-joins": "A second close shares the first one's outcome.",
        "session.close.cancel-stops-wait-only": "Cancelling a close ends the wait, not the cleanup.",
        "session.close.failure-returned-and-kept": "A failed cleanup is returned now and ever after.",
        "session.close.toolset-stop-error": "A toolset that cannot be stopped fails the close.",
        "session.close.never-seen-id": "An id never open here is not found; one closed here is a success.",
        "session.close.reload-afterwards": "Nothing is removed, so it can be opened again.",
        "session.close.while-removing": "Closing what is being removed, closed or gone succeeds.",
    },
)
