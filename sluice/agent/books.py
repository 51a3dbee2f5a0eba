"""Tokens and money of a session: what the context holds, what its window is, and what everything has cost.

The gauge (`context_tokens`, `limit`) is the root conversation's alone. The cost adds up the newest cumulative figure
of every session of the tree, keyed by session id and never by agent name (usage-cost.cost.by-session-id), so that two
children of one agent stay apart and a figure that is told twice is counted once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sluice.persistence.records import Item, Usage

__all__ = ["Books", "together", "usage_text", "usages"]


@dataclass(slots=True)
class Books:
    """The books of one root conversation.

    Attributes:
        context_tokens: tokens of the context as the last observation of the root had it.
        own_cost: USD that the root's own calls have cost, compactions included; it never falls.
        limit: the root's context window in tokens, None while nobody has observed it. A change of the model or of
            the agent makes it unknown until the next call (usage-cost.limit.after-model-change).
        children: session id -> USD so far, of every other session of the tree.
        tokens: input and output tokens of all the root's calls in this process and of those that were stored.
    """

    context_tokens: int = 0
    own_cost: float = 0.0
    limit: int | None = None
    children: dict[str, float] = field(default_factory=dict)
    tokens: int = 0

    @property
    def cost(self) -> float:
        """USD of the whole tree."""
        return self.own_cost + sum(self.children.values())

    def observe(self, usage: Usage, limit: int | None) -> None:
        """Take the books of one call of the root: its context and window are replaced, the cost only grows."""
        self.context_tokens = usage.input_tokens + usage.output_tokens
        self.limit = limit
        self.charge(usage)

    def charge(self, usage: Usage) -> None:
        """Add what a call has used, without touching the gauge. A call without a price costs nothing here."""
        self.tokens += usage.input_tokens + usage.output_tokens
        self.own_cost += usage.cost or 0.0

    def report(self, session_id: str, cost: float) -> None:
        """Take the newest cumulative figure of another session of the tree; it replaces the earlier one."""
        self.children[session_id] = cost


def together(one: Usage | None, other: Usage | None) -> Usage | None:
    """Two calls as one: everything added; the cost is None only when neither has a price. None is no call."""
    if one is None or other is None:
        return other if one is None else one
    cost = None if one.cost is None and other.cost is None else (one.cost or 0.0) + (other.cost or 0.0)
    return Usage(
        input_tokens=one.input_tokens + other.input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        cached_input_tokens=one.cached_input_tokens + other.cached_input_tokens,
        reasoning_tokens=one.reasoning_tokens + other.reasoning_tokens,
        cached_write_tokens=one.cached_write_tokens + other.cached_write_tokens,
        cost=cost,
    )


def usages(items: Iterable[Item]) -> Iterator[tuple[str, Usage]]:
    """Whose each stored call was and what it has used: answers, and in `Item.usage` calls that had none."""
    for item in items:
        if item.usage is not None:
            yield item.agent, item.usage
        if item.message is not None and item.message.usage is not None:
            yield item.message.agent, item.message.usage


def usage_text(books: Books) -> str:
    """One line for a person: tokens, window or that it is unknown, and the cost in USD."""
    used = f"{books.context_tokens:,}"
    if books.limit:
        share = 100 * books.context_tokens / books.limit
        context = f"Context: {used} of {books.limit:,} tokens ({share:.0f} %)."
    else:
        context = f"Context: {used} tokens; the size of the window is unknown."
    return f"{context} Cost so far: ${books.cost:.4f}."
