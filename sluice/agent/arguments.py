"""The arguments of a tool call: from the model's text to a checked object.

Models make mistakes; what is harmless is repaired (a number in quotes, an optional value given as null), the rest is
told to the model so that it can try again (requirement `tool-lifecycle.status.errors`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from sluice.agent.ports import ToolFailure, ToolSpec

__all__ = ["ALIASES", "parse"]

ALIASES: Mapping[str, Mapping[str, str]] = {
    "shell": {"command": "cmd"},
    "run_background_job": {"command": "cmd"},
}
"""Other names models use for an argument: tool, alias, name. Only the name reaches rules, people and the tool."""

_MOST_PROBLEMS = 5
_NUMBER = re.compile(r"-?\d{1,15}(\.\d{1,15})?")


def parse(text: str, spec: ToolSpec) -> dict[str, Any]:
    """Read and check the arguments of a call.

    Args:
        text: what the model gave; "" is an object without members.
        spec: the tool. Of its schema, `type`, `properties`, `required`, `items` and `enum` are checked; anything
            else is left to the tool.

    Returns:
        The arguments, aliases replaced, stringified numbers and truth values of the wanted type converted, and
        optional members that are null left out.

    Raises:
        ToolFailure: they cannot be used; the text tells the model what is wrong.
    """
    arguments = _object(text)
    for alias, name in ALIASES.get(spec.name, {}).items():
        if alias in arguments:
            value = arguments.pop(alias)
            if arguments.setdefault(name, value) != value:
                raise ToolFailure(f"{name!r} and {alias!r} mean the same and differ; give {name!r} only")
    problems: list[str] = []
    checked = _members(arguments, spec.parameters, "", problems)
    if problems:
        raise ToolFailure(f"the arguments of {spec.name} are not right: " + "; ".join(problems[:_MOST_PROBLEMS]))
    return checked


def _object(text: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise ToolFailure("the arguments are nested too deeply") from None
    except ValueError as error:
        raise ToolFailure(f"the arguments are not valid JSON ({error}); send one complete JSON object") from None
    if not isinstance(value, dict):
        raise ToolFailure("the arguments must be one JSON object, with the parameters as its members")
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


def _check(value: Any, schema: object, where: str, problems: list[str]) -> Any:
    """Return the value, repaired where that is harmless; what is wrong is added to the problems."""
    if not isinstance(schema, Mapping):
        return value
    wanted = _types(schema)
    if wanted and not any(_IS[name](value) for name in wanted):
        repaired = _repaired(value, wanted)
        if repaired is None:
            problems.append(f"{where} must be {' or '.join(wanted)}, not {_type_of(value)}")
            return value
        value = repaired
    if isinstance(value, dict):
        return _members(value, schema, where, problems)
    if isinstance(value, list):
        items = schema.get("items")
        return [_check(item, items, f"{where}[{number}]", problems) for number, item in enumerate(value)]
    choices = schema.get("enum")
    if isinstance(choices, (list, tuple)) and value not in choices:
        problems.append(f"{where} must be one of {', '.join(map(str, choices))}")
    return value


def _members(value: dict[str, Any], schema: Mapping[str, Any], where: str, problems: list[str]) -> dict[str, Any]:
    properties = schema.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    required = schema.get("required")
    required = required if isinstance(required, (list, tuple)) else ()
    prefix = f"{where}." if where else ""
    problems.extend(f"{prefix}{name} is missing" for name in required if name not in value)
    checked = {}
    for name, member in value.items():
        member_schema = properties.get(name)
        if member is None and name not in required and _types(member_schema) and "null" not in _types(member_schema):
            continue
        checked[name] = _check(member, member_schema, f"{prefix}{name}", problems)
    return checked


def _types(schema: object) -> tuple[str, ...]:
    if not isinstance(schema, Mapping):
        return ()
    found = schema.get("type")
    names = (found,) if isinstance(found, str) else found if isinstance(found, (list, tuple)) else ()
    # With a type we do not know, nothing can be said about the value.
    return tuple(names) if all(name in _IS for name in names) else ()


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_IS: Mapping[str, Callable[[object], bool]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "number": _is_number,
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "null": lambda value: value is None,
}


def _repaired(value: object, wanted: tuple[str, ...]) -> object:
    """Return what the model plainly meant, None when that is not plain."""
    if isinstance(value, float) and "integer" in wanted and math.isfinite(value) and value.is_integer():
        return int(value)
    if not isinstance(value, str):
        return None
    word = value.strip()
    if "boolean" in wanted and word.lower() in ("true", "false"):
        return word.lower() == "true"
    if _NUMBER.fullmatch(word):
        if "integer" in wanted and float(word).is_integer():
            return int(float(word))
        if "number" in wanted:
            return float(word)
    return None


def _type_of(value: object) -> str:
    return next((name for name, fits in _IS.items() if fits(value)), type(value).__name__)
