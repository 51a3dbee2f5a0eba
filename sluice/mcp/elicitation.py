"""A question of an MCP server, asked of the person at the client on behalf of the one call that is running.

Import this module where it is needed: it loads the MCP library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcp import types

from sluice.agent.ports import Elicitation, FormQuestion, ToolContext, UrlQuestion

__all__ = ["callback"]


def callback(asker: Elicitation | None, owner: Callable[[], ToolContext | None]) -> Any:
    """What the client of the library calls for `elicitation/create`.

    Args:
        asker: asks the person; declines what has no owner. With None nobody can be asked, and every question is
            declined: a tool that gets no answer can go on, one whose question is an error can not
            (elicitation.embed.headless-declines, elicitation.negotiate.unsupported-declined).
        owner: the call that the question belongs to, at the time it is asked.
    """

    async def ask(_context: Any, params: Any) -> types.ElicitResult:
        if asker is None:
            return types.ElicitResult(action="decline")
        question: FormQuestion | UrlQuestion
        if isinstance(params, types.ElicitRequestURLParams):
            question = UrlQuestion(params.message, params.url)
        else:
            question = FormQuestion(params.message, params.requested_schema)
        answer = await asker.elicit(question, owner())
        return types.ElicitResult(action=answer.action, content=dict(answer.content) if answer.content else None)

    return ask
