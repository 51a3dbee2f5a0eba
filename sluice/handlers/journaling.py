"""What a connection tells the journal: each transition of each machine, each frame of the peer."""

from __future__ import annotations

from sluice.machines import Transition
from sluice.persistence.journal import Journal
from sluice.wire.frames import Notification, Request, Response, decode

__all__ = ["Journaling"]


class Journaling:
    """The recorder of a connection's machines and the tap of its peer, on one journal.

    Args:
        journal: where it is written.
    """

    def __init__(self, journal: Journal) -> None:
        self.journal = journal

    def record(self, step: Transition) -> None:
        """Note a transition."""
        self.journal.taken(step.machine, step.key, step.event, (step.source, step.target))

    def tap(self, direction: str, line: bytes) -> None:
        """Note a frame: its kind, method and id, never more unless bodies are kept."""
        message = decode(line)
        kind, method, raw_id = "malformed", "", b""
        if isinstance(message, Request):
            kind, method, raw_id = "request", message.method, message.id
        elif isinstance(message, Notification):
            kind, method = "notification", message.method
        elif isinstance(message, Response):
            kind = "error" if message.error is not None else "result"
            raw_id = str(message.key[1]).encode() if message.key is not None else b""
        self.journal.frame(direction, kind, named=(method, raw_id.decode("utf-8", "replace")), line=line)
