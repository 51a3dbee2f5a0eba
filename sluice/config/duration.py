"""Lengths of time in an agent file: `90s`, `1m30s`, `500ms`, or a number of seconds."""

from __future__ import annotations

import re

__all__ = ["seconds"]

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")
_LONGEST = 10 * 365 * 86400.0


def seconds(value: object) -> float | None:
    """The length in seconds; None when the value is none, negative, or longer than ten years."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if isinstance(value, str):
        text = value.strip()
        if not _WHOLE.fullmatch(text):
            return None
        total = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    else:
        total = float(value)
    return total if 0 <= total <= _LONGEST else None
