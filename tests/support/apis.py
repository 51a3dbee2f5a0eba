"""The model APIs that are built, each with its server: what a test that holds for all of them goes through."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.support.anthropic_dialect import Anthropic
from tests.support.chat_dialect import CHAT
from tests.support.dialects import Dialect

__all__ = ["APIS", "SPOKEN", "Spoken"]


@dataclass(frozen=True)
class Spoken:
    """An API. `key` is the variable of its provider's key, `carries` whether signed thoughts go back to it."""

    provider: str
    model: str
    key: str
    dialect: Callable[[], Dialect]
    carries: bool = True

    @property
    def entry(self) -> dict[str, Any]:
        """The model's entry in an agent file, without its address."""
        return {"provider": self.provider, "model": self.model}


SPOKEN = {
    "openai_chatcompletions": Spoken("openai", "gpt-4o", "OPENAI_API_KEY", lambda: CHAT, carries=False),
    "anthropic": Spoken("anthropic", "claude-sonnet-5-5", "ANTHROPIC_API_KEY", Anthropic),
}

APIS = tuple(SPOKEN)
