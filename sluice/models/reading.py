"""What reading an answer needs in every API: lenient JSON, token counts, tool calls that arrive in pieces."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, TypeVar
from uuid import uuid4

import msgspec

from sluice.agent.ports import ModelError
from sluice.models.names import WireNames
from sluice.persistence.records import ToolCallRecord

__all__ = ["Call", "broken_off", "count", "decoded", "records"]

T = TypeVar("T")


class Call:
    """One tool call while its pieces arrive. `id` is the service's own, "" as long as it has said none."""

    __slots__ = ("arguments", "id", "name")

    def __init__(self, id: str = "", name: str = "") -> None:
        self.id = id
        self.name = name
        self.arguments: list[str] = []


def records(calls: Iterable[Call], names: WireNames, *, cut: bool) -> tuple[ToolCallRecord, ...]:
    """The finished calls, by our names. `cut` says that the answer hit its length limit, so half a call may stand at
    its end.

    A call without arguments has `{}`; a call that was cut in the middle of its arguments is left out, since running
    it would do something nobody asked for.
    """
    found = []
    for call in calls:
        arguments = "".join(call.arguments).strip()
        if cut and not _is_object(arguments):
            continue
        if call.name:
            found.append(ToolCallRecord(call.id or f"call_{uuid4().hex}", names.ours(call.name), arguments or "{}"))
    return tuple(found)


def broken_off() -> ModelError:
    """The error for an answer that ended before it was said how."""
    return ModelError("model_error", "the model's answer broke off before its end", retryable=True)


def count(holder: Any, key: str) -> int:
    """A number of tokens in a JSON object; 0 for anything that is none."""
    value = holder.get(key) if isinstance(holder, dict) else None
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else 0


def decoded(decoder: msgspec.json.Decoder[T], data: bytes) -> T:
    """Decode, and what the strict decoder refuses but a person would accept as well: broken characters become U+FFFD.

    Servers that cut a stream by tokens can split an emoji into two lone surrogates, each in a chunk of its own.

    Raises:
        msgspec.DecodeError: it is not JSON, or not of the decoder's type, either way.
    """
    try:
        return decoder.decode(data)
    except msgspec.DecodeError:
        pass
    try:
        value = json.loads(data.decode("utf-8", "replace"))
    except ValueError as error:
        raise msgspec.DecodeError("not JSON") from error
    return decoder.decode(msgspec.json.encode(_whole_characters(value)))


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _whole_characters(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [_whole_characters(item) for item in value]
    if isinstance(value, dict):
        return {_whole_characters(key): _whole_characters(item) for key, item in value.items()}
    return value
