from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "config-options",
    {
        "config-options.shape.in-setup-results": "New, load and resume all carry the options and, in agreement, the modes.",
        "config-options.shape.three-ids": "The options are mode, model and thought_level.",
        "config-options.set.exact-values": "Only values that were offered are accepted.",
        "config-options.set.complete-list": "The answer to a change is the whole list.",
        "config-options.set.rejects": "Everything else is a params error that changes nothing.",
        "config-options.set.stray-type": "A foreign type beside a good value does no harm.",
        "config-options.model.local-only": "Building the model list needs no network, no provider and no tool.",
        "config-options.model.values": "The models are the default and every named one that can be chosen.",
        "config-options.model.nested-alloy": "An alloy of alloys is not offered.",
        "config-options.model.flat-alloy": "A flat alloy is offered, without a reasoning choice.",
        "config-options.model.inert-current": "A running model outside the list shows as the current value and choosing it does nothing.",
        "config-options.model.harness-agents": "Agents run by a harness have neither model nor reasoning choice.",
        "config-options.reasoning.omitted": "Models without known reasoning have no reasoning choice.",
        "config-options.reasoning.runtime-only": "A reasoning choice lasts as long as the runtime does.",
        "config-options.reasoning.none-distinct": "No reasoning is a value of its own.",
        "config-options.persist.model-and-safety": "Model and mode survive a restart.",
        "config-options.persist.failed-write": "A change that cannot be stored does not happen.",
        "config-options.persist.cold-apply": "Stored choices are in force before the session is visible.",
        "config-options.persist.stale-override": "A stored choice that is not possible any more fails the opening.",
        "config-options.idle.busy-foreground": "A turn makes a change busy.",
        "config-options.idle.busy-background": "So does background work.",
        "config-options.idle.blocks-prompts": "A change under way refuses prompts.",
        "config-options.idle.joined-by-cleanup": "Closing cancels and joins a change.",
        "config-options.idle.volatile-hidden": "Opened during background work, model and reasoning are not offered.",
        "config-options.notify.boundaries": "Changes are told between turns, and only changes.",
        "config-options.notify.no-delegated-values": "The model of a delegated agent is never told.",
        "config-options.notify.failure-keeps-change": "A stored change stands even when telling fails.",
        "config-options.set.offline": "Every offered value can be set without a network.",
    },
    deferred={
        "config-options.model.harness-agents": "harness: agents run by an external harness are not built",
    },
)
