"""Round trips to a client: permission, files, terminal, questions. `handlers` implements them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from sluice.agent.events import Diff
from sluice.agent.ports.tools import ToolContext

__all__ = [
    "ApprovalAnswer",
    "ApprovalRequest",
    "Elicitation",
    "ElicitationAnswer",
    "Files",
    "FormQuestion",
    "PermissionPort",
    "Terminal",
    "TerminalCommand",
    "TerminalOutcome",
    "UrlQuestion",
]


@dataclass(frozen=True, slots=True)
class ApprovalAnswer:
    """What a person answered to a permission request.

    `choice` is allow, allow_always, reject or cancelled (the dialog was dismissed: nothing runs, the turn ends
    cancelled). unanswered means that what came back is no answer: the port fails closed. unattended means that there
    is nobody to ask (permission.non-interactive.denies).
    """

    choice: Literal["allow", "allow_always", "reject", "cancelled", "unanswered", "unattended"]


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A call that needs leave, with enough to decide: the title names the command or the path.

    `diff` is what the call would do to a file, as far as that can be said beforehand.
    """

    call_id: str
    name: str
    title: str
    kind: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    locations: tuple[tuple[str, int | None], ...] = ()
    diff: Diff | None = None


class PermissionPort(Protocol):
    """Asks a person. No wall clock ends the wait; cancelling the await withdraws the request."""

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Ask about one call; never raises for anything the client answers."""
        ...

    async def ask_to_continue(self, title: str) -> bool:
        """Ask whether to go on past the iteration limit; True only for the exact continue option."""
        ...


class Files(Protocol):
    """Text files as the client sees them, unsaved buffers included. Paths are absolute."""

    async def read_text_file(self, path: str, line: int | None = None, limit: int | None = None) -> str:
        """The text; `line` counts from 1, `limit` in lines. Raises ToolFailure."""
        ...

    async def write_text_file(self, path: str, content: str) -> None:
        """Replace or create the file. Raises ToolFailure."""
        ...


@dataclass(frozen=True, slots=True)
class TerminalCommand:
    """A command for the client's terminal.

    `argv` is the program and its arguments, no shell line. `cwd` is absolute. `env` holds overrides only: what it
    does not name, the client chooses. `timeout` is in seconds and begins when the terminal is there.
    """

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    timeout: float


@dataclass(frozen=True, slots=True)
class TerminalOutcome:
    """How a command in the client's terminal ended.

    `exit_code` and `signal` are both None when the time was up (`timed_out`), or when the client did not say.
    `output` is the end of what the command printed; `truncated` says that its beginning is missing.
    """

    output: str
    exit_code: int | None = None
    signal: str | None = None
    timed_out: bool = False
    truncated: bool = False


class Terminal(Protocol):
    """Runs commands at the client. Nothing is ever run on the agent's host instead."""

    async def run(self, command: TerminalCommand, context: ToolContext) -> TerminalOutcome:
        """Run one command to its end or its timeout, and give the terminal back whatever happens.

        Cancelling ends the command and releases the terminal, within a few seconds, before the cancellation goes on.

        Raises:
            ToolFailure: it could not be run, or nobody knows how it ended; the text says which.
        """
        ...


@dataclass(frozen=True, slots=True)
class FormQuestion:
    """A form for a person. `schema` is a JSON schema of type object, flat; see docs/elicitation.md for the subset."""

    message: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class UrlQuestion:
    """A page for a person to visit, for what must not go through a form. Nothing here ever opens it."""

    message: str
    url: str


@dataclass(frozen=True, slots=True)
class ElicitationAnswer:
    """What a person answered.

    `content` is there only for an accepted form, and fits its schema. An accepted page is a consent to open it, no
    more. `reason` says why a question was declined without a person's answer, "" when a person answered.
    """

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any] | None = None
    reason: str = ""


class Elicitation(Protocol):
    """Asks a person at the client. Everything that is no clear answer is a decline; it never raises for one."""

    async def elicit(self, question: FormQuestion | UrlQuestion, owner: ToolContext | None) -> ElicitationAnswer:
        """Ask on behalf of one tool call. Cancelling the await withdraws the question.

        Args:
            question: what to ask.
            owner: the call it is asked for. None when there is not exactly one; then the question is declined.
        """
        ...

    def withdraw(self, owner: ToolContext) -> None:
        """End the open questions of a call that has ended, for those who ask from another task than the call's."""
        ...
