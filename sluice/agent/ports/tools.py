"""Tools as the loop sees them: one that can be called, where a call runs, and groups with a life of their own.

`tools` and `mcp` implement them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from sluice.agent.events import Diff, PlanEntry
from sluice.agent.ports.model import ToolSpec

__all__ = [
    "Background",
    "Colleagues",
    "Tool",
    "ToolContext",
    "ToolFailure",
    "ToolResult",
    "Toolset",
    "Tracer",
]


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


class Background(Protocol):
    """The agents of a session that work in the background. Every method raises ToolFailure for an unknown task."""

    def overview(self) -> ToolResult:
        """All of them, in the order in which they were started, and how each is."""
        ...

    def view(self, task_id: str) -> ToolResult:
        """How one is, and what it has said last."""
        ...

    async def stop(self, task_id: str) -> ToolResult:
        """Stop one, and say how it is once it has ended or after some seconds."""
        ...

    async def wait(self, task_ids: Sequence[str], seconds: float) -> ToolResult:
        """Wait until all of them have ended, however each does, or the time is up; then say how each is, in the order
        that was given.
        """
        ...


class Colleagues(Protocol):
    """The other agents of the team, as a call sees them."""

    async def transfer(self, agent: str, task: str) -> ToolResult:
        """Let another agent do a task in a session of its own and wait for its last answer.

        Raises:
            ToolFailure: it may not be asked from here, or it failed.
        """
        ...

    @property
    def background(self) -> Background:
        """The agents in the background; raises ToolFailure where none can be."""
        ...

    async def run_background(self, agent: str, task: str) -> ToolResult:
        """Let another agent do a task in a session of its own, while this conversation goes on.

        Raises:
            ToolFailure: it may not be asked from here, or too many work already.
        """
        ...

    async def fork(self, task: str) -> ToolResult:
        """Let the agent itself do a task in a session of its own and wait for its last answer.

        Raises:
            ToolFailure: the tasks stand too deep, or it failed.
        """
        ...

    def hand_over(self, agent: str) -> ToolResult:
        """Let another agent go on with this conversation once the calls of this answer have ended.

        Raises:
            ToolFailure: another call of the answer has named another agent.
        """
        ...


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Where a call runs. `cwd` and `roots` are absolute paths; `call_id` is the id of the tool call.

    `owner` is the id of the background task that made the call, "" for the foreground turn. `trace` is where the call
    is in its trace, for what is asked on its behalf from another task; None for nowhere. `colleagues` are the other
    agents, None outside a run.
    """

    session_id: str
    call_id: str
    cwd: str
    roots: tuple[str, ...] = ()
    owner: str = ""
    trace: object = field(default=None, compare=False)
    colleagues: Colleagues | None = field(default=None, compare=False)


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
    said). `title` is for people.
    `subject` names the argument that says best what a call is about (path, cmd), for titles; "" for none.
    `run` may raise ToolFailure; any other exception is reported as a failed call with a fixed text.
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
