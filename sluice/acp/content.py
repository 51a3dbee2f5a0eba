"""Content blocks: what prompts, answers and tool results are made of.

Source: ACP "Content".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from sluice.acp.base import Message, Untagged

__all__ = [
    "Annotations",
    "AudioContent",
    "BlobResourceContents",
    "ContentBlock",
    "EmbeddedResource",
    "EmbeddedResourceResource",
    "ImageContent",
    "ResourceLink",
    "Role",
    "TextContent",
    "TextResourceContents",
]

Role = Literal["assistant", "user"]


class Annotations(Message, frozen=True):
    """Hints on how a block is meant to be used; `priority` runs from 0 to 1, `last_modified` is ISO 8601."""

    audience: Sequence[Role] | None = None
    last_modified: str | None = None
    priority: float | None = None


class TextContent(Message, frozen=True, tag="text", tag_field="type"):
    """Text; every agent and client understands it."""

    text: str
    annotations: Annotations | None = None


class ImageContent(Message, frozen=True, tag="image", tag_field="type"):
    """An image, base64 in `data`. In a prompt it needs `promptCapabilities.image`."""

    data: str
    mime_type: str
    uri: str | None = None
    annotations: Annotations | None = None


class AudioContent(Message, frozen=True, tag="audio", tag_field="type"):
    """A sound, base64 in `data`. In a prompt it needs `promptCapabilities.audio`."""

    data: str
    mime_type: str
    annotations: Annotations | None = None


class ResourceLink(Message, frozen=True, tag="resource_link", tag_field="type"):
    """A reference to something the reader may fetch itself; `size` is in bytes."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: Annotations | None = None


class EmbeddedResourceResource(Untagged):
    """Either `TextResourceContents` or `BlobResourceContents`, told apart by the key they carry."""

    __slots__ = ()

    @staticmethod
    def select(value: Mapping[str, Any]) -> type[Any]:
        """The member with the key that is present; text wins when a peer sends both."""
        if "text" in value:
            return TextResourceContents
        if "blob" in value:
            return BlobResourceContents
        raise ValueError("Object missing required field `text` or `blob`")


class TextResourceContents(Message, EmbeddedResourceResource, frozen=True):
    """A resource as text."""

    uri: str
    text: str
    mime_type: str | None = None


class BlobResourceContents(Message, EmbeddedResourceResource, frozen=True):
    """A resource as base64 in `blob`."""

    uri: str
    blob: str
    mime_type: str | None = None


class EmbeddedResource(Message, frozen=True, tag="resource", tag_field="type"):
    """A resource with its contents. In a prompt it needs `promptCapabilities.embeddedContext`."""

    resource: EmbeddedResourceResource
    annotations: Annotations | None = None


ContentBlock = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
