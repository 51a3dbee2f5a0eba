"""The answer of a Gemini model, put together from the pieces of a stream.

Source: Gemini API reference, "GenerateContentResponse"; documentation, "Thought signatures" (where they stand in a
stream).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from sluice.agent.ports import Delta, ModelError, ModelResponse
from sluice.models.apis import StreamError
from sluice.models.carried import sealed
from sluice.models.names import WireNames
from sluice.models.reading import Call, broken_off, count, decoded, records
from sluice.persistence.records import Usage

__all__ = ["Answer", "read_usage"]


class _Chunk(msgspec.Struct, gc=False, rename="camel"):
    """One piece. Types are checked where a value is used."""

    candidates: Any = None
    prompt_feedback: Any = None
    usage_metadata: Any = None
    model_version: Any = None
    error: Any = None


_DECODER = msgspec.json.Decoder(_Chunk)

_REFUSED = frozenset(
    ("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "MODEL_ARMOR")
)
_GAVE_UP = frozenset(("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE", "OTHER"))
"""Reasons that say that the model lost its way; the same request may well succeed."""


class Answer:
    """Collects one answer; see `apis.Answer`."""

    def __init__(self, names: WireNames, mark: str = "") -> None:
        """Begin with the mapping of the request's tools and the mark of everything that was sent."""
        self._names = names
        self._mark = mark
        self._text: list[str] = []
        self._thought: list[str] = []
        self._calls: list[Call] = []
        self._kept: list[dict[str, Any]] = []
        self._finish = ""
        self._usage: Usage | None = None
        self._model = ""
        self.done = False

    @property
    def usage(self) -> Usage | None:
        """What the server has said so far that the call has used, None when it has not."""
        return self._usage

    @property
    def complete(self) -> bool:
        """Whether the server has said how the answer ended; what follows is accounting only."""
        return bool(self._finish)

    def absorb(self, data: bytes) -> Sequence[Delta]:
        """Take the data of one event, or one whole answer; see `apis.Answer`."""
        if self.done or not data:
            return ()
        chunk = decoded(_DECODER, data)
        if chunk.error:
            raise StreamError(chunk.error)
        self._usage = read_usage(chunk.usage_metadata) or self._usage
        self._model = self._model or str(chunk.model_version or "")
        if isinstance(chunk.prompt_feedback, dict) and chunk.prompt_feedback.get("blockReason"):
            self._finish = "SAFETY"
        candidate = chunk.candidates[0] if isinstance(chunk.candidates, list) and chunk.candidates else {}
        content = candidate.get("content") if isinstance(candidate, dict) else None
        parts = content.get("parts") if isinstance(content, dict) else None
        deltas = [delta for part in parts or () if isinstance(part, dict) for delta in self._part(part)]
        self._finish = str(candidate.get("finishReason") or self._finish)
        return deltas

    def _part(self, part: dict[str, Any]) -> Sequence[Delta]:
        signature = part.get("thoughtSignature")
        if isinstance(part.get("functionCall"), dict):
            self._call(part["functionCall"], signature)
            return ()
        text = part.get("text")
        if not isinstance(text, str):
            return ()
        if part.get("thought"):
            self._thought.append(text)
            return (Delta("thought", text),) if text else ()
        self._keep(text, signature)
        self._text.append(text)
        return (Delta("content", text),) if text else ()

    def _call(self, made: dict[str, Any], signature: Any) -> None:
        call = Call(str(made.get("id") or f"call_{len(self._calls)}_{self._mark[:12]}"), str(made.get("name") or ""))
        call.arguments.append(json.dumps(made.get("args") or {}, ensure_ascii=False))
        self._calls.append(call)
        self._kept.append({"call": call.id, **({"signature": signature} if signature else {})})

    def _keep(self, text: str, signature: Any) -> None:
        """Unsigned pieces of a text are one text; a signed one stays by itself, and may be empty."""
        last = self._kept[-1] if self._kept else {}
        if signature and not text.strip():
            # A text of blanks is left out where an answer goes back, and with it the signature would be.
            self._kept += [{"text": len(text)}, {"own": {"text": text, "thoughtSignature": signature}}]
        elif signature:
            self._kept.append({"text": len(text), "signature": signature})
        elif "text" in last and "signature" not in last:
            last["text"] += len(text)
        elif text:
            self._kept.append({"text": len(text)})

    def response(self) -> ModelResponse:
        """The whole answer; see `apis.Answer`."""
        if not self._finish:
            raise broken_off()
        if self._finish in _GAVE_UP:
            raise ModelError("model_error", "the model gave up in the middle of its answer", retryable=True)
        refused = self._finish in _REFUSED
        reason = "refusal" if refused else "length" if self._finish == "MAX_TOKENS" else "stop"
        calls = records(self._calls, self._names, cut=False)
        if reason == "stop" and calls:
            reason = "tool_calls"
        text = "".join(self._text)
        signed = any("signature" in piece or "own" in piece for piece in self._kept)
        return ModelResponse(
            text=text,
            thought="".join(self._thought),
            tool_calls=() if refused else calls,
            finish_reason=reason,
            usage=self._usage,
            model=self._model,
            carried=sealed(self._mark, self._kept, text, calls) if signed and not refused else "",
        )


def read_usage(usage: Any) -> Usage | None:
    """The token counts of `usageMetadata`, None when there is none; there thoughts are not part of the output."""
    if not isinstance(usage, dict):
        return None
    thoughts = count(usage, "thoughtsTokenCount")
    return Usage(
        input_tokens=count(usage, "promptTokenCount") + count(usage, "toolUsePromptTokenCount"),
        output_tokens=count(usage, "candidatesTokenCount") + thoughts,
        cached_input_tokens=count(usage, "cachedContentTokenCount"),
        reasoning_tokens=thoughts,
    )
