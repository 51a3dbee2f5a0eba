"""From the declared classes to `table.py`: the rows as plain data, which a driver can use without the library.

`sluice diagrams` writes the file beside the pictures, and `--check` fails when it is stale: the declaration stays the
only truth.
"""

from __future__ import annotations

from pathlib import Path

from statemachine.transition import Transition as LibraryTransition

from sluice.machines.base import Machine, initial_name, rows, state_names
from sluice.machines.registry import ALL

__all__ = ["FILE", "NotCompilable", "compile_table", "source"]

FILE = Path(__file__).with_name("table.py")
"""Where `source` belongs."""


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


def source() -> str:
    """The text of `table.py`, the same in every process.

    Raises:
        NotCompilable: a machine declares what a table cannot express.
    """
    lines = [
        '"""The rows of the machines as data. Generated from the declarations by `sluice diagrams`. Do not edit."""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Final, NamedTuple",
        "",
        '__all__ = ["TABLES", "Table"]',
        "",
        "",
        "class Table(NamedTuple):",
        '    """One machine: its first state, its states in the order of declaration, its rows by (state, event)."""',
        "",
        "    initial: str",
        "    states: tuple[str, ...]",
        "    rows: dict[tuple[str, str], str]",
        "",
        "",
        "TABLES: Final[dict[str, Table]] = {",
    ]
    for name, cls in ALL.items():
        lines += [f'    "{name}": Table(', f"        {_text(initial_name(cls))},", "        ("]
        lines += [f"            {_text(state)}," for state in state_names(cls)]
        lines += ["        ),", "        {"]
        table = compile_table(cls)
        lines += [f"            ({_text(a)}, {_text(event)}): {_text(b)}," for (a, event), b in table.items()]
        lines += ["        },", "    ),"]
    return "\n".join([*lines, "}", '"""Machine name -> its table."""', ""])


def _text(word: str) -> str:
    return f'"{word}"'
