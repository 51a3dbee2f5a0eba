"""What an agent asks of its client's files and terminals.

Source: ACP "File System" and "Terminals".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from sluice.acp.base import Message
from sluice.acp.session import EnvVariable

__all__ = [
    "CreateTerminalRequest",
    "CreateTerminalResponse",
    "KillTerminalRequest",
    "KillTerminalResponse",
    "ReadTextFileRequest",
    "ReadTextFileResponse",
    "ReleaseTerminalRequest",
    "ReleaseTerminalResponse",
    "TerminalExitStatus",
    "TerminalOutputRequest",
    "TerminalOutputResponse",
    "WaitForTerminalExitRequest",
    "WaitForTerminalExitResponse",
    "WriteTextFileRequest",
    "WriteTextFileResponse",
]

Natural = Annotated[int, msgspec.Meta(ge=0)]


class ReadTextFileRequest(Message, frozen=True):
    """Read the file at an absolute path, from `line` (counted from 1) and at most `limit` lines."""

    session_id: str
    path: str
    line: Natural | None = None
    limit: Natural | None = None


class ReadTextFileResponse(Message, frozen=True):
    """The text, unsaved changes in the editor included."""

    content: str


class WriteTextFileRequest(Message, frozen=True):
    """Write the whole file at an absolute path; the client makes it if it is missing."""

    session_id: str
    path: str
    content: str


class WriteTextFileResponse(Message, frozen=True):
    """Written."""


class CreateTerminalRequest(Message, frozen=True):
    """Start an executable, without a shell. `output_byte_limit` is in bytes; None leaves it to the client."""

    session_id: str
    command: str
    args: Sequence[str] = ()
    env: Sequence[EnvVariable] = ()
    cwd: str | None = None
    output_byte_limit: Natural | None = None


class CreateTerminalResponse(Message, frozen=True):
    """Started; the agent must release the terminal."""

    terminal_id: str


class TerminalOutputRequest(Message, frozen=True):
    """Ask for the output so far."""

    session_id: str
    terminal_id: str


class TerminalExitStatus(Message, frozen=True):
    """How the command ended; both None means ended, but nobody knows how."""

    exit_code: int | None = None
    signal: str | None = None


class TerminalOutputResponse(Message, frozen=True):
    """The output so far; `exit_status` None means still running."""

    output: str
    truncated: bool
    exit_status: TerminalExitStatus | None = None


class WaitForTerminalExitRequest(Message, frozen=True):
    """Wait until the command ends."""

    session_id: str
    terminal_id: str


class WaitForTerminalExitResponse(Message, frozen=True):
    """How the command ended."""

    exit_code: int | None = None
    signal: str | None = None


class KillTerminalRequest(Message, frozen=True):
    """End the command; the terminal stays valid."""

    session_id: str
    terminal_id: str


class KillTerminalResponse(Message, frozen=True):
    """The command has been told to end."""


class ReleaseTerminalRequest(Message, frozen=True):
    """Give the terminal back, ending the command if it still runs."""

    session_id: str
    terminal_id: str


class ReleaseTerminalResponse(Message, frozen=True):
    """The terminal id is no longer valid."""
