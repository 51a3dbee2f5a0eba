"""What a team is made for, and what comes of it: needed with the first session, so not part of `assembly`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from sluice.agent.permissions import Rules
    from sluice.agent.ports import Elicitation, Files, Terminal
    from sluice.agent.team import Team
    from sluice.config.schema import AgentFile
    from sluice.machines import Transition
    from sluice.mcp.supervised import SupervisedToolset

__all__ = ["Built", "ClientSide", "Owner"]


@dataclass(frozen=True, slots=True)
class Owner:
    """Who owns what a team starts in the background, such as configured MCP servers.

    `key` names the session in records; `on_change` is called when tools have changed; `started` gets what must be
    stopped before `tasks` ends.
    """

    tasks: TaskGroup
    key: str
    started: list[SupervisedToolset]
    on_change: Callable[[], None] | None = None
    record: Callable[[Transition], None] | None = None


@dataclass(frozen=True, slots=True)
class ClientSide:
    """What a session's tools use at its client; None for what the client does not offer.

    With `files` the four text tools of the file toolset work on the client's files, as far as `can_read` and
    `can_write` say, or are not offered; they never fall back to the host's (client-fs.gate.table). Without `files`,
    as in a session that has no client, they work on the host. Without an `owner` nothing can run in the background;
    `background_agents` says whether agents can.
    """

    files: Files | None = None
    can_read: bool = True
    can_write: bool = True
    terminal: Terminal | None = None
    elicitation: Elicitation | None = None
    owner: Owner | None = None
    background_agents: bool = False


@dataclass(frozen=True, slots=True)
class Built:
    """A team with the file it was made from.

    `rules` are the file's permissions, `user_rules` those of the person's settings.
    `choices` are the named models of the file that can be used with the credentials that are there, in name order.
    """

    file: AgentFile
    team: Team
    rules: Rules
    user_rules: Rules
    choices: tuple[str, ...] = ()

    @property
    def default_mode(self) -> str:
        """The author's mode, or `default` when the file chooses none."""
        return self.file.default_agent.safety or self.file.runtime.safety or "default"
