"""Tolerant reading of what an agent sends: a wrong type counts as absent, a bad item of a list is left out.

One odd field must not cost a session. So nothing in this module raises, and nothing coerces either: `"1"` is not a
number and `1` is not true.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["flag", "integer", "items", "marker", "members", "number", "text"]

_EMPTY: Mapping[str, Any] = {}


def members(value: object) -> Mapping[str, Any]:
    """The value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else _EMPTY


def items(value: object) -> list[Mapping[str, Any]]:
    """The JSON objects of a list, in order; anything else yields none."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def text(value: object) -> str | None:
    """The value if it is a string, else None."""
    return value if isinstance(value, str) else None


def integer(value: object) -> int | None:
    """The value if it is a JSON integer, else None (true and false are no integers)."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def number(value: object) -> float | None:
    """The value as a float if it is a JSON number, else None."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def flag(value: object) -> bool:
    """A boolean capability: only a literal true counts."""
    return value is True


def marker(value: object) -> bool:
    """An object capability: present and not null counts, `{}` is enough."""
    return isinstance(value, dict)
