"""The parts of an agent that only some agents have: fallback models, a response cache, and an embedded model."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sluice.agent.hooks import Hooks
    from sluice.agent.lineup import Fallback
    from sluice.agent.ports import AnswerCache, Model
    from sluice.config.environment import Environment
    from sluice.config.hook_events import HookConfig
    from sluice.config.schema import AgentConfig, AgentFile
    from sluice.models.local.engines import Engines

__all__ = ["AnswerCaches", "Embedded", "fallback", "hooks_of"]

log = logging.getLogger(__name__)


def fallback(
    file: AgentFile, agent: AgentConfig, environment: Environment, make: Callable[[AgentFile, str], Model]
) -> Fallback:
    """The models an agent falls back to. One without credentials, or that is not built, is left out with a warning.

    Args:
        file: the agent file.
        agent: whose fallback it is.
        environment: the credential sources.
        make: makes a model of a reference.
    """
    from sluice.agent.lineup import Fallback
    from sluice.config.choices import members
    from sluice.config.models import MissingCredentials, ModelUnavailable, resolve

    made = []
    for ref in (member for named in agent.fallback.models for member in members(file.models, named)):
        try:
            resolve(file, ref, environment)
        except (MissingCredentials, ModelUnavailable) as error:
            log.warning("agent %s: %s is left out of the fallback models: %s", agent.name, ref, error)
            continue
        made.append(make(file, ref))
    return Fallback(tuple(made), max(0, agent.fallback.retries), agent.fallback.cooldown)


def hooks_of(agent: AgentConfig, further: Sequence[HookConfig]) -> Hooks:
    """The hooks of an agent, then those that every agent has; their commands get the environment of this process."""
    from sluice.agent.hooks import Hooks
    from sluice.tools.hooks import CommandHooks

    configured = (*agent.hooks, *further)
    return Hooks(configured, CommandHooks(os.environ)) if configured else Hooks()


class AnswerCaches:
    """The response caches of a process. Those in memory outlive the session; changing the agent empties its own."""

    def __init__(self, directory: Path) -> None:
        """`directory` is the agent file's, where relative paths start."""
        self._directory = directory
        self._kept: dict[str, tuple[AgentConfig, AnswerCache]] = {}

    def of(self, agent: AgentConfig) -> AnswerCache | None:
        """The cache of an agent, None when it has none."""
        from sluice.persistence.answers import FileAnswers, MemoryAnswers

        if not agent.cache.enabled:
            return None
        if agent.cache.path is not None:
            path = Path(os.path.expandvars(agent.cache.path)).expanduser()
            return FileAnswers(self._directory / path, agent.name)
        kept = self._kept.get(agent.name)
        if kept is None or kept[0] != agent:
            kept = self._kept[agent.name] = (agent, MemoryAnswers())
        return kept[1]


class Embedded:
    """The engines of the embedded models of a process, made when the first model is; models are made in threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._engines: Engines | None = None
        self._told: set[str] = set()

    def engines(self) -> Engines:
        """The engines, one set for all sessions; none runs before it is asked."""
        from sluice.models.local.engines import Engines

        with self._lock:
            self._engines = self._engines or Engines()
            return self._engines

    def tell(self, reference: str, ref: str) -> None:
        """Log once which model a reference that leaves it open has come to (models.ref.auto)."""
        text = f"the model {reference} is {ref}"
        if reference in ("auto", "local") and text not in self._told:
            self._told.add(text)
            log.info("%s", text)

    async def aclose(self) -> None:
        """End the engines; may be called more than once."""
        if self._engines is not None:
            await self._engines.aclose()
