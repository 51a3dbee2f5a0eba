"""Records to and from JSON objects: the form of dataclasses-json, by functions that are built once per class.

`DataClassJsonMixin` declares what a stored record looks like, but it evaluates the type hints of every class again
for every object, about a millisecond of processor time an item, which would make loading a long session take seconds.
The functions built here write exactly what `to_dict` writes and read exactly what `from_dict` reads; a property test
holds the two together.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Any, TypeGuard, TypeVar, Union, get_args, get_origin, get_type_hints

from dataclasses_json import DataClassJsonMixin

__all__ = ["decode", "encode"]

R = TypeVar("R", bound=DataClassJsonMixin)

_Convert = Callable[[Any], Any]


def encode(record: DataClassJsonMixin) -> dict[str, Any]:
    """Give the JSON object of a record, equal to its `to_dict()`."""
    return {
        name: value if convert is None or value is None else convert(value)
        for name, convert in _encoders(type(record))
        for value in (getattr(record, name),)
    }


def decode(cls: type[R], stored: dict[str, Any]) -> R:
    """Build a record from its JSON object, equal to `cls.from_dict(stored)`: unknown members are left out, missing
    ones have their defaults.

    Raises:
        TypeError: a member without default is missing, or something is not the container it should be.
    """
    values = {
        name: value if convert is None or value is None else convert(value)
        for name, convert in _decoders(cls)
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


def _is_record(hint: Any) -> TypeGuard[type[DataClassJsonMixin]]:
    return isinstance(hint, type) and issubclass(hint, DataClassJsonMixin)


def _encode_all(records: tuple[DataClassJsonMixin, ...]) -> list[dict[str, Any]]:
    return [encode(record) for record in records]


def _hints(cls: type[Any]) -> list[tuple[str, Any]]:
    hints = get_type_hints(cls)
    return [(field.name, _without_none(hints[field.name])) for field in fields(cls)]


def _without_none(hint: Any) -> Any:
    if get_origin(hint) not in (Union, types.UnionType):
        return hint
    (inner,) = [arg for arg in get_args(hint) if arg is not types.NoneType]
    return inner
