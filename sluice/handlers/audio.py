"""Sounds in a prompt: passed on byte for byte, never listened to.

Requirements `audio.*`. Nothing here knows a codec: no check of the contents, no transcript, no conversion, no other
model. Which models get the bytes is decided where the request is written; the notice reaches all of them.
"""

from __future__ import annotations

import base64
import re

from sluice.handlers.attachments import Unusable, decoded, notice
from sluice.persistence.records import Part

__all__ = ["MAX_MIME", "NOTICE", "UNAVAILABLE", "parts"]

MAX_MIME = 256
"""Bytes of a MIME type with its parameters (audio.mime.normalised)."""

NOTICE = (
    "[A sound is attached here. This line is not a transcript; whether you can hear it depends on the model and its "
    "service.]"
)
"""Stands behind each accepted sound, and stays when the sound itself cannot be sent."""

UNAVAILABLE = "[Audio unavailable: the attached sound could not be used.]"
"""Stands in the place of each sound that is not accepted, whatever the reason."""

_TOKEN = r"[A-Za-z0-9!#$&^_.+%'`|~-]+"
_PARAMETER = rf'\s*;\s*({_TOKEN})\s*=\s*({_TOKEN}|"(?:[^"\\\x00-\x1f\x7f]|\\[\x20-\x7e])*")'
_MIME = re.compile(rf"audio/({_TOKEN})((?:{_PARAMETER})*)\s*", re.IGNORECASE)


def parts(data: str, mime_type: str, name: str = "") -> tuple[Part, ...]:
    """The sound and its notice, or the one notice that it is unavailable. Blocking.

    Args:
        data: base64.
        mime_type: as the client gave it.
        name: a label for it, "" for none.
    """
    kind = normalised(mime_type)
    if kind is None:
        return (notice(UNAVAILABLE),)
    try:
        found = decoded(data)
    except Unusable:
        return (notice(UNAVAILABLE),)
    sound = Part("audio", "", base64.b64encode(found).decode(), kind, name, len(found))
    return sound, notice(NOTICE)


def normalised(mime_type: str) -> str | None:
    """The type and the names of parameters in lower case, values as they are; None when it is no audio type."""
    given = mime_type.strip()
    if len(given.encode("utf-8", "replace")) > MAX_MIME:
        return None
    match = _MIME.fullmatch(given)
    if match is None:
        return None
    parameters = [f"{name.lower()}={value}" for name, value in re.findall(_PARAMETER, match[2])]
    return ";".join([f"audio/{match[1].lower()}", *parameters])
