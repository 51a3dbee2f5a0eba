"""The answer of a chat-completions server, put together from the chunks of a stream or from one whole object.

Servers that call themselves compatible differ in small ways; what is tolerated here, each seen in the field: tool
call deltas without index or id, names and arguments in pieces or at once, arguments as an object, several calls in
one delta, several calls under one index, `function_call` of the older format, null in any place, and half a
surrogate pair in a text.

Source: OpenAI API reference, "The chat completion chunk object".
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from sluice.agent.ports import Delta, ModelError, ModelResponse
from sluice.models.apis import StreamError
from sluice.models.names import WireNames
from sluice.models.reading import Call, broken_off, count, decoded, records
from sluice.persistence.records import ToolCallRecord, Usage

__all__ = ["Answer", "read_usage"]


class _Piece(msgspec.Struct, gc=False):
    """`delta` of a stream or `message` of a whole answer. Types are checked where a value is used."""

    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    refusal: Any = None
    tool_calls: Any = None
    function_call: Any = None


class _Choice(msgspec.Struct, gc=False):
    index: int | None = 0
    delta: _Piece | None = None
    message: _Piece | None = None
    finish_reason: Any = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: Any = None
    model: Any = None
    error: Any = None
    object: Any = None
    message: Any = None
    code: Any = None


_DECODER = msgspec.json.Decoder(_Chunk)

_FINISH = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "refusal",
    "refusal": "refusal",
    "safety": "refusal",
    "sensitive": "refusal",
}
_BROKEN_OFF = frozenset({"error", "abort", "network_error", "insufficient_system_resource"})
"""Finish reasons by which servers say that they failed half-way; the same request may well succeed."""


class _Calls:
    """The tool calls of one answer, in the order in which they began."""

    def __init__(self) -> None:
        self._calls: list[Call] = []
        self._by_index: dict[int, Call] = {}

    def __bool__(self) -> bool:
        return bool(self._calls)

    def absorb(self, pieces: Any) -> None:
        """Take the `tool_calls` of one delta."""
        touched: set[int] = set()
        for piece in pieces if isinstance(pieces, list) else (pieces,):
            if not isinstance(piece, dict):
                continue
            function = piece.get("function")
            function = function if isinstance(function, dict) else piece
            call = self._call_for(piece, function, touched)
            touched.add(id(call))
            self._extend(call, piece.get("id"), function)

    def _call_for(self, piece: dict[str, Any], function: dict[str, Any], touched: set[int]) -> Call:
        index, given = piece.get("index"), piece.get("id")
        name = function.get("name")
        if isinstance(index, int):
            known = self._by_index.get(index)
            # One index for several whole calls: a second id together with a second name begins a second call. A new
            # id alone does not, because some servers make up an id for every delta.
            if known is None or (given and known.id and str(given) != known.id and name):
                known = self._by_index[index] = self._begin()
            return known
        if given:
            known = next((call for call in self._calls if call.id == str(given)), None)
            return known or self._begin()
        last = self._calls[-1] if self._calls else None
        if last is None or (name and (last.arguments or id(last) in touched)):
            return self._begin()
        return last

    def _begin(self) -> Call:
        call = Call()
        self._calls.append(call)
        return call

    @staticmethod
    def _extend(call: Call, given: Any, function: dict[str, Any]) -> None:
        if given and not call.id:
            call.id = str(given)
        name = function.get("name")
        # A server that repeats the whole name in every delta sends what is already there.
        if isinstance(name, str) and name and name != call.name:
            call.name += name
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            if arguments:
                call.arguments.append(arguments)
        elif arguments is not None:
            call.arguments.append(json.dumps(arguments, ensure_ascii=False))

    def records(self, names: WireNames, *, cut: bool) -> tuple[ToolCallRecord, ...]:
        """The finished calls, see `reading.records`."""
        return records(self._calls, names, cut=cut)


class Answer:
    """Collects one answer. Feed it with `absorb`, then ask for `response`."""

    def __init__(self, names: WireNames) -> None:
        self._names = names
        self._text: list[str] = []
        self._thought: list[str] = []
        self._calls = _Calls()
        self._finish = ""
        self._usage: Usage | None = None
        self._model = ""
        self._refused = False
        self.done = False
        """Whether the server said `[DONE]`."""

    @property
    def usage(self) -> Usage | None:
        """What the server has said so far that the call has used, None when it has not."""
        return self._usage

    @property
    def complete(self) -> bool:
        """Whether the server has said how the answer ended; what follows is accounting only."""
        return self.done or bool(self._finish)

    def absorb(self, data: bytes) -> Sequence[Delta]:
        """Take the data of one event, or one whole answer.

        Args:
            data: a JSON object, `[DONE]` or nothing; whatever follows `[DONE]` is ignored.

        Returns:
            The visible pieces in it, to be shown now; most often one.

        Raises:
            StreamError: the server reports an error in place of a chunk.
            msgspec.DecodeError: `data` is not JSON, or not an object of a chat completion.
        """
        if self.done or not data:
            return ()
        if data == b"[DONE]":
            self.done = True
            return ()
        chunk = decoded(_DECODER, data)
        if chunk.error or chunk.object == "error":
            raise StreamError(chunk.error or {"message": chunk.message, "code": chunk.code})
        if chunk.usage is not None:
            self._usage = read_usage(chunk.usage) or self._usage
        if not self._model and isinstance(chunk.model, str):
            self._model = chunk.model
        if not chunk.choices:
            return ()
        return self._absorb_choice(chunk.choices[0])

    def _absorb_choice(self, choice: _Choice) -> Sequence[Delta]:
        if choice.finish_reason:
            self._finish = str(choice.finish_reason)
        piece = choice.delta or choice.message
        if piece is None:
            return ()
        deltas = []
        if piece.reasoning_content or piece.reasoning:
            thought = _text_of(piece.reasoning_content) or _text_of(piece.reasoning)
            if thought:
                self._thought.append(thought)
                deltas.append(Delta("thought", thought))
        text = piece.content if isinstance(piece.content, str) else _text_of(piece.content)
        if piece.refusal and isinstance(piece.refusal, str):
            self._refused = True
            text += piece.refusal
        if text:
            self._text.append(text)
            deltas.append(Delta("content", text))
        if piece.tool_calls:
            self._calls.absorb(piece.tool_calls)
        elif piece.function_call:
            self._calls.absorb([{"index": 0, "function": piece.function_call}])
        return deltas

    def response(self) -> ModelResponse:
        """The whole answer.

        Raises:
            ModelError: the stream ended before the answer did, or the server says that it failed half-way.
        """
        if not self.complete or (not self._finish and not (self._text or self._calls)):
            raise broken_off()
        if self._finish in _BROKEN_OFF:
            raise ModelError("model_error", "the model server gave up in the middle of its answer", retryable=True)
        reason = "refusal" if self._refused else _FINISH.get(self._finish.lower(), "stop")
        calls = self._calls.records(self._names, cut=reason == "length")
        if reason in ("stop", "tool_calls"):
            # Some servers end an answer that holds calls with "stop", and one without any with "tool_calls".
            reason = "tool_calls" if calls else "stop"
        return ModelResponse(
            text="".join(self._text),
            thought="".join(self._thought),
            tool_calls=calls if reason != "refusal" else (),
            finish_reason=reason,
            usage=self._usage,
            model=self._model,
        )


def read_usage(usage: Any) -> Usage | None:
    """The token counts of a `usage` object, None when there is none; counts that are no numbers become 0."""
    if not isinstance(usage, dict):
        return None
    return Usage(
        input_tokens=count(usage, "prompt_tokens"),
        output_tokens=count(usage, "completion_tokens"),
        cached_input_tokens=count(usage.get("prompt_tokens_details"), "cached_tokens")
        or count(usage, "prompt_cache_hit_tokens"),
        reasoning_tokens=count(usage.get("completion_tokens_details"), "reasoning_tokens"),
        cached_write_tokens=count(usage.get("prompt_tokens_details"), "cache_write_tokens"),
    )


def _text_of(content: Any) -> str:
    """The text in a content of any form: a string, or a list of parts with `text`."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = (part.get("text") for part in content if isinstance(part, dict))
    return "".join(part for part in parts if isinstance(part, str))
