"""Ceilings on what a session may spend: money, tokens and time, for all of it and by named pots.

The pot `budget` is everybody's; a named pot is shared by the agents that list it. What was stored counts again after
a restart, but for time, which is counted while this process works. A pot that is used up ends the turn before the
next call of the model (prompt.outcome.budget-is-error).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sluice.agent.books import usages
from sluice.config.schema import AgentFile, BudgetConfig
from sluice.persistence.records import Item, Usage

__all__ = ["Budgets", "Pot", "pots_of"]


@dataclass(slots=True)
class Pot:
    """One ceiling with what was spent of it.

    Attributes:
        config: where it stands in the agent file, and its limits.
        agents: who spends from it; None for everybody.
        cost, tokens, seconds: spent so far; `cost` is USD.
        unpriced: whether a call without a price came, which a ceiling on money cannot count.
    """

    config: BudgetConfig
    agents: frozenset[str] | None = None
    cost: float = 0.0
    tokens: int = 0
    seconds: float = 0.0
    unpriced: bool = False

    def holds(self, agent: str) -> bool:
        """Whether this agent spends from it."""
        return self.agents is None or agent in self.agents

    def stop(self) -> str | None:
        """What to say when a limit is reached, naming its place in the agent file; None while there is room."""
        limits = (
            ("max_cost", self.config.max_cost, self.cost, "${:.4f}"),
            ("max_tokens", self.config.max_tokens, self.tokens, "{:,} tokens"),
            ("max_time", self.config.max_time, self.seconds, "{:.0f} seconds"),
        )
        for key, most, used, form in limits:
            if most is not None and used >= most:
                return (
                    f"Stopped by the budget {self.config.path}.{key}: "
                    f"{form.format(used)} of {form.format(most)} are used up."
                )
        return None


@dataclass(slots=True)
class Budgets:
    """All pots of one session tree."""

    pots: Sequence[Pot] = field(default_factory=tuple)

    def charge(self, agent: str, usage: Usage) -> str | None:
        """Take a call from its agent's pots.

        Returns:
            What to warn of: the first call without a price under a ceiling on money; else None.
        """
        warning = None
        for pot in self._of(agent):
            pot.tokens += usage.input_tokens + usage.output_tokens
            pot.cost += usage.cost or 0.0
            if usage.cost is None and pot.config.max_cost is not None and not pot.unpriced:
                pot.unpriced = True
                warning = f"A call without a price does not count for {pot.config.path}.max_cost."
        return warning

    def pass_time(self, agent: str, seconds: float) -> None:
        """Take the time that an agent has worked."""
        for pot in self._of(agent):
            pot.seconds += seconds

    def stop(self, agent: str) -> str | None:
        """What to say when a pot of this agent is used up, else None."""
        return next((text for pot in self._of(agent) if (text := pot.stop()) is not None), None)

    def restore(self, items: Iterable[Item]) -> None:
        """Count what was stored."""
        for agent, usage in usages(items):
            self.charge(agent, usage)
        for pot in self.pots:
            pot.unpriced = False

    def _of(self, agent: str) -> list[Pot]:
        return [pot for pot in self.pots if pot.holds(agent)]


def pots_of(file: AgentFile) -> Budgets:
    """Empty pots for a new session tree."""
    pots = [Pot(file.budget)] if file.budget is not None else []
    for name, config in file.budgets.items():
        users = frozenset(agent.name for agent in file.agents.values() if name in agent.budgets)
        pots.append(Pot(config, users))
    return Budgets(pots)
