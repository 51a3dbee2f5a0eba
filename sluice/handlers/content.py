"""From the content blocks of a prompt to the message that is stored and sent to the model.

Specification page: https://agentclientprotocol.com/protocol/content. Texts stay texts; everything else becomes an
inline document in the order of the prompt, twice when it was attached twice. What cannot be used becomes a bounded
notice without payload or full URI, and the turn goes on.
"""

from __future__ import annotations

from collections.abc import Sequence

import anyio.to_thread

from sluice import acp
from sluice.agent.attempts import new_id
from sluice.handlers import attachments, audio, images
from sluice.handlers.resource_links import LinkReader
from sluice.persistence.records import Message, Part

__all__ = ["user_message"]


async def user_message(prompt: Sequence[acp.ContentBlock], links: LinkReader) -> Message:
    """The user message; its id is ours, whatever ids the prompt carries (message-ids.user.agent-made).

    Annotations, `_meta`, titles, descriptions and source URIs are not part of it. Pictures are worked on in a worker
    thread, one after another, so that a prompt with many of them needs the memory of one.

    Args:
        prompt: the blocks as they came.
        links: reads what `file:` links point to, at the client.
    """
    parts: list[Part] = []
    for block in prompt:
        parts += await _parts(block, links)
    return Message(role="user", id=new_id(), parts=tuple(parts))


async def _parts(block: acp.ContentBlock, links: LinkReader) -> Sequence[Part]:
    if isinstance(block, acp.TextContent):
        return (Part(type="text", text=block.text),)
    if isinstance(block, acp.ResourceLink):
        return await links.parts(block)
    if isinstance(block, acp.ImageContent):
        name = attachments.label(block.uri or "", default="")
        return await _image(block.data, block.mime_type, name)
    if isinstance(block, acp.AudioContent):
        return await anyio.to_thread.run_sync(audio.parts, block.data, block.mime_type)
    resource = block.resource
    name = attachments.label(getattr(resource, "uri", ""))
    if isinstance(resource, acp.TextResourceContents):
        return (attachments.text_document(resource.text, resource.mime_type, name),)
    assert isinstance(resource, acp.BlobResourceContents), "a resource holds text or a blob"
    return await _blob(resource.blob, resource.mime_type or "", name)


async def _blob(data: str, mime_type: str, name: str) -> Sequence[Part]:
    """An embedded binary: a picture or a sound where its type says so, else a document."""
    kind = mime_type.strip().lower()
    if kind.startswith("image/") and kind != "image/svg+xml":
        return await _image(data, kind, name)
    if kind.startswith("audio/"):
        return await anyio.to_thread.run_sync(audio.parts, data, mime_type, name)
    return await anyio.to_thread.run_sync(attachments.binary_document, data, kind, name)


async def _image(data: str, mime_type: str, name: str) -> Sequence[Part]:
    # Not abandoned on cancel: a thread that goes on alone would hold the picture's memory unseen.
    return await anyio.to_thread.run_sync(images.parts, data, mime_type, name)
