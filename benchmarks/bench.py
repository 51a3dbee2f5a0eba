"""`make bench`: Sluice beside an echo agent on the official Python SDK and a server of the standard library.

Prints the ratios first, then the figures, and writes `benchmarks/results.md`; what is known so far goes to stderr
meanwhile. Ratios are taken in one run on one machine; single figures say more about the machine than about any of the
three.
"""

from __future__ import annotations

import asyncio
import compileall
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

from benchmarks import stages
from benchmarks.driver import Driver
from benchmarks.seed import fill, long_session
from benchmarks.stages import typical

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
        self.load = os.getloadavg()[0]

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
        print(self.goals[-1].line, file=sys.stderr, flush=True)

    def figure(self, name: str, text: str) -> None:
        self.figures.append((name, text))
        print(f"  {name}: {text}", file=sys.stderr, flush=True)

    async def run(self) -> None:
        await self.start()
        await self.speed()
        await self.many()
        await self.storage()

    async def start(self) -> None:
        echo = {"sluice": self.sluice, "sdk": self.sdk, "raw": lambda: self.floor("floor_raw", "--echo")}
        began = await stages.fresh(echo, stages.nothing, 11)
        self.goal("spawn to initialize, of the SDK echo agent", stages.ratio(began, "sluice", "sdk", "start"), 0.30)
        self.compare("spawn to initialize", began, "start")
        self.compare("processor time until then", began, "start cpu")
        idle = await stages.fresh({"sluice": self.sluice, "sdk": self.sdk}, stages.memory, 3)
        ratio = stages.ratio(idle, "sluice", "sdk", "initialize")
        self.goal("memory after initialize, of the SDK echo agent", ratio, 1.0)
        self.goal("memory per further session", typical(idle["sluice"], "per session"), 100, "KiB")
        sizes = ", ".join(f"{name} {typical(found, 'initialize'):.0f} MiB" for name, found in idle.items())
        self.figure("memory after initialize", sizes)
        new = (await stages.fresh({"sluice": self.sluice}, stages.sessions))["sluice"]
        text = f"first {ms(typical(new, 'first'))}, later {ms(typical(new, 'later'))}"
        self.figure("session/new", text)

    async def speed(self) -> None:
        both = {"sluice": self.sluice, "raw": self.raw}
        for chunks in (2_000, 20_000):
            read = await stages.alternating(both, partial(stages.stream, chunks=chunks), 15 if chunks == 2_000 else 7)
            if chunks == 2_000:
                self.goal("2,000 chunks, of the raw server", stages.ratio(read, "sluice", "raw", "time"), 1.5)
                cpu = stages.ratio(read, "sluice", "raw", "cpu")
                self.goal("processor time per chunk, of the raw server", cpu, 2.0)
                self.compare("processor time per 1,000 chunks", read, "cpu")
            self.compare(f"{chunks:,} chunks", read, "time")
        short = await stages.alternating(both, stages.turns, 15)
        self.goal(
            "prompt round trip above the raw server", stages.above(short, "sluice", "raw", "time") * 1e3, 3, "ms"
        )
        self.compare("prompt round trip", short, "time")
        self.compare("processor time per turn", short, "cpu")
        tool = await stages.alternating({"sluice": self.sluice}, partial(stages.turns, text="TOOL", number=10))
        self.compare("turn with a tool call", tool, "time")
        delay = await stages.alternating(both, stages.latency, 7)
        self.compare("byte to update, p50", delay, "p50", 2)
        self.compare("byte to update, p99", delay, "p99", 2)
        ended = await stages.alternating(both, stages.cancel, 15)
        self.goal("cancel to response", typical(ended["sluice"], "time") * 1e3, 5, "ms")
        self.compare("cancel to response", ended, "time", 2)

    async def many(self) -> None:
        both = {"sluice": self.sluice, "raw": self.raw}
        for number in (1, 10, 50):
            rounds = 21 if number == 1 else stages.ROUNDS  # with one session a round is short
            rates = await stages.alternating(both, partial(stages.together, number=number), rounds)
            name = f"turns a second, {number} at once"
            self.goal(f"{name}, of the raw server", stages.ratio(rates, "sluice", "raw", "rate"), 0.5, at_least=True)
            self.figure(name, ", ".join(f"{who} {typical(found, 'rate'):.0f}" for who, found in rates.items()))
        async with stages.opened({"sluice": self.sluice}) as drivers:
            points = await stages.curve(drivers["sluice"])
        self.figure("MiB along 1,000 turns", " ".join(f"{point:.0f}" for point in points))

    async def storage(self) -> None:
        for name, number in (("few.db", 1_000), ("many.db", 100_000)):
            await fill(self.directory / name, str(self.directory), number)
        stores = {"100,000 stored": lambda: self.sluice("many.db"), "1,000 stored": lambda: self.sluice("few.db")}
        found = await stages.pages(stores)
        ratio = stages.ratio(found, "100,000 stored", "1,000 stored", "time")
        self.goal("a page of 100,000 sessions, of one of 1,000", ratio, 2.0)
        self.compare("session/list", found, "time", 2)
        session = await long_session(self.directory / "long.db", str(self.directory), 10_000)
        long = {"sluice": lambda: self.sluice("long.db")}
        loaded = (await stages.fresh(long, partial(stages.load, session=session), 7))["sluice"]
        time_, memory, updates = (typical(loaded, figure) for figure in ("time", "memory", "updates"))
        self.figure("session/load of 10,000 items", f"{ms(time_)}, {memory:.0f} MiB, {updates:.0f} updates")

    def compare(self, name: str, rounds: stages.Rounds, figure: str, digits: int = 1) -> None:
        """A figure in seconds, for each agent."""
        self.figure(name, ", ".join(f"{who} {ms(typical(found, figure), digits)}" for who, found in rounds.items()))

    def report(self) -> str:
        versions = ", ".join(f"{name} {version(name)}" for name in ("sluice-acp", "agent-client-protocol", "httpx"))
        machine = (
            f"{processor()}, {os.cpu_count()} processors, {platform.system()} {platform.release()}, "
            f"{platform.python_implementation()} {platform.python_version()}"
        )
        lines = [
            "# Results",
            "",
            f"{time.strftime('%Y-%m-%d')}. {machine}; {versions}. Load when it began: {self.load:.2f}.",
            "",
            "`make bench`. Medians; agents compared take turns; a ratio is the median of the rounds' ratios.",
            "",
            "| goal | measured | bound | |",
            "| --- | --- | --- | --- |",
            *(goal.line for goal in self.goals),
            "",
        ]
        lines += ["| figure | |", "| --- | --- |", *(f"| {name} | {text} |" for name, text in self.figures), ""]
        return "\n".join(lines)


def ms(seconds: float, digits: int = 1) -> str:
    return f"{seconds * 1e3:.{digits}f} ms"


def processor() -> str:
    """The processor's name where the system tells it, else its kind."""
    try:
        told = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in told.splitlines() if line.startswith("model name")]
    return names[0] if names else platform.machine()


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
    # As pip does for an installed package: a checkout may have no compiled files, and no right to write them.
    compileall.compile_dir(HERE.parent / "sluice", quiet=2)
    with model_server() as port, tempfile.TemporaryDirectory() as directory:
        bench = Bench(Path(directory), port)
        asyncio.run(bench.run())
    (HERE / "results.md").write_text(bench.report(), encoding="utf-8")
    print(f"\n{bench.report()}\nwritten: {HERE / 'results.md'}")


if __name__ == "__main__":
    main()
