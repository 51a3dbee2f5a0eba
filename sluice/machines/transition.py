"""What firing a machine gives: a transition, or a refusal. The half of the drivers that needs no library.

Source: requirements machines.record.one-choke-point, machines.table.refusal-keeps-state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NamedTuple, Protocol

from sluice.machines.refusals import BUG, Refusal, refusal

__all__ = ["AnyMachine", "Bug", "Record", "Refused", "Row", "Transition", "refuse"]


class Transition(NamedTuple):
    """One row that was taken. Rows that stay are recorded too: a late completion is part of the history."""

    machine: str
    key: str
    event: str
    source: str
    target: str


Record = Callable[[Transition], None]
"""Receives each transition after the state has changed. It must not raise and must not fire: the move is done."""


class Refused(Exception):
    """The machine has no row for the event in its present state; the state is unchanged.

    Attributes:
        machine: the machine's name, as in `machines.ALL`.
        key: which instance (a session id, a tool call id), or the empty string.
        state: the state it was and still is in.
        event: the wire name of the refused event.
        refusal: the reason, and the JSON-RPC code (None: nothing is answered).
    """

    def __init__(self, machine: str, key: str, state: str, event: str, refusal: Refusal) -> None:
        super().__init__(f"{machine} {key!r} in {state}: no row for {event} ({refusal.reason})")
        self.machine = machine
        self.key = key
        self.state = state
        self.event = event
        self.refusal = refusal


class Bug(Refused):
    """An event of our own making without a row, or an event the machine has never heard of.

    No client can cause it. Whoever catches it answers -32603 and logs it; nobody repairs it by looking at states.
    """


class AnyMachine(Protocol):
    """What the library driver (`Machine`) and the compiled driver have in common."""

    machine: ClassVar[str]
    key: str

    @property
    def state(self) -> str:
        """The name of the present state."""
        ...

    def can(self, event: str) -> bool:
        """Whether `fire(event)` would move (or stay) rather than raise."""
        ...

    def fire(self, event: str) -> str:
        """Takes the row for `event` and returns the new state's name, or raises `Refused` and changes nothing."""
        ...


class Row(NamedTuple):
    """One declared row: in `source`, `event` leads to `target` (equal to `source` for a row that stays)."""

    event: str
    source: str
    target: str


def refuse(machine: str, key: str, state: str, event: str, *, known: bool = True) -> Refused:
    """The exception for a pair without a row; `known` is False for an event the machine does not declare."""
    why = refusal(machine, state, event) if known else BUG
    return (Bug if why.reason == "bug" else Refused)(machine, key, state, event, why)
