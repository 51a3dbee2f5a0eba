"""Sessions below a session: where a delegated task is stored, and how it reaches the person of the root.

The client knows only the root: what a task says and asks comes under the root's session id (teams.delegate.*), with
message ids of the nested session, so that a later load shows the same ones (message-ids.persist.nested-owner).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence

from sluice.agent.budgets import Budgets
from sluice.agent.delegation import Nest, Nested
from sluice.agent.loop import Ports
from sluice.persistence.records import Item, SessionRecord
from sluice.persistence.store import Store

__all__ = ["nest_in", "restore_below", "spent_by_children"]


def nest_in(store: Store, cwd: str | None, mode: str, ports: Callable[[str], Ports]) -> Nest:
    """What makes the sessions of delegated tasks.

    Args:
        store: where they are kept.
        cwd: the root's stored directory, None when it has none.
        mode: the root's safety mode, which they inherit (teams.delegate.inherits).
        ports: the way to the root's person for what a session of this id says.
    """

    async def nest(above: str, agent: str) -> Nested:
        record = SessionRecord(uuid.uuid4().hex, time.time(), cwd=cwd, parent_id=above, mode=mode, agent=agent)
        await store.add_session(record)

        async def append(items: Sequence[Item]) -> Sequence[int]:
            return await store.append(record.id, items)

        async def keep(cost: float, context_tokens: int) -> None:
            await store.update_session(record.id, cost=cost, context_tokens=context_tokens)

        return Nested(record.id, append, ports(record.id), keep)

    return nest


async def spent_by_children(store: Store, session_id: str) -> dict[str, float]:
    """What each stored session below this one has cost, in USD (usage-cost.cost.restored-descendants)."""
    records = [await store.session(name) for name in await store.descendants(session_id)]
    return {record.id: record.cost for record in records if record is not None}


async def restore_below(budgets: Budgets, store: Store, session_id: str) -> None:
    """Count what the stored sessions below one have spent; without a budget nothing is read."""
    if not budgets.pots:
        return
    for below in await store.descendants(session_id):
        budgets.restore(await store.items(below, media_limit=0))
