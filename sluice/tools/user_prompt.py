"""The user_prompt toolset: a question to the person at the client (`tools.user-prompt.via-elicitation`)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sluice.agent.ports import (
    Elicitation,
    ElicitationAnswer,
    FormQuestion,
    Tool,
    ToolContext,
    ToolFailure,
    ToolResult,
    ToolSpec,
)
from sluice.tools.setup import ToolsetConfigLike, ToolsetSetup, text

__all__ = ["UserPromptToolset", "build"]

_INSTRUCTION = (
    "Use the user_prompt tool when you cannot go on without an answer only the user can give, and give a schema when"
    " the answer has a form. Never ask for passwords, keys or other secrets: such questions are declined. When the"
    " user declines or cancels, do not ask again; go on as well as you can without the answer."
)

NOBODY = ElicitationAnswer("decline", reason="nobody can be asked here")
"""The answer where there is no client that takes questions."""


class UserPromptToolset:
    """One tool that asks, and says how it was answered: accept with the content, decline or cancel."""

    def __init__(self, elicitation: Elicitation | None) -> None:
        self._elicitation = elicitation
        self._tool = Tool(_spec(), self._run, read_only=True, subject="message")

    @property
    def instruction(self) -> str:
        """How to use the tool, for the system prompt."""
        return _INSTRUCTION

    async def start(self) -> None:
        """Nothing to start."""

    def tools(self) -> Sequence[Tool]:
        """The one tool, `user_prompt`."""
        return (self._tool,)

    async def stop(self) -> None:
        """Nothing to end: a question ends with its call."""

    async def _run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        message = text(arguments, "message")
        given = arguments.get("schema")
        if given is not None and not isinstance(given, Mapping):
            raise ToolFailure("the argument 'schema' must be a JSON schema of type object")
        schema: dict[str, Any] = {"type": "object", "properties": {}} if given is None else dict(given)
        if arguments.get("title"):
            schema.setdefault("title", text(arguments, "title"))
        answer = NOBODY
        if self._elicitation is not None:
            answer = await self._elicitation.elicit(FormQuestion(message, schema), context)
        said: dict[str, Any] = {"action": answer.action}
        if answer.content is not None:
            said["content"] = answer.content
        if answer.reason:
            said["reason"] = answer.reason
        return ToolResult(json.dumps(said, ensure_ascii=False))


def _spec() -> ToolSpec:
    return ToolSpec(
        "user_prompt",
        "Asks the user a question and waits for the answer: an object with `action` (accept, decline or cancel) and,"
        " when accepted, `content`.",
        {
            "type": "object",
            "properties": {
                "message": {"type": "string", "description": "The question"},
                "title": {"type": "string", "description": "A short heading for the form"},
                "schema": {
                    "type": "object",
                    "description": "JSON schema of type object for the answer: flat, with string, number, integer and"
                    " boolean fields, string enums, and arrays of enum values. Without it the user can only agree,"
                    " decline or cancel.",
                },
            },
            "required": ["message"],
        },
    )


def build(config: ToolsetConfigLike, setup: ToolsetSetup) -> UserPromptToolset:
    """Build the toolset; it has no options."""
    return UserPromptToolset(setup.elicitation)
