"""How much text a tool may hand to the model."""

from __future__ import annotations

from typing import Literal

__all__ = ["RESULT_BYTES", "bound"]

RESULT_BYTES = 50 * 1024
"""The most a tool result may hand to the model, in bytes of UTF-8 (tools.registry.result-bound)."""


def bound(text: str, limit: int = RESULT_BYTES, *, keep: Literal["head", "tail"] = "head") -> str:
    """Cut a text to a number of UTF-8 bytes, with a notice where it was cut; no character is cut in two.

    Args:
        text: the whole text.
        limit: the most bytes the returned text has, notice included.
        keep: which end stays.
    """
    # A lone surrogate cannot be encoded for the model either; it becomes a question mark here at the latest.
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return text if text.isascii() else data.decode()
    notice = f"[cut: {len(data)} bytes, more than the {limit} a result may have]"
    room = max(0, limit - len(notice.encode()) - 1)
    if keep == "head":
        return data[:room].decode("utf-8", "ignore") + "\n" + notice
    return notice + "\n" + data[len(data) - room :].decode("utf-8", "ignore")
