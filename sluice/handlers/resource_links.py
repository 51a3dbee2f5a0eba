"""Resource links in a prompt: `file:` links are read at the client, all others are only named.

Requirements `resource-links.*`. A link is never read from the host's disk and never fetched. A file link is read
through the client that sent it, when it offers reading, after the check that the path lies in the session's
directories; the path is percent-decoded exactly once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes, urlsplit

import anyio.to_thread

from sluice import acp
from sluice.agent.ports import Files, ToolFailure
from sluice.handlers.attachments import label, notice, text_document
from sluice.persistence.records import Part
from sluice.tools.paths import absolute, resolve, spelled

__all__ = ["LinkReader", "file_path"]


@dataclass(frozen=True, slots=True)
class LinkReader:
    """Reads the links of one prompt.

    Attributes:
        files: the client's files; None when the client does not offer reading.
        cwd: the session's directory.
        roots: its additional directories, as they are now.
    """

    files: Files | None
    cwd: str
    roots: tuple[str, ...] = ()

    async def parts(self, link: acp.ResourceLink) -> Sequence[Part]:
        """The document, or the label of a link that is not read; the label reaches the model in any case."""
        name = label(link.uri, link.name)
        path = file_path(link.uri)
        if path is None or self.files is None:
            return (notice(f"[Linked resource, not read: {name}]"),)
        try:
            allowed = await anyio.to_thread.run_sync(self._allowed, path)
            text = await self.files.read_text_file(allowed)
        except ToolFailure:
            # The reason may hold the path; the model needs to know only which link it was.
            return (notice(f"[Linked file, could not be read: {name}]"),)
        return (text_document(text, link.mime_type, name),)

    def _allowed(self, path: str) -> str:
        """The path as the client knows it. Raises ToolFailure outside of the roots.

        A person chose the file, so neither the lists of a toolset nor `.agentsignore`, which bind the model's own
        reading, have a say (fs-policy.links.separate).
        """
        return spelled(resolve(absolute(path, self.cwd)), (self.cwd, *self.roots))


def file_path(uri: str) -> str | None:
    """The absolute path of a `file:` URI on this host, percent-decoded once; None for every other URI.

    A query and a fragment (editors put line ranges there) say nothing about which file it is.
    """
    try:
        split = urlsplit(uri)
        if split.scheme.lower() != "file" or split.netloc.lower() not in ("", "localhost"):
            return None
        path = unquote_to_bytes(split.path).decode("utf-8")
    except (ValueError, UnicodeError):
        return None
    return path if path.startswith("/") and "\0" not in path else None
