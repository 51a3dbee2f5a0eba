"""What the kinds of attachments have in common: limits, names, notices, base64, documents.

Requirements `attachments.*`. A name says which attachment is meant without its full address: no query, no user, no
parent folders. A notice is what the model reads in the place of something that could not be used.
"""

from __future__ import annotations

import base64
import binascii
from urllib.parse import unquote, urlsplit

from sluice.persistence.records import Part

__all__ = [
    "MAX_BINARY",
    "MAX_LABEL",
    "MAX_TEXT",
    "Unusable",
    "binary_document",
    "decoded",
    "label",
    "left_out",
    "mime",
    "notice",
    "text_document",
]

MAX_TEXT = 5 << 20
"""Bytes of one text, as UTF-8 (attachments.limits.per-item)."""

MAX_BINARY = 20 << 20
"""Bytes of one binary, decoded (attachments.limits.per-item). The limit of a line on the wire comes first."""

MAX_LABEL = 200
"""Characters of a name or a type that is shown to the model for an attachment."""

_TEXTUAL = frozenset(
    {
        "application/json",
        "application/xml",
        "application/yaml",
        "application/toml",
        "application/javascript",
        "application/x-sh",
        "image/svg+xml",
    }
)
"""Types besides text/* that are text; +json and +xml are as well."""


class Unusable(Exception):
    """An attachment cannot be used; the text says why, in words of ours only."""


def notice(text: str) -> Part:
    """A text that stands for something left out, or says something about what is there."""
    return Part(type="text", text=text, notice=True)


def left_out(kind: str, name: str, why: str) -> Part:
    """The notice in the place of an attachment."""
    return notice(f"[{kind} left out: {name}: {why}]" if name else f"[{kind} left out: {why}]")


def label(uri: str, name: str = "", default: str = "resource") -> str:
    """A short, safe name: the given one, else the last segment of the URI's path, percent-decoded once.

    Clients put whole paths and addresses into names, so a name is cut to its last segment as well.
    """
    found = name.strip()
    if "://" in found:
        found = unquote(_last_segment(found))
    elif found:
        found = found.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
    found = found or unquote(_last_segment(uri)) or default
    return "".join(char if char.isprintable() else " " for char in found)[:MAX_LABEL]


def _last_segment(uri: str) -> str:
    try:
        split = urlsplit(uri)
    except ValueError:
        return ""
    if split.scheme == "data":
        return ""  # its path is the payload
    return split.path.rstrip("/").rsplit("/", 1)[-1]


def mime(given: str | None, default: str) -> str:
    """A MIME type in lower case and of bounded length."""
    return "".join(char for char in (given or "").strip().lower() if char.isprintable())[:MAX_LABEL] or default


def decoded(data: str) -> bytes:
    """The bytes of strict base64 within the limit; the size is looked at before anything is decoded.

    Raises:
        Unusable: it is empty, too large, or no base64.
    """
    if len(data) > (MAX_BINARY + 2) // 3 * 4:
        raise Unusable(f"it is larger than {MAX_BINARY >> 20} MiB")
    try:
        found = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Unusable("its data is no valid base64") from error
    if not found:
        raise Unusable("it is empty")
    if len(found) > MAX_BINARY:
        raise Unusable(f"it is larger than {MAX_BINARY >> 20} MiB")
    return found


def text_document(text: str, mime_type: str | None, name: str) -> Part:
    """A text as a document; every model takes it, whatever its MIME type is."""
    size = len(text.encode("utf-8", "replace"))
    if size > MAX_TEXT:
        return left_out("Resource", name, f"it is larger than {MAX_TEXT >> 20} MiB")
    return Part(type="document", text=text, mime_type=mime(mime_type, "text/plain"), name=name, size=size)


def binary_document(data: str, mime_type: str, name: str) -> tuple[Part, ...]:
    """An embedded binary as a document; one that is text by its type and in fact becomes a text. Blocking."""
    try:
        found = decoded(data)
    except Unusable as error:
        return (left_out("Binary resource", name, str(error)),)
    kind = mime_type.split(";")[0].strip()
    if kind.startswith("text/") or kind in _TEXTUAL or kind.endswith(("+json", "+xml")):
        try:
            return (text_document(found.decode("utf-8"), mime_type, name),)
        except UnicodeDecodeError:
            pass
    # Encoded anew: unused bits of the last character may have differed.
    encoded = base64.b64encode(found).decode()
    document = Part("document", "", encoded, mime(mime_type, "application/octet-stream"), name, len(found))
    return (document,)
