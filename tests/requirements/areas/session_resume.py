from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "session.resume",
    {
        "session.resume.no-replay": "A resume shows no history, and the next prompt knows it all the same.",
        "session.resume.cwd-required": "It needs an absolute cwd.",
        "session.resume.servers-optional": "Without servers in the request none are left.",
        "session.resume.live-keeps-runtime": "Resuming a live session builds nothing and loses nothing.",
        "session.resume.cold-rebuilds": "A session that is not open gets a new team from the file as it is.",
        "session.resume.busy-turn": "During a turn it is busy and changes nothing; afterwards it works.",
        "session.resume.busy-reservation": "Another load or resume makes it busy.",
        "session.resume.background-allowed": "Background work alone does not make it busy, and the docs say what keeps its roots.",
        "session.resume.blocked-while-closing": "It is refused while the session closes, and for good after a failed close.",
    },
)
