"""What a server is made from: what was given for it, and the session it works for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from anyio.abc import TaskGroup

from sluice.agent.ports import Elicitation
from sluice.outbound import AddressPolicy, Resolver

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

__all__ = ["SETUP_SECONDS", "Link", "McpSetup", "RemoteSpec", "ServerSpec", "Spec"]

SETUP_SECONDS = 30.0
"""How long connecting and listing may take, in seconds (requirement `client-mcp.setup.thirty-seconds`)."""


@dataclass(frozen=True)
class ServerSpec:
    """A stdio server as it was given: values are literal, of equal names in `env` the last one counts."""

    name: str
    command: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class RemoteSpec:
    """A server over HTTP as it was given: Streamable HTTP, or with `sse` the older HTTP+SSE; headers are literal."""

    name: str
    url: str = field(repr=False)
    sse: bool = False
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)


Spec = ServerSpec | RemoteSpec


@dataclass(frozen=True)
class McpSetup:
    """The session a server works for.

    Attributes:
        tasks: where the owner task lives; it must outlive `stop`.
        cwd: the directory the process runs in, absolute.
        env: the whole environment before the server's own entries.
        budget: seconds for `start`.
        generation: how many server lists the session had before; names of tools differ between generations.
        taken: names of tools in use. Servers of one list share the set and add theirs.
        policy: which addresses may be reached; None for servers that the operator has configured.
        resolver: how names are looked up under the policy; None for the system's way.
        on_change: called when the tools of a ready server have changed.
        call_timeout: seconds that a call may go on without progress; infinite for no limit.
        on_lost: called when a ready server is lost.
        elicitation: how a person is asked on behalf of a call; None when nobody can be: every question is declined.
    """

    tasks: TaskGroup
    cwd: str
    env: Mapping[str, str] = field(repr=False)
    budget: float = SETUP_SECONDS
    generation: int = 0
    taken: set[str] = field(default_factory=set)
    policy: AddressPolicy | None = field(default_factory=AddressPolicy)
    resolver: Resolver | None = field(default=None, repr=False)
    on_change: Callable[[], None] | None = field(default=None, repr=False)
    call_timeout: float = math.inf
    on_lost: Callable[[], None] | None = field(default=None, repr=False)
    elicitation: Elicitation | None = None


class Link(Protocol):
    """One connection to a server; what `StdioServer` and `RemoteServer` have in common."""

    polite: float
    gone: bool

    @property
    def problem(self) -> str:
        """What went wrong on the connection, "" when nothing did or nothing can be told apart."""
        ...

    def connect(self) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        """The two message streams of a client; leaving ends everything."""
        ...
