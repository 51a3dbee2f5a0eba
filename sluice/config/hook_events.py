"""Hooks as frozen values: the events, which of them are built, and one hook of an agent.

Source: requirements of the area hooks; docs/hooks.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from sluice.config.values import Frozen, nothing

__all__ = ["FAIL_CLOSED", "HOOK_EVENTS", "HOOK_SECONDS", "TOOL_EVENTS", "HookConfig"]

HOOK_SECONDS = 60.0
"""How long a hook may run when it does not say, in seconds (hooks.contract.timeout)."""

TOOL_EVENTS = (
    "tool_input_transform",
    "tool_guard",
    "pre_tool_use",
    "permission_request",
    "tool_response_transform",
    "post_tool_use",
)
"""Events about one tool call; their hooks stand in groups with a matcher."""

HOOK_EVENTS = (
    *TOOL_EVENTS,
    "session_start",
    "user_prompt_submit",
    "turn_start",
    "before_llm_call",
    "after_llm_call",
    "stop",
    "on_error",
    "turn_end",
    "session_end",
    "pre_compact",
    "before_compaction",
    "after_compaction",
)
"""Every event that is built."""

FAIL_CLOSED = frozenset({"tool_guard", "pre_tool_use"})
"""Events whose hooks deny when they fail, whatever `on_error` says (hooks.guard.fail-closed)."""


class HookConfig(Frozen, frozen=True):
    """One command that runs at an event.

    `command` is a line for the shell, or the program when there are `args`. `matcher` is a regular expression that a
    tool's whole name has to fit, "" for every tool. `preempting` runs the hook before rules and mode are asked.
    `timeout` is in seconds. `working_dir` is relative to the session's directory, "" that directory itself.
    `on_error` is what a failure means where it does not deny: a line in the log (`warn`), nothing (`ignore`), or the
    same as a hook that blocks. `file` and `line` are where the hook stands; of one that a flag gave, the flag, and 0.
    """

    HIDDEN: ClassVar[frozenset[str]] = frozenset({"env"})

    event: str
    command: str
    args: tuple[str, ...] = ()
    name: str = ""
    matcher: str = ""
    preempting: bool = False
    timeout: float = HOOK_SECONDS
    env: Mapping[str, str] = nothing()
    working_dir: str = ""
    on_error: Literal["warn", "ignore", "block"] = "warn"
    file: str = ""
    line: int = 0

    @property
    def label(self) -> str:
        """What a log calls the hook: its name, else its event and where it stands."""
        return self.name or f"{self.event} ({self.file}{f':{self.line}' if self.line else ''})"
