"""The ports of the agent room: what a turn needs from outside, as protocols.

The loop knows only these, so the same loop serves ACP, MCP and the tests. `models`, `tools` and `mcp` implement
them; `handlers` implements the round trips to a client (permission, files, terminal, elicitation).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from sluice.agent.events import Diff, PlanEntry
from sluice.persistence.records import Message, ToolCallRecord, Usage

__all__ = [
    "AnswerCache",
    "ApprovalAnswer",
    "Delta",
    "Elicitation",
    "ElicitationAnswer",
    "Files",
    "FormQuestion",
    "Model",
    "ModelError",
    "ModelRequest",
    "ModelResponse",
    "PermissionPort",
    "Terminal",
    "TerminalCommand",
    "TerminalOutcome",
    "Tool",
    "ToolContext",
    "ToolFailure",
    "ToolResult",
    "ToolSpec",
    "Toolset",
    "Tracer",
    "UrlQuestion",
]


# --- model -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model sees it. `parameters` is a JSON schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One model call: the whole prompt. `messages` is a valid history (each tool call has exactly one result).

    `max_output_tokens` bounds this one answer, below what the configuration allows; None leaves it at that. `spent`
    is called at most once, with what the provider says a call has used that came to no answer: that is paid for too.
    """

    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    structured_output: Mapping[str, Any] | None = None
    max_output_tokens: int | None = None
    spent: Callable[[Usage], None] = field(default=lambda usage: None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Delta:
    """A streamed piece; `channel` is content or thought; `text` is never empty."""

    channel: Literal["content", "thought"]
    text: str


@dataclass(frozen=True, slots=True)
class ModelResponse:
    """What one model call ended with.

    `tool_calls` carry the provider's ids; the loop replaces them by its own. `finish_reason` is stop, length, refusal
    or tool_calls. `usage` is None when the provider reported none. `model` is what it says it ran.
    `carried` is that of the message that the answer becomes.
    """

    text: str
    thought: str = ""
    tool_calls: tuple[ToolCallRecord, ...] = ()
    finish_reason: str = "stop"
    usage: Usage | None = None
    model: str = ""
    carried: str = ""


class ModelError(Exception):
    """A model call failed.

    Attributes:
        code: the runtime code: model_error, rate_limited, context_exceeded, request_too_large or media_too_large.
        text: one line for a person that says what to do; holds no credentials.
        retryable: whether the same request may be sent again (5xx, 408, network, truncated stream).
        retry_after: seconds the provider asked to wait, None when it did not.
        status: the HTTP status, None when there was no answer.
    """

    def __init__(
        self,
        code: str,
        text: str,
        *,
        retryable: bool = False,
        retry_after: float | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.retryable = retryable
        self.retry_after = retry_after
        self.status = status


class Model(Protocol):
    """A model that can be asked. One object serves one session and is used by one call at a time."""

    @property
    def ref(self) -> str:
        """The reference shown to people, `provider/model`."""
        ...

    @property
    def context_size(self) -> int | None:
        """The context window in tokens, None when unknown."""
        ...

    async def complete(self, request: ModelRequest, on_delta: Callable[[Delta], Awaitable[None]]) -> ModelResponse:
        """Ask once, without retries. Awaits `on_delta` for each piece (that await is the back-pressure).

        Cancelling the call closes the stream. Raises ModelError for every failure of the provider.
        """
        ...

    async def aclose(self) -> None:
        """Release connections; may be called more than once."""
        ...


class AnswerCache(Protocol):
    """Answers that were given before, by the question. Never raises: what cannot be read was never there."""

    async def get(self, question: str) -> str | None:
        """The answer, None when there is none."""
        ...

    async def put(self, question: str, answer: str) -> None:
        """Keep an answer, if that can be done."""
        ...


# --- tools -------------------------------------------------------------------------------------------------------


class ToolFailure(Exception):
    """A tool could not do what it was asked; the text is shown to the model and the person."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool call gave.

    `text` is for the model and the person. `plan` is the whole todo list when the tool keeps one, else None.
    `diff` is for the person only and never reaches the model or the store.
    """

    text: str
    is_error: bool = False
    plan: tuple[PlanEntry, ...] | None = None
    diff: Diff | None = None


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Where a call runs. `cwd` and `roots` are absolute paths; `call_id` is the id of the tool call.

    `owner` is the id of the background task that made the call, "" for the foreground turn. `trace` is where the call
    is in its trace, for what is asked on its behalf from another task; None for nowhere.
    """

    session_id: str
    call_id: str
    cwd: str
    roots: tuple[str, ...] = ()
    owner: str = ""
    trace: object = field(default=None, compare=False)


class Tracer(Protocol):
    """Makes spans around what a turn does, and knows where a task is in its trace."""

    def span(self, name: str) -> AbstractContextManager[None]:
        """Enter it around a model call or a tool call; tasks that are started inside are below it."""
        ...

    def current(self) -> object:
        """Where this task is, for `ToolContext.trace`; None for nowhere."""
        ...


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that can be called.

    `read_only`, `destructive`, `idempotent` and `open_world` are the hints of MCP's tool annotations (None = not
    said). `title` is for people. `subject` names the argument that says best what a call is about (path, cmd), for
    titles; "" for none. `run` may raise ToolFailure; any other exception is a failed call with a fixed text.
    `preview` says what a call would change in a file, without changing anything, for the person who is asked; None
    for a tool that cannot. It may raise ToolFailure.
    """

    spec: ToolSpec
    run: Callable[[Mapping[str, Any], ToolContext], Awaitable[ToolResult]]
    title: str = ""
    read_only: bool = False
    destructive: bool | None = None
    subject: str = ""
    idempotent: bool = False
    open_world: bool | None = None
    preview: Callable[[Mapping[str, Any], ToolContext], Awaitable[Diff | None]] | None = None

    @property
    def name(self) -> str:
        """The programmatic name, the one the model and the rules use."""
        return self.spec.name


class Toolset(Protocol):
    """A group of tools with one life. `start` before the first call, `stop` exactly once at the end."""

    @property
    def instruction(self) -> str:
        """Text for the system prompt, "" for none."""
        ...

    async def start(self) -> None:
        """Make the tools ready; raises ToolFailure with a text for a person."""
        ...

    def tools(self) -> Sequence[Tool]:
        """The tools, valid after `start`."""
        ...

    async def stop(self) -> None:
        """End everything the toolset started; an exception makes the session's close fail."""
        ...


# --- round trips to the client -----------------------------------------------------------------------------------


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
            owner: the call it is for. None when there is not exactly one; then the question is declined.
        """
        ...

    def withdraw(self, owner: ToolContext) -> None:
        """End the open questions of a call that has ended, for those who ask from another task than the call's."""
        ...
