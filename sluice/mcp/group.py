"""Process groups: whether one still runs, and ending it."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import anyio
from anyio.abc import Process

__all__ = ["KILL_SECONDS", "TERM_SECONDS", "alive", "end"]

TERM_SECONDS = 2.0
"""How long a group may take to end after SIGTERM, in seconds: enough to write a file and close connections."""

KILL_SECONDS = 2.0
"""How long to wait for the end of a group after SIGKILL, in seconds; only an unkillable process uses it up."""

_POLL_SECONDS = 0.02
_PROC = Path("/proc")


def alive(group: int) -> bool:
    """Return whether a process group has a member that still runs.

    Orphans that have ended stay in the group until init reaps them, which may take seconds; they do not count.
    """
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _PROC.is_dir() or any(_runs_in(entry, group) for entry in _PROC.iterdir() if entry.name.isdigit())


def _runs_in(entry: Path, group: int) -> bool:
    try:
        # pid (name) state ppid pgrp …; the name may hold anything, parentheses and spaces included.
        state, _, member_of = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[:3]
    except OSError:
        return False  # ended between the listing and the reading
    return int(member_of) == group and state not in "ZX"


async def end(leader: Process, polite: float) -> bool:
    """End the group that a child of ours leads; shielded, and bounded by the three budgets.

    Args:
        leader: the child; it was started as the leader of a new session.
        polite: how long it may take to end by itself first, in seconds.

    Returns:
        Whether nothing of the group runs any more.
    """
    with anyio.CancelScope(shield=True):
        with anyio.move_on_after(polite):
            await leader.wait()
        if not alive(leader.pid):
            return True
        for number, budget in ((signal.SIGTERM, TERM_SECONDS), (signal.SIGKILL, KILL_SECONDS)):
            send(leader.pid, number)
            with anyio.move_on_after(budget):
                await leader.wait()
                # The kernel tells nobody when a group becomes empty.
                while alive(leader.pid):  # noqa: ASYNC110
                    await anyio.sleep(_POLL_SECONDS)
                return True
    return False


def send(group: int, number: signal.Signals) -> None:
    """Send a signal to every member of a group that may be signalled."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
