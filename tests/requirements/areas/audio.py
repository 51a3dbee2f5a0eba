from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "audio",
    {
        "audio.capability.advertised": "Sound is accepted.",
        "audio.bytes.exact": "Its bytes arrive unchanged.",
        "audio.mime.normalised": "Its type is put into one form.",
        "audio.invalid.fixed-notice": "A bad block becomes one fixed notice.",
        "audio.no-processing.none": "Nothing else is done with it.",
        "audio.notice.every-block": "A notice goes with every block.",
        "audio.provider.two-conditions": "It is sent only where model and API take it.",
        "audio.provider.gemini": "Gemini gets it inline.",
        "audio.provider.chat-completions": "Chat completions get WAV and MP3.",
        "audio.provider.others-notice-only": "The others get the notice.",
        "audio.limits.frame-first": "The line limit comes first, and the docs say so.",
    },
)
