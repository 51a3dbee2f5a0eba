from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

import pytest

from sluice.agent.attempts import LONGEST_WAIT, Attempts
from sluice.agent.events import Event, TextDelta, Warned
from sluice.agent.lineup import Alloy, Fallback, in_turn
from sluice.agent.outcome import TurnFailure
from sluice.agent.ports import Delta, ModelError, ModelRequest, ModelResponse

pytestmark = pytest.mark.anyio


class Playing:
    """A model that says or raises what it was given, in order."""

    def __init__(self, ref: str, *plays: str | ModelError) -> None:
        self.ref = ref
        self.context_size: int | None = None
        self.plays = list(plays)
        self.asked = 0
        self.closed = 0

    async def complete(self, request: ModelRequest, on_delta: Callable[[Delta], Awaitable[None]]) -> ModelResponse:
        self.asked += 1
        play = self.plays.pop(0) if self.plays else f"{self.ref} again"
        if isinstance(play, ModelError):
            if play.text.startswith("half"):
                await on_delta(Delta("content", "half"))
            raise play
        await on_delta(Delta("content", play))
        return ModelResponse(play)

    async def aclose(self) -> None:
        self.closed += 1


def broken(text: str = "down", *, code: str = "model_error", retryable: bool = False) -> ModelError:
    return ModelError(code, text, retryable=retryable)


async def ask(first: Playing, fallback: Fallback) -> tuple[str, list[Event]]:
    told: list[Event] = []

    async def sink(event: Event) -> None:
        told.append(event)

    response = await Attempts(first, sink, fallback).complete(ModelRequest([]))
    return response.text, told


@pytest.mark.requirement("models.ref.alloy")
def test_an_alloy_picks_any_member_for_a_turn_and_stays_with_it() -> None:
    members = [Playing("a"), Playing("b"), Playing("c")]
    alloy = Alloy(members, random.Random(7))
    picked = []
    for _ in range(30):
        alloy.pick()
        picked.append(in_turn(alloy))
        assert in_turn(alloy) is alloy.member
    assert set(map(id, picked)) == set(map(id, members))
    again = Alloy(members, random.Random(7))
    repeated = []
    for _ in range(30):
        again.pick()
        repeated.append(in_turn(again))
    assert repeated == picked


async def test_an_alloy_shows_the_window_of_its_member_and_closes_all() -> None:
    members = [Playing("a"), Playing("b")]
    members[0].context_size, members[1].context_size = 10, 20
    alloy = Alloy(members, random.Random(1))
    assert alloy.ref == "a,b"
    assert alloy.context_size == alloy.member.context_size
    await alloy.aclose()
    assert [member.closed for member in members] == [1, 1]


@pytest.mark.requirement("models.fallback.next-model", "models.fallback.visible-in-stream")
async def test_the_next_model_goes_on_with_a_warning_and_a_message_of_its_own() -> None:
    text, told = await ask(Playing("p", broken("half and gone")), Fallback((Playing("f", "whole"),)))
    assert text == "whole"
    first, warning, second = told
    assert isinstance(first, TextDelta)
    assert isinstance(second, TextDelta)
    assert isinstance(warning, Warned)
    assert (first.text, second.text, first.message != second.message) == ("half", "whole", True)
    assert warning.text == "p failed: half and gone; going on with f"


@pytest.mark.requirement("models.fallback.next-model")
async def test_a_fallback_that_worked_keeps_the_place_until_the_cooldown_is_over() -> None:
    now = 0.0
    first, second = Playing("p", broken()), Playing("f")
    fallback = Fallback((second,), cooldown=60, clock=lambda: now)
    await ask(first, fallback)
    now = 59.0
    assert (await ask(first, fallback))[0] == "f again"
    assert (first.asked, second.asked) == (1, 2)
    now = 60.0
    assert (await ask(first, fallback))[0] == "p again"
    assert (await ask(first, fallback))[0] == "p again"
    assert second.asked == 2


async def test_during_the_cooldown_the_others_are_still_there_when_the_fallback_fails() -> None:
    first, second, third = Playing("p", broken()), Playing("f", "ok", broken()), Playing("g")
    fallback = Fallback((second, third), clock=lambda: 0.0)
    await ask(first, fallback)
    assert (await ask(first, fallback))[0] == "g again"
    third.plays = [broken()]
    assert (await ask(first, fallback))[0] == "p again"
    assert (await ask(first, fallback))[0] == "p again"


async def test_another_model_in_the_first_place_ends_the_cooldown() -> None:
    fallback = Fallback((Playing("f"),), clock=lambda: 0.0)
    await ask(Playing("p", broken()), fallback)
    assert (await ask(Playing("q"), fallback))[0] == "q again"


@pytest.mark.requirement("models.fallback.overflow")
@pytest.mark.parametrize("code", ["context_exceeded", "request_too_large", "media_too_large"])
async def test_what_is_too_large_is_tried_neither_again_nor_elsewhere(code: str) -> None:
    first, second = Playing("p", broken(code=code, retryable=True)), Playing("f")
    with pytest.raises(TurnFailure) as caught:
        await ask(first, Fallback((second,)))
    assert (caught.value.failure.code, first.asked, second.asked) == (code, 1, 0)


async def test_when_all_have_failed_the_first_failure_is_told() -> None:
    first = Playing("p", broken("no credit", code="rate_limited"))
    with pytest.raises(TurnFailure) as caught:
        await ask(first, Fallback((Playing("f", broken("gone")), Playing("g", broken("gone too")))))
    assert caught.value.failure.code == "rate_limited"
    assert caught.value.failure.text == "no credit (and the other models of this agent failed too)"


@pytest.mark.requirement("models.fallback.retryable")
async def test_a_passing_failure_is_tried_again_on_the_same_model_first(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("sluice.agent.attempts.anyio.sleep", sleep)
    slow = ModelError("model_error", "later", retryable=True, retry_after=3600)
    first, second = Playing("p", broken(retryable=True), slow, broken(retryable=True), broken()), Playing("f")
    assert (await ask(first, Fallback((second,), retries=2)))[0] == "f again"
    assert (first.asked, second.asked) == (3, 1)
    assert 0.18 <= waits[0] <= 0.22
    assert waits[1:] == [LONGEST_WAIT]
    first.plays = [broken(retryable=True)]
    assert (await ask(first, Fallback((second,), retries=0)))[0] == "f again"
    assert len(waits) == 2
