"""The compiled driver: the same interface as `Machine`, from the rows in `table.py`.

Three reasons. A library instance costs about 14 KB, needs the garbage collector and 0.6 ms for
one call's life, so a thousand calls opened at once would hold the event loop for more than half a second: tool calls
and background tasks. And the library takes longer to load than an editor should wait for the answer to `initialize`:
the connection and the barrier, which exist before it. And a prompt fires its turn twice, which through the library is
a twelfth of what a short turn costs. The declaration stays the only truth; `table.py` is generated
from it and checked in CI, and tests drive both drivers with the same events.
"""

from __future__ import annotations

from typing import ClassVar

from sluice.machines.table import TABLES
from sluice.machines.transition import Record, Transition, refuse

__all__ = [
    "CompiledBackground",
    "CompiledConnection",
    "CompiledDeletion",
    "CompiledMachine",
    "CompiledToolCall",
    "CompiledTurn",
]


class CompiledMachine:
    """Drives one declared machine by its table; a subclass names the machine.

    Args:
        key: which instance this is, for the recorder and for refusals.
        record: receives every transition, or None for nobody.
        start_value: the name of the state to begin in, or None for the initial one.

    Raises:
        ValueError: `start_value` is not a state of the machine.
    """

    __slots__ = ("_record", "_state", "key")

    machine: ClassVar[str] = ""
    _table: ClassVar[dict[tuple[str, str], str]]
    _events: ClassVar[frozenset[str]]
    _initial: ClassVar[str]
    _states: ClassVar[tuple[str, ...]]

    def __init_subclass__(cls, *, machine: str) -> None:
        cls.machine = machine
        cls._initial, cls._states, cls._table = TABLES[machine]
        cls._events = frozenset(event for _, event in cls._table)

    def __init__(self, key: str = "", record: Record | None = None, start_value: str | None = None) -> None:
        if start_value is not None and start_value not in self._states:
            raise ValueError(f"{self.machine} has no state {start_value!r}")
        self.key = key
        self._record = record
        self._state = self._initial if start_value is None else start_value

    @property
    def state(self) -> str:
        """The name of the present state."""
        return self._state

    def can(self, event: str) -> bool:
        """Whether `fire(event)` would find a row in the present state."""
        return (self._state, event) in self._table

    def fire(self, event: str) -> str:
        """Takes the row for an event, exactly as `Machine.fire` does.

        Returns:
            The name of the state the machine is in now.

        Raises:
            Refused: no row in this state (`Bug` for internal and for unknown events). The state is unchanged.
        """
        source = self._state
        target = self._table.get((source, event))
        if target is None:
            raise refuse(self.machine, self.key, source, event, known=event in self._events)
        self._state = target
        if self._record is not None:
            self._record(Transition(self.machine, self.key, event, source, target))
        return target


class CompiledConnection(CompiledMachine, machine="connection"):
    """The driver of the connection."""

    __slots__ = ()


class CompiledDeletion(CompiledMachine, machine="deletion"):
    """The driver of the barrier that an admitted delete holds."""

    __slots__ = ()


class CompiledToolCall(CompiledMachine, machine="tool"):
    """The driver of tool calls."""

    __slots__ = ()


class CompiledTurn(CompiledMachine, machine="turn"):
    """The driver of turns."""

    __slots__ = ()


class CompiledBackground(CompiledMachine, machine="background"):
    """The driver of background tasks."""

    __slots__ = ()
