"""What a hook has answered: its exit code, and the JSON or the text that it wrote to stdout.

0 is fine, 2 blocks, everything else is a failure, and so are a hook whose time was up and an answer that is none
(requirements `hooks.contract.*`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from sluice.agent.ports.hooks import HookEnd
from sluice.agent.redaction import mask_known

__all__ = ["BLOCK", "NO_ANSWER", "HookAnswer", "HookFailure", "read_answer"]

BLOCK = 2
"""The exit code that blocks, whatever else the hook says."""


class HookFailure(Exception):
    """A hook gave no usable answer; the text says why, for the log."""


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """What a hook wants.

    `verdict` is its word about a tool call or, as deny, about whatever else it was asked; None for no opinion.
    `reason` goes with it. `context` is text for the model. `updated_input` are other arguments for a call, and
    `updated_response` is another text of its result. `summary` stands for the one a model would write, "" for none.
    `stops` ends the run; the verdict is deny then.
    """

    verdict: Literal["allow", "ask", "deny"] | None = None
    reason: str = ""
    context: str = ""
    updated_input: Mapping[str, Any] | None = None
    updated_response: str | None = None
    stops: bool = False
    summary: str = ""


NO_ANSWER = HookAnswer()


def read_answer(end: HookEnd) -> HookAnswer:
    """Read what a hook has answered.

    Args:
        end: how it ended.

    Raises:
        HookFailure: it failed, or what it says cannot be read; exit code 2 blocks all the same.
    """
    if end.code is None:
        raise HookFailure("its time was up")
    if end.code not in (0, BLOCK):
        raise HookFailure(f"it ended with {end.code}")
    try:
        said = _said(end)
    except HookFailure:
        if end.code != BLOCK:
            raise
        said = NO_ANSWER
    if end.code == BLOCK:
        said = replace(said, verdict="deny", reason=said.reason or said.context)
    # A reason is told to the person and the store, whatever secrets the agent's file lets a model see.
    return replace(said, reason=mask_known(said.reason))


def _said(end: HookEnd) -> HookAnswer:
    """The answer on stdout: a JSON object, or any other text as context."""
    text = end.output.strip()
    if end.cut:
        raise HookFailure("it said more than is kept")
    if not text.startswith("{"):
        return HookAnswer(context=text)
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        raise HookFailure("what it says is no JSON") from None
    own = _member(given, "hook_specific_output", dict, {})
    decision = _member(given, "decision", str, "")
    verdict = _member(own, "permission_decision", str, None)
    if decision not in ("", "block") or verdict not in (None, "allow", "ask", "deny"):
        raise HookFailure("decision is block, and permission_decision allow, ask or deny")
    stops = not _member(given, "continue", bool, True)
    reason = (
        _member(own, "permission_decision_reason", str, "")
        or _member(given, "reason", str, "")
        or _member(given, "stop_reason", str, "")
    )
    return HookAnswer(
        "deny" if decision or stops else cast('Literal["allow", "ask", "deny"] | None', verdict),
        reason.strip(),
        _member(own, "additional_context", str, "").strip(),
        _member(own, "updated_input", dict, None),
        _member(own, "updated_tool_response", str, None),
        stops,
        _member(own, "summary", str, "").strip(),
    )


def _member(given: Mapping[str, Any], name: str, kind: type, otherwise: Any) -> Any:
    """A member of what a hook says; null counts as absent."""
    value = given.get(name)
    if value is None:
        return otherwise
    if not isinstance(value, kind):
        raise HookFailure(f"{name} is of another type")
    return value
