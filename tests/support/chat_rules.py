"""The rules by which chat-completions services refuse a request, in one function."""

from __future__ import annotations

import base64
import importlib
import json
import re
import struct
from collections.abc import Iterator
from typing import Any

# It comes with the MCP library and has no type stubs here, so it is loaded untyped.
jsonschema: Any = importlib.import_module("jsonschema")

__all__ = ["Refused", "check_request", "image_size"]

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ROLES = ("system", "developer", "user", "assistant", "tool")
MAX_TOOLS = 128
MAX_ID = 64
MAX_IMAGE_BASE64 = 5 * 1024 * 1024
MAX_SIDE = 8000
MANY_IMAGES, MAX_SIDE_OF_MANY = 20, 2000


class Refused(Exception):
    """What a service would answer 400 for."""


def check_request(body: Any) -> None:
    """Raises Refused with a sentence for the first rule that the body breaks."""
    need(isinstance(body, dict), "the body is no object")
    need(isinstance(body.get("model"), str) and body["model"], "model is missing")
    messages = body.get("messages")
    need(isinstance(messages, list) and messages, "messages is missing or empty")
    check_tools(body)
    check_options(body)
    check_history(messages)
    check_images(messages)


def need(condition: Any, reason: str) -> None:
    if not condition:
        raise Refused(reason)


def check_options(body: dict[str, Any]) -> None:
    for key, low, high in (
        ("temperature", 0, 2),
        ("top_p", 0, 1),
        ("frequency_penalty", -2, 2),
        ("presence_penalty", -2, 2),
        ("max_tokens", 1, 10**9),
    ):
        if key in body:
            value = body[key]
            need(isinstance(value, int | float) and not isinstance(value, bool), f"{key} is no number")
            need(low <= value <= high, f"{key} is out of range")
    need("parallel_tool_calls" not in body or body.get("tools"), "parallel_tool_calls without tools")
    need("stream_options" not in body or body.get("stream"), "stream_options without stream")


def check_tools(body: dict[str, Any]) -> None:
    if "tools" not in body:
        return
    tools = body["tools"]
    need(isinstance(tools, list) and tools, "tools is empty")
    need(len(tools) <= MAX_TOOLS, "too many tools")
    seen = set()
    for tool in tools:
        need(isinstance(tool, dict) and tool.get("type") == "function", "a tool is no function")
        function = tool.get("function")
        need(isinstance(function, dict), "a tool has no function")
        name = function.get("name")
        need(isinstance(name, str) and NAME.fullmatch(name), f"tool name {name!r} does not match the pattern")
        need(name not in seen, f"tool name {name!r} stands twice")
        seen.add(name)
        need(isinstance(function.get("description", ""), str), f"description of {name} is no text")
        check_schema(name, function.get("parameters", {"type": "object"}))


def check_schema(name: str, schema: Any) -> None:
    need(isinstance(schema, dict) and schema.get("type") == "object", f"parameters of {name} are no object schema")
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise Refused(f"parameters of {name} are no JSON schema: {error.message}") from None


def check_history(messages: list[Any]) -> None:
    pending: list[str] = []
    used: set[str] = set()
    conversation = False
    for position, message in enumerate(messages):
        where = f"messages[{position}]"
        need(isinstance(message, dict), f"{where} is no object")
        role = message.get("role")
        need(role in ROLES, f"{where} has the role {role!r}")
        if role == "tool":
            check_result(message, pending, where)
            continue
        need(not pending, f"{where}: tool calls without a result before it: {pending}")
        if role in ("system", "developer"):
            need(not conversation, f"{where}: a system message inside the conversation")
            check_text(message.get("content"), where)
        elif role == "user":
            check_user(message.get("content"), where)
            conversation = True
        else:
            need(conversation, f"{where}: the conversation begins with the assistant")
            pending = check_assistant(message, used, where)
    need(not pending, f"tool calls without a result at the end: {pending}")
    need(messages[-1]["role"] in ("user", "tool"), "the last message is neither a user's nor a tool's")


def check_result(message: dict[str, Any], pending: list[str], where: str) -> None:
    call = message.get("tool_call_id")
    need(isinstance(call, str) and call in pending, f"{where} answers {call!r}, which waits for no result")
    pending.remove(str(call))
    check_text(message.get("content"), where)


def check_assistant(message: dict[str, Any], used: set[str], where: str) -> list[str]:
    content = message.get("content")
    if "tool_calls" not in message:
        check_text(content, where)
        return []
    calls = message["tool_calls"]
    need(isinstance(calls, list) and calls, f"{where} has an empty tool_calls")
    if content is not None:
        check_text(content, where)
    for call in calls:
        check_call(call, used, where)
    return [call["id"] for call in calls]


def check_call(call: Any, used: set[str], where: str) -> None:
    need(isinstance(call, dict) and call.get("type") == "function", f"{where} has a call that is no function")
    given, function = call.get("id"), call.get("function")
    need(isinstance(given, str) and 0 < len(given) <= MAX_ID, f"{where} has a call with the id {given!r}")
    need(given not in used, f"{where} uses the call id {given!r} again")
    used.add(str(given))
    need(isinstance(function, dict), f"{where} has a call without a function")
    assert isinstance(function, dict)
    name = function.get("name")
    need(isinstance(name, str) and NAME.fullmatch(name), f"{where} calls {name!r}, which does not match the pattern")
    try:
        arguments = json.loads(function.get("arguments"))  # type: ignore[arg-type]  # TypeError is the check
    except (TypeError, ValueError):
        raise Refused(f"{where} has arguments that are not JSON") from None
    need(isinstance(arguments, dict), f"{where} has arguments that are no object")


def check_text(content: Any, where: str) -> None:
    if isinstance(content, list):
        need(content, f"{where} has no content")
        for part in content:
            need(isinstance(part, dict) and part.get("type") == "text", f"{where} has a part that is no text")
            check_text(part.get("text"), where)
    else:
        need(isinstance(content, str) and content.strip(), f"{where} has no content")


def check_user(content: Any, where: str) -> None:
    if isinstance(content, str):
        check_text(content, where)
        return
    need(isinstance(content, list) and content, f"{where} has no content")
    for part in content:
        need(isinstance(part, dict), f"{where} has a part that is no object")
        kind = part.get("type")
        if kind == "text":
            check_text(part.get("text"), where)
        else:
            need(kind in ("image_url", "input_audio", "file"), f"{where} has a part of type {kind!r}")
            need(isinstance(part.get(kind), dict), f"{where} has a {kind} part without {kind}")


def check_images(messages: list[Any]) -> None:
    sizes = [check_image(url) for url in image_urls(messages)]
    for width, height in sizes:
        need(max(width, height) <= MAX_SIDE, f"an image has {width}x{height} pixels")
    large = sum(max(size) > MAX_SIDE_OF_MANY for size in sizes)
    need(large <= MANY_IMAGES, f"{large} images have a side over {MAX_SIDE_OF_MANY} pixels")


def image_urls(messages: list[Any]) -> Iterator[str]:
    for message in messages:
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            if part.get("type") == "image_url":
                url = part["image_url"].get("url")
                need(isinstance(url, str), "an image has no url")
                yield url


def check_image(url: str) -> tuple[int, int]:
    if url.startswith("https://"):
        return 0, 0
    head = re.fullmatch(r"data:image/(png|jpeg|gif|webp);base64,([A-Za-z0-9+/]+=*)", url)
    if head is None:
        raise Refused("an image url is no data url of a known kind")
    need(len(head[2]) <= MAX_IMAGE_BASE64, "an image is over 5 MiB")
    try:
        data = base64.b64decode(head[2], validate=True)
    except ValueError:
        raise Refused("an image is no base64") from None
    size = image_size(data)
    need(size is not None, "an image cannot be read")
    assert size is not None
    return size


def image_size(data: bytes) -> tuple[int, int] | None:
    """Width and height in pixels from the header; (0, 0) for formats whose header is not read, None for no image."""
    if data.startswith(b"\x89PNG\r\n\x1a\n") and len(data) >= 24:
        width, height = struct.unpack(">II", data[16:24])
        return int(width), int(height)
    if data.startswith((b"GIF87a", b"GIF89a")) and len(data) >= 10:
        width, height = struct.unpack("<HH", data[6:10])
        return int(width), int(height)
    if data.startswith(b"\xff\xd8"):
        return jpeg_size(data)
    return (0, 0) if data.startswith(b"RIFF") else None


def jpeg_size(data: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 < len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return int(width), int(height)
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None
