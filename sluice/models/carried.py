"""What a service made and wants back unchanged: signed thoughts, sealed reasoning.

A service signs its reasoning and refuses a request in which a signed piece stands behind other words than those it
was made behind, or before another model. So each piece is kept with a mark: who made it, and a digest of everything
that was sent before it. It is sent again only where both are the same. Whatever changed the prompt in between (a
compaction, a tool that came or went, another day in the system text), nobody has to know: the piece is left out then,
and every service takes a history without it.

Source: Claude API documentation, "Preserved thinking"; OpenAI API documentation, "Reasoning models"; Gemini API
documentation, "Thought signatures".
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from sluice.models.settings import ResolvedModel
from sluice.persistence.records import Message

__all__ = ["Prefix", "carried", "sealed"]


class _Sealed(msgspec.Struct):
    """The stored form. `mark` is maker and digest in one, `blocks` belong to the API that made them."""

    mark: str
    blocks: list[Any]


_DECODER = msgspec.json.Decoder(_Sealed)


class Prefix:
    """Everything that has been sent so far in one request, as a digest."""

    def __init__(self, resolved: ResolvedModel) -> None:
        """Begin with the maker: the provider and the model."""
        self._digest = hashlib.sha256()
        self.add(resolved.provider, resolved.model)

    def add(self, *pieces: Any) -> None:
        """Take what is sent next: JSON values, without marks that may move (such as those for a cache)."""
        for piece in pieces:
            self._digest.update(msgspec.json.encode(piece, order="sorted") + b"\n")

    @property
    def mark(self) -> str:
        """The digest up to here."""
        return self._digest.hexdigest()


def sealed(mark: str, blocks: Sequence[Any]) -> str:
    """The text to keep with an answer, for `Message.carried`; "" when there is nothing to carry."""
    return msgspec.json.encode(_Sealed(mark, list(blocks))).decode() if blocks else ""


def carried(message: Message, mark: str, distrusted: frozenset[str]) -> list[Any]:
    """The blocks of a message that may be sent where the prompt has come to `mark`, [] when they may not.

    Args:
        message: an answer of the history.
        mark: that of everything before it in this request.
        distrusted: marks of what the service has refused to take back.
    """
    if not message.carried:
        return []
    try:
        found = _DECODER.decode(message.carried)
    except msgspec.DecodeError:
        return []  # of a later version
    return found.blocks if found.mark == mark and mark not in distrusted else []
