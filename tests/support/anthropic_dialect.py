"""Anthropic's Messages API as the model server of the tests speaks it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

from tests.support.anthropic_rules import Signatures, check_request
from tests.support.dialects import sse
from tests.support.steps import Call, Finish, Step, Text, Thought, ToolCalls, Usage

__all__ = ["Anthropic"]

STOP = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}
KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}


class Anthropic:
    """The dialect; one object signs for one server. A thought with the key `redacted` is sealed."""

    base = ""

    def __init__(self) -> None:
        self.signatures = Signatures()

    def serves(self, path: str) -> bool:
        return path == "/v1/messages"

    def check(self, path: str, headers: Mapping[str, str], body: Any) -> None:
        check_request(headers, body, self.signatures)

    def error(self, status: int, message: str) -> Any:
        error = {"type": KINDS.get(status, "api_error"), "message": message}
        return {"type": "error", "error": error, "request_id": "req_0"}

    def tools(self, body: Any) -> list[str]:
        return [tool["name"] for tool in body.get("tools", ())]

    def carried(self, body: Any) -> int:
        blocks = (block for message in body["messages"] for block in message["content"])
        return sum(block["type"] in ("thinking", "redacted_thinking") for block in blocks)

    def voice(self, body: dict[str, Any], steps: Sequence[Step]) -> _Voice:
        return _Voice(self.signatures, body, steps)


class _Voice:
    """Speaks one reply: neighbouring texts are one block, and a block ends where another kind begins."""

    def __init__(self, signatures: Signatures, body: dict[str, Any], steps: Sequence[Step]) -> None:
        self._signatures = signatures
        self._body = body
        self._usage = next((step for step in steps if isinstance(step, Usage)), Usage())
        self._steps = steps
        self._index = -1
        self._open = ""
        self._ended = False

    @property
    def streams(self) -> bool:
        return bool(self._body.get("stream"))

    def begin(self) -> Iterator[bytes]:
        yield _event("message_start", message={**self._message(), "usage": {**self._input(), "output_tokens": 1}})
        yield _event("ping")

    def events(self, step: Step) -> Iterator[bytes]:
        if isinstance(step, Text):
            if self._open != "text":
                yield from self._start("text", {"type": "text", "text": ""})
            yield self._delta("text_delta", text=step.text)
        elif isinstance(step, Thought):
            yield from self._thought(step)
        elif isinstance(step, ToolCalls):
            for made in step.calls:
                yield from self._call(made)
        elif isinstance(step, Finish) and step.reason is not None:
            yield from self._stop()
            self._ended = True
            delta = {"stop_reason": STOP.get(step.reason, step.reason), "stop_sequence": None}
            yield _event("message_delta", delta=delta, usage={"output_tokens": self._usage.output})
        elif isinstance(step, Usage) and not self._ended:
            yield _event("message_delta", delta={"stop_reason": None}, usage={"output_tokens": step.output})

    def end(self) -> Iterator[bytes]:
        yield _event("message_stop")

    def whole(self) -> dict[str, Any]:
        content = [{"type": "text", "text": step.text} for step in self._steps if isinstance(step, Text)]
        usage = {**self._input(), "output_tokens": self._usage.output}
        return {**self._message(), "content": content, "stop_reason": "end_turn", "usage": usage}

    def _message(self) -> dict[str, Any]:
        head = {"id": f"msg_{uuid4().hex[:12]}", "type": "message", "role": "assistant", "content": []}
        return {**head, "model": self._body["model"], "stop_reason": None, "stop_sequence": None}

    def _input(self) -> dict[str, int]:
        used = self._usage
        return {
            "input_tokens": used.input - used.cached - used.written,
            "cache_read_input_tokens": used.cached,
            "cache_creation_input_tokens": used.written,
        }

    def _thought(self, step: Thought) -> Iterator[bytes]:
        if step.key == "redacted":
            yield from self._start("redacted", self._signatures.redacted(self._body))
            return
        block = self._signatures.sign(self._body, step.text)
        yield from self._start("thinking", {"type": "thinking", "thinking": "", "signature": ""})
        half = len(step.text) // 2
        for piece in (step.text[:half], step.text[half:]):
            yield self._delta("thinking_delta", thinking=piece)
        yield self._delta("signature_delta", signature=block["signature"])

    def _call(self, made: Call) -> Iterator[bytes]:
        head = {"type": "tool_use", "id": made.id or f"toolu_{uuid4().hex[:12]}", "name": made.name, "input": {}}
        yield from self._start("call", head)
        half = len(made.json) // 2
        for piece in ("", made.json[:half], made.json[half:]):
            yield self._delta("input_json_delta", partial_json=piece)

    def _start(self, kind: str, block: dict[str, Any]) -> Iterator[bytes]:
        yield from self._stop()
        self._open = kind
        self._index += 1
        yield _event("content_block_start", index=self._index, content_block=block)

    def _stop(self) -> Iterator[bytes]:
        if self._open:
            self._open = ""
            yield _event("content_block_stop", index=self._index)

    def _delta(self, kind: str, **fields: Any) -> bytes:
        return _event("content_block_delta", index=self._index, delta={"type": kind, **fields})


def _event(kind: str, **fields: Any) -> bytes:
    return sse({"type": kind, **json.loads(json.dumps(fields))}, kind)
