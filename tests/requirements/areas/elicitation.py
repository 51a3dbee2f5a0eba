from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "elicitation",
    {
        "elicitation.negotiate.independent": "Forms and URLs are negotiated separately.",
        "elicitation.negotiate.unsupported-declined": "What the client cannot ask is declined.",
        "elicitation.negotiate.other-prompts-separate": "No form support approves nothing.",
        "elicitation.request.session-scope": "A request names its session.",
        "elicitation.schema.supported": "Flat forms of plain values are accepted.",
        "elicitation.schema.declined": "Anything else is declined.",
        "elicitation.reply.validated": "An answer is checked before a tool sees it.",
        "elicitation.reply.fail-closed": "No clear acceptance is no acceptance.",
        "elicitation.limits.256-kib": "Large ones are declined alone.",
        "elicitation.limits.128-pending": "The 129th open one is declined.",
        "elicitation.limits.big-integers": "Numbers that JSON would bend are declined.",
        "elicitation.secrets.form-declined": "Secrets are not asked for in forms.",
        "elicitation.secrets.heuristic-documented": "The docs call the screening a heuristic.",
        "elicitation.url.consent-only": "Accepting a URL gives no data.",
        "elicitation.url.http-only": "Only plain web addresses are passed on.",
        "elicitation.url.agent-never-opens": "The agent opens none of them.",
        "elicitation.url.no-complete": "No completion is sent, and open ids are unique.",
        "elicitation.oauth.not-adapted": "Logins of our own are not turned into forms.",
        "elicitation.embed.headless-declines": "Without a client everything is declined.",
        "elicitation.wait.own-cancellation": "A wait ends with the operation it belongs to.",
        "elicitation.wait.ambiguous-owner": "A request without a clear owner is declined.",
        "elicitation.wait.joined-by-cleanup": "Closing and cancelling join open ones.",
        "elicitation.setup.non-interactive": "Setting up servers asks nothing.",
        "elicitation.history.not-stored": "Questions and answers are not stored.",
    },
)
