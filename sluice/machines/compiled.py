"""The compiled driver: the same interface as `Machine`, from a table read out of the declared class at import.

A library instance costs about 14 KB, needs the garbage collector and 0.6 ms for one call's life, so a thousand calls
opened at once would hold the event loop for more than half a second. The declaration stays the only truth: the table
is compiled from it, and whatever the compiler does not model it refuses at import.
"""

from __future__ import annotations

from typing import ClassVar

from statemachine.transition import Transition as LibraryTransition

from sluice.machines.base import Machine, Record, Transition, initial_name, refuse, rows, state_names
from sluice.machines.small import Background
from sluice.machines.tool_call import ToolCall

__all__ = ["CompiledBackground", "CompiledMachine", "CompiledToolCall", "NotCompilable", "compile_table"]


class NotCompilable(TypeError):
    """The class declares something a table of (state, event) -> state cannot express."""


def compile_table(cls: type[Machine]) -> dict[tuple[str, str], str]:
    """The rows of a class as {(state, event): state}.

    Raises:
        NotCompilable: a nested or parallel state, a guard, a validator, a callback, or two rows for one pair.
    """
    for state in cls.states:
        if state.states or state.parallel:
            raise NotCompilable(f"{cls.__name__}.{state.name} is not flat")
        for transition in state.transitions:
            if surplus := _surplus(transition):
                raise NotCompilable(f"{cls.__name__}.{state.name} has {surplus}")
    if hooks := [name for name in vars(cls) if name.startswith(("on_", "before_", "after_", "prepare_"))]:
        raise NotCompilable(f"{cls.__name__} has callbacks: {', '.join(hooks)}")
    table: dict[tuple[str, str], str] = {}
    for row in rows(cls):
        if (row.source, row.event) in table:
            raise NotCompilable(f"{cls.__name__} has two rows for {row.event} in {row.source}")
        table[row.source, row.event] = row.target
    return table


def _surplus(transition: LibraryTransition) -> str:
    """What a transition carries beyond source, event and target: the names of the specs, or the empty string.

    The library's callback lists are truthy even when empty, hence the look inside; the names it looks for by
    convention on every transition are checked on the class.
    """
    kinds = ("cond", "validators", "before", "on", "after")
    return ", ".join(kind for kind in kinds if any(not spec.is_convention for spec in getattr(transition, kind)))


class CompiledMachine:
    """Drives one declared class by its compiled table; a subclass names the class.

    Args:
        key: which instance this is, for the recorder and for refusals.
        record: receives every transition, or None for nobody.
        start_value: the name of the state to begin in, or None for the initial one.

    Raises:
        ValueError: `start_value` is not a state of the declared class.
    """

    __slots__ = ("_record", "_state", "key")

    machine: ClassVar[str] = ""
    declared: ClassVar[type[Machine]]
    """The class the table was compiled from: what the diagrams draw."""
    _table: ClassVar[dict[tuple[str, str], str]]
    _events: ClassVar[frozenset[str]]
    _initial: ClassVar[str]

    def __init_subclass__(cls, *, declared: type[Machine]) -> None:
        cls.machine = declared.machine
        cls.declared = declared
        cls._table = compile_table(declared)
        cls._events = frozenset(event for _, event in cls._table)
        cls._initial = initial_name(declared)

    def __init__(self, key: str = "", record: Record | None = None, start_value: str | None = None) -> None:
        if start_value is not None and start_value not in state_names(self.declared):
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


class CompiledToolCall(CompiledMachine, declared=ToolCall):
    """The driver of tool calls."""

    __slots__ = ()


class CompiledBackground(CompiledMachine, declared=Background):
    """The driver of background tasks."""

    __slots__ = ()
