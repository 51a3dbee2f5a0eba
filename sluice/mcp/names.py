"""Names of MCP tools as the model sees them.

Providers take `[A-Za-z0-9_-]{1,64}`; MCP allows anything. A name that has to be changed gets a digest of what it was,
so that no two tools become one. Requirements `client-mcp.tools.generation-aliases`, `tools.mcp.toolset`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable

__all__ = ["NAME_CHARACTERS", "alias", "either"]

NAME_CHARACTERS = 64
"""The longest name that every provider takes, in characters."""

_DIGEST_CHARACTERS = 10
_OTHER = re.compile(r"[^A-Za-z0-9_-]")


def alias(server: str, tool: str, generation: int, taken: Collection[str] = ()) -> str:
    """Return the model's name for a tool: `<server>_<tool>`, if need be shortened and marked.

    Args:
        server: the server's configured name.
        tool: the tool's name on that server.
        generation: how many server lists the session had before, from 0. Names of different generations differ, so
            that what a person allowed for a tool does not hold for its replacement.
        taken: names that are in use already.
    """
    plain = f"{server}_{tool}"
    mark = f"_g{generation}" if generation else ""
    name = _OTHER.sub("_", plain) + mark
    if name == plain + mark and len(name) <= NAME_CHARACTERS and name not in taken:
        return name
    count = 0
    while True:
        what = "\0".join((server, tool, str(generation), str(count)))
        end = f"_{hashlib.sha256(what.encode('utf-8', 'surrogatepass')).hexdigest()[:_DIGEST_CHARACTERS]}{mark}"
        candidate = _OTHER.sub("_", plain)[: NAME_CHARACTERS - len(end)] + end
        if candidate not in taken:
            return candidate
        count += 1


def either(server: str, names: Iterable[str]) -> tuple[str, ...]:
    """What an agent file may mean by names of a configured server's tools: each as written, and with the prefix."""
    return tuple(name for given in names for name in (given, alias(server, given, 0)))
