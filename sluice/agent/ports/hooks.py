"""Hooks as a turn sees them: somebody who runs one to its end. `tools` implements it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from sluice.config.hook_events import HookConfig

__all__ = ["HookEnd", "HookRunner"]


@dataclass(frozen=True, slots=True)
class HookEnd:
    """How a hook ended.

    `code` is its exit code, negative for a signal, None when its time was up. `output` is what it wrote to stdout;
    `cut` says that it was more than is kept.
    """

    code: int | None
    output: str
    cut: bool = False


class HookRunner(Protocol):
    """Runs the commands of hooks."""

    async def run(self, hook: HookConfig, said: Mapping[str, Any], cwd: str) -> HookEnd:
        """Run a hook to its end or its timeout; cancelling ends everything it started.

        Args:
            hook: which one.
            said: what it is told, as one JSON object.
            cwd: the session's directory, absolute.

        Raises:
            ToolFailure: it could not be started.
        """
        ...
