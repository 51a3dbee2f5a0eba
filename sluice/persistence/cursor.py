"""The opaque cursor of a listing: where a page ended, sealed for this store and this filter.

The seal is no secret kept from an attacker (a cursor gives nothing that the listing does not); it makes a cursor of
another store, of another agent or of another filter recognisable, so that it can be refused instead of silently
skipping sessions (session.list.bad-cursor).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json

from sluice.persistence.errors import BadCursor

__all__ = ["decode_cursor", "encode_cursor"]

_SEAL = 12
"""Bytes of the seal kept in a cursor: far more than chance, and still short."""


def encode_cursor(key: bytes, cwd: str | None, created_at: int, session_id: str) -> str:
    """Name the row after which the next page begins.

    Args:
        key: the store's key.
        cwd: the listing's filter, None for none; the cursor is good for this filter only.
        created_at: microseconds since the epoch of the page's last row.
        session_id: the id of the page's last row.
    """
    place = json.dumps([created_at, session_id]).encode()
    return base64.urlsafe_b64encode(_seal(key, cwd, place) + place).decode().rstrip("=")


def decode_cursor(key: bytes, cwd: str | None, cursor: str) -> tuple[int, str]:
    """Read what `encode_cursor` wrote for the same key and filter.

    Returns:
        `created_at` in microseconds and the session id.

    Raises:
        BadCursor: anything else, whatever it is.
    """
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except ValueError:
        raise BadCursor("the cursor is malformed") from None
    seal, place = raw[:_SEAL], raw[_SEAL:]
    if not hmac.compare_digest(seal, _seal(key, cwd, place)):
        raise BadCursor("the cursor belongs to another listing")
    created_at, session_id = json.loads(place)
    return created_at, session_id


def _seal(key: bytes, cwd: str | None, place: bytes) -> bytes:
    return hmac.digest(key, json.dumps(cwd).encode() + place, hashlib.sha256)[:_SEAL]
