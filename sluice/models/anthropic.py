"""Anthropic's Messages API.

Source: Claude API documentation, "Create a Message", "Versions", "Errors"; requirement models.providers.anthropic.
"""

from __future__ import annotations

from collections.abc import Mapping

from sluice.agent.ports import ModelRequest
from sluice.models.anthropic_answer import Answer
from sluice.models.anthropic_history import request_body
from sluice.models.anthropic_thinking import family
from sluice.models.apis import Api, Asked, below
from sluice.models.names import WireNames
from sluice.models.settings import ResolvedModel

__all__ = ["API"]


def _ask(resolved: ResolvedModel, request: ModelRequest, distrusted: frozenset[str]) -> Asked:
    names = WireNames(tool.name for tool in request.tools)
    body, told = request_body(resolved, request, names, distrusted)
    return Asked(body, Answer(names, told.replay.prefix.mark), frozenset(told.replay.used))


def _headers(resolved: ResolvedModel) -> Mapping[str, str]:
    version = {"anthropic-version": "2023-06-01"}
    if resolved.options.provider_opts.get("interleaved_thinking") is True and family(resolved.model).form == "tokens":
        return {**version, "anthropic-beta": "interleaved-thinking-2025-05-14"}
    return version


API = Api("a Claude server", below("v1", "messages"), _ask, "x-api-key", "", _headers)
