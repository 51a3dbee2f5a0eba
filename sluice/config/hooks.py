"""The `hooks` of an agent: event -> hooks, or event of a tool -> groups of hooks with a matcher."""

from __future__ import annotations

import re
from typing import Any

from sluice.config.decode import Context, Shape, decode, describe, items, join, shape
from sluice.config.duration import seconds
from sluice.config.hook_events import FAIL_CLOSED, HOOK_EVENTS, TOOL_EVENTS, HookConfig
from sluice.config.keys import KNOWN_NOT_BUILT
from sluice.config.schema import Verbatim
from sluice.config.suggest import did_you_mean
from sluice.config.tree import Node

__all__ = ["GROUP_SHAPE", "HOOK_SHAPE", "read_hooks"]

HOOK_SHAPE: Shape = {
    "type": str,
    **shape(HookConfig, drop=("event", "matcher", "preempting", "file"), timeout=Node, command=Verbatim),
    "name": str,
    "args": tuple[Verbatim, ...],
}
GROUP_SHAPE: Shape = {"matcher": Verbatim, "preempt_yolo": bool, "hooks": Node}

_TYPES = ("command",)


def read_hooks(ctx: Context, node: Node | None, key: str) -> tuple[HookConfig, ...]:
    """The hooks in the order in which they are written.

    Args:
        ctx: the load.
        node: the mapping, None when there is none.
        key: its path.

    Raises:
        ConfigError: an event, a key or a value is wrong.
    """
    if node is None or node.value is None:
        return ()
    known: dict[str, Any] = dict.fromkeys(HOOK_EVENTS, Node)
    events = decode(ctx, node, key, known, ("hooks",))
    return tuple(hook for event, child in events.items() for hook in _of_event(ctx, event, child, join(key, event)))


def _of_event(ctx: Context, event: str, node: Node, key: str) -> list[HookConfig]:
    if event not in TOOL_EVENTS:
        return _hooks(ctx, node, key, {"event": event})
    return [hook for path, group in _several(ctx, node, key) for hook in _group(ctx, event, group, path)]


def _several(ctx: Context, node: Node, key: str) -> list[tuple[str, Node]]:
    """The items of a list; a mapping is a list of one."""
    return [(key, node)] if isinstance(node.value, dict) else items(ctx, node, key)


def _group(ctx: Context, event: str, node: Node, key: str) -> list[HookConfig]:
    values = decode(ctx, node, key, GROUP_SHAPE)
    if "hooks" not in values:
        raise ctx.error(
            node, join(key, "hooks"), "hooks of a tool stand in a group: a list under hooks, with a matcher"
        )
    assert isinstance(node.value, dict), "it has been decoded"
    matcher = values.get("matcher", "")
    try:
        re.compile(matcher if matcher != "*" else "")
    except re.error as error:
        place = node.value["matcher"]
        raise ctx.error(place, join(key, "matcher"), f"is no regular expression: {error}") from None
    preempting = values.get("preempt_yolo", False)
    if preempting and event != "pre_tool_use":
        place = node.value["preempt_yolo"]
        raise ctx.error(
            place, join(key, "preempt_yolo"), "only pre_tool_use takes it; a tool_guard comes first anyway"
        )
    shared = {"event": event, "matcher": "" if matcher == "*" else matcher, "preempting": preempting}
    return _hooks(ctx, values["hooks"], join(key, "hooks"), shared)


def _hooks(ctx: Context, node: Node, key: str, shared: dict[str, Any]) -> list[HookConfig]:
    found = (_hook(ctx, child, path, shared) for path, child in _several(ctx, node, key))
    return [hook for hook in found if hook is not None]


def _hook(ctx: Context, node: Node, key: str, shared: dict[str, Any]) -> HookConfig | None:
    """One hook; None for one of a type that is not built, which is warned about."""
    values = decode(ctx, node, key, HOOK_SHAPE, ("a hook",))
    assert isinstance(node.value, dict), "it has been decoded"
    type_ = values.pop("type", "command")
    if type_ in KNOWN_NOT_BUILT["hook types"] and type_ != "builtin" and shared["event"] in FAIL_CLOSED:
        # A guard that fails denies; one that is left out in silence or with a warning would let everything pass.
        what = f"{type_} is known but not built yet, and without this hook nothing would guard its calls"
        raise ctx.error(node.value["type"], join(key, "type"), f"{what}; take it out if that is meant")
    if type_ in KNOWN_NOT_BUILT["hook types"]:
        ctx.warn(node.value["type"], join(key, "type"), f"{type_} is known but not built yet; the hook is left out")
        return None
    if type_ not in _TYPES:
        near = did_you_mean(type_, (*_TYPES, *KNOWN_NOT_BUILT["hook types"]))
        raise ctx.error(node.value["type"], join(key, "type"), f'unknown type of hook "{type_}"{near}')
    if not values.get("command", "").strip():
        raise ctx.error(node.value.get("command", node), join(key, "command"), "a hook needs a command")
    if "timeout" in values:
        values["timeout"] = _timeout(ctx, values["timeout"], join(key, "timeout"))
    return HookConfig(**shared, **values, file=ctx.file, line=node.line)


def _timeout(ctx: Context, node: Node, key: str) -> float:
    limit = seconds(node.value)
    if not limit:
        raise ctx.error(node, key, f"expected seconds above 0, or a time such as 90s or 1m, got {describe(node)}")
    return limit
