"""What writing a request needs in every API: parts of a message as blocks, tools, arguments, what a model takes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sluice.agent.ports import ToolSpec
from sluice.models.catalogue import facts
from sluice.models.names import WireNames
from sluice.models.settings import ResolvedModel
from sluice.persistence.records import Part

__all__ = ["Block", "arguments_of", "as_text", "blocks_of", "capabilities", "extra_body", "output_limit", "tools_of"]

Block = dict[str, Any]


def blocks_of(
    parts: Sequence[Part], media: Callable[[Part], Block | None], text: Callable[[str], Block]
) -> list[Block]:
    """The parts in order: media as the API's own blocks, everything between them as one text block.

    Args:
        parts: of one message.
        media: the block of a part, None when it has to be told in words.
        text: the block of a text.
    """
    blocks: list[Block] = []
    pending: list[Part] = []
    for part in parts:
        block = media(part) if part.data else None
        if block is None:
            pending.append(part)
            continue
        _flush(pending, blocks, text)
        blocks.append(block)
    _flush(pending, blocks, text)
    return blocks


def _flush(pending: list[Part], blocks: list[Block], text: Callable[[str], Block]) -> None:
    told = as_text(pending)
    pending.clear()
    if told:
        blocks.append(text(told))


def as_text(parts: Iterable[Part]) -> str:
    """Texts run on as they were typed; everything else stands apart, under a line that says what it is."""
    pieces: list[str] = []
    apart = False
    for part in parts:
        text = part.text if part.type == "text" else _described(part)
        if not text:
            continue
        if pieces and (apart or part.type != "text"):
            pieces.append("\n\n")
        pieces.append(text)
        apart = part.type != "text"
    joined = "".join(pieces)
    return joined if joined.strip() else ""


def _described(part: Part) -> str:
    """What stands for a document."""
    label = " ".join(piece for piece in (part.type, part.name, part.mime_type) if piece)
    if part.data:
        return f"[{label}, {part.size} bytes: left out, this model cannot take it]"
    return f"[{label}]\n{part.text}" if part.text else ""


def arguments_of(text: str) -> dict[str, Any]:
    """The arguments of an old call as the object that services want; what is none stands inside one."""
    if not text.strip():
        return {}
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"invalid_arguments": text}


def tools_of(specs: Sequence[ToolSpec], names: WireNames) -> Iterator[tuple[str, str, Block]]:
    """Name, description and schema of each tool, each name once."""
    seen = set()
    for spec in specs:
        name = names.wire(spec.name)
        if name not in seen:
            seen.add(name)
            yield name, spec.description, {"type": "object", "properties": {}, **spec.parameters}


def capabilities(resolved: ResolvedModel) -> dict[str, bool]:
    """What is known of each modality: the configuration's word, else the catalogue's."""
    stated = getattr(resolved.options, "capabilities", None)
    known = facts(resolved.provider, resolved.model)
    names = ("image", "pdf", "audio")
    if isinstance(stated, Mapping):
        found = {name: stated.get(name) for name in names}
    else:
        found = {name: getattr(stated, name, None) for name in names}
    if known is not None:
        found = {name: getattr(known.takes, name) if value is None else value for name, value in found.items()}
    return {name: bool(value) for name, value in found.items() if value is not None}


def output_limit(configured: int | None, asked: int | None) -> int | None:
    """The most tokens of one answer: the smaller of what the file and what the call allow, None for neither."""
    limits = [limit for limit in (configured, asked) if limit is not None]
    return min(limits) if limits else None


def extra_body(resolved: ResolvedModel, protected: frozenset[str]) -> Block:
    """`provider_opts.extra_body`, to be laid over a request, but for the keys that the engine's own sense of the call
    depends on.
    """
    extra = resolved.options.provider_opts.get("extra_body")
    return {key: value for key, value in extra.items() if key not in protected} if isinstance(extra, Mapping) else {}
