"""OpenAI's Responses API, used without anything being stored at the service: every call carries the whole history.

What the model thinks stays sealed; it comes back encrypted and goes back in front of what it led to (`carried`).

Source: OpenAI API reference, "Create a model response" and "Streaming events"; guides "Reasoning models" and
"Function calling"; requirement models.providers.openai-responses.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from sluice.agent.ports import ModelRequest
from sluice.models.apis import Api, Asked, below
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
from sluice.models.openai_responses_answer import Answer
from sluice.models.settings import ResolvedModel
from sluice.models.thinking import reasons, thinking_options
from sluice.persistence.records import Message, Part, ToolCallRecord

__all__ = ["API", "request_body"]

_PROTECTED = frozenset({"input", "stream", "store"})
_LEAST_OUTPUT = 16
"""Tokens; the service refuses less."""


def request_body(
    resolved: ResolvedModel, request: ModelRequest, names: WireNames, distrusted: frozenset[str] = frozenset()
) -> tuple[dict[str, Any], Replay]:
    """The JSON body of one streamed call, and what its history carries; options that are not set are left out.

    Args:
        resolved: the model and its options; `provider_opts.extra_body` is laid over the result.
        request: the prompt.
        names: the mapping made from the request's tools.
        distrusted: marks of what the service does not take back.
    """
    options = resolved.options
    instructions = "\n\n".join(m.text for m in request.messages if m.role == "system" and m.text.strip())
    tools = [
        {"type": "function", "name": name, "description": description, "parameters": schema, "strict": False}
        for name, description, schema in tools_of(request.tools, names)
    ]
    prefix = Prefix(resolved)
    prefix.add(instructions, tools)
    replay = Replay(prefix, _Told(names), distrusted)
    items = _input(request.messages, replay, capabilities(resolved))
    body: dict[str, Any] = {"model": resolved.model, "input": items, "stream": True, "store": False}
    if instructions:
        body["instructions"] = instructions
    if tools:
        body["tools"] = tools
        if options.parallel_tool_calls is not None:
            body["parallel_tool_calls"] = options.parallel_tool_calls
    limit = output_limit(options.max_tokens, request.max_output_tokens)
    if limit is not None:
        body["max_output_tokens"] = max(limit, _LEAST_OUTPUT)
    for key in ("temperature", "top_p"):
        if getattr(options, key) is not None:
            body[key] = getattr(options, key)
    body.update(_reasoning(resolved))
    if request.structured_output:
        body["text"] = {"format": {"type": "json_schema", **request.structured_output}}
    return {**body, **extra_body(resolved, _PROTECTED)}, replay


def _reasoning(resolved: ResolvedModel) -> dict[str, Any]:
    """How much it thinks, and that its sealed thoughts come back; nothing for a model that is not known to think.

    Summaries of the thoughts are asked for only where the file says so: OpenAI gives them to verified organizations.
    """
    asked = thinking_options(resolved.provider, resolved.model, getattr(resolved.options, "thinking_budget", None))
    reasoning = dict(asked.get("reasoning", {}))
    if "reasoning_effort" in asked:
        reasoning["effort"] = asked["reasoning_effort"]
    if resolved.options.provider_opts.get("thinking_display") == "summarized":
        reasoning["summary"] = "auto"
    if not reasoning and not reasons(resolved.provider, resolved.model):
        return {}
    return {"include": ["reasoning.encrypted_content"], **({"reasoning": reasoning} if reasoning else {})}


# --- the conversation --------------------------------------------------------------------------------------------


class _Told:
    """How the format writes what an answer says; see `carried.Told`."""

    def __init__(self, names: WireNames) -> None:
        self._names = names

    def text(self, text: str, piece: Mapping[str, Any]) -> Block:
        phase = {"phase": piece["phase"]} if "phase" in piece else {}
        return {"type": "message", "role": "assistant", **phase, "content": [{"type": "output_text", "text": text}]}

    def call(self, call: ToolCallRecord, id: str, piece: Mapping[str, Any]) -> Block:
        arguments = json.dumps(arguments_of(call.arguments), ensure_ascii=False)
        return {"type": "function_call", "call_id": id, "name": self._names.wire(call.name), "arguments": arguments}


def _input(messages: Iterable[Message], replay: Replay, taken: Mapping[str, bool]) -> list[Block]:
    items: list[Block] = []
    for message in messages:
        for item in _items(message, replay, taken):
            items.append(item)
            replay.prefix.add(item)
    return items


def _items(message: Message, replay: Replay, taken: Mapping[str, bool]) -> list[Block]:
    if message.role == "assistant":
        return replay.answer(message)
    if message.role == "tool":
        output = as_text(message.parts) or "(no output)"
        return [{"type": "function_call_output", "call_id": replay.id_of(message.tool_call_id), "output": output}]
    if message.role == "system":
        return []
    content = blocks_of(
        message.parts, partial(_media, taken=taken), lambda text: {"type": "input_text", "text": text}
    )
    return [{"type": "message", "role": "user", "content": content}] if content else []


def _media(part: Part, taken: Mapping[str, bool]) -> Block | None:
    """The part as the format's own medium, None when it has to be told in words; sounds always are
    (audio.provider.others-notice-only).
    """
    url = f"data:{part.mime_type};base64,{part.data}"
    if part.type == "image" and taken.get("image", True):
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    if part.mime_type == "application/pdf" and taken.get("pdf"):
        return {"type": "input_file", "filename": part.name or "document.pdf", "file_data": url}
    return None


def _ask(resolved: ResolvedModel, request: ModelRequest, distrusted: frozenset[str]) -> Asked:
    names = WireNames(tool.name for tool in request.tools)
    body, replay = request_body(resolved, request, names, distrusted)
    return Asked(body, Answer(names, replay.prefix.mark), frozenset(replay.used))


API = Api("a server of the Responses API", below("responses"), _ask)
