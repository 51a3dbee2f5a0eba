from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "tool-lifecycle",
    {
        "tool-lifecycle.status.in-progress": "Pending while asking, in_progress while running, then ended.",
        "tool-lifecycle.status.refused-to-failed": "What may not run fails without ever running.",
        "tool-lifecycle.status.errors": "A failing tool fails its call and not the turn.",
        "tool-lifecycle.id.one-per-call": "Question and reports share one id.",
        "tool-lifecycle.id.fresh": "Ids are ours and unique, whatever the provider sends.",
        "tool-lifecycle.id.agent-aware": "The same id of two agents is two calls.",
        "tool-lifecycle.id.same-agent-limit": "Two children of one agent are told apart, or the docs name the limit.",
        "tool-lifecycle.kind.one-classifier": "The kind is decided in one place.",
        "tool-lifecycle.kind.name-before-hint": "A name says more than a hint.",
        "tool-lifecycle.title.always": "The first report has a title.",
        "tool-lifecycle.interrupt.known-results": "An interruption keeps results that are there.",
        "tool-lifecycle.interrupt.unknown-results": "Calls without one end as failed, with a word on side effects.",
        "tool-lifecycle.interrupt.notification-failure": "A lost report undoes nothing and is not sent again.",
        "tool-lifecycle.stream.no-partial-arguments": "Arguments and output are not streamed in pieces.",
        "tool-lifecycle.update.replacement-lists": "Lists in an update replace the earlier ones.",
        "tool-lifecycle.result.text-and-diff-only": "A result shows its text and, where fit, a diff.",
        "tool-lifecycle.result.raw-output": "rawOutput is that text and nothing else.",
    },
)
