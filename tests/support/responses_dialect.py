"""OpenAI's Responses API as the model server of the tests speaks it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

from tests.support.dialects import sse
from tests.support.responses_rules import REASONING, Sealed, check_request
from tests.support.steps import Call, Finish, Step, Text, Thought, ToolCalls, Usage

__all__ = ["Responses"]

INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}

Json = dict[str, Any]


class Responses:
    """The dialect; one object seals for one server. Only models that reason seal what they think."""

    base = "/v1"

    def __init__(self) -> None:
        self.sealed = Sealed()

    def serves(self, path: str) -> bool:
        return path == "/v1/responses"

    def check(self, path: str, headers: Mapping[str, str], body: Any) -> None:
        check_request(body, self.sealed)

    def error(self, status: int, message: str) -> Any:
        kind = "invalid_request_error" if status < 500 else "server_error"
        return {"error": {"message": message, "type": kind, "param": None, "code": None}}

    def tools(self, body: Any) -> list[str]:
        return [tool["name"] for tool in body.get("tools", ())]

    def carried(self, body: Any) -> int:
        return sum(item["type"] == "reasoning" for item in body["input"])

    def voice(self, body: Json, steps: Sequence[Step]) -> _Voice:
        return _Voice(self.sealed, body, steps)


class _Voice:
    """Speaks one reply: neighbouring texts are one message, and an item ends where another begins."""

    def __init__(self, sealed: Sealed, body: Json, steps: Sequence[Step]) -> None:
        self._sealed = sealed
        self._body = body
        self._steps = steps
        self._id = f"resp_{uuid4().hex[:12]}"
        self._output: list[Json] = []
        self._open: Json | None = None
        self._number = -1
        self._finish = "stop"
        usages = [step for step in steps if isinstance(step, Usage)]
        self._usage = usages[0] if usages else Usage()

    @property
    def streams(self) -> bool:
        return bool(self._body.get("stream"))

    def begin(self) -> Iterator[bytes]:
        yield self._event("response.created", response=self._response("in_progress"))

    def events(self, step: Step) -> Iterator[bytes]:
        if isinstance(step, Text):
            if self._open is None:
                message = {"type": "message", "id": f"msg_{uuid4().hex[:8]}", "role": "assistant", "content": []}
                yield from self._start({**message, "phase": "commentary"})
            assert self._open is not None
            self._open["content"].append({"type": "output_text", "text": step.text})
            yield self._piece("response.output_text.delta", content_index=0, delta=step.text)
        elif isinstance(step, Thought):
            yield from self._thought(step.text)
        elif isinstance(step, ToolCalls):
            for made in step.calls:
                yield from self._call(made)
        elif isinstance(step, Finish) and step.reason is not None:
            yield from self._stop()
            self._finish = step.reason
        elif isinstance(step, Usage) and not any(isinstance(each, Finish) for each in self._steps):
            pass  # this API counts at the end only

    def end(self) -> Iterator[bytes]:
        if self._finish in INCOMPLETE:
            details = {"reason": INCOMPLETE[self._finish]}
            yield self._event(
                "response.incomplete", response={**self._response("incomplete"), "incomplete_details": details}
            )
        else:
            yield self._event("response.completed", response=self._response("completed"))

    def whole(self) -> Json:
        return self._response("completed")

    def _thought(self, text: str) -> Iterator[bytes]:
        shown = self._body.get("reasoning", {}).get("summary") is not None
        if not self._body["model"].startswith(REASONING):
            return
        item = self._sealed.seal(text, shown)
        yield from self._start({**item, "summary": [], "encrypted_content": ""})
        if shown:
            half = len(text) // 2
            yield self._piece("response.reasoning_summary_part.added", summary_index=0, part={})
            for piece in (text[:half], text[half:]):
                yield self._piece("response.reasoning_summary_text.delta", summary_index=0, delta=piece)
        self._open = item
        yield from self._stop()

    def _call(self, made: Call) -> Iterator[bytes]:
        id = made.id or f"call_{uuid4().hex[:12]}"
        item = {"type": "function_call", "id": f"fc_{uuid4().hex[:8]}", "call_id": id, "name": made.name}
        yield from self._start({**item, "arguments": ""})
        half = len(made.json) // 2
        for piece in (made.json[:half], made.json[half:]):
            yield self._piece("response.function_call_arguments.delta", delta=piece)
        self._open = {**item, "arguments": made.json, "status": "completed"}
        yield from self._stop()

    def _start(self, item: Json) -> Iterator[bytes]:
        yield from self._stop()
        self._open = item
        self._number += 1
        yield self._piece("response.output_item.added", item=item)

    def _stop(self) -> Iterator[bytes]:
        if self._open is not None:
            item, self._open = self._open, None
            self._output.append(item)
            yield self._piece("response.output_item.done", item=item)

    def _response(self, status: str) -> Json:
        used = self._usage
        usage = {
            "input_tokens": used.input,
            "input_tokens_details": {"cached_tokens": used.cached, "cache_write_tokens": used.written},
            "output_tokens": used.output,
            "output_tokens_details": {"reasoning_tokens": used.reasoning},
            "total_tokens": used.input + used.output,
        }
        head = {"id": self._id, "object": "response", "status": status, "model": self._body["model"], "error": None}
        done = status != "in_progress"
        return {**head, "output": self._output if done else [], "usage": usage if done else None}

    def _piece(self, kind: str, **fields: Any) -> bytes:
        return self._event(kind, output_index=self._number, **fields)

    def _event(self, kind: str, **fields: Any) -> bytes:
        return sse({"type": kind, **fields}, kind)
