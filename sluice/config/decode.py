"""From the YAML tree to checked values: unknown keys, types, `${env.X}`; every error names line and key.

A shape says which keys a mapping takes and the type of each. msgspec checks the leaves; mappings and lists are
walked here, because its paths do not name the key of a mapping. A key without a value counts as not written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from sluice.config.errors import ConfigError, ConfigWarning
from sluice.config.expand import Environ, Unset, expand, has_template
from sluice.config.keys import KNOWN_NOT_BUILT, TOP_LEVEL_KEYS
from sluice.config.schema import EXPAND
from sluice.config.suggest import did_you_mean
from sluice.config.tree import Node
from sluice.config.values import Frozen

__all__ = ["Context", "Shape", "decode", "describe", "entries", "items", "join", "read", "shape"]

Shape = Mapping[str, Any]
"""Key -> type. The type `Node` hands the subtree on as it is."""

_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "nothing",
}


class Context(msgspec.Struct):
    """What one load shares: the file's name, where variables come from, and the warnings so far.

    `newest` is the newest version of the format that is known here, None for a file without versions. `mcps` holds
    the options of the named MCP servers once they are read, None for one that cannot be had here.
    """

    file: str
    env: Environ
    newest: int | None = None
    warnings: list[ConfigWarning] = msgspec.field(default_factory=list)
    mcps: dict[str, dict[str, Any] | None] = msgspec.field(default_factory=dict)

    def error(self, node: Node, key: str, message: str) -> ConfigError:
        """An error at a value."""
        return ConfigError(self.file, node.line, key, message)

    def warn(self, node: Node, key: str, message: str) -> None:
        """Note something that has no effect; the same note at the same place counts once."""
        warning = ConfigWarning(node.line, key, message)
        if warning not in self.warnings:
            self.warnings.append(warning)

    def not_built(self, node: Node, key: str) -> None:
        """Note a key that the format has and this program not yet."""
        self.warn(node, key, "known but not built yet; it has no effect")

    def expanded(self, text: str, node: Node, key: str, mode: str = "env") -> str:
        """The text with its variables put in; `mode` is one of `schema.EXPAND`.

        Raises:
            ConfigError: a variable is not set, or a reference holds something else in `${}`.
        """
        if "${" not in text:
            return text
        if mode == "env" and has_template(text):
            self.warn(node, key, "holds ${...}; only ${env.NAME} is expanded, the rest stays as written")
        try:
            return expand(text, self.env, bare=mode == "bare")
        except Unset as unset:
            raise self.error(node, key, f"the variable {unset.name} is not set") from None


def shape(cls: type[Frozen], *, drop: tuple[str, ...] = (), **changed: Any) -> Shape:
    """The shape of a value of this room: its fields but `name` and `line` (and `drop`), with some types changed."""
    left_out = {"name", "line", *drop}
    return {**{key: kind for key, kind in shape_of_fields(cls).items() if key not in left_out}, **changed}


def join(key: str, step: str) -> str:
    """The dotted path one step down."""
    return f"{key}.{step}" if key else step


def entries(ctx: Context, node: Node, key: str) -> dict[str, Node]:
    """The entries of a mapping that have a value.

    Raises:
        ConfigError: the value is something else.
    """
    if not isinstance(node.value, dict):
        raise ctx.error(node, key, f"expected a mapping, got {describe(node)}")
    return {name: child for name, child in node.value.items() if child.value is not None}


def items(ctx: Context, node: Node, key: str) -> list[tuple[str, Node]]:
    """The items of a list, each with its path.

    Raises:
        ConfigError: the value is something else.
    """
    if not isinstance(node.value, list):
        raise ctx.error(node, key, f"expected a list, got {describe(node)}")
    return [(f"{key}[{position}]", child) for position, child in enumerate(node.value)]


def decode(ctx: Context, node: Node, key: str, wanted: Shape, scopes: tuple[str, ...] = ()) -> dict[str, Any]:
    """The values of a mapping.

    Args:
        ctx: the load.
        node: the mapping.
        key: its path.
        wanted: the keys it takes.
        scopes: where in `KNOWN_NOT_BUILT` its other keys stand.

    Returns:
        The checked value of each key that was written with a value.

    Raises:
        ConfigError: an unknown key, a wrong type, or a variable that is not set.
    """
    if not isinstance(node.value, dict):
        raise ctx.error(node, key, f"expected a mapping, got {describe(node)}")
    not_built = {name for scope in scopes for name in KNOWN_NOT_BUILT[scope]}
    values: dict[str, Any] = {}
    for name, child in node.value.items():
        path = join(key, name)
        if name in not_built:
            ctx.not_built(child, path)
        elif name not in wanted:
            raise ctx.error(child, path, _unknown(ctx, name, {*wanted, *not_built}))
        if name in wanted and child.value is not None:
            values[name] = read(ctx, child, path, wanted[name])
    return values


def _unknown(ctx: Context, name: str, known: set[str]) -> str:
    near = did_you_mean(name, known)
    if near:
        return f"unknown key{near}"
    if name in TOP_LEVEL_KEYS:
        return f"unknown key; {name} stands at the top level"
    newer = f"; if a newer version than {ctx.newest} has it, update sluice" if ctx.newest is not None else ""
    return f"unknown key{newer}"


def read(ctx: Context, node: Node, key: str, kind: Any) -> Any:
    """One value as `kind`: a value of this room, `Node`, `dict[str, X]`, `tuple[X, ...]` or anything msgspec decodes.

    Raises:
        ConfigError: the value is of another type, or a variable is not set.
    """
    kind = _without_none(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Node:
        return node
    if isinstance(kind, type) and issubclass(kind, Frozen):
        return _object(ctx, node, key, kind)
    if origin is tuple:
        return tuple(read(ctx, child, path, arguments[0]) for path, child in items(ctx, node, key))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        children = entries(ctx, node, key)
        if arguments[1] is Any and isinstance(node.value, dict):
            children = node.value  # free data goes to a provider, where null is a value
        return {name: read(ctx, child, join(key, name), arguments[1]) for name, child in children.items()}
    if kind is Any and isinstance(node.value, (dict, list)):
        return read(ctx, node, key, dict[str, Any] if isinstance(node.value, dict) else tuple[Any, ...])
    return _leaf(ctx, node, key, kind)


def _object(ctx: Context, node: Node, key: str, kind: type[Frozen]) -> Any:
    values = decode(ctx, node, key, shape_of_fields(kind))
    for found in msgspec.structs.fields(kind):
        if found.name not in values and found.required:
            raise ctx.error(node, join(key, found.name), "is missing")
    return kind(**values)


def shape_of_fields(cls: type[Frozen]) -> Shape:
    """All fields of a value of this room as a shape."""
    hints = get_type_hints(cls, include_extras=True)
    return {name: hints[name] for name in cls.__struct_fields__}


def describe(node: Node) -> str:
    """What a value is, for an error text; a short scalar is shown as written."""
    if isinstance(node.value, str):
        return f'"{node.value}"' if len(node.value) <= 40 and node.value.isprintable() else "text"
    if node.value is None:
        return "nothing"
    if isinstance(node.value, bool):
        return f"{node.raw} (true or false)"
    if isinstance(node.value, (int, float)):
        return f"the number {node.raw[:40]}"
    return "a list" if isinstance(node.value, list) else "a mapping"


def _leaf(ctx: Context, node: Node, key: str, kind: Any) -> Any:
    """A scalar, with its variables put in."""
    value = _expanded(ctx, node, key, kind) if isinstance(node.value, str) else node.plain()
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise ctx.error(node, key, _explain(str(error), node, kind)) from None


def _expanded(ctx: Context, node: Node, key: str, kind: Any) -> str:
    """A text as its type wants it (see `schema.EXPAND`)."""
    metas = [meta for meta in get_args(kind)[1:] if isinstance(meta, msgspec.Meta)]
    mode = next((meta.extra[EXPAND] for meta in metas if meta.extra), "env")
    text = str(node.value)
    return text if mode == "never" else ctx.expanded(text, node, key, mode)


def _explain(error: str, node: Node, kind: Any) -> str:
    """The error of msgspec in the words of the file; shows what was written, never a variable's value."""
    choices = _choices(kind)
    if choices and isinstance(node.value, str):
        listed = ", ".join(choices)
        return f"expected one of {listed}; got {describe(node)}{did_you_mean(node.value, choices)}"
    found = re.match(r"Expected `([^`]+)`( [<>]=? [-\d.]+| of length >= 1)?", error)
    if found is None:
        return f"{error}; got {describe(node)}"
    names = [_KINDS.get(name, name) for name in found.group(1).split(" | ") if name != "null"]
    bound = "that is not empty" if "length" in (found.group(2) or "") else (found.group(2) or "").strip()
    got = "" if "length" in (found.group(2) or "") else f", got {describe(node)}"
    hint = "; put it in quotes" if names == ["text"] and isinstance(node.value, (bool, int, float)) else ""
    return f"expected {' or '.join(names)} {bound}".rstrip() + got + hint


def _choices(kind: Any) -> list[str]:
    """The words of a Literal, also inside a union; [] for any other type."""
    if get_origin(kind) is Literal:
        return [word for word in get_args(kind) if isinstance(word, str)]
    if get_origin(kind) in (Union, UnionType):
        return [word for member in get_args(kind) for word in _choices(member)]
    return []


def _without_none(kind: Any) -> Any:
    """`X` of `X | None`."""
    if get_origin(kind) in (Union, UnionType):
        members = [member for member in get_args(kind) if member is not NoneType]
        return members[0] if len(members) == 1 else kind
    return kind
