"""What the tests of single machines share: the walk over every pair of state and event, against a golden table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import pytest

from sluice.machines import ALL, DRIVERS, CompiledMachine, Machine, Refused, Transition, refusal
from sluice.machines.base import Row

Golden = Mapping[str, Mapping[str, str]]
"""event -> source -> target, written by hand in a test."""

NEVER_SEEN = "an event nobody declared"


def complaints(declared: Sequence[Row], golden: Golden) -> list[str]:
    """How a list of rows differs from a golden table; empty when it does not."""
    have = [f"{row.event}: {row.source} -> {row.target}" for row in declared]
    want = [f"{event}: {source} -> {target}" for event, moves in golden.items() for source, target in moves.items()]
    missing = [f"missing {line}" for line in want if line not in have]
    surplus = [f"surplus {line}" for line in have if line not in want]
    twice = [f"twice {line}" for line in dict.fromkeys(have) if have.count(line) > 1]
    return missing + surplus + twice


def walk_every_pair(cls: type[Machine] | type[CompiledMachine], states: Sequence[str], golden: Golden) -> int:
    """Fires every event (and one that nobody declared) in every state; returns how many pairs were refused."""
    refused = 0
    for state, event in product(states, (*golden, NEVER_SEEN)):
        record: list[Transition] = []
        machine = cls("k", record.append, start_value=state)
        assert machine.state == state
        target = golden.get(event, {}).get(state)
        assert machine.can(event) is (target is not None)
        if target is not None:
            assert machine.fire(event) == machine.state == target, (state, event)
            assert record == [Transition(cls.machine, "k", event, state, target)]
            continue
        with pytest.raises(Refused) as caught:
            machine.fire(event)
        assert machine.state == state and record == [], (state, event)
        error = caught.value
        assert (error.machine, error.key, error.state, error.event) == (cls.machine, "k", state, event)
        assert error.refusal == refusal(cls.machine, state, event)
        refused += event != NEVER_SEEN
    return refused


def driven(name: str) -> list[type[Machine] | type[CompiledMachine]]:
    """The classes that must behave alike: the declared one, and its compiled driver if it has one."""
    driver = DRIVERS[name]
    return [ALL[name], driver] if issubclass(driver, CompiledMachine) else [driver]
