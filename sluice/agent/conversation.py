"""What a session is made of between two prompts: its items, its team, its approvals, its books."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

import anyio

from sluice.agent.books import Books, together
from sluice.agent.budgets import Budgets
from sluice.agent.hooks import Place
from sluice.agent.permissions import Approval
from sluice.agent.team import Team
from sluice.persistence.records import Item, Usage

__all__ = ["Books", "Conversation"]

Append = Callable[[Sequence[Item]], Awaitable[Sequence[int]]]
"""Stores items in order and returns their positions; the items are safe once it returns."""


@dataclass(slots=True)
class Conversation:
    """One live session, as the turn sees it.

    `cwd` and `roots` are absolute paths. `items` mirrors what is stored, in stored order: an item is here only when
    `append` has returned for it. `unfiled` is what was spent and stands in no stored item yet.
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
    unfiled: Usage | None = None

    @property
    def place(self) -> Place:
        """Where hooks of the agent that holds the conversation run."""
        return Place(self.session_id, self.cwd, self.team.current)

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
        bounded by the store's own busy timeout. What is unfiled is stored in the first of the items.
        """
        unfiled, self.unfiled = self.unfiled, None
        if unfiled is not None:
            items = (replace(items[0], usage=unfiled, agent=self.team.current), *items[1:])
        with anyio.CancelScope(shield=True):
            try:
                positions = await self.append(items)
            except BaseException:
                self.unfiled = together(unfiled, self.unfiled)
                raise
        for item, position in zip(items, positions, strict=True):
            self.items.append(replace(item, position=position))

    def spent(self, usage: Usage) -> None:
        """Take what a call has used that is no message of its own: one that failed, was cancelled, or summarised.

        It counts from now on, and is stored with the next item, whatever that is; nobody is told of it
        (usage-cost.drain.keeps-counting). An answer is not for this: its use stands in its message.
        """
        self.books.charge(usage)
        self.budgets.charge(self.team.current, usage)
        self.unfiled = together(self.unfiled, usage)

    async def file(self) -> None:
        """Store what is unfiled when no item follows; called at the end of whatever may have spent."""
        if self.unfiled is not None:
            await self.add(Item(kind="termination"))
