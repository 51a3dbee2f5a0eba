"""What is measured. Each stage gets drivers and gives figures; every comparison is made in one run, turn by turn."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.driver import Driver

Make = Callable[[], Driver]
Figures = dict[str, float]

RUNS = 7


def median(values: list[float]) -> float:
    return statistics.median(values)


async def cold(agents: dict[str, Make]) -> dict[str, float]:
    """Seconds from spawn to the answer to initialize, for each agent in turn."""
    times: dict[str, list[float]] = {name: [] for name in agents}
    for _ in range(RUNS):
        for name, make in agents.items():
            begun = time.monotonic()
            async with make() as driver:
                await driver.call("initialize", protocolVersion=1, clientCapabilities={})
                times[name].append(time.monotonic() - begun)
    return {name: median(values) for name, values in times.items()}


async def idle_memory(make: Make) -> Figures:
    """MiB after initialize (and whatever it does behind its answer), then KiB per further idle session."""
    async with make() as driver:
        await driver.call("initialize", protocolVersion=1, clientCapabilities={})
        await asyncio.sleep(1.5)
        after = driver.memory()
        await driver.new()
        one = driver.memory()
        for _ in range(50):
            await driver.new()
        return {"initialize": after, "one session": one, "per session": (driver.memory() - one) * 1024 / 50}


async def sessions(make: Make) -> Figures:
    """Seconds of the first session/new of a process, and of later ones."""
    async with make() as driver:
        await driver.call("initialize", protocolVersion=1, clientCapabilities={})
        begun = time.monotonic()
        await driver.new()
        first, later = time.monotonic() - begun, []
        for _ in range(10):
            begun = time.monotonic()
            await driver.new()
            later.append(time.monotonic() - begun)
        return {"first": first, "later": median(later)}


async def turns(make: Make, text: str = "ping", number: int = 50) -> Figures:
    """Median seconds of a short turn, and processor seconds per turn."""
    async with make() as driver:
        session, times = await driver.open(), []
        for _ in range(3):
            await driver.prompt(session, text)
        cpu = driver.cpu()
        for _ in range(number):
            begun = time.monotonic()
            await driver.prompt(session, text)
            times.append(time.monotonic() - begun)
        return {"time": median(times), "cpu": (driver.cpu() - cpu) / number}


async def stream(make: Make, chunks: int, runs: int = RUNS) -> Figures:
    """Median seconds for a stream of chunks as fast as they come, and processor seconds per 1,000 chunks."""
    async with make() as driver:
        session, times, cpus = await driver.open(), [], []
        await driver.prompt(session, "CHUNKS 100")
        for _ in range(runs):
            seen: list[str] = []
            driver.on_update = partial(_collect, seen)
            cpu, begun = driver.cpu(), time.monotonic()
            await driver.prompt(await driver.new(), f"CHUNKS {chunks}")
            times.append(time.monotonic() - begun)
            cpus.append((driver.cpu() - cpu) * 1000 / chunks)
            assert "".join(seen) == "".join(f"w{n} " for n in range(chunks)), "the text did not arrive whole"
        return {"time": median(times), "cpu": median(cpus)}


async def latency(make: Make, chunks: int = 500) -> Figures:
    """Seconds from the model server's byte to the client's update, at 2 ms a chunk."""
    async with make() as driver:
        session, delays = await driver.open(), list[float]()

        def note(update: dict[str, Any]) -> None:
            now = time.monotonic_ns()
            delays.extend((now - int(stamp)) / 1e9 for stamp in _text(update).replace("@", " ").split())

        driver.on_update = note
        await driver.prompt(session, f"CHUNKS {chunks} 2")
        delays.sort()
        return {"p50": delays[len(delays) // 2], "p99": delays[int(len(delays) * 0.99)]}


async def together(make: Make, number: int, each: int = 20) -> float:
    """Turns a second with `number` sessions at once."""
    async with make() as driver:
        await driver.call("initialize", protocolVersion=1, clientCapabilities={})
        opened = [await driver.new() for _ in range(number)]

        async def talk(session: str) -> None:
            for _ in range(each):
                await driver.prompt(session, "ping")

        await asyncio.gather(*(driver.prompt(session, "ping") for session in opened))
        begun = time.monotonic()
        await asyncio.gather(*map(talk, opened))
        return number * each / (time.monotonic() - begun)


async def cancel(make: Make) -> float:
    """Median seconds from session/cancel in the middle of a stream to the response."""
    async with make() as driver:
        session, times = await driver.open(), []
        for _ in range(RUNS):
            speaking = asyncio.Event()
            driver.on_update = partial(_first, speaking)
            turn = driver.prompt(session, "CHUNKS 2000 5")
            await speaking.wait()
            begun = time.monotonic()
            driver.cancel(session)
            response = await turn
            times.append(time.monotonic() - begun)
            assert response["result"]["stopReason"] == "cancelled", response
        return median(times)


async def page(make: Make) -> float:
    """Median seconds of the first page of session/list."""
    async with make() as driver:
        await driver.call("initialize", protocolVersion=1, clientCapabilities={})
        times = []
        for _ in range(RUNS * 3):
            begun = time.monotonic()
            await driver.call("session/list")
            times.append(time.monotonic() - begun)
        return median(times)


async def load(make: Make, session: str) -> Figures:
    """Seconds and MiB of loading a long session."""
    async with make() as driver:
        await driver.call("initialize", protocolVersion=1, clientCapabilities={})
        count = 0

        def note(update: dict[str, Any]) -> None:
            nonlocal count
            count += 1

        driver.on_update = note
        begun = time.monotonic()
        await driver.call("session/load", sessionId=session, cwd=str(driver.cwd), mcpServers=[])
        return {"time": time.monotonic() - begun, "memory": driver.memory(), "updates": count}


async def curve(make: Make, number: int = 1000) -> list[float]:
    """Resident MiB along `number` turns in one process, at eleven points; a new session every 20 turns."""
    async with make() as driver:
        await driver.call("initialize", protocolVersion=1, clientCapabilities={})
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
