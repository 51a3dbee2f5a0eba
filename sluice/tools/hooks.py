"""Commands of hooks, on the agent's host: one JSON object in, what they say out.

A hook is a command of the agent file's author. It runs in the session's directory with the environment of this
process, in a process group of its own that does not outlive it. What it writes to stderr goes to the log and nowhere
else (requirements `hooks.contract.*`).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from sluice.agent.ports.hooks import HookEnd
from sluice.config.hook_events import HookConfig
from sluice.tools import process
from sluice.tools.paths import absolute
from sluice.tools.shell import INTERPRETER

__all__ = ["KEEP_BYTES", "CommandHooks"]

log = logging.getLogger(__name__)

KEEP_BYTES = 1 << 20
"""Bytes of what a hook says; it may rewrite the whole result of a tool."""

LOGGED = 2000
"""Characters of a hook's stderr in the log."""


class CommandHooks:
    """Runs hooks with an environment, to which each may add."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env

    async def run(self, hook: HookConfig, said: Mapping[str, Any], cwd: str) -> HookEnd:
        """Run one; see `agent.ports.hooks`. Raises ToolFailure when it could not be started."""
        argv = (hook.command, *hook.args) if hook.args else (INTERPRETER, "-c", hook.command)
        # A surrogate that a model made up is no UTF-8; escaped it is still the same JSON.
        told = json.dumps(said).encode()
        where = absolute(hook.working_dir or ".", cwd)
        command = process.Command(
            argv, where, {**self._env, **hook.env}, hook.timeout, stdin=told, keep=KEEP_BYTES, apart=True
        )
        outcome = await process.run(command)
        if outcome.leftover is not None:
            await process.end_groups([outcome.leftover])
        if outcome.errors.strip():
            log.warning("hook %s says: %r", hook.label, outcome.errors.strip()[-LOGGED:])
        return HookEnd(outcome.code, outcome.output, outcome.omitted > 0)
