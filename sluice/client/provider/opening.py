"""Opening the session of a chat: the old one where the agent can, else a new one with a note; logging in once.

Source: requirements acp-provider.continue.*, acp-provider.auth.*.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from sluice.client.agent import Agent
from sluice.client.errors import AgentExited, ClientError
from sluice.client.provider.spec import AcpAgentSpec, Launch
from sluice.client.session import Session
from sluice.wire.peer import RemoteError

__all__ = ["Opened", "open_session"]

_AUTH_REQUIRED = -32000
"""The agent wants a login first."""

_Open = Callable[[], Awaitable[Session]]


class Opened(NamedTuple):
    """The session of a chat.

    Attributes:
        preface: what stands in front of its first prompt, in order.
        note: what the thread is told about it, or None for nothing.
    """

    session: Session
    preface: tuple[str, ...]
    note: str | None


async def open_session(agent: Agent, spec: AcpAgentSpec, launch: Launch) -> Opened:
    """Open the session of a launch on an initialized agent.

    Raises:
        ClientError: it needs a login that is not to be had here.
        RemoteError: the agent refused.
        AgentExited: it is gone.
    """
    return await _Opening(agent, spec, launch).open()


class _Opening:
    """The opening of one session. A login is tried once, whichever of its calls asked for it."""

    def __init__(self, agent: Agent, spec: AcpAgentSpec, launch: Launch) -> None:
        self._agent = agent
        self._spec = spec
        self._launch = launch
        self._logins = [spec.auth_method]

    async def open(self) -> Opened:
        launch, note = self._launch, None
        if launch.session_id is not None:
            try:
                session = await self._continue(launch.session_id)
            except RemoteError as error:
                note = f"{self._spec.name} did not take its session up again ({error}); this is a new one"
            else:
                if session is not None:
                    return Opened(session, _said(launch.resume_instructions, launch.resume_note), None)
                note = f"{self._spec.name} cannot go on with an earlier session; this is a new one"
        session = await self._call(lambda: self._agent.new_session(launch.cwd, roots=self._folders()))
        return Opened(session, _said(launch.instructions), note)

    async def _continue(self, session_id: str) -> Session | None:
        """The old session; None when the agent has no way to open one."""
        agent, capabilities = self._agent, self._agent.info.capabilities
        if "sessionCapabilities.resume" in capabilities:
            reopen = agent.resume_session
        elif "loadSession" in capabilities:
            reopen = agent.load_session
        else:
            return None
        return await self._call(lambda: reopen(session_id, self._launch.cwd, roots=self._folders()))

    def _folders(self) -> tuple[str, ...]:
        advertised = "sessionCapabilities.additionalDirectories" in self._agent.info.capabilities
        return tuple(str(folder) for folder in self._launch.folders) if advertised else ()

    async def _call(self, opening: _Open) -> Session:
        """Make a call; when it asks for a login, log in and make it once more."""
        try:
            return await opening()
        except RemoteError as error:
            if error.code != _AUTH_REQUIRED:
                raise
            await self._log_in(error)
        try:
            return await opening()
        except RemoteError as error:
            if error.code == _AUTH_REQUIRED:
                raise self._no_login(str(error)) from error
            raise

    async def _log_in(self, asked: RemoteError) -> None:
        method = self._logins.pop() if self._logins else None
        if method is None:
            raise self._no_login(str(asked)) from asked
        try:
            await self._agent.authenticate(method)
        except AgentExited:
            raise
        except (ClientError, RemoteError) as error:
            # Failed, or not offered, or one for a terminal, which only a person can go through.
            raise self._no_login(str(error)) from error

    def _no_login(self, why: str) -> ClientError:
        hint = self._spec.login_hint
        return ClientError(f"{hint} ({why})" if hint else f"a login is needed: {why}")


def _said(*texts: str | None) -> tuple[str, ...]:
    return tuple(text for text in texts if text)
