"""What an MCP tool gave, as one text; media and structured data stay outside (they are only named)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sluice.agent.ports import ToolResult

if TYPE_CHECKING:
    from mcp.types import CallToolResult

__all__ = ["to_result"]

_NO_OUTPUT = "<no output>"


def to_result(given: CallToolResult) -> ToolResult:
    """Return the result: texts joined by newlines, else the structured content as JSON."""
    text = "\n".join(piece for piece in map(_piece, given.content) if piece)
    if not text and given.structured_content is not None:
        text = json.dumps(given.structured_content, ensure_ascii=False)
    return ToolResult(text or _NO_OUTPUT, is_error=bool(given.is_error))


def _piece(block: Any) -> str:
    if block.type == "text":
        return str(block.text)
    if block.type in ("image", "audio"):
        return f"[{block.type} {block.mime_type} left out]"
    if block.type == "resource_link":
        return f"[{block.name}: {block.uri}]"
    if block.type == "resource":
        text = getattr(block.resource, "text", None)
        return str(text) if text is not None else f"[resource {block.resource.uri} left out: not a text]"
    return f"[{block.type} left out]"
