"""What a model server of the tests has to know of the API it speaks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from tests.support.steps import Step

__all__ = ["Dialect", "Voice", "sse"]


class Voice(Protocol):
    """Speaks one reply."""

    @property
    def streams(self) -> bool:
        """Whether the caller asked for a stream."""
        ...

    def begin(self) -> Iterable[bytes]:
        """What comes before the first step."""
        ...

    def events(self, step: Step) -> Iterable[bytes]:
        """The events of a step that says something."""
        ...

    def end(self) -> Iterable[bytes]:
        """What follows the last step of a reply that has a finish reason."""
        ...

    def whole(self) -> Any:
        """The reply as one object."""
        ...


class Dialect(Protocol):
    """An API. `base` is the path of its base address."""

    base: str

    def serves(self, path: str) -> bool:
        """Whether calls go to this path."""
        ...

    def check(self, path: str, headers: Mapping[str, str], body: Any) -> None:
        """Raises Refused with a sentence for the first rule that a request breaks."""
        ...

    def error(self, status: int, message: str) -> Any:
        """The JSON of an error."""
        ...

    def tools(self, body: Any) -> list[str]:
        """The names of the tools that a request offers."""
        ...

    def carried(self, body: Any) -> int:
        """How many pieces that the service has signed or sealed stand in a request."""
        ...

    def voice(self, body: dict[str, Any], steps: Sequence[Step]) -> Voice:
        """What speaks the reply to a request."""
        ...


def sse(value: Any, name: str = "") -> bytes:
    """One server-sent event."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: %s\n\n" % json.dumps(value).encode()
