"""`make bench`: Sluice beside an echo agent on the official Python SDK and a server of the standard library.

Prints the ratios first, then the figures, and writes `benchmarks/results.md`. Ratios are taken in one run on one
machine; single figures say more about the machine than about any of the three.
"""

from __future__ import annotations

import asyncio
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from benchmarks import stages
from benchmarks.driver import Driver
from benchmarks.seed import fill, long_session

HERE = Path(__file__).parent
PYTHON = sys.executable
AGENT = """\
agents:
  root: {model: m, instruction: Answer., toolsets: [{type: think}]}
models:
  m: {provider: openai, model: bench, base_url: "%s"}
"""


@dataclass(frozen=True)
class Goal:
    """A figure with its bound; `measured` and `bound` are in the same unit."""

    name: str
    measured: float
    bound: float
    unit: str
    at_least: bool = False

    @property
    def line(self) -> str:
        met = self.measured >= self.bound if self.at_least else self.measured <= self.bound
        sign = "at least" if self.at_least else "at most"
        verdict = "met" if met else f"missed by {abs(self.measured / self.bound - 1):.0%}"
        return f"| {self.name} | {self.measured:.3g} {self.unit} | {sign} {self.bound:g} | {verdict} |"


class Bench:
    """The three agents, on one model server and one directory."""

    def __init__(self, directory: Path, port: str) -> None:
        self.directory = directory
        self.environment = {"OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1", "PYTHONPATH": str(HERE.parent)}
        self.file = directory / "agent.yaml"
        self.file.write_text(AGENT % self.environment["OPENAI_BASE_URL"])
        self.goals: list[Goal] = []
        self.figures: list[tuple[str, str]] = []

    def sluice(self, database: str = "bench.db") -> Driver:
        command = [PYTHON, "-m", "sluice", "serve", "acp", str(self.file), "-s", str(self.directory / database)]
        return Driver(command, self.environment, self.directory)

    def floor(self, name: str, *arguments: str) -> Driver:
        return Driver([PYTHON, str(HERE / f"{name}.py"), *arguments], self.environment, self.directory)

    def raw(self) -> Driver:
        return self.floor("floor_raw")

    def sdk(self) -> Driver:
        return self.floor("floor_sdk")

    def goal(self, name: str, measured: float, bound: float, unit: str = "x", *, at_least: bool = False) -> None:
        self.goals.append(Goal(name, measured, bound, unit, at_least))
        print(self.goals[-1].line, flush=True)

    def figure(self, name: str, text: str) -> None:
        self.figures.append((name, text))
        print(f"  {name}: {text}", flush=True)

    async def run(self) -> None:
        await self.start()
        await self.speed()
        await self.many()
        await self.storage()

    async def start(self) -> None:
        times = await stages.cold(
            {"sluice": self.sluice, "sdk": self.sdk, "raw": lambda: self.floor("floor_raw", "--echo")}
        )
        self.goal("spawn to initialize, of the SDK echo agent", times["sluice"] / times["sdk"], 0.30)
        self.figure("spawn to initialize", ", ".join(f"{name} {value * 1e3:.0f} ms" for name, value in times.items()))
        ours, sdk = await stages.idle_memory(self.sluice), await stages.idle_memory(self.sdk)
        self.goal("memory after initialize, of the SDK echo agent", ours["initialize"] / sdk["initialize"], 1.0)
        self.goal("memory per further session", ours["per session"], 100, "KiB")
        self.figure(
            "memory", f"sluice {ours['initialize']:.0f} MiB, SDK {sdk['initialize']:.0f} MiB after initialize"
        )
        new = await stages.sessions(self.sluice)
        self.figure("session/new", f"first {new['first'] * 1e3:.0f} ms, later {new['later'] * 1e3:.1f} ms")

    async def speed(self) -> None:
        ours, raw = await stages.stream(self.sluice, 2000), await stages.stream(self.raw, 2000)
        self.goal("2,000 chunks, of the raw server", ours["time"] / raw["time"], 1.5)
        self.goal("processor time per chunk, of the raw server", ours["cpu"] / raw["cpu"], 2.0)
        self.figure("2,000 chunks", f"sluice {ours['time'] * 1e3:.0f} ms, raw {raw['time'] * 1e3:.0f} ms")
        self.figure("processor s per 1,000", f"sluice {ours['cpu']:.3f}, raw {raw['cpu']:.3f}")
        big = await stages.stream(self.sluice, 20_000, 3)
        self.figure("20,000 chunks", f"{big['time'] * 1e3:.0f} ms, {20_000 / big['time']:,.0f} a second")
        ours, raw = await stages.turns(self.sluice), await stages.turns(self.raw)
        self.goal("prompt round trip above the raw server", (ours["time"] - raw["time"]) * 1e3, 3, "ms")
        self.figure("round trip", f"sluice {ours['time'] * 1e3:.1f} ms, raw {raw['time'] * 1e3:.1f} ms")
        tool = await stages.turns(self.sluice, "TOOL", 20)
        self.figure("turn with a tool call", f"{tool['time'] * 1e3:.1f} ms")
        delay = await stages.latency(self.sluice)
        self.figure("byte to update", f"p50 {delay['p50'] * 1e3:.2f} ms, p99 {delay['p99'] * 1e3:.2f} ms")
        self.goal("cancel to response", await stages.cancel(self.sluice) * 1e3, 5, "ms")

    async def many(self) -> None:
        for number in (1, 10, 50):
            ours, raw = await stages.together(self.sluice, number), await stages.together(self.raw, number)
            self.goal(f"turns a second, {number} at once, of the raw server", ours / raw, 0.5, at_least=True)
            self.figure(f"turns a second, {number} at once", f"sluice {ours:.0f}, raw {raw:.0f}")
        points = await stages.curve(self.sluice)
        self.figure("MiB along 1,000 turns", " ".join(f"{point:.0f}" for point in points))

    async def storage(self) -> None:
        for name, number in (("few.db", 1_000), ("many.db", 100_000)):
            await fill(self.directory / name, str(self.directory), number)
        few, many = (
            await stages.page(lambda: self.sluice("few.db")),
            await stages.page(lambda: self.sluice("many.db")),
        )
        self.goal("a page of 100,000 sessions, of one of 1,000", many / few, 2.0)
        self.figure("session/list", f"1,000 stored {few * 1e3:.1f} ms, 100,000 stored {many * 1e3:.1f} ms")
        session = await long_session(self.directory / "long.db", str(self.directory), 10_000)
        loaded = await stages.load(lambda: self.sluice("long.db"), session)
        text = f"{loaded['time'] * 1e3:.0f} ms, {loaded['memory']:.0f} MiB, {loaded['updates']:.0f} updates"
        self.figure("session/load of 10,000 items", text)

    def report(self) -> str:
        versions = ", ".join(f"{name} {version(name)}" for name in ("sluice-acp", "agent-client-protocol", "httpx"))
        machine = f"{platform.machine()}, {platform.python_implementation()} {platform.python_version()}"
        lines = ["# Results", "", f"{time.strftime('%Y-%m-%d')}, {machine}, {versions}. Medians; `make bench`.", ""]
        lines += [
            "| goal | measured | bound | |",
            "| --- | --- | --- | --- |",
            *(goal.line for goal in self.goals),
            "",
        ]
        lines += ["| figure | |", "| --- | --- |", *(f"| {name} | {text} |" for name, text in self.figures), ""]
        return "\n".join(lines)


@contextmanager
def model_server() -> Iterator[str]:
    """The model server as a process; gives its port."""
    command = [PYTHON, "-m", "benchmarks.model_server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=HERE.parent) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def main() -> None:
    with model_server() as port, tempfile.TemporaryDirectory() as directory:
        bench = Bench(Path(directory), port)
        asyncio.run(bench.run())
    (HERE / "results.md").write_text(bench.report(), encoding="utf-8")
    print(f"\nwritten: {HERE / 'results.md'}")


if __name__ == "__main__":
    main()
