from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "store",
    {
        "store.path.default": "The file is session.db in the data directory unless another is named; it is created when missing.",
        "store.engine.sqlite": "Sessions are in SQLite, in WAL mode with foreign keys, and outlive the process.",
        "store.engine.migrations": "Older files are brought forward step by step, newer ones refused in clear words.",
        "store.engine.two-processes": "Two processes share a file and wait out a short lock.",
        "store.items.kinds": "Messages, nested sessions, errors, terminations and summaries are kept in order.",
        "store.items.saved-during-turn": "What happens is stored as it happens, so a killed process leaves a history that loads.",
        "store.items.keyed-by-session": "What a child does is stored under the child.",
        "store.items.no-connection-secrets": "Server settings, traces and credentials never reach the file.",
        "store.summary.columns": "What a listing needs can be read without a message.",
        "store.title.update": "A session gets a short title, told before the first answer or with the next turn.",
    },
)
