"""Records to and from JSON objects: the form of dataclasses-json, by functions that are built once per class.

dataclasses-json says what a stored record looks like: `to_dict` and `from_dict` are its reading of the dataclasses,
for exports and whatever is not in a hurry. It evaluates the type hints of every class again for every object, about a
millisecond of processor time an item, which would make loading a long session take seconds. So `encode` and `decode`,
which the store uses, are built once per class; they write exactly what `to_dict` writes and read exactly what
`from_dict` reads, and a property test holds the two together.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Any, TypeGuard, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from sluice.persistence.records import Item, Message, Part, SessionRecord, ToolCallRecord, Usage

__all__ = ["decode", "encode", "from_dict", "to_dict"]

Record = Item | Message | Part | SessionRecord | ToolCallRecord | Usage
R = TypeVar("R")

_RECORDS = (Item, Message, Part, SessionRecord, ToolCallRecord, Usage)

_Convert = Callable[[Any], Any]


def to_dict(record: Record) -> dict[str, Any]:
    """The JSON object of a record, by dataclasses-json."""
    from dataclasses_json import DataClassJsonMixin

    return dict(DataClassJsonMixin.to_dict(cast("Any", record)))


def from_dict(cls: type[R], stored: dict[str, Any]) -> R:
    """The record of a JSON object, by dataclasses-json.

    Raises:
        KeyError: a member without default is missing.
    """
    from dataclasses_json import DataClassJsonMixin

    # The mixin's methods work on any dataclass; the records do not inherit it, because it is slow to load.
    read = cast("Any", DataClassJsonMixin.from_dict).__func__
    record: R = read(cls, stored)
    return record


def encode(record: Record) -> dict[str, Any]:
    """Give the JSON object of a record, equal to its `to_dict`."""
    return {
        name: value if convert is None or value is None else convert(value)
        for name, convert in _encoders(cast("Any", type(record)))
        for value in (getattr(record, name),)
    }


def decode(cls: type[R], stored: dict[str, Any]) -> R:
    """Build a record from its JSON object, equal to `from_dict(cls, stored)`: unknown members are left out, missing
    ones have their defaults.

    Raises:
        TypeError: a member without default is missing, or something is not the container it should be.
    """
    values = {
        name: value if convert is None or value is None else convert(value)
        for name, convert in _decoders(cast("Any", cls))
        if name in stored
        for value in (stored[name],)
    }
    return cls(**values)


@cache
def _encoders(cls: type[Any]) -> tuple[tuple[str, _Convert | None], ...]:
    return tuple((name, _encoder(hint)) for name, hint in _hints(cls))


@cache
def _decoders(cls: type[Any]) -> tuple[tuple[str, _Convert | None], ...]:
    return tuple((name, _decoder(hint)) for name, hint in _hints(cls))


def _encoder(hint: Any) -> _Convert | None:
    """The conversion for values of a type; None where JSON takes them as they are."""
    if _is_record(hint):
        return encode
    if get_origin(hint) is tuple:
        return _encode_all if _is_record(get_args(hint)[0]) else list
    return None


def _decoder(hint: Any) -> _Convert | None:
    if _is_record(hint):
        return lambda stored: decode(hint, stored)
    if get_origin(hint) is tuple:
        inner = get_args(hint)[0]
        return (lambda stored: tuple(decode(inner, one) for one in stored)) if _is_record(inner) else tuple
    return None


def _is_record(hint: Any) -> TypeGuard[type[Record]]:
    return hint in _RECORDS


def _encode_all(records: tuple[Record, ...]) -> list[dict[str, Any]]:
    return [encode(record) for record in records]


def _hints(cls: type[Any]) -> list[tuple[str, Any]]:
    hints = get_type_hints(cls)
    return [(field.name, _without_none(hints[field.name])) for field in fields(cls)]


def _without_none(hint: Any) -> Any:
    if get_origin(hint) not in (Union, types.UnionType):
        return hint
    (inner,) = [arg for arg in get_args(hint) if arg is not types.NoneType]
    return inner
