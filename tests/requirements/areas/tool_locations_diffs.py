from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "tool-locations-diffs",
    {
        "tool-locations-diffs.location.absolute": "Places are absolute paths, worked out as text.",
        "tool-locations-diffs.location.no-io": "Working them out touches no file.",
        "tool-locations-diffs.location.omitted": "What is no local path is left out.",
        "tool-locations-diffs.location.line": "A line is a positive whole number or absent.",
        "tool-locations-diffs.diff.edit-file": "An edit through the client can show a diff of exactly what was read and written.",
        "tool-locations-diffs.diff.not-reconstructed": "The diff is not put together from pieces.",
        "tool-locations-diffs.diff.omitted-cases": "Some edits have no diff and are otherwise the same.",
        "tool-locations-diffs.diff.no-final-claim": "The docs do not call the diff the final content.",
        "tool-locations-diffs.diff.write-file-text-only": "Writing a file never shows a diff.",
        "tool-locations-diffs.diff.presentation-only": "The texts of a diff go to nobody but the client.",
        "tool-locations-diffs.diff.not-transformed": "Output transforms leave the diff alone.",
    },
)
