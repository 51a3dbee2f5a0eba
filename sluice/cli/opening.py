"""Which session a conversation is about: a new one, the latest, a named one, or one picked from a list."""

from __future__ import annotations

import os.path
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sluice.client.agent import Agent
from sluice.client.errors import ClientError
from sluice.client.session import Session, SessionEntry
from sluice.client.wording import one_line

__all__ = ["NoSession", "Opening", "find_session", "listed", "reopen"]


class NoSession(ClientError):
    """There is no session that fits what was asked for."""


@dataclass(frozen=True)
class Opening:
    """What to open.

    Attributes:
        resume: the id of a session or its beginning; "" to pick one from a list; None for none.
        latest: whether to go on with this directory's latest session.
        mode: the mode to set, None for the agent's own choice.
        model: the model to set, None likewise.
    """

    resume: str | None = None
    latest: bool = False
    mode: str | None = None
    model: str | None = None

    async def open(self, agent: Agent, cwd: str, ask: Callable[[Sequence[SessionEntry]], str]) -> Session:
        """Open the session.

        Args:
            agent: an initialized agent.
            cwd: the session's directory; one that is taken up again keeps its own.
            ask: shows a list of sessions and returns what was typed: an id, its beginning, or a number from 1.

        Raises:
            NoSession: nothing fits.
            RemoteError: the agent refused.
        """
        if self.resume is None and not self.latest:
            return await agent.new_session(cwd)
        if self.resume:
            return await reopen(agent, find_session(await agent.list_sessions(), self.resume))
        entries = await agent.list_sessions(cwd)
        if not entries:
            raise NoSession(f"no session of {os.path.abspath(cwd)} is stored yet")  # noqa: PTH100 - only a name
        if self.latest:
            # Agents list the newest first; those that say when a session changed last are taken at their word.
            return await reopen(agent, max(entries, key=lambda entry: entry.updated_at or ""))
        return await reopen(agent, find_session(entries, ask(entries)))


def find_session(entries: Sequence[SessionEntry], wanted: str) -> SessionEntry:
    """Find a session by id, by how its id begins, or by its number in the list (from 1).

    Raises:
        NoSession: none fits, or several do.
    """
    fitting = [entry for entry in entries if entry.session_id == wanted]
    if not fitting and wanted.isascii() and wanted.isdigit() and 1 <= int(wanted[:9]) <= len(entries):
        return entries[int(wanted) - 1]
    fitting = fitting or [entry for entry in entries if wanted and entry.session_id.startswith(wanted)]
    if len(fitting) != 1:
        found = f"{len(fitting)} sessions begin" if fitting else "no session begins"
        raise NoSession(f"{found} with {one_line(wanted, 80)!r}")
    return fitting[0]


async def reopen(agent: Agent, entry: SessionEntry) -> Session:
    """Take a stored session up again: with its history shown when the agent can replay it, else without.

    Raises:
        NotAdvertised: the agent can do neither.
        RemoteError: it refused.
    """
    if "loadSession" in agent.info.capabilities:
        return await agent.load_session(entry.session_id, entry.cwd)
    return await agent.resume_session(entry.session_id, entry.cwd)


def listed(entries: Sequence[SessionEntry]) -> list[str]:
    """Sessions as numbered lines, printable."""
    return [
        f"{number:>3}  {one_line(entry.session_id[:13]):<13}  {one_line(entry.title or 'untitled', 60)}"
        for number, entry in enumerate(entries, 1)
    ]
