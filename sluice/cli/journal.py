"""`sluice journal FILE`: what happened in one process or several, as a timeline, as a sequence diagram, or checked
against the machines.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from sluice.cli.reasons import reason
from sluice.persistence.journal import Began, Entry, Frame, JournalError, Taken, read

__all__ = ["checked", "journal", "mermaid", "timeline"]

ARROWS = {"in": "→", "out": "←"}


def journal(options: argparse.Namespace) -> int:
    """Read a journal. Returns 0, or 1 when it is broken or, with `--check`, holds a foreign transition."""
    try:
        entries = list(read(Path(options.file)))
    except (OSError, JournalError) as error:
        where = "" if isinstance(error, OSError) else f"{options.file}: "
        print(f"sluice: {where}{reason(error)}", file=sys.stderr)
        return 1
    if options.check:
        return _check(options.file, entries)
    print("\n".join(mermaid(entries) if options.mermaid else timeline(entries)))
    return 0


def _check(file: str, entries: list[tuple[int, Entry]]) -> int:
    transitions = sum(isinstance(entry, Taken) for _, entry in entries)
    for number, why in checked(entries):
        print(f"sluice: {file}:{number}: {why}", file=sys.stderr)
        return 1
    print(f"{transitions} transitions, 0 foreign")
    return 0


def checked(entries: list[tuple[int, Entry]]) -> Iterator[tuple[int, str]]:
    """Each transition that the machines do not have, or that does not begin where the one before it ended.

    Every process has machines of its own, also one whose id was that of an earlier process.
    """
    from sluice.machines.table import TABLES

    processes: dict[int, dict[tuple[str, str], str]] = {}
    for number, entry in entries:
        if isinstance(entry, Began):
            processes[entry.process] = {}
        if not isinstance(entry, Taken):
            continue
        states = processes.setdefault(entry.process, {})
        table = TABLES.get(entry.machine)
        if table is None:
            yield number, f"there is no machine {entry.machine!r}"
            continue
        step = f"{entry.machine} {entry.key}: {entry.source} --{entry.event}--> {entry.target}"
        if table.rows.get((entry.source, entry.event)) != entry.target:
            yield number, f"not a row of the machine: {step}"
        before = states.get((entry.machine, entry.key), table.initial)
        ended = not any(source == before for source, _ in table.rows)
        # A name may be used again after its machine has ended: a reopened session has a new turn.
        if entry.source != before and not (ended and entry.source == table.initial):
            yield number, f"the machine was in {before}: {step}"
        states[entry.machine, entry.key] = entry.target


def timeline(entries: list[tuple[int, Entry]]) -> Iterator[str]:
    """One line an entry: time, then what came, went or changed. A change of process has a line of its own."""
    before = 0
    for _, entry in entries:
        if isinstance(entry, Began):
            before = entry.process
            yield f"process {entry.process}, {entry.began}, sluice {entry.version}"
            continue
        if entry.process != before:
            before = entry.process
            yield f"process {entry.process}"
        if isinstance(entry, Taken):
            what = f"    {entry.machine} {entry.key[:12]}: {entry.source} → {entry.target} ({entry.event})"
        else:
            name = entry.method or f"({entry.kind})"
            number = f" #{entry.id}" if entry.id else ""
            what = f"{ARROWS.get(entry.direction, '?')} {name}{number} [{entry.size} bytes]"
            if entry.body:
                what += f"\n{'':>12}{entry.body}"
        yield f"{entry.at:10.4f}  {what}"


def mermaid(entries: list[tuple[int, Entry]]) -> Iterator[str]:
    """A sequence diagram of client and agent, with the machines' transitions as notes; runs of updates are folded."""
    yield "sequenceDiagram"
    yield "    participant client"
    yield "    participant agent"
    folded = 0
    for _, entry in entries:
        update = isinstance(entry, Frame) and entry.method == "session/update"
        if not update and folded:
            yield f"    agent-->>client: session/update × {folded}"
            folded = 0
        if update:
            folded += 1
        elif isinstance(entry, Began):
            yield f"    Note over client,agent: process {entry.process}, {entry.began}"
        elif isinstance(entry, Taken):
            key = f" {entry.key[:8]}" if entry.key != entry.machine else ""
            yield f"    Note over agent: {entry.machine}{key}: {entry.source} → {entry.target}"
        else:
            ends = "client->>agent" if entry.direction == "in" else "agent->>client"
            number = f" #{entry.id}" if entry.id else ""
            yield f"    {ends}: {entry.method or entry.kind}{number}".replace(";", ",")
    if folded:
        yield f"    agent-->>client: session/update × {folded}"
