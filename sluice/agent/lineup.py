"""Which model answers next when an agent has several: alloys, and fallbacks with their cooldown.

An alloy is one model to everybody but the turn, which picks a member when it begins and stays with it, so that one
turn's tool calls and their results are seen by one model. A fallback that worked keeps the first model's place for a
while: a provider that has just failed would only make every further call wait.

Source: requirements models.ref.alloy, models.fallback.next-model.
"""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from sluice.agent.ports import Delta, Model, ModelRequest, ModelResponse

__all__ = ["Alloy", "Fallback", "in_turn"]


class Alloy:
    """Several models that take turns at random.

    Attributes:
        member: the one that answers in the present turn.
    """

    def __init__(self, members: Sequence[Model], rng: random.Random | None = None) -> None:
        """Pick a first member.

        Args:
            members: at least one.
            rng: what picks; None for one of its own.
        """
        self._members = tuple(members)
        self._random = rng or random.Random()
        self.member = self._members[0]
        self.pick()

    def pick(self) -> None:
        """Let any member answer from now on; called when a turn begins."""
        self.member = self._random.choice(self._members)

    @property
    def ref(self) -> str:
        """The references of all members, with commas."""
        return ",".join(member.ref for member in self._members)

    @property
    def context_size(self) -> int | None:
        """The window of the member in turn."""
        return self.member.context_size

    async def complete(self, request: ModelRequest, on_delta: Callable[[Delta], Awaitable[None]]) -> ModelResponse:
        """Ask the member in turn."""
        return await self.member.complete(request, on_delta)

    async def aclose(self) -> None:
        """Close all members."""
        for member in self._members:
            await member.aclose()


def in_turn(model: Model) -> Model:
    """The model that really answers: an alloy's member in turn, else the model itself."""
    return model.member if isinstance(model, Alloy) else model


@dataclass(slots=True)
class Fallback:
    """The models to turn to when an agent's own fails, and the one that has its place for now.

    Attributes:
        models: in the order in which they are tried.
        retries: how often one model is asked again after a passing failure.
        cooldown: seconds that a fallback keeps the first model's place.
        clock: seconds that only grow.
    """

    models: tuple[Model, ...] = ()
    retries: int = 2
    cooldown: float = 60.0
    clock: Callable[[], float] = time.monotonic
    _instead_of: Model | None = field(default=None, repr=False)
    _pinned: Model | None = field(default=None, repr=False)
    _until: float = 0.0

    def order(self, first: Model) -> list[Model]:
        """The models to ask, in order; each once. A change of the agent's own model ends the pin on the old one."""
        order = [first, *self.models]
        if self._pinned is None or self._instead_of is not first or self.clock() >= self._until:
            return order
        place = order.index(self._pinned)
        return order[place:] + order[:place]

    def answered(self, first: Model, model: Model, *, failed: bool) -> None:
        """Take note of who answered; `failed` says that another model was asked before and failed."""
        if model is first:
            self._pinned = None
        elif failed:
            self._instead_of, self._pinned, self._until = first, model, self.clock() + self.cooldown
