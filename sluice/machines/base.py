"""What every machine is: the library's switches pinned, one door to fire an event, one place that records.

A machine is driven by `fire` and by nothing else. `fire` takes the wire name of an event, moves the machine or leaves
it exactly as it was, and hands one `Transition` to the recorder. The library's own doors (`send`, `machine.event()`)
stay closed to callers, because they would not be recorded and would raise the library's exceptions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, cast

from statemachine import Event, State, StateMachine
from statemachine.transition_list import TransitionList

from sluice.machines.transition import Bug, Record, Refused, Row, Transition, refuse

__all__ = [
    "Bug",
    "Machine",
    "Record",
    "Refused",
    "Row",
    "Transition",
    "event_names",
    "final_names",
    "initial_name",
    "rows",
    "state_names",
    "stays",
]


def stays(*states: State) -> TransitionList:
    """Rows that absorb an event: for completions that arrive after the machine has moved on.

    Internal transitions, so that the library neither leaves nor enters the state.
    """
    absorbed = TransitionList()
    for state in states:
        absorbed |= state.to(state, internal=True)
    return absorbed


def _events(cls: type[Machine]) -> list[Event]:
    """The declared events; the library annotates `events` for instances, on a class it is a list."""
    return list(cast("Iterable[Event]", cls.events))


def state_names(cls: type[Machine]) -> tuple[str, ...]:
    """The names of a machine's states, in the order of declaration."""
    return tuple(state.name for state in cls.states)


def event_names(cls: type[Machine]) -> tuple[str, ...]:
    """The wire names of a machine's events, in the order of declaration."""
    return tuple(event.name for event in _events(cls))


def final_names(cls: type[Machine]) -> tuple[str, ...]:
    """The states no row leaves, as declared."""
    return tuple(state.name for state in cls.states if state.final)


def initial_name(cls: type[Machine]) -> str:
    """The state a new instance is in."""
    return next(str(state.name) for state in cls.states if state.initial)


def rows(cls: type[Machine]) -> list[Row]:
    """Every declared row of a machine, by event and then by source, both in the order of declaration.

    This list is what the diagrams draw, what a journal of transitions is checked against and what the tests compare
    with their golden tables: it comes from the library's own compiled transitions, not from a second declaration.
    """
    names = {event.id: event.name for event in _events(cls)}
    found = [
        Row(names[str(event)], state.name, transition.target.name if transition.target else state.name)
        for state in cls.states
        for transition in state.transitions
        for event in transition.events
    ]
    order = {name: index for index, name in enumerate(event_names(cls))}
    return sorted(found, key=lambda row: order[row.event])  # stable: sources keep the order of declaration


class Machine(StateMachine):
    """A lifecycle: declared states, declared rows, and nothing that runs on the way.

    Args:
        key: which instance this is, for the recorder and for refusals; the empty string where there is only one.
        record: receives every transition, or None for nobody.
        start_value: the name of the state to begin in, or None for the initial one. Nothing runs on entry, so a
            machine that was put aside at rest is rebuilt exactly.

    Raises:
        ValueError: `start_value` is not a state of this machine (the library would notice at the first event only).
    """

    # Every switch is written out, because the library's two base classes have opposite defaults and a protocol can
    # afford neither a swallowed event nor a half-finished step.
    allow_event_without_transition = False  # an event without a row raises; True would ignore it without a word
    catch_errors_as_events = (
        False  # an error reaches the caller; True would turn it into an event nobody has a row for
    )
    atomic_configuration_update = True  # source or target, never the empty configuration in between
    enable_self_transition_entries = False  # a row that stays neither leaves nor enters its state

    machine: ClassVar[str] = ""
    """The name used in every table and record, the same as the key in `machines.ALL`."""

    _table: ClassVar[dict[tuple[str, str], str]] = {}
    _ids: ClassVar[dict[str, str]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._ids = {}
        cls._table = {}

    def __init__(self, key: str = "", record: Record | None = None, start_value: str | None = None) -> None:
        if start_value is not None and start_value not in state_names(type(self)):
            raise ValueError(f"{self.machine} has no state {start_value!r}")
        super().__init__(start_value=start_value)
        self.key = key
        self._record = record

    @classmethod
    def _compile(cls) -> None:
        """Builds {wire name: attribute name} and the set of rows once per class; `send` takes the attribute name."""
        cls._ids = {event.name: event.id for event in _events(cls)}
        cls._table = {(row.source, row.event): row.target for row in rows(cls)}

    @property
    def state(self) -> str:
        """The name of the present state, which is the protocol's word for it."""
        return str(self.current_state_value)

    def can(self, event: str) -> bool:
        """Whether `fire(event)` would find a row in the present state."""
        if not self._ids:
            self._compile()
        return (self.state, event) in self._table

    def fire(self, event: str) -> str:
        """Takes the row for an event: the one choke point through which a machine changes.

        Args:
            event: the wire name, such as "session/prompt" or "drained".

        Returns:
            The name of the state the machine is in now.

        Raises:
            Refused: no row in this state (`Bug` for internal and for unknown events). The state is unchanged.
        """
        source = self.state
        if not self.can(event):
            raise refuse(self.machine, self.key, source, event, known=event in self._ids)
        self.send(self._ids[event])
        target = self.state
        if self._record is not None:
            self._record(Transition(self.machine, self.key, event, source, target))
        return target
