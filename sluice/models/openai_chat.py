"""OpenAI chat completions, and everything that is compatible with them.

Source: OpenAI API reference, "Create chat completion" and its streaming; requirement models.providers.openai-chat.
"""

from __future__ import annotations

from sluice.agent.ports import ModelRequest
from sluice.models.apis import Api, Asked, below
from sluice.models.names import WireNames
from sluice.models.openai_chat_answer import Answer
from sluice.models.openai_chat_history import request_body
from sluice.models.settings import ResolvedModel

__all__ = ["API"]


def _ask(resolved: ResolvedModel, request: ModelRequest, distrusted: frozenset[str]) -> Asked:
    names = WireNames(tool.name for tool in request.tools)
    return Asked(request_body(resolved, request, names), Answer(names))


API = Api("a chat-completions server", below("chat", "completions"), _ask)
