"""Breadth-first search of the composed machines.

    python -m tests.machines.search [--full] [--mcp]

It walks every interleaving of requests, completions, failures, late completions and end of input at small bounds,
checks the sentences of `model.SENTENCES` in every state and on every edge, and on a violation names the sentence and
a shortest path. Rows, admission, coupling, verdicts and answers are the real tables.
"""

from __future__ import annotations

import argparse
import sys
import time
from array import array
from typing import NamedTuple

from sluice.machines import ALL, rows

from .composition import Composition, Key, Limits
from .model import Bounds, Session, Violation

FINAL = ("closed", "shutdown_failed")


class Found(NamedTuple):
    """A violation, and the labels of a shortest path to it. `states`: how many break the sentence (11, 12)."""

    violation: Violation
    path: list[str]
    states: int = 1

    def __str__(self) -> str:
        return f"{self.violation}\n  " + "\n  ".join(self.path)


class Report(NamedTuple):
    """What a search saw; `found` is None when every sentence held."""

    states: int
    edges: int
    depth: int
    found: Found | None
    local_states: int
    never_taken: list[tuple[str, str, str]]


class Walk:
    """The states in the order in which they were found, how they were reached, and all edges between them."""

    def __init__(self, composition: Composition) -> None:
        self.composition = composition
        start = composition.initial()
        self.numbers: dict[Key, int] = {start: 0}
        self.order: list[Key] = [start]
        self.parent = array("i", [-1])
        self.label: list[str] = [""]
        self.sources, self.targets = array("i"), array("i")
        self.progress = array("b")
        self.depth = 0

    def run(self) -> Found | None:
        """Finds every state; stops at the first violation, which is one of those that are reached soonest."""
        level_ends, index = 1, 0
        while index < len(self.order):
            if index == level_ends:
                self.depth, level_ends = self.depth + 1, len(self.order)
            for label, progress, target in self.composition.successors(self.order[index]):
                if isinstance(target, Violation):
                    return Found(target, [*self.path(index), label])
                if self._edge(index, label, progress, target):
                    broken = self.composition.broken(target)
                    if broken is not None:
                        return Found(broken, self.path(len(self.order) - 1))
            index += 1
        return None

    def _edge(self, index: int, label: str, progress: bool, target: Key) -> bool:
        """Notes an edge; returns whether its target is new. An edge back to its own state is none."""
        number = self.numbers.get(target)
        if number == index:
            return False
        new = number is None
        if number is None:
            number = self.numbers[target] = len(self.order)
            self.order.append(target)
            self.parent.append(index)
            self.label.append(label)
        self.sources.append(index)
        self.targets.append(number)
        self.progress.append(progress)
        return new

    def path(self, index: int) -> list[str]:
        """The labels from the start to a state."""
        labels = []
        while index > 0:
            labels.append(self.label[index])
            index = self.parent[index]
        return labels[::-1]

    def reaching(self, goals: list[bool], *, only_progress: bool) -> list[bool]:
        """Which states have a path to a goal, over all edges or over progress alone."""
        start = array("i", bytes(array("i").itemsize * (len(self.order) + 1)))
        for target, progress in zip(self.targets, self.progress, strict=True):
            start[target + 1] += progress or not only_progress
        for number in range(len(self.order)):
            start[number + 1] += start[number]
        fill = array("i", start)
        before = array("i", bytes(array("i").itemsize * start[-1]))
        for source, target, progress in zip(self.sources, self.targets, self.progress, strict=True):
            if progress or not only_progress:
                before[fill[target]] = source
                fill[target] += 1
        reached = list(goals)
        todo = [number for number, goal in enumerate(goals) if goal]
        while todo:
            number = todo.pop()
            for source in before[start[number] : start[number + 1]]:
                if not reached[source]:
                    reached[source] = True
                    todo.append(source)
        return reached

    def unreached(self, sentence: int, goals: list[bool], *, only_progress: bool) -> Found | None:
        """The state found first that has no path to a goal, as a violation."""
        reached = self.reaching(goals, only_progress=only_progress)
        lost = [number for number, ok in enumerate(reached) if not ok]
        if not lost:
            return None
        connection = self.composition.connection(self.order[lost[0]])
        first, second = self.composition.sessions(self.order[lost[0]])
        detail = f"{len(lost)} stuck states, the first: {_shown(connection)}; A {_shown(first)}; B {_shown(second)}"
        return Found(Violation(sentence, detail), self.path(lost[0]), len(lost))


def _shown(of: tuple[object, ...]) -> str:
    fields: tuple[str, ...] = getattr(of, "_fields")  # noqa: B009 -- NamedTuples of two kinds
    return ", ".join(
        f"{name} {value}" for name, value in zip(fields, of, strict=True) if value not in (None, "", False)
    )


def at_rest(composition: Composition, key: Key) -> bool:
    """Whether nothing here is on its way: what is left is waiting for a client, a model or a command."""
    connection = composition.connection(key)
    moving = connection.initializing or connection.authenticating or connection.deletion == "held"
    if moving or connection.state in ("logging_out", "shutting_down"):
        return False
    return all(_session_at_rest(session) for session in composition.sessions(key))


def _session_at_rest(s: Session) -> bool:
    return not (
        s.state in ("closing", "deleting", "removing")
        or s.turn in ("draining", "queued", "closing")
        or s.task == "cancelling"
        or s.terminal in ("abandoned", "killing", "releasing", "last_attempt")
        or s.mcp == "retiring"
    )


def search(composition: Composition) -> Report:
    """Walks everything and checks every sentence; the two about reachability only if the others hold."""
    walk = Walk(composition)
    found = walk.run()
    if found is None:
        resting = [at_rest(composition, key) for key in walk.order]
        found = walk.unreached(12, resting, only_progress=True)
    if found is None:
        finals = [composition.connection(key).state in FINAL for key in walk.order]
        found = walk.unreached(11, finals, only_progress=False)
    declared = {(name, row.source, row.event) for name, cls in ALL.items() for row in rows(cls)}
    return Report(
        len(walk.order),
        len(walk.sources),
        walk.depth,
        found,
        composition.local_states,
        sorted(declared - composition.taken),
    )


def main() -> None:
    """Runs one search and says what it saw; exits with status 1 on a violation."""
    parser = argparse.ArgumentParser(description="Search the composed machines for violations of the invariants.")
    parser.add_argument("--full", action="store_true", help="let the second session own calls, a terminal and a task")
    parser.add_argument("--mcp", action="store_true", help="give each session an MCP server")
    options = parser.parse_args()
    second = Bounds(work=options.full, mcp=options.mcp and options.full)
    began = time.perf_counter()
    report = search(Composition(Limits(Bounds(mcp=options.mcp), second)))
    seconds = time.perf_counter() - began
    lines = [
        f"{report.states:,} states, {report.edges:,} edges, depth {report.depth}, "
        f"{report.local_states:,} states of a session, {seconds:.1f} s",
        "never taken: " + "; ".join(" ".join(row) for row in report.never_taken),
        "no violation" if report.found is None else str(report.found),
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    raise SystemExit(report.found is not None)


if __name__ == "__main__":
    main()
