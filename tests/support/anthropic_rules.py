"""The rules by which Anthropic's Messages API refuses a request."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from tests.support.chat_rules import MAX_TOOLS, check_schema, image_size, need

__all__ = ["Signatures", "check_request"]

TOP = {
    *("model", "max_tokens", "messages", "stream", "system", "tools", "tool_choice", "thinking", "output_config"),
    *("temperature", "top_p", "top_k", "stop_sequences", "metadata", "service_tier"),
}
KEYS = {
    "text": {"text"},
    "image": {"source"},
    "document": {"source", "title"},
    "tool_use": {"id", "name", "input"},
    "tool_result": {"tool_use_id", "content", "is_error"},
    "thinking": {"thinking", "signature"},
    "redacted_thinking": {"data"},
}
SPEAKS = {
    "user": {"text", "image", "document", "tool_result"},
    "assistant": {"text", "tool_use", "thinking", "redacted_thinking"},
}
IMAGES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
ID = re.compile(r"[a-zA-Z0-9_-]+")
NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
MAX_IMAGE = 5 * 1024 * 1024
MAX_MARKS = 4
ALWAYS_THINK = ("claude-opus-5-5", "claude-fable-", "claude-mythos-")
NO_SAMPLING = (*ALWAYS_THINK, "claude-opus-5", "claude-sonnet-5", "claude-haiku-5", "claude-opus-4-7")
NO_EFFORT = ("claude-opus-4-5", "claude-sonnet-4-5", "claude-haiku-4-5", "claude-3")

Json = dict[str, Any]


class Signatures:
    """What the service has signed, and behind what: signature -> (block, model, digest of everything before it)."""

    def __init__(self) -> None:
        self._signed: dict[str, tuple[Json, str, str]] = {}

    def sign(self, body: Json, text: str) -> Json:
        """A thinking block of an answer to `body`."""
        signature = base64.b64encode(f"signature {len(self._signed)}".encode()).decode()
        block = {"type": "thinking", "thinking": text, "signature": signature}
        self._signed[signature] = (block, body["model"], digest(body, len(body["messages"])))
        return block

    def redacted(self, body: Json) -> Json:
        """A block whose thoughts are sealed."""
        data = f"sealed-{len(self._signed)}"
        block = {"type": "redacted_thinking", "data": data}
        self._signed[data] = (block, body["model"], digest(body, len(body["messages"])))
        return block

    def check(self, body: Json, place: int, block: Json, where: str) -> None:
        """Whether a block is as it was given, before the same model and behind the same words."""
        known = self._signed.get(block.get("signature") or block.get("data") or "")
        need(known is not None and known[0] == block, f"{where}: Invalid `signature` in `thinking` block")
        assert known is not None
        need(known[1] == body["model"], f"{where}: the `thinking` block is of another model")
        need(
            known[2] == digest(body, place),
            f"{where}: Invalid `signature` in `thinking` block. The block is bound to a different conversation.",
        )


def digest(body: Json, messages: int) -> str:
    """Everything in front of a message, but for the cache marks."""
    before = [body.get("system"), body.get("tools"), body["messages"][:messages]]
    return hashlib.sha256(json.dumps(unmarked(before), sort_keys=True).encode()).hexdigest()


def unmarked(value: Any) -> Any:
    if isinstance(value, list):
        return [unmarked(item) for item in value]
    if isinstance(value, dict):
        return {key: unmarked(item) for key, item in value.items() if key != "cache_control"}
    return value


def check_request(headers: Mapping[str, str], body: Any, signatures: Signatures) -> None:
    """Raises Refused with a sentence for the first rule that the request breaks."""
    need(headers.get("anthropic-version") == "2023-06-01", "anthropic-version: header is required")
    need(isinstance(body, dict), "the body is no object")
    for key in body:
        need(key in TOP, f"{key}: Extra inputs are not permitted")
    need(isinstance(body.get("model"), str) and body["model"], "model: Field required")
    tokens = body.get("max_tokens")
    need(isinstance(tokens, int) and tokens >= 1, "max_tokens: Field required")
    messages = body.get("messages")
    need(isinstance(messages, list) and messages, "messages: at least one message is required")
    check_system(body)
    check_tools(body)
    check_options(body)
    check_thinking(body)
    check_history(body, signatures)
    need(marks(body) <= MAX_MARKS, "cache_control: a maximum of 4 blocks may have it")


def check_system(body: Json) -> None:
    if "system" in body:
        need(isinstance(body["system"], list) and body["system"], "system: is empty")
        for place, block in enumerate(body["system"]):
            need(block.get("type") == "text", f"system.{place}: is no text")
            check_block(block, f"system.{place}")


def check_tools(body: Json) -> None:
    need("tool_choice" not in body or body.get("tools"), "tool_choice: may only be specified with tools")
    if "tools" not in body:
        return
    need(isinstance(body["tools"], list) and 0 < len(body["tools"]) <= MAX_TOOLS, "tools: none, or too many")
    seen = set()
    for tool in body["tools"]:
        name = tool.get("name")
        need(set(tool) <= {"name", "description", "input_schema", "cache_control"}, f"tools.{name}: Extra inputs")
        need(isinstance(name, str) and NAME.fullmatch(name), f"tools: the name {name!r} does not match the pattern")
        need(name not in seen, f"tools: Tool names must be unique: {name}")
        seen.add(name)
        check_schema(name, tool.get("input_schema"))
        need(
            not {"oneOf", "allOf", "anyOf"} & set(tool["input_schema"]), f"tools.{name}: oneOf, allOf or anyOf on top"
        )


def check_options(body: Json) -> None:
    for key in ("temperature", "top_p"):
        if key in body:
            need(not body["model"].startswith(NO_SAMPLING), f"`{key}` is deprecated for this model.")
            need(isinstance(body[key], int | float) and 0 <= body[key] <= 1, f"{key}: range: 0..1")
    effort = body.get("output_config", {}).get("effort")
    if effort is not None:
        need(effort in ("low", "medium", "high", "xhigh", "max"), f"output_config.effort: no such effort {effort!r}")
        need(not body["model"].startswith(NO_EFFORT), "This model does not support the effort parameter.")


def check_thinking(body: Json) -> None:
    thinking, model = body.get("thinking"), body["model"]
    if thinking is None:
        return
    kind = thinking.get("type")
    if kind == "enabled":
        need(not model.startswith(NO_SAMPLING), '"thinking.type.enabled" is not supported for this model.')
        need(set(thinking) <= {"type", "budget_tokens", "display"}, "thinking: Extra inputs are not permitted")
        tokens = thinking.get("budget_tokens")
        need(isinstance(tokens, int) and tokens >= 1024, "thinking.enabled.budget_tokens: at least 1024")
        need(body["max_tokens"] > tokens, "`max_tokens` must be greater than `thinking.budget_tokens`.")
        need("temperature" not in body, "`temperature` may only be set to 1 when thinking is enabled.")
    elif kind == "adaptive":
        need(not model.startswith(NO_EFFORT), "adaptive thinking is not supported on this model")
        need(set(thinking) <= {"type", "display"}, "thinking.adaptive: Extra inputs are not permitted")
        need(thinking.get("display") in (None, "summarized", "omitted"), "thinking.display: no such value")
    elif kind == "between_tools":
        need(model.startswith("claude-sonnet-5-5"), "thinking.type: between_tools is not supported for this model")
    else:
        need(kind == "disabled", f"thinking.type: no such type {kind!r}")
        need(
            not model.startswith((*ALWAYS_THINK, "claude-sonnet-5-5")),
            '"thinking.type.disabled" is not supported for this model.',
        )


# --- the conversation --------------------------------------------------------------------------------------------


def check_history(body: Json, signatures: Signatures) -> None:
    pending: list[str] = []
    used: set[str] = set()
    expected = "user"
    messages = body["messages"]
    for place, message in enumerate(messages):
        where = f"messages.{place}"
        role, content = message.get("role"), message.get("content")
        need(set(message) == {"role", "content"}, f"{where}: Extra inputs are not permitted")
        need(role == expected, f"{where}: roles must alternate between user and assistant; found {role!r}")
        need(isinstance(content, list) and content, f"{where}: has no content")
        for number, block in enumerate(content):
            need(block.get("type") in SPEAKS[role], f"{where}.content.{number}: no {block.get('type')} for {role}")
            check_block(block, f"{where}.content.{number}")
        if role == "user":
            check_results(content, pending, where)
            pending = []
        else:
            pending = check_answer(body, place, used, signatures)
        expected = "assistant" if role == "user" else "user"
    need(messages[-1]["role"] == "user", "This model does not support assistant message prefill.")
    check_loop(body)


def check_results(content: list[Json], pending: list[str], where: str) -> None:
    results = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
    first = [block["type"] for block in content[: len(results)]]
    need(set(first) <= {"tool_result"}, f"{where}: `tool_result` blocks must come first")
    missing = set(pending) - set(results)
    need(not missing, f"{where}: `tool_use` ids were found without `tool_result` blocks immediately after: {missing}")
    need(
        len(results) == len(set(results)) and set(results) <= set(pending),
        f"{where}: unexpected `tool_use_id` found in `tool_result` blocks",
    )


def check_answer(body: Json, place: int, used: set[str], signatures: Signatures) -> list[str]:
    made = []
    for number, block in enumerate(body["messages"][place]["content"]):
        where = f"messages.{place}.content.{number}"
        if block["type"] in ("thinking", "redacted_thinking"):
            need("cache_control" not in block, f"{where}: thinking blocks cannot have cache_control")
            signatures.check(body, place, block, where)
        if block["type"] == "tool_use":
            need(block["id"] not in used, f"{where}: `tool_use` ids must be unique")
            used.add(block["id"])
            made.append(block["id"])
    return made


def check_loop(body: Json) -> None:
    """A model that takes a budget thinks on only behind an answer that began with its thoughts."""
    messages = body["messages"]
    if body.get("thinking", {}).get("type") != "enabled" or messages[-1]["content"][0]["type"] != "tool_result":
        return
    need(
        messages[-2]["content"][0]["type"] in ("thinking", "redacted_thinking"),
        "Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a final"
        " `assistant` message must start with a thinking block.",
    )


def check_block(block: Json, where: str) -> None:
    kind = str(block.get("type"))
    extra = set(block) - KEYS[kind] - {"type", "cache_control"}
    need(not extra, f"{where}.{kind}: {extra}: Extra inputs are not permitted")
    if kind == "text":
        need(isinstance(block.get("text"), str) and block["text"].strip(), f"{where}: text must be non-whitespace")
    elif kind == "tool_use":
        need(ID.fullmatch(block["id"]), f"{where}.id: does not match the pattern")
        need(NAME.fullmatch(block["name"]), f"{where}.name: does not match the pattern")
        need(isinstance(block.get("input"), dict), f"{where}.input: is no object")
    elif kind == "tool_result":
        need(isinstance(block.get("content"), str) and block["content"], f"{where}: has no content")
    elif kind in ("image", "document"):
        check_source(block["source"], IMAGES if kind == "image" else {"application/pdf"}, where)


def check_source(source: Json, types: set[str], where: str) -> None:
    need(
        set(source) == {"type", "media_type", "data"} and source["type"] == "base64", f"{where}.source: is no base64"
    )
    need(source["media_type"] in types, f"{where}.source.media_type: {source['media_type']} is not supported")
    try:
        data = base64.b64decode(source["data"], validate=True)
    except ValueError:
        data = b""
    need(data, f"{where}.source.data: is no base64")
    if types is IMAGES:
        need(len(source["data"]) <= MAX_IMAGE, f"{where}: image exceeds 5 MB maximum")
        need(image_size(data) is not None, f"{where}: Could not process image")


def marks(value: Any) -> int:
    if isinstance(value, list):
        return sum(marks(item) for item in value)
    if isinstance(value, dict):
        return ("cache_control" in value) + sum(marks(item) for item in value.values())
    return 0
