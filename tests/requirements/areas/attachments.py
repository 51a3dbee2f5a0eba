from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "attachments",
    {
        "attachments.document.ordered": "Blocks become texts and documents in their order.",
        "attachments.document.duplicates-kept": "What is attached twice stays twice.",
        "attachments.document.text-mime-as-text": "Texts are sent as text.",
        "attachments.document.binary-model-dependent": "What a model cannot take is left out.",
        "attachments.image.normalised": "Pictures are checked and normalised.",
        "attachments.limits.per-item": "Each kind has a limit.",
        "attachments.limits.notice": "What cannot be used becomes a short notice.",
        "attachments.cache.bypass": "Prompts with attachments use no answer cache.",
        "attachments.persist.no-protocol-metadata": "The protocol's extras are not stored.",
        "attachments.redaction.text-and-labels": "Secrets are masked on the way to the model.",
    },
)
