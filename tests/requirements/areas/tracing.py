from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "tracing",
    {
        "tracing.export.opt-in": "Export is switched on; context is passed on anyway.",
        "tracing.inbound.params-meta-only": "Context is read from the params' metadata alone.",
        "tracing.inbound.server-span": "Each handled message has a span named by its method.",
        "tracing.inbound.span-content": "That span holds nothing else.",
        "tracing.inbound.invalid-ignored": "Bad context is ignored.",
        "tracing.inbound.bad-tracestate": "A bad state drops only itself.",
        "tracing.inbound.no-baggage": "Nothing else is imported.",
        "tracing.flow.into-runtime": "Spans of the turn descend from the request.",
        "tracing.outbound.two-keys": "What we send carries two keys and no stale ones.",
        "tracing.outbound.response-not-adopted": "Context in an answer is not taken over.",
        "tracing.outbound.nothing-more": "There are no other spans and keys.",
        "tracing.mcp.owning-call": "A server's callback runs under its call.",
        "tracing.scope.per-request": "Each prompt has its own context.",
        "tracing.scope.final-close": "The last release belongs to the close.",
        "tracing.scope.detached-outlives": "Background work keeps its trace.",
        "tracing.scope.other-telemetry": "The docs claim no redaction elsewhere.",
    },
)
