"""What a session is made of between two prompts: its items, its team, its approvals, its books."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

import anyio

from sluice.agent.books import Books
from sluice.agent.budgets import Budgets
from sluice.agent.permissions import Approval
from sluice.agent.team import Team
from sluice.persistence.records import Item

__all__ = ["Books", "Conversation"]

Append = Callable[[Sequence[Item]], Awaitable[Sequence[int]]]
"""Stores items in order and returns their positions; the items are safe once it returns."""


@dataclass(slots=True)
class Conversation:
    """One live session, as the turn sees it.

    `cwd` and `roots` are absolute paths. `items` mirrors what is stored, in stored order: an item is here only when
    `append` has returned for it.
    """

    session_id: str
    cwd: str
    team: Team
    append: Append
    roots: tuple[str, ...] = ()
    items: list[Item] = field(default_factory=list)
    approval: Approval = field(default_factory=Approval)
    books: Books = field(default_factory=Books)
    budgets: Budgets = field(default_factory=Budgets)
    title: str | None = None

    def switch_agent(self, name: str) -> None:
        """Let another agent of the team go on with this history.

        Its window is unknown until it has been asked once (usage-cost.limit.agent-switch-unknown).
        """
        if name != self.team.current:
            self.team.current = name
            self.books.limit = None

    async def add(self, *items: Item) -> None:
        """Store items, then remember them. Raises what the store raises; nothing is remembered then.

        Shielded: a cancel that arrives meanwhile must not part what is stored from what is remembered. The wait is
        bounded by the store's own busy timeout.
        """
        with anyio.CancelScope(shield=True):
            positions = await self.append(items)
        for item, position in zip(items, positions, strict=True):
            self.items.append(replace(item, position=position))
