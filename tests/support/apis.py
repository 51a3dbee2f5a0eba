"""The model APIs that are built, each with its server: what a test that holds for all of them goes through."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.support.anthropic_dialect import Anthropic
from tests.support.chat_dialect import CHAT
from tests.support.dialects import Dialect
from tests.support.gemini_dialect import Gemini
from tests.support.responses_dialect import Responses

__all__ = ["APIS", "SPOKEN", "Spoken"]


@dataclass(frozen=True)
class Spoken:
    """An API.

    `key` is the variable of its provider's key, `carries` whether signed thoughts go back to it, `declared` what the
    provider's entry says, `options` what the model's entry has besides.
    """

    provider: str
    model: str
    key: str
    dialect: Callable[[], Dialect]
    carries: bool = True
    declared: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def entry(self) -> dict[str, Any]:
        """The model's entry in an agent file, without its address."""
        return {"provider": self.provider, "model": self.model, **self.options}

    @property
    def file(self) -> dict[str, Any]:
        """What the agent file has besides."""
        return {"providers": {self.provider: self.declared}} if self.declared else {}


SPOKEN = {
    "openai_chatcompletions": Spoken("openai", "gpt-4o", "OPENAI_API_KEY", lambda: CHAT, carries=False),
    "anthropic": Spoken("anthropic", "claude-sonnet-5-5", "ANTHROPIC_API_KEY", Anthropic),
    "openai_responses": Spoken(
        "openai",
        "gpt-5",
        "OPENAI_API_KEY",
        Responses,
        declared={"api_type": "openai_responses"},
        options={"provider_opts": {"thinking_display": "summarized"}},
    ),
    "gemini": Spoken("google", "gemini-3.8-flash", "GOOGLE_API_KEY", Gemini),
}

APIS = tuple(SPOKEN)
