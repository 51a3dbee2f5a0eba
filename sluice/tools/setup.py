"""What a toolset is built from: the session it serves and what its configuration says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from sluice.agent.ports import Elicitation, Files, Terminal, ToolFailure
from sluice.outbound import AddressPolicy

__all__ = ["ToolsetConfigLike", "ToolsetSetup", "UnknownToolset", "count", "flag", "text", "texts"]


class UnknownToolset(ToolFailure):
    """The configuration names a toolset type that does not exist; the text lists the ones that do."""


class ToolsetConfigLike(Protocol):
    """The part of a configured toolset that this room reads."""

    @property
    def type(self) -> str:
        """The toolset type, for example `shell`."""
        ...

    @property
    def tools(self) -> tuple[str, ...] | None:
        """Names of the tools to offer; None offers all of them."""
        ...

    @property
    def readonly(self) -> bool:
        """Whether only tools with the read-only hint are offered."""
        ...

    @property
    def defer(self) -> bool | tuple[str, ...]:
        """Whether all tools, or which of them, are hidden until the model looks for them."""
        ...

    @property
    def instruction(self) -> str | None:
        """Text that replaces the toolset's own instruction; None keeps it."""
        ...

    @property
    def name(self) -> str:
        """A label for messages to a person; "" for none."""
        ...

    @property
    def options(self) -> Mapping[str, Any]:
        """The keys that belong to this type alone, as plain data."""
        ...


@dataclass(frozen=True)
class ToolsetSetup:
    """The session a toolset serves.

    Attributes:
        cwd: the session's working directory, absolute.
        roots: the session's further workspace roots, absolute. They widen nothing.
        env: the whole environment children are started with, before the toolset's own `env` entries.
        config_dir: the directory of the agent file.
        files: text files as the client sees them; None means the host's disk.
        can_read: whether reading tools may be offered at all.
        can_write: whether writing tools may be offered at all; `edit_file` needs both.
        terminal: commands run at the client; None means on the host.
        elicitation: questions to a person; None means that nobody can be asked.
        addresses: what may be reached where the model names the address.
        sub_agents: the agents that may be given a task, with what each says it is for.
        background_agents: whether agents can work in the background in this session.
        shared: values shared by the toolsets of one team in one session (`shared: true`), keyed by toolset type.
    """

    cwd: str
    env: Mapping[str, str]
    config_dir: Path
    roots: tuple[str, ...] = ()
    files: Files | None = None
    can_read: bool = True
    can_write: bool = True
    terminal: Terminal | None = None
    elicitation: Elicitation | None = None
    addresses: AddressPolicy = field(default_factory=AddressPolicy)
    sub_agents: Mapping[str, str] = field(default_factory=dict)
    background_agents: bool = False
    shared: dict[str, Any] = field(default_factory=dict)


def text(arguments: Mapping[str, Any], name: str, *, empty: bool = False) -> str:
    """Return a required text argument.

    Args:
        arguments: the call's arguments.
        name: which one.
        empty: whether "" is allowed.

    Raises:
        ToolFailure: it is missing, empty or not a text.
    """
    value = arguments.get(name)
    if not isinstance(value, str) or (not value and not empty):
        raise ToolFailure(f"the argument {name!r} must be a {'' if empty else 'non-empty '}text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ToolFailure(f"the argument {name!r} holds half of a surrogate pair, which is no text") from None
    return value


def texts(arguments: Mapping[str, Any], name: str, *, optional: bool = False) -> tuple[str, ...]:
    """Return a list of texts; `optional` reads a missing one as empty. Raises ToolFailure."""
    value = arguments.get(name)
    if value is None and optional:
        return ()
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
        raise ToolFailure(f"the argument {name!r} must be a list of texts")
    return tuple(value)


def count(arguments: Mapping[str, Any], name: str) -> int | None:
    """Return an optional whole number from 1, None when it is absent. Raises ToolFailure."""
    value = arguments.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ToolFailure(f"the argument {name!r} must be a whole number from 1")
    return value


def flag(arguments: Mapping[str, Any], name: str) -> bool:
    """Return an optional truth value, False when it is absent. Raises ToolFailure."""
    value = arguments.get(name, False)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise ToolFailure(f"the argument {name!r} must be true or false")
    return value
