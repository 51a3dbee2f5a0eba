"""What the values of this room are made of: frozen structs, whose classes cost next to nothing to create.

A frozen dataclass takes about a millisecond to create, because its methods are written as source text and compiled,
and an agent file needs some thirty classes before `initialize` is answered (ARCHITECTURE.md, "Start"). A struct has
its methods ready; it compares, hashes and prints as a frozen dataclass does.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace

__all__ = ["Frozen", "nothing", "replace"]


class Frozen(msgspec.Struct, frozen=True):
    """A frozen value; equal when its type and all its fields are.

    Attributes:
        HIDDEN: fields that may hold a secret, or more than a log should; they are not part of the repr.
    """

    HIDDEN: ClassVar[frozenset[str]] = frozenset()

    def __repr__(self) -> str:
        """The constructor's call, without the hidden fields."""
        shown = (f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name not in self.HIDDEN)
        return f"{type(self).__name__}({', '.join(shown)})"


def nothing() -> Mapping[str, Any]:
    """An empty mapping that stays empty, as a field's default."""
    return MappingProxyType({})
