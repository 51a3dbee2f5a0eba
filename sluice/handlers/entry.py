"""What a connection knows of a session id, apart from its owner, which nothing needs before the first session."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sluice import machines
    from sluice.handlers.joint import Joint
    from sluice.handlers.session import Incarnation

__all__ = ["Entry"]


class Entry:
    """What the connection knows of one session id: its machine, and the incarnation while there is one.

    Attributes:
        error: the retained text of a failed cleanup, None while there is none.
        ancestors: the ids from the parent up to the root, for a child that was opened by itself.
    """

    def __init__(self, session_id: str, machine: machines.Session) -> None:
        self.id = session_id
        self.ancestors: tuple[str, ...] = ()
        self.machine = machine
        self.live: Incarnation | None = None
        self.removal: Joint | None = None
        self.error: str | None = None
