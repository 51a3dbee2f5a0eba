"""The client of an ACP agent: `async with connect(command) as agent`, then one method per method of the protocol.

    async with connect(["sluice", "serve", "acp", "agent.yaml"], ClientHandlers(on_update=show)) as agent:
        await agent.initialize()
        session = await agent.new_session(Path.cwd())
        end = await agent.prompt(session.id, "Explain this code")

Nothing is called that the agent has not advertised; such a call fails here, and nothing is sent.

Source: https://agentclientprotocol.com/protocol/overview
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio

from sluice.client.capabilities import PROTOCOL_VERSION, AgentInfo, read_agent_info
from sluice.client.connection import ClientHandlers, ClientOptions, Connection, open_connection
from sluice.client.errors import ClientError, ListingError, NotAdvertised, TurnInProgress
from sluice.client.lines import ByteStream
from sluice.client.process import AgentCommand, AgentProcess
from sluice.client.reading import items, members, text
from sluice.client.session import Session, SessionEntry, SessionUpdate, Turn, TurnEnd, read_session_entry
from sluice.client.setup import absolute, setup_params
from sluice.client.updates import ConfigOption, ToolUpdate, read_config_options
from sluice.wire.cleanup import shielded
from sluice.wire.peer import RemoteError

__all__ = ["Agent", "connect"]

_NOT_FOUND = -32002
"""The agent knows no such session; for a close that is as good as closed."""


class Agent:
    """One connected agent; made by `connect`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._info: AgentInfo | None = None

    # --- the connection

    @property
    def info(self) -> AgentInfo:
        """What the agent said about itself.

        Raises:
            ClientError: `initialize` has not been called yet.
        """
        if self._info is None:
            raise ClientError("the agent has not been initialized")
        return self._info

    @property
    def process(self) -> AgentProcess | None:
        """The agent's process, or None when it was not started here."""
        return self._connection.process

    @property
    def gone(self) -> anyio.Event:
        """Set when the agent has ended or the connection has broken."""
        return self._connection.gone

    async def initialize(self) -> AgentInfo:
        """Negotiate; the first call on every connection.

        Returns:
            The agent's name, capabilities and authentication methods.

        Raises:
            ProtocolMismatch: the agent does not speak ACP version 1.
            RemoteError: it refused.
            AgentExited: it is gone; the error carries the tail of its stderr.
        """
        options = self._connection.options
        about = {"name": options.name, "version": options.version}
        if options.title is not None:
            about["title"] = options.title
        params = {
            "protocolVersion": PROTOCOL_VERSION,
            "clientCapabilities": dict(options.capabilities),
            "clientInfo": about,
        }
        self._info = read_agent_info(await self._connection.call("initialize", params))
        return self._info

    async def authenticate(self, method_id: str) -> None:
        """Log in by a method the agent runs itself.

        Raises:
            ClientError: the agent offers no such method, or it is one for a terminal.
            RemoteError: the login failed.
        """
        method = next((method for method in self.info.auth_methods if method.id == method_id), None)
        if method is None:
            raise ClientError(f"authenticate: the agent offers no method {method_id!r}")
        if method.type == "terminal":
            raise ClientError(
                f"authenticate: {method_id!r} needs a terminal; run the agent's program with its arguments"
            )
        await self._connection.call("authenticate", {"methodId": method_id})

    async def logout(self) -> None:
        """Log out. Raises NotAdvertised where the agent has no logout."""
        self.info.capabilities.check_method("logout")
        await self._connection.call("logout", {})

    # --- sessions

    async def new_session(
        self, cwd: str | Path, servers: Sequence[Mapping[str, Any]] = (), roots: Sequence[str | Path] = ()
    ) -> Session:
        """Open a new session.

        Args:
            cwd: its working directory; made absolute.
            servers: MCP servers as plain data; missing inner lists are supplied.
            roots: additional directories; made absolute.

        Raises:
            NotAdvertised: the agent takes no additional directories, or not this kind of server.
            RemoteError: it refused (-32000: authentication is required first).
            AgentExited: it is gone.
        """
        return await self._connection.set_up("session/new", self._setup("session/new", cwd, servers, roots))

    async def load_session(
        self,
        session_id: str,
        cwd: str | Path,
        servers: Sequence[Mapping[str, Any]] = (),
        roots: Sequence[str | Path] = (),
    ) -> Session:
        """Open an old session and have its history replayed as updates, all of them before this returns.

        Arguments and errors as for `new_session`; directories and servers are not remembered by an agent.
        """
        return await self._reopen("session/load", session_id, self._setup("session/load", cwd, servers, roots))

    async def resume_session(
        self,
        session_id: str,
        cwd: str | Path,
        servers: Sequence[Mapping[str, Any]] = (),
        roots: Sequence[str | Path] = (),
    ) -> Session:
        """Open an old session without a replay; arguments and errors as for `load_session`."""
        return await self._reopen("session/resume", session_id, self._setup("session/resume", cwd, servers, roots))

    def session(self, session_id: str) -> Session:
        """The open session with this id.

        Raises:
            ClientError: no such session is open on this connection.
        """
        try:
            return self._connection.sessions[session_id]
        except KeyError:
            raise ClientError(f"no open session {session_id!r}") from None

    async def list_sessions(self, cwd: str | Path | None = None) -> list[SessionEntry]:
        """List the sessions the agent keeps, page after page.

        Args:
            cwd: only those of this directory, made absolute; None for all.

        Raises:
            NotAdvertised: the agent has no listing.
            ListingError: it repeats a cursor and would go on for ever.
        """
        self.info.capabilities.check_method("session/list")
        params: dict[str, Any] = {} if cwd is None else {"cwd": absolute(cwd)}
        found: list[SessionEntry] = []
        seen: set[str] = set()
        while True:
            page = members(await self._connection.call("session/list", params))
            found += [entry for fields in items(page.get("sessions")) if (entry := read_session_entry(fields))]
            cursor = text(page.get("nextCursor"))
            if cursor is None:
                return found
            if cursor in seen:
                raise ListingError("session/list: the agent repeats a cursor")
            seen.add(cursor)
            params = {**params, "cursor": cursor}

    async def close_session(self, session_id: str) -> None:
        """Close an open session; a session the agent no longer knows counts as closed.

        Raises:
            NotAdvertised: the agent cannot close sessions.
            RemoteError: the close failed.
        """
        self.info.capabilities.check_method("session/close")
        session = self._connection.sessions.get(session_id)
        if session is not None:
            self._connection.permissions.withdraw(session)
        try:
            await self._connection.call("session/close", {"sessionId": session_id})
        except RemoteError as error:
            if error.code != _NOT_FOUND:
                raise
        self._connection.sessions.pop(session_id, None)

    async def delete_session(self, session_id: str) -> None:
        """Delete a session for good. Raises NotAdvertised where the agent cannot."""
        self.info.capabilities.check_method("session/delete")
        await self._connection.call("session/delete", {"sessionId": session_id})
        self._connection.sessions.pop(session_id, None)

    async def set_mode(self, session_id: str, mode_id: str) -> None:
        """Set a session's mode.

        Raises:
            NotAdvertised: the session came without modes.
            RemoteError: the agent refused.
        """
        session = self.session(session_id)
        if not session.modes:
            raise NotAdvertised("session/set_mode", "modes for this session")
        await self._connection.call("session/set_mode", {"sessionId": session_id, "modeId": mode_id})
        session.mode = mode_id

    async def set_model(self, session_id: str, model_id: str) -> None:
        """Switch the model of a session whose agent offers models in the older way, not as a setting.

        Errors as for `set_mode`.
        """
        session = self.session(session_id)
        if not session.models:
            raise NotAdvertised("session/set_model", "models for this session")
        await self._connection.call("session/set_model", {"sessionId": session_id, "modelId": model_id})
        session.model = model_id

    async def set_config_option(self, session_id: str, option_id: str, value: str | bool) -> tuple[ConfigOption, ...]:
        """Set one setting of a session.

        Returns:
            All settings as they are now.

        Raises:
            NotAdvertised: the session has no such setting, or it does not take this kind of value.
            RemoteError: the agent refused.
        """
        session = self.session(session_id)
        option = session.option(option_id)
        if option is None or isinstance(option.current, bool) is not isinstance(value, bool):
            raise NotAdvertised("session/set_config_option", f"the option {option_id!r} for such a value")
        params: dict[str, Any] = {"sessionId": session_id, "configId": option_id, "value": value}
        if isinstance(value, bool):
            params["type"] = "boolean"
        answer = members(await self._connection.call("session/set_config_option", params))
        if isinstance(answer.get("configOptions"), list):
            session.options = read_config_options(answer["configOptions"])
        return session.options

    # --- turns

    async def prompt(self, session_id: str, content: str | Sequence[Mapping[str, Any]]) -> TurnEnd:
        """Run one turn: send a prompt and wait for its answer, however long that takes.

        All updates the agent sent before its answer have been handed over when this returns. A caller that stops
        waiting cancels the turn; the session stays busy until the agent has answered.

        Args:
            session_id: an open session.
            content: text, or content blocks as plain data.

        Returns:
            How the turn ended. After `cancel` that is "cancelled", whatever the agent answered.

        Raises:
            TurnInProgress: the session already runs a prompt.
            NotAdvertised: a block the agent cannot take.
            RemoteError: the turn failed; the session stays usable.
            AgentExited: the agent is gone.
        """
        session = self.session(session_id)
        blocks = (
            [{"type": "text", "text": content}] if isinstance(content, str) else [dict(block) for block in content]
        )
        self.info.capabilities.check_prompt(blocks)
        if session.turn is not None:
            raise TurnInProgress("session/prompt: a turn is already running")
        # No await between the look and this: two callers cannot both start one.
        turn = session.turn = Turn()
        session.rows.begin_turn()
        self._connection.spawn(self._run_turn, session, turn, blocks)
        try:
            await turn.ended.wait()
        except anyio.get_cancelled_exc_class():
            if session.turn is turn:
                self.cancel(session_id)
            raise
        if turn.error is not None:
            raise turn.error
        assert turn.end is not None
        return turn.end

    def cancel(self, session_id: str) -> None:
        """Interrupt a session's turn: answer its open permission requests as cancelled, then send `session/cancel`.

        The turn ends when the agent answers the prompt. Without a turn, or when it is already interrupted, nothing
        is sent.
        """
        session = self.session(session_id)
        turn = session.turn
        if turn is None or turn.interrupted.is_set():
            return
        turn.interrupted.set()
        self._connection.permissions.withdraw(session)
        self._connection.post("session/cancel", {"sessionId": session_id})
        for row in session.rows.cancel_open():
            update = ToolUpdate(row.call_id, status=row.status)
            self._connection.show(SessionUpdate(session_id, update, row, {}))
        if self._connection.options.cancel_grace is not None:
            self._connection.spawn(self._give_up_after, turn, self._connection.options.cancel_grace)

    async def _run_turn(self, session: Session, turn: Turn, blocks: list[dict[str, Any]]) -> None:
        try:
            params = {"sessionId": session.id, "prompt": blocks}
            answered = text(members(await self._connection.call("session/prompt", params)).get("stopReason"))
            turn.end = TurnEnd("cancelled" if turn.interrupted.is_set() else answered or "", answered)
        except RemoteError as error:
            # Agents answer a cancelled prompt in many ways; the user pressed stop, and it has stopped.
            if turn.interrupted.is_set():
                turn.end = TurnEnd("cancelled", None)
            else:
                turn.error = error
        except Exception as error:
            turn.error = error
        finally:
            session.turn = None
            self._connection.permissions.withdraw(session, turn)
            turn.ended.set()

    async def _give_up_after(self, turn: Turn, grace: float) -> None:
        with anyio.move_on_after(grace):
            await turn.ended.wait()
            return
        self._connection.give_up(f"the agent did not answer the cancelled prompt within {grace:g} s")

    # --- parts

    def _setup(
        self, method: str, cwd: str | Path, servers: Sequence[Mapping[str, Any]], roots: Sequence[str | Path]
    ) -> dict[str, Any]:
        return setup_params(method, self.info.capabilities, cwd, servers, roots)

    async def _reopen(self, method: str, session_id: str, params: dict[str, Any]) -> Session:
        if session_id in self._connection.sessions:
            raise ClientError(f"{method}: the session {session_id!r} is already open")
        session = Session(session_id, params["cwd"])
        return await self._connection.set_up(method, {"sessionId": session_id, **params}, session)

    async def close_all(self) -> None:
        """Close every open session as far as the agent offers that and its time allows; failures do not matter."""
        if self._info is None or "sessionCapabilities.close" not in self._info.capabilities or self.gone.is_set():
            return
        with shielded(self._connection.options.close_sessions, "closing the agent's sessions"):
            for session_id in tuple(self._connection.sessions):
                with suppress(ClientError, RemoteError):
                    await self.close_session(session_id)


@asynccontextmanager
async def connect(
    target: AgentCommand | Sequence[str] | ByteStream,
    handlers: ClientHandlers | None = None,
    options: ClientOptions | None = None,
) -> AsyncIterator[Agent]:
    """Start an agent, or take a stream to one, and end it on the way out.

    On the way out open permissions are answered as cancelled, open sessions are closed where the agent offers that,
    and the process is ended: stdin closed, then SIGTERM, then SIGKILL, each for the whole process group.

    Args:
        target: a command line, an `AgentCommand`, or a byte stream to an agent that runs elsewhere.
        handlers: what to do with updates and requests; None ignores updates and rejects every permission.
        options: names, capabilities and budgets; None for the defaults.

    Raises:
        AgentStartError: the program cannot be started.
    """
    async with open_connection(target, handlers or ClientHandlers(), options or ClientOptions()) as connection:
        agent = Agent(connection)
        try:
            yield agent
        finally:
            await agent.close_all()
