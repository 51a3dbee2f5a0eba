"""Our history as chat-completions messages, and a request's body around them.

Source: OpenAI API reference, "Create chat completion"; stricter servers' rules are honoured too: no empty content,
arguments that are JSON objects, plain names and ids, one system text in front.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sluice.agent.ports import ModelRequest, ToolSpec
from sluice.models.catalogue import facts
from sluice.models.names import WireNames, wire_id
from sluice.models.redact import mask_known
from sluice.models.settings import ResolvedModel
from sluice.models.thinking import thinking_options
from sluice.persistence.records import Message, Part, ToolCallRecord

__all__ = ["request_body", "to_chat"]

_SAMPLING = ("temperature", "max_tokens", "top_p", "frequency_penalty", "presence_penalty")
_PROTECTED = frozenset({"messages", "stream"})
"""Keys of the body that `extra_body` cannot replace: the engine's own sense of the call depends on them."""

_REASONING_MODELS = ("o1", "o3", "o4", "gpt-5", "gpt-6")
"""Model families of OpenAI that refuse `max_tokens` and take `max_completion_tokens` in its place."""

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
        "messages": to_chat(request.messages, names, _capabilities(resolved)),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    for key in _SAMPLING:
        value = getattr(options, key)
        if value is not None:
            body[_option_name(resolved, key)] = value
    if request.max_output_tokens is not None:
        name = _option_name(resolved, "max_tokens")
        body[name] = min(request.max_output_tokens, body.get(name, request.max_output_tokens))
    body.update(thinking_options(resolved.provider, resolved.model, getattr(options, "thinking_budget", None)))
    tools = _tools(request.tools, names)
    if tools:
        body["tools"] = tools
        if options.parallel_tool_calls is not None:
            body["parallel_tool_calls"] = options.parallel_tool_calls
    if request.structured_output:
        body["response_format"] = {"type": "json_schema", "json_schema": dict(request.structured_output)}
    extra = options.provider_opts.get("extra_body")
    if isinstance(extra, Mapping):
        body.update((key, value) for key, value in extra.items() if key not in _PROTECTED)
    return body


def to_chat(
    messages: Iterable[Message], names: WireNames, capabilities: Mapping[str, bool] | None = None
) -> list[dict[str, Any]]:
    """The messages of a history, in order, without those that hold nothing a server would take.

    Args:
        messages: a valid history: each tool call has exactly one result, right after it.
        names: the mapping of tool names.
        capabilities: what the model can take besides text, of `image`, `pdf` and `audio`; images are sent unless
            they are ruled out, the others only when they are named.
    """
    chat: list[dict[str, Any]] = []
    for message in messages:
        if message.role == "system":
            _add_system(chat, message.text)
        elif message.role == "assistant":
            _add_assistant(chat, message, names)
        elif message.role == "tool":
            text = _as_text(message.parts) or "(no output)"
            chat.append({"role": "tool", "tool_call_id": wire_id(message.tool_call_id), "content": text})
        else:
            content = _user_content(message.parts, capabilities or {})
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
    """JSON text of an object: servers parse the arguments of old calls and fail on anything else."""
    if not text.strip():
        return "{}"
    try:
        if isinstance(json.loads(text), dict):
            return text
    except ValueError:
        pass
    return json.dumps({"invalid_arguments": text})


def _tools(specs: Sequence[ToolSpec], names: WireNames) -> list[dict[str, Any]]:
    tools: dict[str, dict[str, Any]] = {}
    for spec in specs:
        name = names.wire(spec.name)
        parameters = {"type": "object", "properties": {}, **spec.parameters}
        function = {"name": name, "description": spec.description, "parameters": parameters}
        tools.setdefault(name, {"type": "function", "function": function})
    return list(tools.values())


# --- content -----------------------------------------------------------------------------------------------------


def _user_content(parts: Sequence[Part], capabilities: Mapping[str, bool]) -> str | list[dict[str, Any]]:
    """A string as long as it is all text, because the simplest servers take nothing else; else a list of parts."""
    content: list[dict[str, Any]] = []
    pending: list[Part] = []
    for part in parts:
        media = _media(part, capabilities)
        if media is None:
            pending.append(part)
            continue
        _flush(pending, content)
        content.append(media)
    if not content:
        return _as_text(pending)
    _flush(pending, content)
    return content


def _flush(pending: list[Part], content: list[dict[str, Any]]) -> None:
    text = _as_text(pending)
    pending.clear()
    if text:
        content.append({"type": "text", "text": text})


def _media(part: Part, capabilities: Mapping[str, bool]) -> dict[str, Any] | None:
    """The part as the format's own medium, None when it has to be told in words."""
    if not part.data:
        return None
    url = f"data:{part.mime_type};base64,{part.data}"
    if part.type == "image" and capabilities.get("image", True):
        return {"type": "image_url", "image_url": {"url": url}}
    sound = _AUDIO_FORMATS.get(part.mime_type.split(";")[0].strip())
    if part.type == "audio" and capabilities.get("audio") and sound:
        return {"type": "input_audio", "input_audio": {"data": part.data, "format": sound}}
    if part.mime_type == "application/pdf" and capabilities.get("pdf"):
        return {"type": "file", "file": {"filename": mask_known(part.name) or "document.pdf", "file_data": url}}
    return None


def _as_text(parts: Iterable[Part]) -> str:
    """Texts run on as they were typed; everything else stands apart, under a line that says what it is."""
    pieces: list[str] = []
    apart = False
    for part in parts:
        text = part.text if part.type == "text" else _described(part)
        if not text:
            continue
        if pieces and (apart or part.type != "text"):
            pieces.append("\n\n")
        pieces.append(text)
        apart = part.type != "text"
    joined = "".join(pieces)
    return joined if joined.strip() else ""


def _described(part: Part) -> str:
    """What stands for a document, secrets masked in its text and its name (attachments.redaction.text-and-labels)."""
    label = " ".join(piece for piece in (part.type, mask_known(part.name), part.mime_type) if piece)
    if part.data:
        return f"[{label}, {part.size} bytes: left out, this model cannot take it]"
    return f"[{label}]\n{mask_known(part.text)}" if part.text else ""


def _capabilities(resolved: ResolvedModel) -> dict[str, bool]:
    """What is known of each modality: the configuration's word, else the catalogue's."""
    stated = getattr(resolved.options, "capabilities", None)
    known = facts(resolved.provider, resolved.model)
    names = ("image", "pdf", "audio")
    if isinstance(stated, Mapping):
        found = {name: stated.get(name) for name in names}
    else:
        found = {name: getattr(stated, name, None) for name in names}
    if known is not None:
        found = {name: getattr(known.takes, name) if value is None else value for name, value in found.items()}
    return {name: bool(value) for name, value in found.items() if value is not None}


def _option_name(resolved: ResolvedModel, key: str) -> str:
    if key == "max_tokens" and resolved.provider == "openai" and resolved.model.startswith(_REASONING_MODELS):
        return "max_completion_tokens"
    return key
