"""The answer of a Claude model, put together from the events of a stream or from one whole object.

Source: Claude API documentation, "Streaming messages", "Stop reasons", "Prompt caching" (how its tokens are counted).
"""

from __future__ import annotations

import json
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
    """One event, or a whole message. Types are checked where a value is used."""

    type: Any = None
    message: Any = None
    index: Any = None
    content_block: Any = None
    delta: Any = None
    usage: Any = None
    error: Any = None
    content: Any = None
    model: Any = None
    stop_reason: Any = None


_DECODER = msgspec.json.Decoder(_Event)

_FINISH = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "refusal",
}
"""Stop reason -> ours; every other one is an ordinary end."""


class _Block:
    """One content block while its pieces arrive. `given` is what it began with."""

    __slots__ = ("call", "given", "kind", "signature", "text")

    def __init__(self, given: dict[str, Any]) -> None:
        self.given = given
        self.kind = str(given.get("type"))
        self.text: list[str] = []
        self.signature = ""
        self.call: Call | None = None
        if self.kind == "tool_use":
            self.call = Call(str(given.get("id") or ""), str(given.get("name") or ""))
            if given.get("input"):
                self.call.arguments.append(json.dumps(given["input"], ensure_ascii=False))

    def kept(self) -> dict[str, Any] | None:
        """What stands for the block in what is carried, None for nothing."""
        if self.call is not None:
            return {"call": self.call.id}
        text = "".join(self.text)
        if self.kind == "thinking":
            return {"own": {"type": "thinking", "thinking": text, "signature": self.signature}}
        if self.kind == "text":
            return {"text": len(text)} if text else None
        return {"own": self.given}


class Answer:
    """Collects one answer; see `apis.Answer`."""

    def __init__(self, names: WireNames, mark: str = "") -> None:
        """Begin with the mapping of the request's tools and the mark of everything that was sent."""
        self._names = names
        self._mark = mark
        self._blocks: dict[int, _Block] = {}
        self._stop = ""
        self._usage: dict[str, Any] = {}
        self._model = ""
        self.done = False

    @property
    def usage(self) -> Usage | None:
        """What the server has said so far that the call has used, None when it has not."""
        return read_usage(self._usage) if self._usage else None

    @property
    def complete(self) -> bool:
        """Whether the server has said how the answer ended."""
        return self.done or bool(self._stop)

    def absorb(self, data: bytes) -> Sequence[Delta]:
        """Take the data of one event, or one whole answer; see `apis.Answer`."""
        if self.done or not data:
            return ()
        event = decoded(_DECODER, data)
        if event.type == "content_block_delta":
            return self._extend(event.index, event.delta if isinstance(event.delta, dict) else {})
        if event.type == "error" or event.error:
            raise StreamError(event.error or {})
        if event.type == "content_block_start":
            return self._begin(event.index, event.content_block)
        if event.type == "message_start":
            self._head(event.message if isinstance(event.message, dict) else {})
        elif event.type == "message_delta":
            self._tail(event.usage, event.delta.get("stop_reason") if isinstance(event.delta, dict) else None)
        elif event.type == "message_stop":
            self.done = True
        elif event.type == "message":
            return self._whole(event)
        return ()

    def _head(self, message: dict[str, Any]) -> None:
        self._model = str(message.get("model") or "")
        if isinstance(message.get("usage"), dict):
            self._usage.update(message["usage"])

    def _tail(self, usage: Any, stop: Any) -> None:
        if isinstance(usage, dict):
            # Counts are cumulative; what is not repeated stays as the beginning had it.
            self._usage.update({key: value for key, value in usage.items() if value is not None})
        self._stop = str(stop or self._stop)

    def _begin(self, index: Any, given: Any) -> Sequence[Delta]:
        if not isinstance(given, dict):
            return ()
        block = _Block(given)
        self._blocks[index if isinstance(index, int) else len(self._blocks)] = block
        block.signature = str(given.get("signature") or "")
        return self._said(block, given.get("thinking") if block.kind == "thinking" else given.get("text"))

    def _extend(self, index: Any, delta: dict[str, Any]) -> Sequence[Delta]:
        block = self._blocks.get(index)
        if block is None:
            return ()
        if block.call is not None:
            if isinstance(delta.get("partial_json"), str):
                block.call.arguments.append(delta["partial_json"])
            return ()
        block.signature += str(delta.get("signature") or "")
        return self._said(block, delta.get("text") or delta.get("thinking"))

    def _said(self, block: _Block, text: Any) -> Sequence[Delta]:
        if not isinstance(text, str) or not text or block.kind not in ("text", "thinking"):
            return ()
        block.text.append(text)
        return (Delta("content" if block.kind == "text" else "thought", text),)

    def _whole(self, message: _Event) -> Sequence[Delta]:
        """A message in one piece, from a server that does not stream."""
        self._model = str(message.model or "")
        deltas: list[Delta] = []
        for index, block in enumerate(message.content if isinstance(message.content, list) else ()):
            deltas += self._begin(index, block)
        self._tail(message.usage, message.stop_reason)
        return deltas

    def response(self) -> ModelResponse:
        """The whole answer; see `apis.Answer`."""
        blocks = [self._blocks[index] for index in sorted(self._blocks)]
        if not self._stop:
            raise broken_off()
        reason = _FINISH.get(self._stop, "stop")
        calls = records((block.call for block in blocks if block.call), self._names, cut=reason == "length")
        if reason in ("stop", "tool_calls"):
            reason = "tool_calls" if calls else "stop"
        refused = reason == "refusal"
        text = "".join(piece for block in blocks if block.kind == "text" for piece in block.text)
        return ModelResponse(
            text=text,
            thought="".join(piece for block in blocks if block.kind == "thinking" for piece in block.text),
            tool_calls=() if refused else calls,
            finish_reason=reason,
            usage=self.usage,
            model=self._model,
            carried="" if refused else self._sealed(blocks, text, calls),
        )

    def _sealed(self, blocks: Sequence[_Block], text: str, calls: Sequence[ToolCallRecord]) -> str:
        """What is handed back with the answer: nothing, unless it has signed thoughts."""
        signed = any(block.kind == "redacted_thinking" or block.signature for block in blocks)
        kept = [piece for block in blocks if (piece := block.kept()) is not None]
        return sealed(self._mark, kept, text, calls) if signed else ""


def read_usage(usage: dict[str, Any]) -> Usage:
    """The token counts of a `usage` object; there the input is what no cache had to do with."""
    read, written = count(usage, "cache_read_input_tokens"), count(usage, "cache_creation_input_tokens")
    return Usage(
        input_tokens=count(usage, "input_tokens") + read + written,
        output_tokens=count(usage, "output_tokens"),
        cached_input_tokens=read,
        cached_write_tokens=written,
        reasoning_tokens=count(usage.get("output_tokens_details"), "thinking_tokens"),
    )
