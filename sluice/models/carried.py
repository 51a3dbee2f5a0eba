"""What a service made and wants back unchanged: signed thoughts, sealed reasoning.

A service signs its reasoning and refuses a request in which a signed piece stands behind other words than those it
was made behind, or before another model. So each piece is kept with a mark: who made it, and a digest of everything
that was sent before it. It is sent again only where both are the same and its answer still says what it said.
Whatever changed the prompt in between (a compaction, a tool that came or went, another day in the system text),
nobody has to know: the piece is left out then, and every service takes a history without it.

Source: Claude API documentation, "Preserved thinking"; OpenAI API documentation, "Reasoning models"; Gemini API
documentation, "Thought signatures".
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from sluice.models.names import wire_id
from sluice.models.settings import ResolvedModel
from sluice.persistence.records import Message, ToolCallRecord

__all__ = ["Prefix", "Replay", "Told", "sealed"]


class _Sealed(msgspec.Struct):
    """The stored form. `mark` is maker and digest in one, `said` a digest of the text and the calls; `pieces` are the
    answer in its order.
    """

    mark: str
    said: str
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


def sealed(mark: str, pieces: Sequence[dict[str, Any]], text: str, calls: Sequence[ToolCallRecord]) -> str:
    """The text to keep with an answer, for `Message.carried`; "" when not all of its calls have come to be.

    Args:
        mark: that of everything that was sent.
        pieces: the answer in its order. What goes back unchanged stands under `own`. The rest is in the message
            already: a text stands there as its length (`text`), a call as the service's id for it (`call`); what the
            API wants to know of these besides may stand beside.
        text: that of the answer.
        calls: those of the answer.
    """
    if sum("call" in piece for piece in pieces) != len(calls):
        return ""
    return msgspec.json.encode(_Sealed(mark, _said(text, calls), list(pieces))).decode()


def _said(text: str, calls: Sequence[ToolCallRecord]) -> str:
    return hashlib.sha256(msgspec.json.encode([text, *(call.arguments for call in calls)])).hexdigest()


class Told(Protocol):
    """How an API writes what a message says."""

    def text(self, text: str, piece: Mapping[str, Any]) -> dict[str, Any]:
        """A text; `piece` is what was kept of it."""
        ...

    def call(self, call: ToolCallRecord, id: str, piece: Mapping[str, Any]) -> dict[str, Any]:
        """A call with the id that the service knows it by; `piece` is what was kept of it."""
        ...


class Replay:
    """The answers of one request's history as they are sent: as they came where that may be, else written anew.

    Attributes:
        prefix: everything so far; whoever sends something tells it.
        used: the marks of the answers that go back as they came.
    """

    def __init__(self, prefix: Prefix, told: Told, distrusted: frozenset[str] = frozenset()) -> None:
        """Begin.

        Args:
            prefix: what stands before the conversation.
            told: how texts and calls are written.
            distrusted: marks of what the service has refused to take back.
        """
        self.prefix = prefix
        self.used: set[str] = set()
        self._told = told
        self._distrusted = distrusted
        self._ids: dict[str, str] = {}

    def id_of(self, call_id: str) -> str:
        """The id by which the service knows a call, for its result."""
        return self._ids.get(call_id) or wire_id(call_id)

    def answer(self, message: Message) -> list[dict[str, Any]]:
        """What an answer says, in order; [] when it says nothing."""
        mark = self.prefix.mark
        found = None if mark in self._distrusted else _opened(message)
        if found is not None and found.mark == mark and found.said == _said(message.text, message.tool_calls):
            self.used.add(mark)
            return self._as_it_came(message, found)
        blocks = [self._told.text(message.text, {})] if message.text.strip() else []
        return blocks + [self._told.call(call, wire_id(call.id), {}) for call in message.tool_calls]

    def _as_it_came(self, message: Message, found: _Sealed) -> list[dict[str, Any]]:
        blocks: list[dict[str, Any]] = []
        at, calls = 0, iter(message.tool_calls)
        for piece in found.pieces:
            if "text" in piece:
                text = message.text[at : at + piece["text"]]
                at += piece["text"]
                if text.strip():  # services say blanks between a thought and a call, and take none
                    blocks.append(self._told.text(text, piece))
            elif "call" in piece:
                call = next(calls)
                self._ids[call.id] = piece["call"]
                blocks.append(self._told.call(call, piece["call"], piece))
            else:
                blocks.append(piece["own"])
        return blocks


def _opened(message: Message) -> _Sealed | None:
    try:
        return _DECODER.decode(message.carried) if message.carried else None
    except msgspec.DecodeError:
        return None  # of a later version
