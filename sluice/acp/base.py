"""What every ACP message has in common, and the one place where unions without a tag are told apart.

ACP has a few unions that carry no discriminator, or one that may be missing (an MCP server without `type` is a
stdio server). msgspec decodes tagged unions only, so the members of such a union share a plain base class, and
`choose` picks the member from the decoded JSON.

Source: ACP "Extensibility" (`_meta` on every type, unknown keys ignored).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

import msgspec

__all__ = ["Message", "Untagged", "choose", "convert", "encode"]

T = TypeVar("T")


class Message(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """Base of every ACP object: camelCase on the wire, defaults left out, unknown keys ignored.

    Attributes:
        meta: the `_meta` object, or None for none. Its keys belong to whoever put them there.
    """

    meta: dict[str, Any] | None = msgspec.field(name="_meta", default=None)


class Untagged:
    """Base of a union whose members cannot be told apart by a tag alone.

    A subclass is the union's name in annotations; its own subclasses are the members. `lists` names the keys whose
    absence or null means an empty list.
    """

    __slots__ = ()
    lists: ClassVar[tuple[str, ...]] = ()

    @staticmethod
    def select(value: Mapping[str, Any]) -> type[Any]:
        """The member to decode this JSON object as (nulls left out).

        Raises:
            ValueError: no member fits; the message is fit for the peer.
        """
        raise ValueError("Expected a member of a union")


def choose(kind: type[Any], value: Any) -> Any:
    """Decode hook for the unions derived from `Untagged`.

    Args:
        kind: the union's base class.
        value: the JSON value found at its place.

    Returns:
        An instance of the chosen member.

    Raises:
        ValueError: the value is no object, or fits no member; msgspec adds the path.
    """
    if not issubclass(kind, Untagged):
        raise NotImplementedError(kind.__name__)
    if not isinstance(value, dict):
        raise ValueError(f"Expected `object`, got `{type(value).__name__}`")
    present = {key: item for key, item in value.items() if item is not None}
    member = kind.select(present)
    for key in member.lists:
        present.setdefault(key, [])
    try:
        return convert(present, member)
    except msgspec.ValidationError as error:
        # msgspec adds the outer path to a ValueError, but lets its own error pass through as it is
        raise ValueError(str(error)) from None


def convert(value: Any, kind: type[T]) -> T:
    """Plain JSON data as a typed message.

    Args:
        value: what a JSON decoder returned.
        kind: the message type, or a union of them.

    Raises:
        msgspec.ValidationError: the shape is wrong; the text ends with one `- at` clause per level, innermost first.
    """
    return msgspec.convert(value, kind, dec_hook=choose)


_ENCODER = msgspec.json.Encoder()


def encode(value: Any) -> bytes:
    """A message, or any JSON-safe value, as compact UTF-8 JSON on one line."""
    return _ENCODER.encode(value)
