"""The answer of the Responses API, put together from the events of a stream or from one whole object.

Source: OpenAI API reference, "Streaming events" and "The response object".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from sluice.agent.ports import Delta, ModelResponse
from sluice.models.apis import StreamError
from sluice.models.carried import sealed
from sluice.models.names import WireNames
from sluice.models.reading import Call, broken_off, count, decoded, records
from sluice.persistence.records import ToolCallRecord, Usage

__all__ = ["Answer", "read_usage"]


class _Event(msgspec.Struct, gc=False):
    """One event, or a whole response. Types are checked where a value is used."""

    type: Any = None
    object: Any = None
    response: Any = None
    output_index: Any = None
    item: Any = None
    delta: Any = None
    summary_index: Any = None
    error: Any = None
    code: Any = None
    message: Any = None


_DECODER = msgspec.json.Decoder(_Event)
_WHOLE = msgspec.json.Decoder(dict[str, Any])

_CHANNELS = {
    "response.output_text.delta": "content",
    "response.refusal.delta": "content",
    "response.reasoning_summary_text.delta": "thought",
    "response.reasoning_text.delta": "thought",
}
_LAST = ("response.completed", "response.incomplete", "response.failed")


class _Item:
    """One output item while its pieces arrive. `given` is how it began, then how it ended."""

    __slots__ = ("call", "given", "kind", "text")

    def __init__(self, given: dict[str, Any]) -> None:
        self.kind = str(given.get("type"))
        self.given = given
        self.text: list[str] = []
        self.call = Call() if self.kind == "function_call" else None
        self.end(given)

    def end(self, given: dict[str, Any]) -> None:
        """Take the item as it stands at its beginning or at its end; an end has the arguments whole."""
        self.given = given
        if self.call is not None:
            self.call.id = str(given.get("call_id") or self.call.id)
            self.call.name = str(given.get("name") or self.call.name)
            if given.get("arguments"):
                self.call.arguments = [str(given["arguments"])]

    @property
    def follows(self) -> bool:
        """Whether it is something that a thought can have led to."""
        return self.call is not None or (self.kind == "message" and bool("".join(self.text).strip()))

    def kept(self) -> dict[str, Any] | None:
        """What stands for the item in what is carried, None for nothing."""
        if self.call is not None:
            return {"call": self.call.id}
        if self.kind == "message":
            phase = {"phase": self.given["phase"]} if self.given.get("phase") else {}
            length = sum(map(len, self.text))
            return {"text": length, **phase} if length else None
        if self.kind == "reasoning" and self.given.get("encrypted_content"):
            names = ("type", "id", "summary", "encrypted_content")
            return {"own": {name: self.given[name] for name in names if name in self.given}}
        return None


class Answer:
    """Collects one answer; see `apis.Answer`."""

    def __init__(self, names: WireNames, mark: str = "") -> None:
        """Begin with the mapping of the request's tools and the mark of everything that was sent."""
        self._names = names
        self._mark = mark
        self._items: dict[int, _Item] = {}
        self._response: dict[str, Any] = {}
        self._refused = False
        self.done = False

    @property
    def usage(self) -> Usage | None:
        """What the server has said so far that the call has used, None when it has not."""
        return read_usage(self._response.get("usage"))

    @property
    def complete(self) -> bool:
        """Whether the server has said how the answer ended."""
        return self.done

    def absorb(self, data: bytes) -> Sequence[Delta]:
        """Take the data of one event, or one whole answer; see `apis.Answer`."""
        if self.done or not data or data == b"[DONE]":
            return ()
        event = decoded(_DECODER, data)
        if event.type in _CHANNELS:
            return self._extend(event)
        if event.type == "response.function_call_arguments.delta":
            item = self._items.get(_place(event.output_index))
            if item is not None and item.call is not None:
                item.call.arguments.append(str(event.delta or ""))
        elif event.type in ("response.output_item.added", "response.output_item.done"):
            return self._item(event.output_index, event.item)
        elif event.type == "response.reasoning_summary_part.added" and event.summary_index:
            return self._said(event.output_index, "thought", "\n\n")
        elif event.type in _LAST:
            status = event.type.removeprefix("response.")
            return self._end({"status": status, **(event.response if isinstance(event.response, dict) else {})})
        elif event.object == "response":
            return self._end(decoded(_WHOLE, data))
        elif event.type == "error" or event.error:
            raise StreamError(event.error or {"code": event.code, "message": event.message})
        return ()

    def _extend(self, event: _Event) -> Sequence[Delta]:
        self._refused = self._refused or event.type == "response.refusal.delta"
        return self._said(event.output_index, _CHANNELS[event.type], event.delta)

    def _said(self, index: Any, channel: str, text: Any) -> Sequence[Delta]:
        if not isinstance(text, str) or not text:
            return ()
        kind = "message" if channel == "content" else "reasoning"
        self._items.setdefault(_place(index), _Item({"type": kind})).text.append(text)
        return (Delta("content" if channel == "content" else "thought", text),)

    def _item(self, index: Any, given: Any) -> Sequence[Delta]:
        """An item begins or ends. What it says that has not been streamed is said now."""
        if not isinstance(given, dict):
            return ()
        item = self._items.setdefault(_place(index), _Item(given))
        item.end(given)
        if item.kind != "message" or item.text:
            return ()
        parts = [part for part in given.get("content") or () if isinstance(part, dict)]
        self._refused = self._refused or any(part.get("refusal") for part in parts)
        return self._said(
            index, "content", "".join(str(part.get("text") or part.get("refusal") or "") for part in parts)
        )

    def _end(self, response: dict[str, Any]) -> Sequence[Delta]:
        self._response = response
        if response.get("status") == "failed" or response.get("error"):
            raise StreamError(response.get("error") or {})
        deltas: list[Delta] = []
        for index, item in enumerate(response.get("output") or ()):
            deltas += self._item(index, item)
        self.done = True
        return deltas

    def response(self) -> ModelResponse:
        """The whole answer; see `apis.Answer`."""
        if not self._response.get("status"):
            raise broken_off()
        items = [self._items[index] for index in sorted(self._items)]
        reason = self._reason()
        calls = records((item.call for item in items if item.call), self._names, cut=reason == "length")
        if reason == "stop" and calls:
            reason = "tool_calls"
        refused = reason == "refusal"
        text = "".join(piece for item in items if item.kind == "message" for piece in item.text)
        return ModelResponse(
            text=text,
            thought="".join(piece for item in items if item.kind == "reasoning" for piece in item.text),
            tool_calls=() if refused else calls,
            finish_reason=reason,
            usage=self.usage,
            model=str(self._response.get("model") or ""),
            carried="" if refused else self._sealed(items, text, calls),
        )

    def _reason(self) -> str:
        if self._refused:
            return "refusal"
        if self._response["status"] != "incomplete":
            return "stop"
        details = self._response.get("incomplete_details")
        why = details.get("reason") if isinstance(details, dict) else ""
        return "refusal" if why == "content_filter" else "length"

    def _sealed(self, items: Sequence[_Item], text: str, calls: Sequence[ToolCallRecord]) -> str:
        """What is handed back with the answer: nothing, unless something in it is more than its text and its calls.

        Sealed thoughts that led to nothing (the answer was cut) are left out: the service wants what follows them.
        """
        last = max((place for place, item in enumerate(items) if item.follows), default=-1)
        found = [(place, item.kept()) for place, item in enumerate(items)]
        kept = [piece for place, piece in found if piece is not None and (place <= last or "own" not in piece)]
        more = any({"own", "phase"} & piece.keys() for piece in kept)
        return sealed(self._mark, kept, text, calls) if more else ""


def _place(index: Any) -> int:
    """Where an item stands; a server that does not say has one item only."""
    return index if isinstance(index, int) else 0


def read_usage(usage: Any) -> Usage | None:
    """The token counts of a `usage` object, None when there is none."""
    if not isinstance(usage, dict):
        return None
    details = usage.get("input_tokens_details")
    return Usage(
        input_tokens=count(usage, "input_tokens"),
        output_tokens=count(usage, "output_tokens"),
        cached_input_tokens=count(details, "cached_tokens"),
        cached_write_tokens=count(details, "cache_write_tokens"),
        reasoning_tokens=count(usage.get("output_tokens_details"), "reasoning_tokens"),
    )
