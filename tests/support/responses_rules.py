"""The rules by which OpenAI's Responses API refuses a request."""

from __future__ import annotations

import json
from typing import Any

from tests.support.chat_rules import MAX_TOOLS, NAME, check_image, check_schema, need

__all__ = ["Sealed", "check_request"]

TOP = {
    *(
        "model",
        "input",
        "instructions",
        "stream",
        "store",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "reasoning",
    ),
    *("include", "max_output_tokens", "temperature", "top_p", "text", "truncation", "metadata", "service_tier"),
}
KEYS = {
    "message": {"role", "content", "phase"},
    "function_call": {"call_id", "name", "arguments"},
    "function_call_output": {"call_id", "output"},
    "reasoning": {"id", "summary", "encrypted_content"},
}
PARTS = {"input_text": {"text"}, "input_image": {"image_url", "detail"}, "input_file": {"filename", "file_data"}}
REASONING = ("o1", "o3", "o4", "gpt-5", "gpt-6")
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")

Json = dict[str, Any]


class Sealed:
    """What the service has sealed: id -> the item as it was given."""

    def __init__(self) -> None:
        self._given: dict[str, Json] = {}

    def seal(self, text: str, shown: bool) -> Json:
        """A reasoning item."""
        id = f"rs_{len(self._given)}"
        summary = [{"type": "summary_text", "text": text}] if shown else []
        self._given[id] = {"type": "reasoning", "id": id, "summary": summary, "encrypted_content": f"sealed({text})"}
        return self._given[id]

    def check(self, item: Json, where: str) -> None:
        """Whether an item is as it was given."""
        need(self._given.get(item.get("id", "")) == item, f"{where}: The encrypted content could not be verified")


def check_request(body: Any, sealed: Sealed) -> None:
    """Raises Refused with a sentence for the first rule that the body breaks."""
    need(isinstance(body, dict), "the body is no object")
    for key in body:
        need(key in TOP, f"Unknown parameter: '{key}'.")
    need(isinstance(body.get("model"), str) and body["model"], "Missing required parameter: 'model'.")
    need(isinstance(body.get("input"), list) and body["input"], "Missing required parameter: 'input'.")
    need(body.get("instructions", "x").strip(), "instructions is empty")
    check_options(body)
    check_tools(body)
    check_input(body["input"], sealed)


def check_options(body: Json) -> None:
    thinks = body["model"].startswith(REASONING)
    for key in ("temperature", "top_p"):
        need(key not in body or not thinks, f"Unsupported parameter: '{key}' is not supported with this model.")
        need(0 <= body.get(key, 0) <= 2, f"{key} is out of range")
    limit = body.get("max_output_tokens", 16)
    need(isinstance(limit, int) and limit >= 16, "Invalid 'max_output_tokens': integer below minimum value")
    include = body.get("include", [])
    need(set(include) <= {"reasoning.encrypted_content"}, "include: no such value")
    need(thinks or not include, "Encrypted content is not supported with this model.")
    reasoning = body.get("reasoning", {})
    need(thinks or not reasoning, "Unsupported parameter: 'reasoning.effort' is not supported with this model.")
    need(set(reasoning) <= {"effort", "summary"}, "reasoning: unknown parameter")
    need(reasoning.get("effort", "low") in EFFORTS, "reasoning.effort: no such value")
    form = body.get("text", {}).get("format")
    if form is not None:
        need(form.get("type") == "json_schema" and NAME.fullmatch(form.get("name", "")), "text.format: no name")
        need(isinstance(form.get("schema"), dict), "text.format: no schema")


def check_tools(body: Json) -> None:
    need("parallel_tool_calls" not in body or body.get("tools"), "parallel_tool_calls without tools")
    if "tools" not in body:
        return
    need(isinstance(body["tools"], list) and 0 < len(body["tools"]) <= MAX_TOOLS, "tools: none, or too many")
    seen = set()
    for tool in body["tools"]:
        name = tool.get("name")
        need(
            tool.get("type") == "function" and "function" not in tool, "Missing required parameter: 'tools[0].name'."
        )
        need(isinstance(name, str) and NAME.fullmatch(name), f"the name {name!r} does not match the pattern")
        need(name not in seen, f"the tool {name!r} stands twice")
        seen.add(name)
        check_schema(name, tool.get("parameters"))
        need(tool.get("strict") is False, f"Invalid schema for function {name}: additionalProperties is required")


def check_input(items: list[Any], sealed: Sealed) -> None:
    pending: list[str] = []
    used: set[str] = set()
    thought = False
    for place, item in enumerate(items):
        where = f"input[{place}]"
        kind = item.get("type")
        need(kind in KEYS, f"{where}: Invalid value: {kind!r}")
        extra = set(item) - KEYS[kind] - {"type"}
        need(not extra, f"Unknown parameter: {where}: {extra}")
        follows = kind == "function_call" or (kind == "message" and item["role"] == "assistant")
        need(
            not thought or follows or kind == "reasoning",
            f"{where}: Item of type 'reasoning' was provided without its required following item.",
        )
        thought = kind == "reasoning"
        if kind == "reasoning":
            sealed.check(item, where)
        elif kind == "message":
            need(not (pending and item["role"] == "user"), f"No tool output found for function call {pending}.")
            check_message(item, where)
        elif kind == "function_call":
            check_call(item, used, where)
            pending.append(item["call_id"])
        else:
            need(item["call_id"] in pending, f"No tool call found for function call output {item['call_id']}.")
            pending.remove(item["call_id"])
            need(isinstance(item["output"], str) and item["output"], f"{where}: no output")
    need(not pending, f"No tool output found for function call {pending}.")
    last = items[-1]
    need(last["type"] == "function_call_output" or last.get("role") == "user", "the last item is no user's or tool's")


def check_call(item: Json, used: set[str], where: str) -> None:
    need(0 < len(item["call_id"]) <= 64, f"{where}: Invalid 'call_id': string too long")
    need(item["call_id"] not in used, f"{where}: the call id is used again")
    used.add(item["call_id"])
    need(NAME.fullmatch(item["name"]), f"{where}: the name does not match the pattern")
    try:
        arguments = json.loads(item["arguments"])
    except ValueError:
        arguments = None
    need(isinstance(arguments, dict), f"{where}: the arguments are no object")


def check_message(item: Json, where: str) -> None:
    role, content = item.get("role"), item.get("content")
    need(role in ("user", "assistant"), f"{where}: Invalid role {role!r}")
    need(isinstance(content, list) and content, f"{where}: has no content")
    for part in content or ():
        kind = part.get("type")
        if role == "assistant":
            need(kind == "output_text" and set(part) == {"type", "text"}, f"{where}: Invalid value {kind!r}")
            need(part["text"].strip(), f"{where}: is empty")
            continue
        need(kind in PARTS, f"{where}: Invalid value: {kind!r}")
        need(set(part) <= {"type", *PARTS[kind]}, f"{where}: Unknown parameter in {kind}")
        if kind == "input_text":
            need(part["text"].strip(), f"{where}: is empty")
        elif kind == "input_image":
            check_image(part["image_url"])
        else:
            need(part["file_data"].startswith("data:application/pdf;base64,"), f"{where}: no such file type")
    need("phase" not in item or role == "assistant", f"{where}: phase is for assistants")
