"""Google's Gemini API (`generateContent`, streamed), as the Gemini Developer API serves it.

Source: Gemini API documentation, "Generating content", "Function calling", "Thought signatures", "Thinking";
requirement models.providers.gemini.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any
from urllib.parse import SplitResult, quote

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
from sluice.models.gemini_answer import Answer
from sluice.models.gemini_thinking import signs, thinking
from sluice.models.names import WireNames
from sluice.models.settings import ResolvedModel
from sluice.persistence.records import Message, Part, ToolCallRecord

__all__ = ["API", "request_body"]

_PROTECTED = frozenset({"contents"})
_IMAGES = frozenset({"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"})

UNSIGNED = "skip_thought_signature_validator"
"""What the service takes in place of a signature, for a call that it did not make or not behind these words."""

_SAMPLING = {
    "temperature": "temperature",
    "top_p": "topP",
    "frequency_penalty": "frequencyPenalty",
    "presence_penalty": "presencePenalty",
}


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
    system = [m.text for m in request.messages if m.role == "system" and m.text.strip()]
    tools = [
        {"name": name, "description": description, "parametersJsonSchema": schema}
        for name, description, schema in tools_of(request.tools, names)
    ]
    prefix = Prefix(resolved)
    prefix.add(system, tools)
    replay = Replay(prefix, _Told(names, signed=signs(resolved.model)), distrusted)
    body: dict[str, Any] = {"contents": _contents(request.messages, names, replay, capabilities(resolved))}
    if system:
        body["systemInstruction"] = {"parts": [{"text": text} for text in system]}
    if tools:
        body["tools"] = [{"functionDeclarations": tools}]
    config = _generation(resolved, request)
    if config:
        body["generationConfig"] = config
    return {**body, **extra_body(resolved, _PROTECTED)}, replay


def _generation(resolved: ResolvedModel, request: ModelRequest) -> dict[str, Any]:
    options = resolved.options
    found = {wire: getattr(options, ours) for ours, wire in _SAMPLING.items() if getattr(options, ours) is not None}
    limit = output_limit(options.max_tokens, request.max_output_tokens)
    if limit is not None:
        found["maxOutputTokens"] = limit
    asked = thinking(resolved)
    if asked:
        found["thinkingConfig"] = asked
    # Before Gemini 3 a form of the answer and tools exclude each other; the agent checks the form by itself too.
    if request.structured_output and (signs(resolved.model) or not request.tools):
        found["responseMimeType"] = "application/json"
        found["responseJsonSchema"] = request.structured_output["schema"]
    return found


# --- the conversation --------------------------------------------------------------------------------------------


class _Told:
    """How the format writes what an answer says; see `carried.Told`.

    From Gemini 3 on, the first call of an answer has to be signed; one that is written anew says that it is not.
    """

    def __init__(self, names: WireNames, *, signed: bool) -> None:
        self._names = names
        self._signed = signed

    def text(self, text: str, piece: Mapping[str, Any]) -> Block:
        return {"text": text, **_signature(piece)}

    def call(self, call: ToolCallRecord, id: str, piece: Mapping[str, Any]) -> Block:
        made = {"id": id, "name": self._names.wire(call.name), "args": arguments_of(call.arguments)}
        signature = _signature(piece)
        if not piece and self._signed:
            signature = {"thoughtSignature": UNSIGNED}
        return {"functionCall": made, **signature}


def _signature(piece: Mapping[str, Any]) -> Block:
    return {"thoughtSignature": piece["signature"]} if piece.get("signature") else {}


def _contents(
    messages: Iterable[Message], names: WireNames, replay: Replay, taken: Mapping[str, bool]
) -> list[dict[str, Any]]:
    """The messages; results of calls are a content of their own, directly behind the calls."""
    contents: list[dict[str, Any]] = []
    for message in messages:
        if message.role == "system":
            continue
        if message.role == "assistant":
            role, parts = "model", replay.answer(message)
        elif message.role == "tool":
            role, parts = "user", [_result(message, names, replay.id_of(message.tool_call_id))]
        else:
            role, parts = "user", blocks_of(message.parts, partial(_media, taken=taken), lambda text: {"text": text})
        if not parts:
            continue
        last = contents[-1] if contents else None
        if last is not None and last["role"] == role and _answers(last["parts"][0]) == _answers(parts[0]):
            last["parts"] += parts
        else:
            contents.append({"role": role, "parts": list(parts)})
        replay.prefix.add(role, parts)
    return contents


def _answers(part: Block) -> bool:
    return "functionResponse" in part


def _result(message: Message, names: WireNames, id: str) -> Block:
    text = as_text(message.parts) or "(no output)"
    response = {"error": text} if message.status == "failed" else {"result": text}
    return {"functionResponse": {"id": id, "name": names.wire(message.tool_name), "response": response}}


def _media(part: Part, taken: Mapping[str, bool]) -> Block | None:
    """The part inline, None when it has to be told in words. A sound keeps the parameters of its type
    (audio.provider.gemini).
    """
    fits = (
        (part.type == "image" and part.mime_type in _IMAGES and taken.get("image", True))
        or (part.type == "audio" and taken.get("audio"))
        or (part.mime_type == "application/pdf" and taken.get("pdf"))
    )
    return {"inlineData": {"mimeType": part.mime_type, "data": part.data}} if fits else None


def _ask(resolved: ResolvedModel, request: ModelRequest, distrusted: frozenset[str]) -> Asked:
    names = WireNames((tool.name for tool in request.tools), letter_first=True)
    body, replay = request_body(resolved, request, names, distrusted)
    return Asked(body, Answer(names, replay.prefix.mark), frozenset(replay.used))


def _place(base: SplitResult, model: str) -> SplitResult:
    """The address of a streamed call: the model and what is wanted of it stand in the path."""
    models = below("v1beta", "models")(base, model)
    query = f"{base.query}&alt=sse" if base.query else "alt=sse"
    name = quote(model.removeprefix("models/"), safe="/")
    return models._replace(path=f"{models.path}/{name}:streamGenerateContent", query=query)


API = Api("a Gemini server", _place, _ask, "x-goog-api-key", "")
