"""Our history as Claude messages, and a request's body around them.

User and assistant take turns; all results of one answer's calls stand first in the one user message behind it; the
signed thoughts of an answer stand where they stood when they were made, or not at all (`carried`).

Source: Claude API documentation, "Messages", "Handle tool calls", "Preserved thinking", "Prompt caching".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sluice.agent.ports import ModelRequest
from sluice.models.anthropic_thinking import family, thinking
from sluice.models.carried import Prefix, Replay
from sluice.models.content import (
    Block,
    arguments_of,
    as_text,
    blocks_of,
    capabilities,
    extra_body,
    output_limit,
    tools_of,
)
from sluice.models.names import WireNames
from sluice.models.settings import ResolvedModel
from sluice.persistence.records import Message, Part, ToolCallRecord

__all__ = ["History", "history", "request_body"]

_PROTECTED = frozenset({"messages", "stream"})
_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_THOUGHTS = ("thinking", "redacted_thinking")
_CACHED = {"cache_control": {"type": "ephemeral"}}


@dataclass(slots=True)
class History:
    """The messages of one request."""

    replay: Replay
    messages: list[dict[str, Any]] = field(default_factory=list)

    @property
    def unbroken(self) -> bool:
        """Whether the answer whose tools have just run, if there is one, begins with its thoughts."""
        if len(self.messages) < 2 or self.messages[-1]["content"][0]["type"] != "tool_result":
            return True
        return self.messages[-2]["content"][0]["type"] in _THOUGHTS

    def add(self, role: str, content: Sequence[Block]) -> None:
        """Append what one side says, to its message if it has spoken last."""
        if not content:
            return
        if self.messages and self.messages[-1]["role"] == role:
            self.messages[-1]["content"] += content
        else:
            self.messages.append({"role": role, "content": list(content)})
        self.replay.prefix.add(role, content)


def request_body(
    resolved: ResolvedModel, request: ModelRequest, names: WireNames, distrusted: frozenset[str] = frozenset()
) -> tuple[dict[str, Any], History]:
    """The JSON body of one streamed call, and the history in it; options that are not set are left out.

    Args:
        resolved: the model and its options; `provider_opts.extra_body` is laid over the result.
        request: the prompt.
        names: the mapping made from the request's tools.
        distrusted: marks of what the service does not take back.
    """
    kind, options = family(resolved.model), resolved.options
    system = _system(request.messages)
    tools = [
        {"name": name, "description": description, "input_schema": schema}
        for name, description, schema in tools_of(request.tools, names)
    ]
    prefix = Prefix(resolved)
    prefix.add(system, tools)
    told = history(request.messages, Replay(prefix, _Told(names), distrusted), capabilities(resolved))
    room = output_limit(options.max_tokens or kind.max_tokens, request.max_output_tokens) or kind.max_tokens
    body: dict[str, Any] = {"model": resolved.model, "max_tokens": room, "messages": told.messages, "stream": True}
    if system:
        body["system"] = system
    if tools:
        body["tools"] = tools
        if options.parallel_tool_calls is not None:
            body["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": not options.parallel_tool_calls}
    body.update(thinking(resolved, room, unbroken=told.unbroken))
    if kind.sampling and "thinking" not in body:
        body.update(_sampling(resolved))
    if request.structured_output:
        form = {"type": "json_schema", "schema": request.structured_output["schema"]}
        body["output_config"] = {**body.get("output_config", {}), "format": form}
    return {**_with_cache_marks(body), **extra_body(resolved, _PROTECTED)}, told


def _system(messages: Iterable[Message]) -> list[Block]:
    texts = (message.text for message in messages if message.role == "system")
    return [{"type": "text", "text": text} for text in texts if text.strip()]


def _sampling(resolved: ResolvedModel) -> Mapping[str, float]:
    """The options that the service knows; its temperature ends at 1, and penalties it has none."""
    options = resolved.options
    set_ = {"temperature": options.temperature, "top_p": options.top_p}
    return {name: min(value, 1.0) for name, value in set_.items() if value is not None}


def _with_cache_marks(body: dict[str, Any]) -> dict[str, Any]:
    """The body with marks up to which the service may keep the prompt: behind the system text and the tools, and
    behind the last two things that the user's side has said, so that the next call finds what this one left.
    """
    marked = dict(body)
    if "system" in body:
        marked["system"] = [*body["system"][:-1], {**body["system"][-1], **_CACHED}]
    elif "tools" in body:
        marked["tools"] = [*body["tools"][:-1], {**body["tools"][-1], **_CACHED}]
    messages = list(body["messages"])
    ends = [place for place, message in enumerate(messages) if message["role"] == "user"][-2:]
    for place in ends:
        *before, last = messages[place]["content"]
        messages[place] = {"role": "user", "content": [*before, {**last, **_CACHED}]}
    marked["messages"] = messages
    return marked


# --- the messages ------------------------------------------------------------------------------------------------


def history(messages: Iterable[Message], replay: Replay, taken: Mapping[str, bool]) -> History:
    """The messages of a conversation, without its system texts.

    Args:
        messages: a valid history: each tool call has exactly one result, right after it.
        replay: what stands before the messages, and what the service made earlier.
        taken: what the model takes besides text; images are sent unless they are ruled out, PDF only when named.
    """
    told = History(replay)
    for message in messages:
        if message.role == "assistant":
            told.add("assistant", replay.answer(message))
        elif message.role == "tool":
            told.add("user", [_result(message, replay.id_of(message.tool_call_id))])
        elif message.role == "user":
            told.add("user", blocks_of(message.parts, partial(_media, taken=taken), _text))
    return told


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


class _Told:
    """How the format writes what an answer says; see `carried.Told`."""

    def __init__(self, names: WireNames) -> None:
        self._names = names

    def text(self, text: str, piece: Mapping[str, Any]) -> Block:
        return _text(text)

    def call(self, call: ToolCallRecord, id: str, piece: Mapping[str, Any]) -> Block:
        name = self._names.wire(call.name)
        return {"type": "tool_use", "id": id, "name": name, "input": arguments_of(call.arguments)}


def _result(message: Message, id: str) -> Block:
    result = {"type": "tool_result", "tool_use_id": id, "content": as_text(message.parts) or "(no output)"}
    return {**result, "is_error": True} if message.status == "failed" else result


def _media(part: Part, taken: Mapping[str, bool]) -> Block | None:
    """The part as the format's own medium, None when it has to be told in words; sounds always are
    (audio.provider.others-notice-only).
    """
    source = {"type": "base64", "media_type": part.mime_type, "data": part.data}
    if part.type == "image" and part.mime_type in _IMAGES and taken.get("image", True):
        return {"type": "image", "source": source}
    if part.mime_type == "application/pdf" and taken.get("pdf"):
        return {"type": "document", "source": source, **({"title": part.name} if part.name else {})}
    return None
