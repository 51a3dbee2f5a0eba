"""OpenAI chat completions as the model server of the tests speaks them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

from tests.support.chat_rules import check_request
from tests.support.dialects import sse
from tests.support.steps import Call, Finish, Step, Text, Thought, ToolCalls, Usage

__all__ = ["CHAT", "Chat"]


class Chat:
    """The dialect."""

    base = "/v1"

    def serves(self, path: str) -> bool:
        return path.endswith("/chat/completions")

    def check(self, path: str, headers: Mapping[str, str], body: Any) -> None:
        check_request(body)

    def error(self, status: int, message: str) -> Any:
        return {"error": {"message": message, **({"type": "invalid_request_error"} if status == 400 else {})}}

    def tools(self, body: Any) -> list[str]:
        return [tool["function"]["name"] for tool in body.get("tools", ())]

    def carried(self, body: Any) -> int:
        return 0

    def voice(self, body: dict[str, Any], steps: Sequence[Step]) -> _Voice:
        return _Voice(body, steps)


CHAT = Chat()


class _Voice:
    """Speaks one reply."""

    def __init__(self, body: dict[str, Any], steps: Sequence[Step]) -> None:
        self._body = body
        self._steps = steps
        self._id = f"chatcmpl-{uuid4().hex[:12]}"
        self._index = 0

    @property
    def streams(self) -> bool:
        return bool(self._body.get("stream"))

    def begin(self) -> Iterator[bytes]:
        yield self._event({"role": "assistant", "content": ""})

    def end(self) -> Iterator[bytes]:
        yield b"data: [DONE]\n\n"

    def events(self, step: Step) -> Iterator[bytes]:
        """The events of one step."""
        if isinstance(step, Text):
            yield self._event({"content": step.text})
        elif isinstance(step, Thought):
            yield self._event({step.key: step.text})
        elif isinstance(step, ToolCalls):
            for made in step.calls:
                yield from self._call_events(made)
        elif isinstance(step, Finish) and step.reason is not None:
            yield self._event({}, step.reason)
        elif isinstance(step, Usage) and (self._body.get("stream_options") or {}).get("include_usage"):
            yield sse({**self._envelope(), "choices": [], "usage": _usage(step)})

    def _call_events(self, made: Call) -> Iterator[bytes]:
        index, self._index = self._index, self._index + 1
        half = len(made.json) // 2
        head = {"index": index, "id": made.id or f"call_{uuid4().hex[:12]}", "type": "function"}
        yield self._event({"tool_calls": [{**head, "function": {"name": made.name, "arguments": ""}}]})
        for piece in (made.json[:half], made.json[half:]):
            yield self._event({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})

    def whole(self) -> dict[str, Any]:
        """The reply as one object."""
        steps = self._steps
        message: dict[str, Any] = {"role": "assistant", "content": None}
        spoken = "".join(step.text for step in steps if isinstance(step, Text))
        if spoken:
            message["content"] = spoken
        made = [each for step in steps if isinstance(step, ToolCalls) for each in step.calls]
        if made:
            message["tool_calls"] = [
                {"id": each.id or f"call_{uuid4().hex[:12]}", "type": "function",
                 "function": {"name": each.name, "arguments": each.json}}
                for each in made
            ]  # fmt: skip
        finish = next((step.reason for step in steps if isinstance(step, Finish)), "stop")
        usage = next((step for step in steps if isinstance(step, Usage)), Usage())
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return {**self._envelope(), "object": "chat.completion", "choices": [choice], "usage": _usage(usage)}

    def _envelope(self) -> dict[str, Any]:
        model = self._body.get("model", "")
        return {"id": self._id, "object": "chat.completion.chunk", "created": 1_700_000_000, "model": model}

    def _event(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        return sse({**self._envelope(), "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
