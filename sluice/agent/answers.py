"""What is asked of a final answer: that it has the form of `structured_output`, and whether the cache may keep it.

The key of the cache is the text of the prompt alone, so an agent with a cache is one whose answers do not depend on
what was said before. A prompt with an attachment is never looked up and its answer never kept.

Source: requirements config-file.agents.structured-output, config-file.agents.cache, message-ids.cache.*.
"""

from __future__ import annotations

import re
from typing import Any

import anyio.to_thread

from sluice.config.schema import CacheConfig, StructuredOutput
from sluice.config.structured import answer_problem
from sluice.persistence.records import Message

__all__ = ["misfit", "question_of", "response_form", "shows_tools"]

_TOOL_PAYLOAD = re.compile(
    r"<\s*/?\s*(?:[\w-]+:)?(?:tool_calls?|function_calls?|tool_use|tool_code|tool_results?|tool_responses?"
    r"|function_results?|invoke|function)\b(?:\s[^<>]*|=[^<>]*)?>|<\|/?tool",
    re.IGNORECASE,
)


def response_form(form: StructuredOutput | None) -> dict[str, Any] | None:
    """The form as a model request carries it, None for none."""
    if form is None:
        return None
    described = {"description": form.description} if form.description else {}
    return {"name": form.name, **described, "strict": form.strict, "schema": form.schema}


async def misfit(answer: str, form: StructuredOutput | None) -> str | None:
    """Why an answer does not have the form, as a phrase; None when it has it, or none is asked for.

    In a thread: the schema library takes its time to load, and a schema may make a check long.
    """
    return await anyio.to_thread.run_sync(answer_problem, form.schema, answer) if form is not None else None


def question_of(prompt: Message, config: CacheConfig) -> str | None:
    """What the prompt is looked up by; None when the cache is off, or the prompt holds more than text, or nothing."""
    if not config.enabled or any(part.type != "text" or part.data or part.notice for part in prompt.parts):
        return None
    text = prompt.text.strip() if config.trim_spaces else prompt.text
    text = text if config.case_sensitive else text.casefold()
    return text if text.strip() else None


def shows_tools(answer: str) -> bool:
    """Whether an answer holds a tool call or result written out as XML, which is meant for no person's eyes.

    Such an answer is never kept, and one that is found all the same (the file may be anybody's) counts as a miss.
    """
    return _TOOL_PAYLOAD.search(answer) is not None
