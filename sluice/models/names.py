"""Names and ids as model services take them, and the way back to ours.

Servers refuse a whole request for one tool name outside `^[a-zA-Z0-9_-]{1,64}$` or one overlong call id, so a
history with a name that some model once made up must still be sendable.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

__all__ = ["WireNames", "wire_id"]

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_LETTER_FIRST = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
_FORBIDDEN = re.compile(r"[^a-zA-Z0-9_-]")
_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")


class WireNames:
    """The two-way mapping of one request. Names that are fine stay as they are."""

    def __init__(self, names: Iterable[str] = (), *, letter_first: bool = False) -> None:
        """Map the names of a request; `letter_first` where none may begin with a digit or a dash."""
        self._plain = _LETTER_FIRST if letter_first else _NAME
        self._ours: dict[str, str] = {}
        for name in names:
            self._ours.setdefault(self.wire(name), name)

    def wire(self, name: str) -> str:
        """The name to send for ours; the same one every time, and different ones for different names."""
        if self._plain.fullmatch(name):
            return name
        readable = _FORBIDDEN.sub("_", name)[:54]
        lead = "" if self._plain.fullmatch(readable) else "_"
        return f"{lead}{readable}_{_digest(name)[:8]}"

    def ours(self, name: str) -> str:
        """Our name for one the server sent; a name we never sent is returned as it is."""
        return self._ours.get(name, name)


def wire_id(given: str) -> str:
    """A call id every server takes: `given` when it is short and plain, else one derived from it."""
    return given if _ID.fullmatch(given) else f"call_{_digest(given)[:32]}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
