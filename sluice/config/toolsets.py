"""The toolsets of an agent file: inline ones, and the named ones of the top level."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Literal

import msgspec

from sluice.config.decode import Context, Shape, decode, entries, items, join, read, shape
from sluice.config.keys import KNOWN_NOT_BUILT, TOOLSET_OPTIONS, TOOLSET_REQUIRED, TOOLSET_TYPES, UNBUILT_TOOLSET_KEYS
from sluice.config.schema import Text, ToolsetConfig
from sluice.config.suggest import did_you_mean
from sluice.config.tree import Node
from sluice.config.values import Frozen

__all__ = ["COMMON_SHAPE", "read_mcps", "read_named_toolsets", "read_toolsets"]

_CATALOG = "docker:"
"""How a reference to a server of Docker's MCP catalog begins."""

COMMON_SHAPE: Shape = {**shape(ToolsetConfig, drop=("options",)), "name": str}


def read_toolsets(ctx: Context, node: Node | None, key: str) -> tuple[ToolsetConfig, ...]:
    """The toolsets of a list, in order; a type that is not built is warned about and left out.

    Raises:
        ConfigError: a key or a value is wrong, or the type does not exist.
    """
    if node is None:
        return ()
    read_ones = [_toolset(ctx, child, path) for path, child in items(ctx, node, key)]
    return tuple(toolset for toolset in read_ones if toolset is not None)


def read_named_toolsets(ctx: Context, node: Node | None) -> MappingProxyType[str, tuple[ToolsetConfig, ...]]:
    """The top level's `toolsets`: name -> one toolset or a list of them.

    Raises:
        ConfigError: as for `read_toolsets`.
    """
    named = {}
    for name, child in entries(ctx, node, "toolsets").items() if node is not None else ():
        key = join("toolsets", name)
        if isinstance(child.value, list):
            named[name] = read_toolsets(ctx, child, key)
        else:
            toolset = _toolset(ctx, child, key)
            named[name] = (toolset,) if toolset is not None else ()
    return MappingProxyType(named)


def _toolset(ctx: Context, node: Node, key: str) -> ToolsetConfig | None:
    written = entries(ctx, node, key)
    if "type" not in written:
        raise ctx.error(node, join(key, "type"), f"a toolset needs a type: {', '.join(TOOLSET_OPTIONS)}")
    type_ = read(ctx, written["type"], join(key, "type"), Text)
    if type_ in KNOWN_NOT_BUILT["toolset types"]:
        ctx.warn(node, key, f'toolset type "{type_}" is known but not built yet; its tools are missing')
        _check_unbuilt(ctx, node, key)
        return None
    if type_ not in TOOLSET_OPTIONS:
        raise ctx.error(
            written["type"], join(key, "type"), f'unknown toolset type "{type_}"{did_you_mean(type_, TOOLSET_TYPES)}'
        )
    options = TOOLSET_OPTIONS[type_]
    own_scope = f"toolsets.{type_}"
    scopes = ("toolsets.*", own_scope) if own_scope in KNOWN_NOT_BUILT else ("toolsets.*",)
    if type_ == "mcp":
        scopes = (own_scope,)  # of those for any toolset, it has the life cycle
    values = decode(ctx, node, key, {**COMMON_SHAPE, **options}, scopes)
    needed = TOOLSET_REQUIRED.get(type_)
    if needed is not None and not values.get(needed):
        raise ctx.error(node, join(key, needed), "is missing")
    if type_ == "mcp":
        server = _mcp(ctx, node, key, values)
        if server is None:
            return None
        values = server
    common = {name: value for name, value in values.items() if name in COMMON_SHAPE}
    chosen = {name: _plain(value) for name, value in values.items() if name in options}
    return ToolsetConfig(**common, options=MappingProxyType(chosen), line=node.line)


def read_mcps(ctx: Context, node: Node | None) -> None:
    """The top level's `mcps`: name -> what a toolset of type `mcp` says; kept in the context.

    Raises:
        ConfigError: a key or a value is wrong.
    """
    keys = {**COMMON_SHAPE, **TOOLSET_OPTIONS["mcp"], "type": Literal["mcp"]}
    for name, child in entries(ctx, node, "mcps").items() if node is not None else ():
        key = join("mcps", name)
        chosen = decode(ctx, child, key, keys, ("toolsets.mcp",))
        if "ref" in chosen and not chosen["ref"].startswith(_CATALOG):
            place = entries(ctx, child, key)["ref"]
            raise ctx.error(place, join(key, "ref"), "unknown key; an entry of mcps says itself what its server is")
        ctx.mcps[name] = _mcp(ctx, child, key, chosen)


def _mcp(ctx: Context, node: Node, key: str, chosen: dict[str, Any]) -> dict[str, Any] | None:
    """What is said of one MCP server, with what its reference says under it; named after that if nobody names it.

    None for a server that cannot be had here; that has been warned about.
    """
    ways = [way for way in ("command", "remote", "ref") if way in chosen]
    if len(ways) != 1:
        raise ctx.error(node, key, "an MCP server needs exactly one of command, remote and ref")
    if "remote" in chosen and chosen["remote"].oauth:
        ctx.not_built(node, join(key, "remote.oauth"))
    if ways != ["ref"]:
        return chosen
    name, place = chosen.pop("ref"), entries(ctx, node, key)["ref"]
    if name not in ctx.mcps:
        if name.startswith(_CATALOG):
            what = f"{KNOWN_NOT_BUILT['values']['catalog server']} is known but not built yet; its tools are missing"
            ctx.warn(place, join(key, "ref"), f"{what}; say its command or remote instead")
            return None
        raise ctx.error(place, join(key, "ref"), f'unknown MCP server "{name}"{did_you_mean(name, ctx.mcps)}')
    named = ctx.mcps[name]
    return None if named is None else {"name": name, **named, **chosen}


def _plain(value: Any) -> Any:
    """Options are plain data: a list or a mapping of checked objects becomes one of mappings."""
    if isinstance(value, tuple) and value and isinstance(value[0], Frozen):
        return tuple(MappingProxyType(msgspec.structs.asdict(item)) for item in value)
    if isinstance(value, dict) and any(isinstance(item, Frozen) for item in value.values()):
        return MappingProxyType(
            {name: MappingProxyType(msgspec.structs.asdict(item)) for name, item in value.items()}
        )
    return value


def _check_unbuilt(ctx: Context, node: Node, key: str) -> None:
    """Only the names of the keys: their values belong to the type."""
    known = {*COMMON_SHAPE, *KNOWN_NOT_BUILT["toolsets.*"], *UNBUILT_TOOLSET_KEYS}
    for name, child in node.value.items() if isinstance(node.value, dict) else ():
        if name not in known:
            raise ctx.error(child, join(key, name), f"unknown key{did_you_mean(name, known)}")
