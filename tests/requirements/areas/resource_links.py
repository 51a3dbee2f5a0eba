from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "resource-links",
    {
        "resource-links.file.client-read-only": "A linked file is read through the client or not at all.",
        "resource-links.file.decoded-once": "Its address is decoded once.",
        "resource-links.other.never-fetched": "Other links cause no traffic.",
        "resource-links.other.label-reaches-model": "The model gets at least a label.",
    },
)
