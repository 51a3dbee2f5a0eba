"""The hooks of one agent in one session: which of them an event concerns, and what they answer.

Hooks of one event run one after the other, in the order of their sources; the first that denies is the last that
runs. One that fails denies where it guards, and is passed over elsewhere unless `on_error` says `block`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluice.agent.hook_answers import NO_ANSWER, HookAnswer, HookFailure, read_answer
from sluice.agent.ports import ToolFailure
from sluice.agent.ports.hooks import HookRunner
from sluice.config.hook_events import FAIL_CLOSED, HookConfig

__all__ = ["FAILED", "Hooks", "Place"]

log = logging.getLogger(__name__)

FAILED = "A hook that has to agree failed; the agent's log has the details."
"""Why a call was denied when no hook said so."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where hooks run: what each of them is told first. `cwd` is absolute."""

    session_id: str
    cwd: str
    agent: str


@dataclass(frozen=True, slots=True)
class Hooks:
    """What an agent file has configured, and who runs it (None when there is nothing to run)."""

    configured: Sequence[HookConfig] = ()
    runner: HookRunner | None = None

    def of(self, event: str, tool: str = "", *, preempting: bool = False) -> Iterator[HookConfig]:
        """The hooks of an event in their order; those of a tool whose matcher fits the tool's whole name."""
        for hook in self.configured:
            fits = not hook.matcher or re.fullmatch(hook.matcher, tool)
            if hook.event == event and hook.preempting == preempting and fits:
                yield hook

    async def ask(self, hook: HookConfig, place: Place, said: Mapping[str, Any]) -> HookAnswer:
        """Run one hook and return its answer; a failure is one too (see the module). Never raises but when cancelled.

        Args:
            hook: which one.
            place: where.
            said: what the event has to say besides the place.
        """
        assert self.runner is not None, "hooks have a runner"
        told = {
            "session_id": place.session_id,
            "cwd": place.cwd,
            "agent_name": place.agent,
            "hook_event_name": hook.event,
            **said,
        }
        try:
            return read_answer(await self.runner.run(hook, told, place.cwd))
        except (HookFailure, ToolFailure) as failure:
            if hook.on_error != "ignore":
                log.warning("hook %s failed: %s", hook.label, failure)
        except Exception:
            log.exception("hook %s failed", hook.label)
        denies = hook.event in FAIL_CLOSED or hook.on_error == "block"
        return HookAnswer("deny", FAILED) if denies else NO_ANSWER
