"""fs/read_text_file and fs/write_text_file: the text files of a session as its client sees them.

Specification page: https://agentclientprotocol.com/protocol/file-system. Whatever the client answers besides a text
is a failure of that one tool call. Nothing here knows the host's disk, so there is nothing to fall back to.
"""

from __future__ import annotations

import logging
from typing import Any

from sluice import acp
from sluice.acp.capabilities import ClientCapabilities
from sluice.acp.validation import BadAnswer, decode_result
from sluice.agent.ports import ToolFailure
from sluice.wire.frames import FrameTooLarge
from sluice.wire.peer import ConnectionLost, Peer, RemoteError

__all__ = ["ClientFiles"]

log = logging.getLogger(__name__)

MAX_SHOWN = 300
"""Characters of a client's error text that are shown to the model."""


class ClientFiles:
    """The files port of one session. Paths are absolute and were checked by the caller."""

    def __init__(self, peer: Peer, session_id: str, capabilities: ClientCapabilities) -> None:
        self.peer = peer
        self.session_id = session_id
        self.capabilities = capabilities

    async def read_text_file(self, path: str, line: int | None = None, limit: int | None = None) -> str:
        """The client's text, unsaved changes included; "" is a text (client-fs.request.shape)."""
        if not self.capabilities.fs_read:
            raise ToolFailure("the client does not offer reading files")
        params = acp.ReadTextFileRequest(self.session_id, path, line, limit)
        answer: acp.ReadTextFileResponse = await self._ask("fs/read_text_file", path, params)
        return answer.content

    async def write_text_file(self, path: str, content: str) -> None:
        """Have the client write the text; `{}` and null both mean that it is written."""
        if not self.capabilities.fs_write:
            raise ToolFailure("the client does not offer writing files")
        params = acp.WriteTextFileRequest(self.session_id, path, content)
        await self._ask("fs/write_text_file", path, params)

    async def _ask(self, method: str, path: str, params: Any) -> Any:
        try:
            return decode_result(method, await self.peer.request(method, params))
        except RemoteError as error:
            log.info("%s of %r was answered with error %d", method, path, error.code)
            said = " ".join(error.message.split())[:MAX_SHOWN]
            raise ToolFailure(f"{path}: the client answered with an error: {said} ({error.code})") from error
        except BadAnswer as error:
            raise ToolFailure(f"{path}: the client's answer to {method} cannot be used") from error
        except FrameTooLarge as error:
            raise ToolFailure(f"{path}: the text is larger than one message may be") from error
        except ConnectionLost as error:
            raise ToolFailure(f"{path}: the client is gone") from error
