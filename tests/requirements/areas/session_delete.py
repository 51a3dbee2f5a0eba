from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "session.delete",
    {
        "session.delete.removes-tree": "The session, its descendants and their media go together.",
        "session.delete.workspace-untouched": "Files in the workspace stay.",
        "session.delete.empty-id": "An empty id is a params error.",
        "session.delete.unknown-id-succeeds": "Deleting what is not there succeeds.",
        "session.delete.then-not-found": "What was deleted cannot be opened.",
        "session.delete.closes-first": "Everything of the session is joined before a row goes.",
        "session.delete.cleanup-failure-preserves": "A failed cleanup keeps the history and the failure.",
        "session.delete.store-error-retryable": "After an error of the store the session is closed, whole, and can be deleted again.",
        "session.delete.one-transaction": "Tree and media vanish in one transaction.",
        "session.delete.child-rejected": "A child cannot be deleted by itself.",
        "session.delete.loaded-descendant-blocks": "A descendant that is open must be closed before its root can go.",
        "session.delete.barrier": "While one is admitted no session is opened.",
        "session.delete.busy-with-constructor": "It is busy while another session is still being made.",
        "session.delete.different-id-busy": "A delete of another id meanwhile is busy.",
        "session.delete.same-id-joins": "Deletes of one id are one operation.",
        "session.delete.unrelated-run-on": "Other sessions go on undisturbed.",
        "session.delete.joiner-cancel": "A joiner that is cancelled only stops waiting.",
        "session.delete.initiator-cancel": "The initiator can withdraw it until the storage step; cleanup goes on behind the barrier.",
        "session.delete.cancel-in-store-call": "A cancel during the storage step leaves all or nothing.",
        "session.delete.shutdown-joins": "Shutdown waits for it before the store closes.",
        "session.delete.scope-documented": "The docs limit the promise to this process and this store.",
    },
)
