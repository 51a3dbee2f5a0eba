"""The forms of elicitations: which schemas are understood, and whether an answer fits one.

Both are strict in the same direction. A keyword we cannot check makes the whole form unusable, instead of being left
out; a value that does not fit makes the answer none, instead of being repaired.

Source: ACP "Elicitation" (restricted schemas); requirements elicitation.schema.*, elicitation.reply.validated,
elicitation.limits.big-integers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from sluice.acp.patterns import Pattern, PatternError

__all__ = ["BIGGEST", "FormError", "check_content", "check_schema"]

BIGGEST = 2**53
"""Numbers of this magnitude and more are refused: not every peer can tell one from the next."""


class FormError(ValueError):
    """A schema is not understood, or an answer does not fit; the text says where and repeats no value."""


# --- schemas ----------------------------------------------------------------------------------------------------


def check_schema(schema: object) -> None:
    """Check that a schema is a flat form which an answer can be checked against in full.

    Args:
        schema: plain JSON data of any shape.

    Raises:
        FormError: it is not.
    """
    form = _object(schema, "the schema", {"type", "title", "description", "properties", "required"})
    if form.get("type") != "object":
        raise FormError("the schema must be of type object")
    _texts(form, "the schema")
    properties = form.get("properties", {})
    if not isinstance(properties, dict):
        raise FormError("the schema's properties must be an object")
    for name, field in properties.items():
        _check_field(field, f"the field {name!r}")
    required = form.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) and name in properties for name in required):
        raise FormError("the schema's required must be a list of its properties")


def _object(value: object, where: str, known: set[str]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FormError(f"{where} must be an object")
    for key in value:
        if key not in known:
            raise FormError(f"{where} has the keyword {str(key)[:50]!r}, which is not supported")
    return value


def _texts(value: Mapping[str, Any], where: str) -> None:
    for key in ("title", "description"):
        if key in value and not isinstance(value[key], str):
            raise FormError(f"the {key} of {where} must be a text")


def _check_field(field: object, where: str) -> None:
    kind = field.get("type") if isinstance(field, dict) else None
    if not isinstance(kind, str) or kind not in _KEYWORDS:
        raise FormError(f"{where} must be of one type: {', '.join(_KEYWORDS)}")
    keywords = _KEYWORDS[kind]
    found = _object(field, where, {"type", "title", "description", "default", *keywords})
    _texts(found, where)
    for key, check in keywords.items():
        if key in found:
            check(found[key], f"{key} of {where}")
    if kind == "string" and "enum" in found and "oneOf" in found:
        raise FormError(f"{where} has two lists of choices")
    if kind == "array" and "items" not in found:
        raise FormError(f"{where} must say what can be chosen")
    for least, most in (("minLength", "maxLength"), ("minimum", "maximum"), ("minItems", "maxItems")):
        if least in found and most in found and found[least] > found[most]:
            raise FormError(f"{where} can never be filled in")
    if "default" in found:
        _VALUES[kind](found["default"], found, f"the default of {where}")


def _natural(value: object, where: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < BIGGEST:
        raise FormError(f"{where} must be a whole number from 0")


def _a_number(value: object, where: str) -> None:
    _number(value, {}, where)


def _an_integer(value: object, where: str) -> None:
    _integer(value, {}, where)


def _pattern(value: object, where: str) -> None:
    if not isinstance(value, str):
        raise FormError(f"{where} must be a text")
    try:
        Pattern.read(value)
    except PatternError as error:
        raise FormError(f"{where}: {error}") from error


def _format(value: object, where: str) -> None:
    if not isinstance(value, str) or value not in _FORMATS:
        raise FormError(f"{where} must be one of {', '.join(_FORMATS)}")


def _choices(value: object, where: str) -> None:
    if not isinstance(value, list) or not value or not all(isinstance(item, str) for item in value):
        raise FormError(f"{where} must be a list of texts")
    if len(set(value)) != len(value):
        raise FormError(f"{where} names a choice twice")


def _titled(value: object, where: str) -> None:
    if not isinstance(value, list):
        raise FormError(f"{where} must be a list")
    for option in value:
        found = _object(option, f"a choice in {where}", {"const", "title", "description"})
        _texts(found, f"a choice in {where}")
        if not isinstance(found.get("title"), str):
            raise FormError(f"a choice in {where} needs a title")
    _choices([option.get("const") for option in value], where)


def _items(value: object, where: str) -> None:
    items = _object(value, where, {"type", "enum", "anyOf"})
    if "anyOf" in items:
        if len(items) > 1:
            raise FormError(f"{where} has more than its choices")
        _titled(items["anyOf"], where)
    elif items.get("type") == "string" and "enum" in items:
        _choices(items["enum"], where)
    else:
        raise FormError(f"{where} must be a list of choices")


_KEYWORDS: Mapping[str, Mapping[str, Callable[[object, str], None]]] = MappingProxyType(
    {
        "string": {
            "minLength": _natural,
            "maxLength": _natural,
            "pattern": _pattern,
            "format": _format,
            "enum": _choices,
            "oneOf": _titled,
        },
        "number": {"minimum": _a_number, "maximum": _a_number},
        "integer": {"minimum": _an_integer, "maximum": _an_integer},
        "boolean": {},
        "array": {"items": _items, "minItems": _natural, "maxItems": _natural},
    }
)
"""type of a field -> the keywords it may have besides title, description and default, and their checks."""


# --- answers ----------------------------------------------------------------------------------------------------


def check_content(schema: Mapping[str, Any], content: object) -> dict[str, Any]:
    """Check what a person filled in.

    Args:
        schema: a schema that `check_schema` accepted.
        content: plain JSON data of any shape.

    Returns:
        The values by field; whole numbers of integer fields as int.

    Raises:
        FormError: it does not fit.
    """
    properties: Mapping[str, Any] = schema.get("properties", {})
    if content is None and not properties:
        return {}
    if not isinstance(content, dict):
        raise FormError("the content must be an object")
    for name in schema.get("required", []):
        if name not in content:
            raise FormError(f"the field {name!r} is missing")
    checked = {}
    for name, value in content.items():
        if name not in properties:
            raise FormError("the content has a field that was not asked for")
        field = properties[name]
        checked[name] = _VALUES[field["type"]](value, field, f"the field {name!r}")
    return checked


def _string(value: object, field: Mapping[str, Any], where: str) -> str:
    if not isinstance(value, str):
        raise FormError(f"{where} must be a text")
    if not field.get("minLength", 0) <= len(value) <= field.get("maxLength", math.inf):
        raise FormError(f"{where} is too short or too long")
    if "enum" in field and value not in field["enum"]:
        raise FormError(f"{where} is none of the choices")
    if "oneOf" in field and value not in [option["const"] for option in field["oneOf"]]:
        raise FormError(f"{where} is none of the choices")
    if "format" in field and not _FORMATS[field["format"]](value):
        raise FormError(f"{where} is no {field['format']}")
    if "pattern" in field and not Pattern.read(field["pattern"]).fits(value):
        raise FormError(f"{where} does not fit its pattern")
    return value


def _number(value: object, field: Mapping[str, Any], where: str) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FormError(f"{where} must be a number")
    if not -BIGGEST < value < BIGGEST:  # false for what is no number at all, too
        raise FormError(f"{where} is too big")
    if not field.get("minimum", -math.inf) <= value <= field.get("maximum", math.inf):
        raise FormError(f"{where} is outside its bounds")
    return value


def _integer(value: object, field: Mapping[str, Any], where: str) -> int:
    number = _number(value, field, where)
    if number != int(number):
        raise FormError(f"{where} must be a whole number")
    return int(number)


def _boolean(value: object, field: Mapping[str, Any], where: str) -> bool:
    if not isinstance(value, bool):
        raise FormError(f"{where} must be true or false")
    return value


def _array(value: object, field: Mapping[str, Any], where: str) -> list[str]:
    items = field["items"]
    choices = items["enum"] if "enum" in items else [option["const"] for option in items["anyOf"]]
    if not isinstance(value, list) or not all(isinstance(item, str) and item in choices for item in value):
        raise FormError(f"{where} must be a list of the choices")
    if not field.get("minItems", 0) <= len(value) <= field.get("maxItems", math.inf):
        raise FormError(f"{where} has too few or too many choices")
    if len(set(value)) != len(value):
        raise FormError(f"{where} has a choice twice")
    return value


_VALUES: Mapping[str, Callable[[object, Mapping[str, Any], str], Any]] = MappingProxyType(
    {"string": _string, "number": _number, "integer": _integer, "boolean": _boolean, "array": _array}
)

_EMAIL = re.compile(r"[^\s@<>\"(),:;\[\]\\]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){0,10}")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[!#$%&'()*+,./0-9:;=?@A-Z\[\]_a-z~-]+")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_DATE_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:[Zz]|[+-]\d{2}:\d{2})", re.ASCII)


def _is_uri(value: str) -> bool:
    try:
        urlsplit(value)
    except ValueError:
        return False
    return _URI.fullmatch(value) is not None


def _is_date(value: str) -> bool:
    try:
        date.fromisoformat(value)
    except ValueError:
        return False
    return _DATE.fullmatch(value) is not None


def _is_date_time(value: str) -> bool:
    if _DATE_TIME.fullmatch(value) is None:
        return False
    try:
        # The fraction says nothing about whether the moment exists, and may be longer than Python reads.
        datetime.fromisoformat(re.sub(r"\.\d+", "", value.upper()))
    except ValueError:
        return False
    return True


_FORMATS: Mapping[str, Callable[[str], bool]] = MappingProxyType(
    {
        "email": lambda value: _EMAIL.fullmatch(value) is not None,
        "uri": _is_uri,
        "date": _is_date,
        "date-time": _is_date_time,
    }
)
"""format -> whether a value has it; a form with any other one is not understood."""
