"""Commands of this program inside a conversation: `:mode`, `:model`, `:sessions` and the like.

They begin with a colon, because an agent's own commands begin with a slash: whatever an agent calls its commands, the
two never meet. Only a colon and a letter at the very start make a command; `:-)` and an indented `:mode` are prompts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sluice.cli.opening import NoSession, find_session, listed, reopen
from sluice.cli.output import explain
from sluice.cli.settings import Setting, UnknownChoice, find_setting, settings
from sluice.client.agent import Agent
from sluice.client.errors import ClientError
from sluice.client.session import Session, SessionEntry
from sluice.client.wording import one_line
from sluice.wire.peer import RemoteError

__all__ = ["HELP", "Host", "LocalCommands", "is_local"]

HELP: Mapping[str, str] = {
    ":help": "show these commands and the agent's",
    ":mode [NAME]": "show the modes, or choose one",
    ":model [NAME]": "show the models, or choose one",
    ":set [OPTION [VALUE]]": "show everything that can be set, or set it",
    ":sessions": "list the stored sessions of this directory",
    ":resume ID": "go on with another session: its id or number",
    ":new": "begin a new session",
    ":quit": "leave, as ctrl-d does",
}
"""Command -> what it does; `sluice run --help` shows the same."""

_NAMES = tuple(entry.split(" ")[0] for entry in HELP)


class Host(Protocol):
    """What the commands need of the conversation they are typed in."""

    session: Session
    cwd: str

    def say(self, line: str) -> None:
        """Show lines of our own, printable."""

    async def switch(self, opening: Callable[[], Awaitable[Session]]) -> None:
        """Open another session and close this one."""


def is_local(line: str) -> bool:
    """Whether a line is a command of this program and no prompt."""
    return line[:1] == ":" and line[1:2].isalpha()


@dataclass
class LocalCommands:
    """Runs the commands.

    Attributes:
        agent: the connected agent.
        host: the conversation.
    """

    agent: Agent
    host: Host
    _sessions: Sequence[SessionEntry] = ()

    async def run(self, line: str) -> bool:
        """Run one command; what goes wrong is shown.

        Returns:
            Whether the conversation goes on.
        """
        name, _, argument = line.strip().partition(" ")
        argument = argument.strip()
        fitting = [known for known in _NAMES if known.startswith(name)]
        if name in _NAMES:
            fitting = [name]
        if len(fitting) != 1:
            self.host.say(f"there is no {one_line(name, 40)}; :help shows what there is")
            return True
        if fitting[0] == ":quit":
            return False
        try:
            await self._do(fitting[0], argument)
        except UnknownChoice as error:
            self.host.say(one_line(str(error), 1000))
        except (ClientError, RemoteError) as error:
            self.host.say(explain(error))
        return True

    async def _do(self, name: str, argument: str) -> None:
        match name:
            case ":help":
                self.host.say(self._help())
            case ":mode" | ":model":
                await self._choose(find_setting(self.host.session, name[1:]), argument)
            case ":set":
                option, _, value = argument.partition(" ")
                if option:
                    await self._choose(find_setting(self.host.session, option), value.strip())
                else:
                    self.host.say("\n".join(_list(setting) for setting in settings(self.host.session)) or "nothing")
            case ":sessions":
                self._sessions = await self.agent.list_sessions(self.host.cwd)
                self.host.say("\n".join(listed(self._sessions)) or "none is stored yet")
            case ":resume":
                await self._resume(argument)
            case ":new":
                await self.host.switch(lambda: self.agent.new_session(self.host.cwd))

    async def _choose(self, setting: Setting, wanted: str) -> None:
        if not wanted:
            self.host.say(_list(setting))
            return
        value = await setting.set(self.agent, self.host.session.id, wanted)
        self.host.say(f"{one_line(setting.name, 40)}: {one_line(value, 80)}")

    async def _resume(self, wanted: str) -> None:
        self._sessions = self._sessions or await self.agent.list_sessions(self.host.cwd)
        try:
            entry = find_session(self._sessions, wanted)
        except NoSession:
            entry = find_session(await self.agent.list_sessions(), wanted)
        await self.host.switch(lambda: reopen(self.agent, entry))

    def _help(self) -> str:
        ours = [f"  {name:<22} {about}" for name, about in HELP.items()]
        theirs = [
            f"  {one_line(f'/{command.name} {command.hint or str()}', 40):<22} {one_line(command.description)}"
            for command in self.host.session.commands.commands
        ]
        return "\n".join(["here:", *ours, *(["of the agent:", *theirs] if theirs else [])])

    def completions(self, line: str) -> list[str]:
        """What a line that is being typed may become: commands of the agent and of ours, and values of settings."""
        if line.startswith("/"):
            names = [f"/{command.name}" for command in self.host.session.commands.commands]
            return [f"{one_line(name, 80)} " for name in names]
        if not line.startswith(":"):
            return []
        if " " not in line:
            return [f"{name} " for name in _NAMES]
        found = [f":resume {one_line(entry.session_id, 80)}" for entry in self._sessions]
        for setting in settings(self.host.session):
            heads = [f":set {setting.name} "]
            heads += [f":{setting.name} "] if setting.name in ("mode", "model") else []
            found += [one_line(head + value, 200) for head in heads for value, _ in setting.values]
        # An option's values come once its name is there.
        names = [f":set {one_line(setting.name, 80)} " for setting in settings(self.host.session)]
        return found if any(line.startswith(name) for name in names) or not line.startswith(":set ") else names


def _list(setting: Setting) -> str:
    lines = [f"{one_line(setting.name, 40)}:"]
    for number, (value, name) in enumerate(setting.values, 1):
        mark = "*" if value == setting.current else " "
        lines.append(
            f"  {mark} {number:>2}  {one_line(value, 60)}" + (f"  {one_line(name, 60)}" if name != value else "")
        )
    return "\n".join(lines)
