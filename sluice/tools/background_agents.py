"""The background_agents toolset: tasks for other agents that are worked on while the conversation goes on.

It only passes on: who owns the agents, and what becomes of them, is the session's business. Requirements
`teams.background.*`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sluice.agent.ports import Tool, ToolContext, ToolFailure, ToolResult, ToolSpec
from sluice.tools.colleagues import colleagues, described
from sluice.tools.setup import ToolsetConfigLike, ToolsetSetup, text, texts

__all__ = ["DEFAULT_WAIT", "MAX_WAIT", "BackgroundAgentsToolset", "build"]

DEFAULT_WAIT = 300.0
"""How long a wait may take when the call does not say, in seconds."""

MAX_WAIT = 3600.0
"""The longest wait a call may ask for, in seconds."""

_TASK_ID = {"type": "string", "description": "The id that run_background_agent returned"}


class BackgroundAgentsToolset:
    """Starts, lists, shows, stops and awaits agents in the background.

    Args:
        sub_agents: agent -> what it says it is for, of those that can be started; with none there are no tools.
    """

    def __init__(self, sub_agents: Mapping[str, str]) -> None:
        self._sub_agents = sub_agents
        self._tools = _tools(list(sub_agents)) if sub_agents else ()

    @property
    def instruction(self) -> str:
        """How to use the tools, for the system prompt."""
        if not self._sub_agents:
            return ""
        return (
            "Use run_background_agent for a task that another agent can work on while you go on. It sees only the"
            " task, and what would need a person's leave is denied. Nothing tells you when it has ended; use"
            " wait_background_agents when you need the answers, and stop what is no longer needed.\n"
            f"{described(self._sub_agents)}"
        )

    async def start(self) -> None:
        """Nothing to start."""

    def tools(self) -> Sequence[Tool]:
        """The five tools, where there is an agent for them."""
        return self._tools

    async def stop(self) -> None:
        """Nothing to end: the session ends its agents before its toolsets."""


def build(config: ToolsetConfigLike, setup: ToolsetSetup) -> BackgroundAgentsToolset:
    """Make the toolset; without tools in a session in which no agent can work in the background."""
    return BackgroundAgentsToolset(setup.sub_agents if setup.background_agents else {})


def _tools(agents: list[str]) -> tuple[Tool, ...]:
    start = {
        "agent": {"type": "string", "enum": agents, "description": "Who does it"},
        "task": {"type": "string", "description": "What to do, with everything that is needed to know"},
        "expected_output": {"type": "string", "description": "What the answer should be"},
    }
    wait = {
        "task_ids": {"type": "array", "items": _TASK_ID, "description": "Whom to wait for"},
        "timeout": {"type": "number", "description": f"Seconds to wait, default {DEFAULT_WAIT:g}"},
    }
    one = {"task_id": _TASK_ID}
    return (
        Tool(
            _spec(
                "run_background_agent", "Starts another agent on a task and returns at once.", start, "agent", "task"
            ),
            _run,
            subject="agent",
        ),
        Tool(_spec("list_background_agents", "Lists the agents in the background.", {}), _list, read_only=True),
        Tool(
            _spec("view_background_agent", "Shows how an agent is, and what it said last.", one, "task_id"),
            _view,
            read_only=True,
            subject="task_id",
        ),
        Tool(
            _spec("stop_background_agent", "Stops an agent and what it runs.", one, "task_id"),
            _stop,
            subject="task_id",
        ),
        Tool(
            _spec("wait_background_agents", "Waits until all of them have ended.", wait, "task_ids"),
            _wait,
            read_only=True,
            subject="task_ids",
        ),
    )


def _spec(name: str, about: str, properties: Mapping[str, Any], *required: str) -> ToolSpec:
    return ToolSpec(name, about, {"type": "object", "properties": dict(properties), "required": list(required)})


async def _run(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
    task, expected = text(arguments, "task"), arguments.get("expected_output") or ""
    asked = f"{task}\n\nExpected output: {expected}" if expected else task
    return await colleagues(context).run_background(text(arguments, "agent"), asked)


async def _list(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
    return colleagues(context).background.overview()


async def _view(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
    return colleagues(context).background.view(text(arguments, "task_id"))


async def _stop(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
    return await colleagues(context).background.stop(text(arguments, "task_id"))


async def _wait(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
    seconds = arguments.get("timeout")
    seconds = DEFAULT_WAIT if seconds is None else seconds
    if not 0 <= seconds <= MAX_WAIT:
        raise ToolFailure(f"the argument 'timeout' must be from 0 to {MAX_WAIT:g} seconds")
    return await colleagues(context).background.wait(texts(arguments, "task_ids"), seconds)
