"""The rules by which the Gemini API refuses a request."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

from tests.support.chat_rules import MAX_TOOLS, check_schema, need

__all__ = ["PATH", "Signed", "check_request"]

PATH = re.compile(r"/v1beta/models/([\w.-]+):streamGenerateContent\?alt=sse")
NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
TOP = {"contents", "systemInstruction", "tools", "toolConfig", "safetySettings", "generationConfig", "cachedContent"}
CONFIG = {
    *("temperature", "topP", "topK", "maxOutputTokens", "frequencyPenalty", "presencePenalty", "thinkingConfig"),
    *("responseMimeType", "responseJsonSchema", "stopSequences", "seed"),
}
KINDS = {"text", "inlineData", "functionCall", "functionResponse"}
LEVELS = ("minimal", "low", "medium", "high")
UNSIGNED = "skip_thought_signature_validator"

Json = dict[str, Any]


class Signed:
    """What the service has signed: signature -> the part."""

    def __init__(self) -> None:
        self._parts: dict[str, Json] = {}

    def sign(self, part: Json) -> Json:
        """The part with a signature."""
        signature = base64.b64encode(f"signature {len(self._parts)}".encode()).decode()
        self._parts[signature] = {**part, "thoughtSignature": signature}
        return self._parts[signature]

    def check(self, part: Json, where: str) -> None:
        """Whether a part is as it was given."""
        signature = part["thoughtSignature"]
        if signature == UNSIGNED and "functionCall" in part:
            return
        need(signature in self._parts, f"{where}: Invalid thought signature")
        need(self._parts[signature] == part, f"{where}: Corrupted thought signature")


def check_request(path: str, body: Any, signed: Signed) -> None:
    """Raises Refused with a sentence for the first rule that the request breaks."""
    found = PATH.fullmatch(path)
    need(found, f"no such method: {path}")
    assert found is not None
    model = found[1]
    need(isinstance(body, dict), "the body is no object")
    for key in body:
        need(key in TOP, f'Invalid JSON payload received. Unknown name "{key}"')
    need(isinstance(body.get("contents"), list) and body["contents"], "contents is not specified")
    if "systemInstruction" in body:
        need(set(body["systemInstruction"]) == {"parts"}, "systemInstruction: Unknown name")
        for part in body["systemInstruction"]["parts"]:
            need(set(part) == {"text"} and part["text"].strip(), "systemInstruction: no text")
    check_tools(body)
    check_config(model, body)
    check_contents(body["contents"], signed)
    if not model.startswith(("gemini-2", "gemini-1")):
        check_signatures(body["contents"])


def check_tools(body: Json) -> None:
    seen = set()
    for tool in body.get("tools", ()):
        need(set(tool) == {"functionDeclarations"}, "tools: Unknown name")
        need(0 < len(tool["functionDeclarations"]) <= MAX_TOOLS, "tools: none, or too many")
        for declared in tool["functionDeclarations"]:
            name = declared.get("name")
            need(set(declared) <= {"name", "description", "parametersJsonSchema"}, f"{name}: Unknown name")
            need(isinstance(name, str) and NAME.fullmatch(name), f"Invalid function name {name!r}")
            need(name not in seen, f"Duplicate function declaration found: {name}")
            seen.add(name)
            check_schema(name, declared.get("parametersJsonSchema"))


def check_config(model: str, body: Json) -> None:
    config = body.get("generationConfig", {})
    for key in config:
        need(key in CONFIG, f'Invalid JSON payload received. Unknown name "{key}" at generation_config')
    need(0 <= config.get("temperature", 0) <= 2, "temperature is out of range")
    need(config.get("maxOutputTokens", 1) >= 1, "max_output_tokens must be positive")
    older = model.startswith(("gemini-2", "gemini-1"))
    form = config.get("responseMimeType")
    need(not (form and older and body.get("tools")), "Function calling with a response mime type is unsupported")
    need(form or "responseJsonSchema" not in config, "responseJsonSchema needs a response mime type")
    if "thinkingConfig" in config:
        check_thinking(model, config["thinkingConfig"])


def check_thinking(model: str, thinking: Json) -> None:
    need(set(thinking) <= {"includeThoughts", "thinkingBudget", "thinkingLevel"}, "thinking_config: Unknown name")
    need("gemini" in model and not model.startswith(("gemini-1", "gemini-2.0")), "Thinking is not supported")
    if "thinkingBudget" in thinking:
        need(model.startswith("gemini-2.5"), "thinking_budget is not supported for this model")
        least = 128 if "pro" in model else 0
        need(least <= thinking["thinkingBudget"] <= 24_576, "The thinking budget is invalid")
        need(thinking["thinkingBudget"] or not thinking.get("includeThoughts"), "thoughts without thinking")
    if "thinkingLevel" in thinking:
        need(not model.startswith("gemini-2"), "Thinking level is not supported for this model.")
        levels = LEVELS if "flash" in model else LEVELS[1:]
        need(thinking["thinkingLevel"] in levels, "Thinking level is not supported for this model.")


def check_contents(contents: list[Json], signed: Signed) -> None:
    pending: list[tuple[str, str]] = []
    before = ""
    for place, content in enumerate(contents):
        where = f"contents[{place}]"
        role, parts = content.get("role"), content.get("parts")
        need(set(content) == {"role", "parts"}, f"{where}: Unknown name")
        need(role in ("user", "model"), "Please use a valid role: user, model.")
        need(isinstance(parts, list) and parts, f"{where}.parts: contents.parts must not be empty.")
        assert isinstance(parts, list)
        for part in parts:
            check_part(part, str(role), where, signed)
        calls = [(p["functionCall"].get("id", ""), p["functionCall"]["name"]) for p in parts if "functionCall" in p]
        responses = [p["functionResponse"] for p in parts if "functionResponse" in p]
        given = [(response.get("id", ""), response["name"]) for response in responses]
        need(not given or len(given) == len(parts), f"{where}: function responses stand with something else")
        need(
            given == pending,
            "Please ensure that the number of function response parts is equal to the number of function call parts"
            f" of the function call turn. ({where})",
        )
        kind = "response" if given else str(role)
        need(kind != before, f"{where}: two contents of the same side")
        before, pending = kind, calls
    need(not pending, "Please ensure that function response turn comes immediately after a function call turn.")
    need(contents[0]["role"] == "user", "Please ensure that the first content is of role user")
    need(contents[-1]["role"] == "user", "the last content is the model's")


def check_part(part: Json, role: str, where: str, signed: Signed) -> None:
    kinds = KINDS & set(part)
    need(len(kinds) == 1, f"{where}: required oneof field 'data' must have one initialized field")
    need(set(part) <= {*kinds, "thoughtSignature"}, f"{where}: Unknown name")
    (kind,) = kinds
    need((kind == "functionCall") <= (role == "model"), f"{where}: a call of the user")
    need((kind in ("functionResponse", "inlineData")) <= (role == "user"), f"{where}: {kind} of the model")
    if "thoughtSignature" in part:
        signed.check(part, where)
    if kind == "text":
        need(part["text"].strip() or "thoughtSignature" in part, f"{where}: an empty text")
    elif kind == "inlineData":
        check_media(part["inlineData"], where)
    elif kind == "functionCall":
        need(NAME.fullmatch(part[kind]["name"]), f"{where}: Invalid function name")
        need(isinstance(part[kind].get("args"), dict), f"{where}: args is no object")
    else:
        need(isinstance(part[kind].get("response"), dict), f"{where}: response is no object")


def check_media(media: Json, where: str) -> None:
    need(set(media) == {"mimeType", "data"}, f"{where}: Unknown name")
    kind = media["mimeType"].split(";")[0]
    known = ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif", "application/pdf")
    need(kind in known or kind.startswith("audio/"), f"{where}: Unsupported MIME type: {kind}")
    try:
        need(base64.b64decode(media["data"], validate=True), f"{where}: no data")
    except ValueError:
        need(False, f"{where}: Base64 decoding failed")


def check_signatures(contents: list[Json]) -> None:
    """In the present turn the first call of each answer is signed."""
    begin = max(
        (place for place, content in enumerate(contents) if content["role"] == "user" and "text" in json.dumps(
            [part for part in content["parts"] if "functionResponse" not in part])),
        default=0,
    )  # fmt: skip
    for content in contents[begin:]:
        calls = [part for part in content["parts"] if "functionCall" in part]
        need(
            not calls or "thoughtSignature" in calls[0],
            "Function call is missing a thought_signature in functionCall parts.",
        )
