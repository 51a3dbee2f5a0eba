"""The tools by which an agent reaches the other agents of its team: `transfer_task` and `handoff`.

They come with `sub_agents` and `handoffs` of an agent and are no toolset type of the file. Both only pass on; what
the other agent does is asked for by itself, so both are read-only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sluice.agent.ports import Colleagues, Tool, ToolContext, ToolFailure, ToolResult, ToolSpec
from sluice.tools.setup import text

__all__ = ["ColleaguesToolset", "colleagues", "described"]

Described = Mapping[str, str]
"""Agent -> what it says it is for."""


class ColleaguesToolset:
    """The tools for the agents that one agent may reach.

    Args:
        sub_agents: those that can be given a task.
        handoffs: those that can take the conversation.
    """

    def __init__(self, sub_agents: Described, handoffs: Described) -> None:
        self._sub_agents = sub_agents
        self._handoffs = handoffs
        self._tools: list[Tool] = []
        if sub_agents:
            self._tools.append(Tool(_transfer_spec(list(sub_agents)), _transfer, read_only=True, subject="agent"))
        if handoffs:
            self._tools.append(Tool(_handoff_spec(list(handoffs)), _hand_over, read_only=True, subject="agent"))

    @property
    def instruction(self) -> str:
        """Whom the agent can reach and how, for the system prompt."""
        parts = []
        if self._sub_agents:
            parts.append(
                "You lead other agents. Use transfer_task to give one of them a task it is better at; it sees only"
                f" the task, so say everything it needs. Its answer comes back to you.\n{described(self._sub_agents)}"
            )
        if self._handoffs:
            parts.append(
                "Use handoff to let another agent go on with this conversation in your place; it sees all of it.\n"
                f"{described(self._handoffs)}"
            )
        return "\n\n".join(parts)

    async def start(self) -> None:
        """Nothing to start."""

    def tools(self) -> Sequence[Tool]:
        """`transfer_task` and `handoff`, each when there is somebody for it."""
        return self._tools

    async def stop(self) -> None:
        """Nothing to end."""


def described(agents: Described) -> str:
    """The agents as a list for a model, a line each."""
    return "\n".join(
        f"- {name}: {' '.join(about.split())}" if about else f"- {name}" for name, about in agents.items()
    )


def colleagues(context: ToolContext) -> Colleagues:
    """The other agents of a call; raises ToolFailure outside a run."""
    if context.colleagues is None:
        raise ToolFailure("there are no other agents here")
    return context.colleagues


async def _transfer(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
    task, expected = text(arguments, "task"), arguments.get("expected_output") or ""
    asked = f"{task}\n\nExpected output: {expected}" if expected else task
    return await colleagues(context).transfer(text(arguments, "agent"), asked)


async def _hand_over(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
    return colleagues(context).hand_over(text(arguments, "agent"))


def _transfer_spec(agents: list[str]) -> ToolSpec:
    return ToolSpec(
        "transfer_task",
        "Gives a task to another agent and returns its answer.",
        {
            "type": "object",
            "properties": {
                "agent": {"type": "string", "enum": agents, "description": "Who does it"},
                "task": {"type": "string", "description": "What to do, with everything that is needed to know"},
                "expected_output": {"type": "string", "description": "What the answer should be"},
            },
            "required": ["agent", "task"],
        },
    )


def _handoff_spec(agents: list[str]) -> ToolSpec:
    return ToolSpec(
        "handoff",
        "Lets another agent go on with this conversation.",
        {
            "type": "object",
            "properties": {"agent": {"type": "string", "enum": agents, "description": "Who goes on"}},
            "required": ["agent"],
        },
    )
