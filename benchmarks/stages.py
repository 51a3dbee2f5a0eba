"""What is measured. Agents that are compared take turns, round by round, so that whatever else the machine does hits
all of them alike; a ratio is the median of the rounds' own ratios.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from benchmarks.driver import Driver

Make = Callable[[], Driver]
Figures = dict[str, float]
Rounds = dict[str, list[Figures]]
"""agent -> what each round measured, in the same order for every agent."""

ROUNDS = 9
median = statistics.median


def typical(rounds: list[Figures], figure: str) -> float:
    """The median of one figure."""
    return median(found[figure] for found in rounds)


def ratio(rounds: Rounds, ours: str, theirs: str, figure: str) -> float:
    """The median of the ratios of one figure, round by round."""
    return median(a[figure] / b[figure] for a, b in zip(rounds[ours], rounds[theirs], strict=True))


def above(rounds: Rounds, ours: str, theirs: str, figure: str) -> float:
    """The median of the differences of one figure, round by round."""
    return median(a[figure] - b[figure] for a, b in zip(rounds[ours], rounds[theirs], strict=True))


async def fresh(
    agents: Mapping[str, Make], measure: Callable[[Driver], Awaitable[Figures]], rounds: int = ROUNDS
) -> Rounds:
    """Measure processes that are new in each round; the first round is thrown away (files come from the disk)."""
    found: Rounds = {name: [] for name in agents}
    for number in range(rounds + 1):
        for name, make in agents.items():
            begun = time.monotonic()
            async with make() as driver:
                await driver.call("initialize", protocolVersion=1, clientCapabilities={})
                started = {"start": time.monotonic() - begun, "start cpu": driver.cpu()}
                figures = started | await measure(driver)
            if number:
                found[name].append(figures)
    return found


@asynccontextmanager
async def opened(agents: Mapping[str, Make], warm: str = "ping") -> AsyncIterator[dict[str, Driver]]:
    """The agents running, each with one session behind it that has had a few turns."""
    async with AsyncExitStack() as stack:
        drivers = {name: await stack.enter_async_context(make()) for name, make in agents.items()}
        for driver in drivers.values():
            session = await driver.open()
            for _ in range(5):
                await driver.prompt(session, warm)
        yield drivers


async def alternating(
    agents: Mapping[str, Make],
    measure: Callable[[Driver], Awaitable[Figures]],
    rounds: int = ROUNDS,
    warm: str = "ping",
) -> Rounds:
    """Measure running processes in turn; the first round is thrown away."""
    async with opened(agents, warm) as drivers:
        found: Rounds = {name: [] for name in drivers}
        for number in range(rounds + 1):
            for name, driver in drivers.items():
                driver.on_update = lambda update: None
                figures = await measure(driver)
                if number:
                    found[name].append(figures)
        return found


# --- measures of a new process, after initialize ------------------------------------------------------------------


async def nothing(driver: Driver) -> Figures:
    """Only the start."""
    return {}


async def memory(driver: Driver) -> Figures:
    """MiB after initialize (and whatever it does behind its answer), then KiB per further idle session."""
    await asyncio.sleep(1.5)
    after = driver.memory()
    await driver.new()
    one = driver.memory()
    for _ in range(50):
        await driver.new()
    return {"initialize": after, "per session": (driver.memory() - one) * 1024 / 50}


async def sessions(driver: Driver) -> Figures:
    """Seconds of the first session/new of a process, and of later ones."""
    begun = time.monotonic()
    await driver.new()
    first, later = time.monotonic() - begun, []
    for _ in range(10):
        begun = time.monotonic()
        await driver.new()
        later.append(time.monotonic() - begun)
    return {"first": first, "later": median(later)}


async def load(driver: Driver, session: str) -> Figures:
    """Seconds and MiB of loading a long session."""
    seen: list[None] = []
    driver.on_update = lambda update: seen.append(None)
    begun = time.monotonic()
    await driver.call("session/load", sessionId=session, cwd=str(driver.cwd), mcpServers=[])
    return {"time": time.monotonic() - begun, "memory": driver.memory(), "updates": len(seen)}


# --- measures of a running process --------------------------------------------------------------------------------


async def turns(driver: Driver, text: str = "ping", number: int = 20) -> Figures:
    """Median seconds of a short turn in a new session, and processor seconds per turn."""
    session, times = await driver.new(), []
    await driver.prompt(session, text)
    cpu = driver.cpu()
    for _ in range(number):
        begun = time.monotonic()
        await driver.prompt(session, text)
        times.append(time.monotonic() - begun)
    return {"time": median(times), "cpu": (driver.cpu() - cpu) / number}


async def stream(driver: Driver, chunks: int) -> Figures:
    """Seconds for a stream of chunks as fast as they come, and processor seconds per 1,000 chunks."""
    seen: list[str] = []
    driver.on_update = partial(_collect, seen)
    session = await driver.new()
    cpu, begun = driver.cpu(), time.monotonic()
    await driver.prompt(session, f"CHUNKS {chunks}")
    taken, used = time.monotonic() - begun, driver.cpu() - cpu
    assert "".join(seen) == "".join(f"w{n} " for n in range(chunks)), "the text did not arrive whole"
    return {"time": taken, "cpu": used * 1000 / chunks}


async def latency(driver: Driver, chunks: int = 400) -> Figures:
    """Seconds from the model server's byte to the client's update, at 2 ms a chunk."""
    delays = list[float]()

    def note(update: dict[str, Any]) -> None:
        now = time.monotonic_ns()
        delays.extend((now - int(stamp)) / 1e9 for stamp in _text(update).replace("@", " ").split())

    driver.on_update = note
    await driver.prompt(await driver.new(), f"CHUNKS {chunks} 2")
    delays.sort()
    return {"p50": delays[len(delays) // 2], "p99": delays[int(len(delays) * 0.99)]}


async def together(driver: Driver, number: int) -> Figures:
    """Turns a second with `number` new sessions at once, at most 300 turns in all.

    Few in each session, as in `turns`: the whole history is sent each time, which is another thing to measure.
    """
    each = min(20, 300 // number)
    sessions = [await driver.new() for _ in range(number)]

    async def talk(session: str) -> None:
        for _ in range(each):
            await driver.prompt(session, "ping")

    await asyncio.gather(*(driver.prompt(session, "ping") for session in sessions))
    begun = time.monotonic()
    await asyncio.gather(*map(talk, sessions))
    return {"rate": number * each / (time.monotonic() - begun)}


async def cancel(driver: Driver) -> Figures:
    """Seconds from session/cancel in the middle of a stream to the response."""
    speaking = asyncio.Event()
    session = await driver.new()
    driver.on_update = partial(_first, speaking)
    turn = driver.prompt(session, "CHUNKS 2000 5")
    await speaking.wait()
    begun = time.monotonic()
    driver.cancel(session)
    response = await turn
    taken = time.monotonic() - begun
    assert response["result"]["stopReason"] == "cancelled", response
    return {"time": taken}


async def page(driver: Driver) -> Figures:
    """Median seconds of the first page of session/list."""
    times = []
    for _ in range(5):
        begun = time.monotonic()
        await driver.call("session/list")
        times.append(time.monotonic() - begun)
    return {"time": median(times)}


async def pages(agents: Mapping[str, Make]) -> Rounds:
    """`page` of each store in turn; the stores are left as they are."""
    async with AsyncExitStack() as stack:
        drivers = {name: await stack.enter_async_context(make()) for name, make in agents.items()}
        for driver in drivers.values():
            await driver.call("initialize", protocolVersion=1, clientCapabilities={})
            await page(driver)
        found: Rounds = {name: [] for name in drivers}
        for _ in range(ROUNDS):
            for name, driver in drivers.items():
                found[name].append(await page(driver))
        return found


async def curve(driver: Driver, number: int = 1000) -> list[float]:
    """Resident MiB along `number` turns in one process, at eleven points; a new session every 20 turns."""
    points, session = [], ""
    for turn in range(number + 1):
        if turn % (number // 10) == 0:
            points.append(driver.memory())
        if turn % 20 == 0:
            if session:
                await driver.call("session/close", sessionId=session)
            session = await driver.new()
        await driver.prompt(session, "ping")
    return points


def _collect(seen: list[str], update: dict[str, Any]) -> None:
    seen.append(_text(update))


def _first(speaking: asyncio.Event, update: dict[str, Any]) -> None:
    if _text(update):
        speaking.set()


def _text(update: dict[str, Any]) -> str:
    return str(update["content"]["text"]) if update["sessionUpdate"] == "agent_message_chunk" else ""
