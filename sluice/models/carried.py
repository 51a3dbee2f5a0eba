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
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, Protocol

import msgspec

from sluice.models.settings import ResolvedModel
from sluice.persistence.records import Message, ToolCallRecord

__all__ = ["Prefix", "Told", "carried", "sealed"]


class _Sealed(msgspec.Struct):
    """The stored form. `mark` is maker and digest in one; `pieces` are the answer in its order."""

    mark: str
    pieces: list[dict[str, Any]]


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


def sealed(mark: str, pieces: Sequence[dict[str, Any]]) -> str:
    """The text to keep with an answer, for `Message.carried`.

    Args:
        mark: that of everything that was sent.
        pieces: the answer in its order. What goes back unchanged stands under `own`. The rest is in the message
            already: a text stands there as its length (`text`), a call as the service's id for it (`call`); what the
            API wants to know of these besides may stand beside.
    """
    return msgspec.json.encode(_Sealed(mark, list(pieces))).decode()


class Told(Protocol):
    """How an API writes what a message says."""

    def text(self, text: str, piece: Mapping[str, Any]) -> dict[str, Any]:
        """A text; `piece` is what was kept of it."""
        ...

    def call(self, call: ToolCallRecord, id: str, piece: Mapping[str, Any]) -> dict[str, Any]:
        """A call with the id that the service knows it by; `piece` is what was kept of it."""
        ...


def carried(message: Message, mark: str, told: Told, ids: MutableMapping[str, str]) -> list[dict[str, Any]]:
    """An answer in the order and with the ids in which the service gave it, [] when it may not be sent like that.

    Args:
        message: an answer of the history.
        mark: that of everything before it in this request.
        told: how texts and calls are written.
        ids: our call ids -> the service's; those of this answer are added.
    """
    found = _opened(message)
    if found is None or found.mark != mark:
        return []
    blocks: list[dict[str, Any]] = []
    at, calls = 0, list(message.tool_calls)
    if sum("call" in piece for piece in found.pieces) != len(calls):
        return []
    if sum(piece.get("text", 0) for piece in found.pieces) != len(message.text):
        return []
    for piece in found.pieces:
        if "text" in piece:
            text = message.text[at : at + piece["text"]]
            at += piece["text"]
            if text.strip():  # services say blanks between a thought and a call, and take none
                blocks.append(told.text(text, piece))
        elif "call" in piece:
            call = calls.pop(0)
            ids[call.id] = piece["call"]
            blocks.append(told.call(call, piece["call"], piece))
        else:
            blocks.append(piece["own"])
    return blocks


def _opened(message: Message) -> _Sealed | None:
    try:
        return _DECODER.decode(message.carried) if message.carried else None
    except msgspec.DecodeError:
        return None  # of a later version
