"""How many tokens a text is likely to be, before a provider has counted them."""

from __future__ import annotations

from collections.abc import Iterable

from sluice.persistence.records import Message

__all__ = ["CHARACTERS_PER_TOKEN", "estimate"]

CHARACTERS_PER_TOKEN = 3.5
"""Of English text and code; a little on the careful side."""

PER_MESSAGE = 5
"""Tokens of the frame around a message."""

PER_BINARY = 1500
"""Tokens of an image, a sound or another binary: providers differ, and this is about a middle-sized image."""


def estimate(messages: Iterable[Message]) -> int:
    """Tokens of these messages, roughly."""
    return sum(_tokens(message) for message in messages)


def _tokens(message: Message) -> int:
    characters = sum(len(part.text) for part in message.parts)
    characters += sum(len(call.name) + len(call.arguments) for call in message.tool_calls)
    binaries = sum(1 for part in message.parts if part.data)
    return PER_MESSAGE + round(characters / CHARACTERS_PER_TOKEN) + PER_BINARY * binaries
