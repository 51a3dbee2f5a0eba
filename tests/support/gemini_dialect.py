"""The Gemini API as the model server of the tests speaks it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

from tests.support.dialects import sse
from tests.support.gemini_rules import PATH, UNSIGNED, Signed, check_request
from tests.support.steps import Finish, Step, Text, Thought, ToolCalls, Usage

__all__ = ["Gemini"]

FINISH = {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}
STATUS = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED"}

Json = dict[str, Any]


class Gemini:
    """The dialect; one object signs for one server. Each thought gives one signature."""

    base = "/v1beta"

    def __init__(self) -> None:
        self.signed = Signed()

    def serves(self, path: str) -> bool:
        return PATH.fullmatch(path) is not None

    def check(self, path: str, headers: Mapping[str, str], body: Any) -> None:
        check_request(path, body, self.signed)

    def error(self, status: int, message: str) -> Any:
        return {"error": {"code": status, "message": message, "status": STATUS.get(status, "INTERNAL")}}

    def tools(self, body: Any) -> list[str]:
        return [one["name"] for tool in body.get("tools", ()) for one in tool["functionDeclarations"]]

    def carried(self, body: Any) -> int:
        parts = (part for content in body["contents"] for part in content["parts"])
        return sum(part.get("thoughtSignature", UNSIGNED) != UNSIGNED for part in parts)

    def voice(self, body: Json, steps: Sequence[Step]) -> _Voice:
        return _Voice(self.signed, body, steps)


class _Voice:
    """Speaks one reply. The signature of a thought stands on the first call behind it, else alone at the end."""

    streams = True

    def __init__(self, signed: Signed, body: Json, steps: Sequence[Step]) -> None:
        self._signed = signed
        self._shown = body.get("generationConfig", {}).get("thinkingConfig", {}).get("includeThoughts", False)
        self._waiting = False
        self._usage = next((step for step in steps if isinstance(step, Usage)), Usage())

    def begin(self) -> Iterator[bytes]:
        yield from ()

    def events(self, step: Step) -> Iterator[bytes]:
        if isinstance(step, Text):
            yield self._chunk({"text": step.text})
        elif isinstance(step, Thought):
            yield from self._sign()
            self._waiting = True
            if self._shown:
                half = len(step.text) // 2
                for piece in (step.text[:half], step.text[half:]):
                    yield self._chunk({"text": piece, "thought": True})
        elif isinstance(step, ToolCalls):
            for made in step.calls:
                id = made.id or f"fc_{uuid4().hex[:8]}"
                part: Json = {"functionCall": {"id": id, "name": made.name, "args": json.loads(made.json)}}
                if self._waiting:
                    self._waiting = False
                    part = self._signed.sign(part)
                yield self._chunk(part)
        elif isinstance(step, Finish) and step.reason is not None:
            yield from self._sign()
            yield self._chunk({"text": ""}, FINISH.get(step.reason, step.reason))

    def end(self) -> Iterator[bytes]:
        yield from ()

    def whole(self) -> Any:
        raise NotImplementedError("every call is streamed")

    def _sign(self) -> Iterator[bytes]:
        if self._waiting:
            self._waiting = False
            yield self._chunk(self._signed.sign({"text": ""}))

    def _chunk(self, part: Json, finish: str | None = None) -> bytes:
        used = self._usage
        usage = {
            "promptTokenCount": used.input,
            "cachedContentTokenCount": used.cached,
            "candidatesTokenCount": used.output - used.reasoning,
            "thoughtsTokenCount": used.reasoning,
        }
        candidate: Json = {"content": {"role": "model", "parts": [part]}, "index": 0}
        if finish is not None:
            candidate["finishReason"] = finish
        return sse({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-of-the-tests"})
