"""`${env.X}` in the values of an agent file.

`${env.X}` and `${env.X || 'default'}` work in every text but `token_key` (a variable's name) and commands (expanded
when they are used). Model references, base URLs and path lists also take `${X}`. Any other `${…}` stays as written.
A value that was put in is never expanded again. Source: requirement config-file.expand.env.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

__all__ = ["Environ", "Unset", "expand", "has_template"]

_ENV = r"\$\{\s*env\.(?P<env>[A-Za-z_][A-Za-z0-9_]*)\s*(?:\|\|\s*(?:'(?P<one>[^']*)'|\"(?P<two>[^\"]*)\")\s*)?\}"
_BARE = r"|\$\{(?P<bare>[A-Za-z_][A-Za-z0-9_]*)\}"
_ENV_ONLY = re.compile(_ENV)
_ENV_OR_BARE = re.compile(_ENV + _BARE)


class Environ(Protocol):
    """Where values come from: an `Environment`, or a plain dictionary in tests."""

    def get(self, name: str, /) -> str | None:
        """The value, None when it is not set."""
        ...


class Unset(Exception):
    """A variable without a value and without a default; `name` is the variable's."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def expand(text: str, env: Environ, *, bare: bool = False) -> str:
    """Put the values in.

    Args:
        text: the text as written.
        env: where the values come from.
        bare: whether `${X}` counts too.

    Raises:
        Unset: a variable has no value and no default.
    """
    return (_ENV_OR_BARE if bare else _ENV_ONLY).sub(_substitute(env), text)


def has_template(text: str) -> bool:
    """Whether the text holds a `${` that `expand` leaves as it is."""
    return "${" in _ENV_ONLY.sub("", text)


def _substitute(env: Environ) -> Callable[[re.Match[str]], str]:
    def value(found: re.Match[str]) -> str:
        groups = found.groupdict()
        name = groups["env"] or groups["bare"]
        default = groups["one"] if groups["one"] is not None else groups["two"]
        got = env.get(name)
        if default is not None:
            return got or default  # `||` also replaces an empty value
        if got is None:
            raise Unset(name)
        return got

    return value
