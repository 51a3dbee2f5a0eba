"""One wire format as data: everything in which one model service differs from another.

`remote` makes the calls; it knows no service. A module an API (`openai_chat`, `anthropic`, ...) holds one `Api`, with
the functions that write its requests and read its answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import SplitResult

from sluice.agent.ports import Delta, ModelRequest, ModelResponse
from sluice.models.settings import ResolvedModel
from sluice.persistence.records import Usage

__all__ = ["Answer", "Api", "Asked", "StreamError", "below"]


class StreamError(Exception):
    """The server reported an error inside its answer.

    Attributes:
        error: what stood under `error`: an object or a text.
    """

    def __init__(self, error: Any) -> None:
        super().__init__("error inside the answer")
        self.error = error


class Answer(Protocol):
    """Collects one answer. Feed it with `absorb`, then ask for `response`.

    Attributes:
        done: whether the server has said that nothing follows; set from outside when the body was one whole object.
    """

    done: bool

    @property
    def usage(self) -> Usage | None:
        """What the server has said so far that the call has used, None when it has not."""
        ...

    @property
    def complete(self) -> bool:
        """Whether the server has said how the answer ended; what follows is accounting only."""
        ...

    def absorb(self, data: bytes) -> Sequence[Delta]:
        """Take the data of one event, or one whole answer; returns the visible pieces in it, to be shown now.

        Raises:
            StreamError: the server reports an error in place of a piece.
            msgspec.DecodeError: `data` is not JSON, or not an object of this API.
        """
        ...

    def response(self) -> ModelResponse:
        """The whole answer.

        Raises:
            ModelError: the stream ended before the answer did, or the server says that it failed half-way.
        """
        ...


@dataclass(frozen=True, slots=True)
class Asked:
    """One call: the JSON body, and what reads its answer.

    `carried` are the marks (`sluice.models.carried`) of what the service made earlier and gets back unchanged here.
    """

    body: Mapping[str, Any]
    answer: Answer
    carried: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Api:
    """A wire format.

    Attributes:
        words: what such a server is called in texts.
        place: the address of a call, from the base address and the model's name.
        ask: the call for a request; the last argument are marks of what is not to be carried any more.
        key_header: the header with the key, in lower case.
        key_scheme: what stands before the key in it.
        headers: what else every call of a model has, names in lower case.
    """

    words: str
    place: Callable[[SplitResult, str], SplitResult]
    ask: Callable[[ResolvedModel, ModelRequest, frozenset[str]], Asked]
    key_header: str = "authorization"
    key_scheme: str = "Bearer "
    headers: Callable[[ResolvedModel], Mapping[str, str]] = field(default=lambda resolved: {})


def below(*segments: str) -> Callable[[SplitResult, str], SplitResult]:
    """A place under the base address: the path of `segments`, those that the address already ends with left out."""

    def place(base: SplitResult, model: str) -> SplitResult:
        path = base.path.rstrip("/")
        for count in range(len(segments), -1, -1):
            if path.endswith("".join(f"/{segment}" for segment in segments[:count])):
                return base._replace(path=path + "".join(f"/{segment}" for segment in segments[count:]))
        return base

    return place
