"""Older versions of the format, brought forward key by key before anything is checked.

Only what is known to have changed is changed: version 0 had `type` for a model's provider and three switches for
toolsets, versions up to 6 named the retrieval sources of an agent in `rag`. What version 1 had and later ones dropped
is an error that says what to do instead. Everything else is the same in all versions, so it is read as the newest.
Source: requirement config-file.format.version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sluice.config.decode import Context, describe, join
from sluice.config.tree import Node, Value
from sluice.config.values import replace

__all__ = ["migrate"]

Entries = dict[str, Node]
Step = Callable[[Context, Entries], None]

_ENVIRONMENT = "was dropped after version 1; give variables with --env-from-file, or in the environment"


def migrate(ctx: Context, root: Node, version: int | None) -> Node:
    """The tree as the newest version would have it.

    Args:
        ctx: the load.
        root: the whole file, a mapping.
        version: what the file says of itself; None is the newest.

    Raises:
        ConfigError: the file has a key that later versions dropped, or an old key has a value of the wrong kind.
    """
    if version is None or not isinstance(root.value, dict):
        return root
    entries = dict(root.value)
    for last, step in _STEPS:
        if version <= last:
            step(ctx, entries)
    return replace(root, value=entries)


def _each(entries: Entries, key: str, change: Callable[[str, Entries], None]) -> None:
    """Change every entry of the mapping at `key`; what is no mapping is left for the check that follows."""
    holder = entries.get(key)
    if holder is None or not isinstance(holder.value, dict):
        return
    changed: dict[str, Node] = {}
    for name, child in holder.value.items():
        if isinstance(child.value, dict):
            own = dict(child.value)
            change(join(key, name), own)
            child = replace(child, value=own)
        changed[name] = child
    entries[key] = replace(holder, value=changed)


def _from_0(ctx: Context, entries: Entries) -> None:
    def model(key: str, own: Entries) -> None:
        if "type" in own and "provider" not in own:
            own["provider"] = own.pop("type")

    def agent(key: str, own: Entries) -> None:
        toolsets = [
            made
            for name, options in (("todo", ("shared",)), ("think", ()), ("memory", ("path",)))
            if (made := _switched(ctx, join(key, name), own.pop(name, None), name, options)) is not None
        ]
        _add_toolsets(own, toolsets, first=True)

    _each(entries, "models", model)
    _each(entries, "agents", agent)


def _switched(ctx: Context, key: str, node: Node | None, name: str, options: tuple[str, ...]) -> Node | None:
    """The toolset that a switch of version 0 stands for: `true`, or a mapping with its options; None for off."""
    if node is None or node.value is None or node.value is False:
        return None
    if node.value is True and name != "memory":
        return _toolset(node, name, {})
    if isinstance(node.value, dict) and options and set(node.value) <= {*options, "enabled"}:
        given = {option: node.value[option] for option in options if option in node.value}
        return _toolset(node, name, given)
    raise ctx.error(
        node, key, f"a toolset in the manner of version 0 cannot be {describe(node)}; write it in toolsets"
    )


def _from_1(ctx: Context, entries: Entries) -> None:
    def dropped(key: str, own: Mapping[str, Node]) -> None:
        if "env" in own:
            raise ctx.error(own["env"], join(key, "env"), _ENVIRONMENT)

    def agent(key: str, own: Entries) -> None:
        listed = own["toolsets"].value if "toolsets" in own else None
        for position, toolset in enumerate(listed if isinstance(listed, list) else ()):
            if isinstance(toolset.value, dict) and "env_file" in toolset.value:
                place = f"{key}.toolsets[{position}].env_file"
                raise ctx.error(toolset.value["env_file"], place, _ENVIRONMENT)

    dropped("", entries)
    _each(entries, "models", dropped)
    _each(entries, "agents", agent)


def _from_6(ctx: Context, entries: Entries) -> None:
    def agent(key: str, own: Entries) -> None:
        node = own.pop("rag", None)
        if node is None or node.value is None:
            return
        if not isinstance(node.value, list):
            raise ctx.error(node, join(key, "rag"), f"expected a list, got {describe(node)}")
        _add_toolsets(own, [_toolset(source, "rag", {"ref": source}) for source in node.value])

    _each(entries, "agents", agent)


def _toolset(place: Node, type_: str, options: Mapping[str, Node]) -> Node:
    value: Value = {"type": Node(type_, place.line, raw=type_), **options}
    return Node(value, place.line)


def _add_toolsets(own: Entries, made: list[Node], *, first: bool = False) -> None:
    """Put toolsets into an agent's list; a list that is none is left for the check that follows."""
    if not made:
        return
    there = own.get("toolsets")
    if there is None or there.value is None:
        own["toolsets"] = Node(made, made[0].line)
    elif isinstance(there.value, list):
        own["toolsets"] = replace(there, value=[*made, *there.value] if first else [*there.value, *made])


_STEPS: tuple[tuple[int, Step], ...] = ((0, _from_0), (1, _from_1), (6, _from_6))
"""The last version that still has what the step changes, in order."""
