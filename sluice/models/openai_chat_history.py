"""Our history as chat-completions messages, and a request's body around them.

Source: OpenAI API reference, "Create chat completion"; stricter servers' rules are honoured too: no empty content,
arguments that are JSON objects, plain names and ids, one system text in front.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from sluice.agent.ports import ModelRequest, ToolSpec
from sluice.models.content import (
    arguments_of,
    as_text,
    blocks_of,
    capabilities,
    extra_body,
    output_limit,
    tools_of,
)
from sluice.models.names import WireNames, wire_id
from sluice.models.settings import ResolvedModel
from sluice.models.thinking import reasons, thinking_options
from sluice.persistence.records import Message, Part, ToolCallRecord

__all__ = ["request_body", "to_chat"]

_SAMPLING = ("temperature", "top_p", "frequency_penalty", "presence_penalty")
_PROTECTED = frozenset({"messages", "stream"})
"""Keys of the body that `extra_body` cannot replace."""

_AUDIO_FORMATS = {
    **dict.fromkeys(("audio/wav", "audio/x-wav", "audio/wave", "audio/vnd.wave"), "wav"),
    **dict.fromkeys(("audio/mpeg", "audio/mp3"), "mp3"),
}
"""MIME type without parameters -> the format's name; a sound of another type is left out, never relabelled."""


def request_body(resolved: ResolvedModel, request: ModelRequest, names: WireNames) -> dict[str, Any]:
    """The JSON body of one streamed call; options that are not set are left out.

    Args:
        resolved: the model and its options; `provider_opts.extra_body` is laid over the result.
        request: the prompt.
        names: the mapping made from the request's tools.
    """
    options = resolved.options
    body: dict[str, Any] = {
        "model": resolved.model,
        "messages": to_chat(request.messages, names, capabilities(resolved)),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    limit = output_limit(options.max_tokens, request.max_output_tokens)
    if limit is not None:
        body[_limit_name(resolved)] = limit
    for key in _SAMPLING:
        value = getattr(options, key)
        if value is not None:
            body[key] = value
    body.update(thinking_options(resolved.provider, resolved.model, getattr(options, "thinking_budget", None)))
    tools = _tools(request.tools, names)
    if tools:
        body["tools"] = tools
        if options.parallel_tool_calls is not None:
            body["parallel_tool_calls"] = options.parallel_tool_calls
    if request.structured_output:
        body["response_format"] = {"type": "json_schema", "json_schema": dict(request.structured_output)}
    return {**body, **extra_body(resolved, _PROTECTED)}


def to_chat(
    messages: Iterable[Message], names: WireNames, taken: Mapping[str, bool] | None = None
) -> list[dict[str, Any]]:
    """The messages of a history, in order, without those that hold nothing a server would take.

    Args:
        messages: a valid history: each tool call has exactly one result, right after it.
        names: the mapping of tool names.
        taken: what the model can take besides text, of `image`, `pdf` and `audio`; images are sent unless
            they are ruled out, the others only when they are named.
    """
    chat: list[dict[str, Any]] = []
    for message in messages:
        if message.role == "system":
            _add_system(chat, message.text)
        elif message.role == "assistant":
            _add_assistant(chat, message, names)
        elif message.role == "tool":
            text = as_text(message.parts) or "(no output)"
            chat.append({"role": "tool", "tool_call_id": wire_id(message.tool_call_id), "content": text})
        else:
            content = _user_content(message.parts, taken or {})
            if content:
                chat.append({"role": "user", "content": content})
    return chat


def _add_system(chat: list[dict[str, Any]], text: str) -> None:
    if not text.strip():
        return
    if len(chat) == 1 and chat[0]["role"] == "system":
        # Templates of many local models allow one system message only, and only in front.
        chat[0]["content"] += "\n\n" + text
    else:
        chat.append({"role": "system", "content": text})


def _add_assistant(chat: list[dict[str, Any]], message: Message, names: WireNames) -> None:
    text = message.text
    if message.tool_calls:
        calls = [_call(call, names) for call in message.tool_calls]
        chat.append({"role": "assistant", "content": text or None, "tool_calls": calls})
    elif text.strip():
        chat.append({"role": "assistant", "content": text})


def _call(call: ToolCallRecord, names: WireNames) -> dict[str, Any]:
    function = {"name": names.wire(call.name), "arguments": _arguments(call.arguments)}
    return {"id": wire_id(call.id), "type": "function", "function": function}


def _arguments(text: str) -> str:
    """JSON text of an object: servers parse the arguments of old calls and fail on anything else. What is one already
    stays as the model wrote it.
    """
    value = arguments_of(text)
    return text if value and "invalid_arguments" not in value else json.dumps(value)


def _tools(specs: Sequence[ToolSpec], names: WireNames) -> list[dict[str, Any]]:
    return [
        {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}
        for name, description, schema in tools_of(specs, names)
    ]


# --- content -----------------------------------------------------------------------------------------------------


def _user_content(parts: Sequence[Part], taken: Mapping[str, bool]) -> str | list[dict[str, Any]]:
    """A string as long as it is all text, because the simplest servers take nothing else; else a list of parts."""
    content = blocks_of(parts, partial(_media, taken=taken), lambda text: {"type": "text", "text": text})
    if any(part["type"] != "text" for part in content):
        return content
    return "".join(part["text"] for part in content)


def _media(part: Part, taken: Mapping[str, bool]) -> dict[str, Any] | None:
    """The part as the format's own medium, None when it has to be told in words."""
    url = f"data:{part.mime_type};base64,{part.data}"
    if part.type == "image" and taken.get("image", True):
        return {"type": "image_url", "image_url": {"url": url}}
    sound = _AUDIO_FORMATS.get(part.mime_type.split(";")[0].strip())
    if part.type == "audio" and taken.get("audio") and sound:
        return {"type": "input_audio", "input_audio": {"data": part.data, "format": sound}}
    if part.mime_type == "application/pdf" and taken.get("pdf"):
        return {"type": "file", "file": {"filename": part.name or "document.pdf", "file_data": url}}
    return None


def _limit_name(resolved: ResolvedModel) -> str:
    """OpenAI's reasoning models refuse `max_tokens` and take another name in its place."""
    return "max_completion_tokens" if reasons(resolved.provider, resolved.model) else "max_tokens"
