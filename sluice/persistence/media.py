"""Binary parts of messages: taken out of an item's JSON before it is stored, put back when it is read.

A JSON row that carries a photograph has to be read and parsed whole to see anything of it, and base64 costs a third
more. So the bytes of a bigger part lie decoded in the `media` table, one row a part.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import replace

from sluice.persistence.records import Item, Part

__all__ = ["INLINE_LIMIT", "join_media", "split_media"]

INLINE_LIMIT = 1024
"""Characters of base64 that may stay in the item's JSON; below this a row of its own costs more than it saves."""


def split_media(item: Item) -> tuple[Item, dict[int, bytes]]:
    """Take the big binaries out of an item.

    Returns:
        The item with those parts' `data` empty, and the decoded bytes by the part's index. Data that is not the
        exact base64 of something stays where it is, so that joining always gives back what was stored.
    """
    if item.message is None:
        return item, {}
    found = {index: blob for index, part in enumerate(item.message.parts) if (blob := _blob(part)) is not None}
    if not found:
        return item, {}
    parts = tuple(replace(part, data="") if index in found else part for index, part in enumerate(item.message.parts))
    return replace(item, message=replace(item.message, parts=parts)), found


def join_media(item: Item, blobs: Mapping[int, bytes]) -> Item:
    """Put the bytes of `split_media` back in place."""
    if item.message is None or not blobs:
        return item
    parts = tuple(
        replace(part, data=base64.b64encode(blobs[index]).decode()) if index in blobs else part
        for index, part in enumerate(item.message.parts)
    )
    return replace(item, message=replace(item.message, parts=parts))


def _blob(part: Part) -> bytes | None:
    if len(part.data) <= INLINE_LIMIT:
        return None
    try:
        blob = base64.b64decode(part.data, validate=True)
    except (binascii.Error, ValueError):
        return None
    # Unused bits of the last character may differ and still decode to the same bytes.
    return blob if base64.b64encode(blob).decode() == part.data else None
