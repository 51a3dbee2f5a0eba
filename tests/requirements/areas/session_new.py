from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "session.new",
    {
        "session.new.result-shape": "The answer holds the id, the options and the modes.",
        "session.new.distinct-ids": "Ids are non-empty and never the same.",
        "session.new.default-mode": "A new session is in mode default unless the author chose another.",
        "session.new.cwd-required": "A cwd that is not an absolute path creates nothing.",
        "session.new.cwd-must-exist": "The cwd must be a directory that exists.",
        "session.new.mcp-list-required": "The server list must be there; null counts as empty.",
        "session.new.extra-roots-optional": "Extra directories may be absent, null or empty.",
        "session.new.extra-roots-invalid": "One bad extra directory refuses the call; order is kept and repetition is harmless.",
        "session.new.independent-team": "Each session gets a team of its own, made from the file as it is then.",
        "session.new.persisted-at-once": "The session is stored, and listed, when its answer leaves.",
        "session.new.commands-after-result": "The command list is the very next line after the answer.",
        "session.new.failure-leaves-nothing": "A failed setup leaves no row, no process and no connection.",
        "session.new.cancel-request": "A cancelled setup ends as cancelled or as a success, and leaves nothing open when cancelled.",
        "session.new.only-known-ids": "Updates name only sessions this connection has opened.",
        "session.new.option-order-stable": "The options stand in the same order every time, mode first.",
    },
)
