from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "session.list",
    {
        "session.list.page-size": "At most 50 a page, and the cursor goes on where it ended.",
        "session.list.order": "Newest first, then by id.",
        "session.list.end-marked-by-absence": "The last page has no cursor.",
        "session.list.empty": "No match is an empty list.",
        "session.list.bad-cursor": "A cursor that is not of this listing is a params error.",
        "session.list.filter-absolute": "The directory filter is absolute, or null for none.",
        "session.list.filter-exact-cleaned": "The filter compares cleaned paths as text.",
        "session.list.vanished-directory": "Sessions outlive their directory in the listing.",
        "session.list.unknown-workspace-hidden": "A session without an absolute workspace is not listed.",
        "session.list.summaries-only": "Listing reads no messages.",
        "session.list.no-updated-at": "No time of last activity is claimed.",
        "session.list.roots-of-live-only": "Extra directories are shown for open sessions only.",
        "session.list.no-snapshot": "Pages may differ when things change between them, and nothing fails by it.",
        "session.list.entry-shape": "An entry has its id, its directory and, when known, its title.",
    },
)
