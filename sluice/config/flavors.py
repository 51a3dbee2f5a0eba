"""`flavors`: named patches of the file, applied in the order in which they are asked for.

A patch is a mapping in the shape of the file. Mappings are merged key by key, everything else (lists too) replaces
what was there, and a key without a value takes the key away (RFC 7386). The result is checked like any other file;
an error in it names the line of the patch. Source: requirement config-file.flavors.patches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sluice.config.decode import Context, describe, entries, join
from sluice.config.errors import ConfigError
from sluice.config.suggest import did_you_mean
from sluice.config.tree import Node
from sluice.config.values import replace

__all__ = ["FORBIDDEN", "apply_flavors"]

FORBIDDEN = ("flavors", "version")
"""What a patch cannot change: the patches themselves, and the format it is written in."""


def apply_flavors(ctx: Context, root: Node, names: Sequence[str], known: Iterable[str]) -> Node:
    """The file with its patches.

    Args:
        ctx: the load.
        root: the whole file, a mapping.
        names: the flavors that are asked for, in order; one may come twice.
        known: the keys of the top level.

    Returns:
        The file without its key `flavors`.

    Raises:
        ConfigError: a flavor does not exist, or one (asked for or not) is no patch of an agent file.
    """
    assert isinstance(root.value, dict), "the caller has seen to it"
    given = root.value.get("flavors")
    flavors = entries(ctx, given, "flavors") if given is not None and given.value is not None else {}
    allowed = set(known) - set(FORBIDDEN)
    for name, patch in flavors.items():
        _check(ctx, patch, join("flavors", name), allowed)
    merged = replace(root, value={key: child for key, child in root.value.items() if key != "flavors"})
    for name in names:
        if name not in flavors:
            line = given.line if given is not None else None
            near = did_you_mean(name, flavors) or ("" if flavors else "; the file has none")
            raise ConfigError(ctx.file, line, "flavors", f'unknown flavor "{name}"{near}')
        merged = _merged(merged, flavors[name])
    return merged


def _check(ctx: Context, patch: Node, key: str, allowed: set[str]) -> None:
    if not isinstance(patch.value, dict):
        raise ctx.error(patch, key, f"a flavor is a mapping with keys of the agent file, got {describe(patch)}")
    for name, child in patch.value.items():
        if name in FORBIDDEN:
            raise ctx.error(child, join(key, name), f"a flavor cannot change {name}")
        if name not in allowed:
            raise ctx.error(child, join(key, name), f"unknown key{did_you_mean(name, allowed)}")


def _merged(base: Node, patch: Node) -> Node:
    """One value with its patch. The depth is bounded: both come from a tree whose depth is."""
    if not isinstance(patch.value, dict):
        return patch
    result = dict(base.value) if isinstance(base.value, dict) else {}
    for key, child in patch.value.items():
        if child.value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key, Node({}, child.line)), child)
    return replace(base, value=result, line=base.line if isinstance(base.value, dict) else patch.line)
