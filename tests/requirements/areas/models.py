from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "models",
    {
        "models.ref.forms": "A model is named in four ways.",
        "models.ref.auto": "auto takes the first that has a key.",
        "models.ref.alloy": "An alloy picks one each turn.",
        "models.ref.first-available": "Or the first that has credentials.",
        "models.options.sampling": "Sampling is sent when set.",
        "models.options.thinking-budget": "Thinking has numbers and names.",
        "models.options.capabilities-and-cost": "Capabilities and prices can be set.",
        "models.providers.openai-chat": "Chat completions work.",
        "models.providers.openai-responses": "Responses work.",
        "models.providers.anthropic": "Anthropic works.",
        "models.providers.gemini": "Gemini works.",
        "models.providers.aliases": "Named services work.",
        "models.providers.custom": "An endpoint can be shared.",
        "models.providers.scripted-fake": "A scripted model needs no network.",
        "models.credentials.sources-in-order": "Keys are looked up in a fixed order.",
        "models.credentials.missing-named": "A missing key is named without a value.",
        "models.gateway.replaces-endpoints": "A gateway replaces the endpoints.",
        "models.catalog.offline": "Prices and limits need no network.",
        "models.fallback.retryable": "Passing failures are tried again.",
        "models.fallback.next-model": "Lasting ones go to the next model.",
        "models.fallback.visible-in-stream": "A fallback doubles no text.",
        "models.fallback.overflow": "An overflow is compacted once.",
        "models.usage.recorded": "Tokens are recorded for each call.",
        "models.stream.idle-timeout": "A silent stream is given up.",
    },
)
