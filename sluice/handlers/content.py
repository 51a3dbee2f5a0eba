"""From the content blocks of a prompt to the message that is stored and sent to the model.

Specification page: https://agentclientprotocol.com/protocol/content. Texts stay texts; embedded text becomes a
document; what cannot be used becomes a bounded notice without payload or full URI, and the turn goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

from sluice import acp
from sluice.agent.attempts import new_id
from sluice.persistence.records import Message, Part

__all__ = ["MAX_TEXT", "user_message"]

MAX_TEXT = 5 << 20
"""Bytes of one embedded text (attachments.limits.per-item)."""

MAX_LABEL = 200
"""Characters of a name that is shown to the model for an attachment."""


def user_message(prompt: Sequence[acp.ContentBlock]) -> Message:
    """The user message; its id is ours, whatever ids the prompt carries (message-ids.user.agent-made)."""
    return Message(role="user", id=new_id(), parts=tuple(_part(block) for block in prompt))


def _part(block: acp.ContentBlock) -> Part:
    if isinstance(block, acp.TextContent):
        return Part(type="text", text=block.text)
    if isinstance(block, acp.ResourceLink):
        return _notice(f"[Linked resource, not read: {_label(block.uri, block.name)}]")
    if isinstance(block, acp.EmbeddedResource):
        resource = block.resource
        if isinstance(resource, acp.TextResourceContents):
            return _document(resource)
        assert isinstance(resource, acp.BlobResourceContents), "a resource holds text or a blob"
        return _notice(f"[Binary resource left out: {_label(resource.uri)}]")
    kind = "Image" if isinstance(block, acp.ImageContent) else "Audio"
    return _notice(f"[{kind} left out: this agent does not take it]")


def _document(resource: acp.TextResourceContents) -> Part:
    name, size = _label(resource.uri), len(resource.text.encode("utf-8", "replace"))
    if size > MAX_TEXT:
        return _notice(f"[Resource left out, larger than {MAX_TEXT >> 20} MiB: {name}]")
    mime = (resource.mime_type or "text/plain")[:MAX_LABEL]
    return Part(type="document", text=resource.text, mime_type=mime, name=name, size=size)


def _notice(text: str) -> Part:
    return Part(type="text", text=text, notice=True)


def _label(uri: str, name: str = "") -> str:
    """A name that says which resource is meant without its full address: no query, no user, no parent folders."""
    try:
        path = urlsplit(uri).path
    except ValueError:
        path = ""
    label = name.strip() or unquote(path.rstrip("/").rsplit("/", 1)[-1]) or "resource"
    return "".join(char if char.isprintable() else " " for char in label)[:MAX_LABEL]
