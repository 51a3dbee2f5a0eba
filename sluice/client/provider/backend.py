"""The chat backend of an ACP agent: `create_acp_backend(spec).start(launch)` is one chat with one agent process.

    async with create_acp_backend(spec).start(Launch(Path.cwd(), on_event=show)) as chat:
        await chat.send("Explain this code")

A chat exists while its block runs and has no other life: when `start` returns, its session is open; when the block is
left, its process is gone. Whether a turn may begin is the client's answer (`TurnInProgress`).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import anyio
import anyio.abc

from sluice.client.agent import Agent, connect
from sluice.client.connection import ClientHandlers, ClientOptions, RequestHandler
from sluice.client.errors import AgentExited, ChatStartError, ClientError, NotAdvertised
from sluice.client.permissions import Decision
from sluice.client.process import AgentCommand
from sluice.client.provider.approvals import Approvals
from sluice.client.provider.events import ChatEvent, Note, TurnAborted, TurnDone, TurnEvent, TurnFailed
from sluice.client.provider.opening import open_session
from sluice.client.provider.policy import RuntimeMode, stricter, turn_rule
from sluice.client.provider.settings import apply_mode, apply_selection, session_info
from sluice.client.provider.spec import AcpAgentSpec, AcpSessionInfo, ChatCapabilities, Launch, Selection
from sluice.client.provider.translation import Translation
from sluice.client.session import Session, TurnEnd
from sluice.client.tasks import task_group
from sluice.client.terminals import LocalTerminals, local_terminals
from sluice.wire.peer import RemoteError

__all__ = ["AcpBackend", "Chat", "ChatBackend", "create_acp_backend"]

_log = logging.getLogger(__name__)


class ChatBackend(Protocol):
    """What a provider needs in order to chat, whatever speaks behind it."""

    @property
    def capabilities(self) -> ChatCapabilities:
        """What a host can expect of its chats."""
        ...

    def start(self, launch: Launch) -> AbstractAsyncContextManager[Chat]:
        """Open a chat for the length of a block."""
        ...


@dataclass(eq=False)
class _Sending:
    """One call of `send`: how it ended, once `ended` is set."""

    ended: anyio.Event = field(default_factory=anyio.Event)
    event: TurnEvent | None = None
    error: Exception | None = None


class Chat:
    """An open chat; made by `AcpBackend.start`."""

    def __init__(self, spec: AcpAgentSpec, launch: Launch) -> None:
        self._spec = spec
        self._launch = launch
        self._mode = launch.mode
        self._terminals: LocalTerminals | None = None
        self._translation = Translation(self._emit, spec.modes, lambda: self._mode, self._shown)
        self._approvals = Approvals(self._emit, lambda: self._mode)
        self._preface: tuple[str, ...] = ()
        self._agent: Agent | None = None
        self._session: Session | None = None
        self._tasks: anyio.abc.TaskGroup | None = None

    # --- what is known

    @property
    def session_id(self) -> str:
        """The agent's id of the session; `Launch.session_id` takes it up again later."""
        return self._opened.id

    @property
    def agent(self) -> Agent:
        """The client of this chat's agent, for whatever this class has no method for."""
        assert self._agent is not None, "the chat has been started"
        return self._agent

    @property
    def info(self) -> AcpSessionInfo:
        """What the session offers now."""
        return session_info(self._opened)

    @property
    def mode(self) -> RuntimeMode:
        """How much the agent may do unasked, as the host last said."""
        return self._mode

    # --- turns

    async def send(self, content: str | Sequence[Mapping[str, Any]]) -> TurnEvent:
        """Run one turn: one `session/prompt`, however long the agent takes to answer it.

        The event that is returned has also been told, after everything the agent sent before its answer. A caller
        that stops waiting interrupts the turn; its end is told all the same.

        Args:
            content: text, or ACP content blocks as plain data.

        Raises:
            TurnInProgress: a turn is running; nothing was sent.
            NotAdvertised: a block the agent cannot take; nothing was sent.
        """
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else [dict(one) for one in content]
        sending = _Sending()
        assert self._tasks is not None, "the chat has been started"
        self._tasks.start_soon(self._turn, sending, blocks)
        try:
            await sending.ended.wait()
        except anyio.get_cancelled_exc_class():
            self.interrupt()
            raise
        if sending.error is not None:
            raise sending.error
        assert sending.event is not None
        return sending.event

    async def compact(self) -> TurnEvent:
        """Have the agent fold its context, by the spec's command for it.

        Raises:
            NotAdvertised: the spec names no such command.
            TurnInProgress: a turn is running.
        """
        if self._spec.compact_command is None:
            raise NotAdvertised("compact", "a command for it")
        return await self.send(f"/{self._spec.compact_command}")

    def interrupt(self) -> None:
        """Stop the turn: open approvals are withdrawn and answered as cancelled, then `session/cancel` is sent.

        The turn ends when the agent answers it. Without a turn nothing happens.
        """
        if self._opened.turn is not None:
            self._approvals.withdraw()
            self.agent.cancel(self.session_id)

    def answer(self, approval_id: str, decision: Decision) -> None:
        """Decide an approval.

        The agent's option is chosen by its kind; when it lacks the kind, the next stricter one is taken.

        Raises:
            ClientError: the approval is not open (any more).
        """
        self._approvals.answer(approval_id, decision)

    # --- settings

    async def set_mode(self, mode: RuntimeMode) -> None:
        """Change how much the agent may do unasked, in its own mode and in what is answered for the person.

        Raises:
            ClientError: the agent runs in a looser mode and cannot be put into another.
        """
        # A stricter mode holds at once for what is answered here, whatever becomes of the agent's; a looser one
        # only when the agent is in it.
        self._mode = stricter(self._mode, mode)
        await apply_mode(self.agent, self._opened, self._spec, mode, self._warn)
        self._mode = mode

    async def select(self, selection: Selection) -> None:
        """Change the model and the effort, as far as the agent offers them."""
        await apply_selection(self.agent, self._opened, self._spec, selection, self._warn)

    # --- life

    async def open(self, stack: AsyncExitStack) -> None:
        """Start the agent and open the session; `stack` ends both.

        Raises:
            ClientError: it cannot be started, or cannot be used as asked.
            RemoteError: it refused.
        """
        spec, launch = self._spec, self._launch
        command = AgentCommand([spec.command, *spec.args], launch.cwd, {**launch.env, **spec.env}, spec.ladder)
        options = ClientOptions(
            spec.client.name, spec.client.version, spec.client.title, cancel_grace=spec.cancel_grace
        )
        requests: Mapping[str, RequestHandler] = {}
        if launch.terminals:
            cwd = Path(launch.cwd).absolute()
            self._terminals = await stack.enter_async_context(local_terminals(cwd))
            requests = self._terminals.requests()
            options = replace(options, capabilities={**options.capabilities, "terminal": True})
        if launch.questions is not None:
            requests = {**requests, **launch.questions.requests()}
            offered = {**options.capabilities, "elicitation": launch.questions.capabilities()}
            options = replace(options, capabilities=offered)
        handlers = ClientHandlers(self._translation.update, self._approvals.decide, requests)
        agent = self._agent = await stack.enter_async_context(connect(command, handlers, options))
        stack.callback(self._translation.close_message)
        await agent.initialize()
        session, self._preface, note = await open_session(agent, spec, launch)
        self._session = session
        if note is not None:
            self._emit(Note(note))
        if spec.on_session is not None:
            spec.on_session(session_info(session))
        if launch.selection is not None:
            await self.select(launch.selection)
        # Last, so that no switch of a model can widen it again.
        await apply_mode(agent, session, spec, launch.mode, self._warn)
        self._tasks = await stack.enter_async_context(task_group())
        stack.callback(self._tasks.cancel_scope.cancel)
        if self._terminals is not None:
            self._tasks.start_soon(self._outlive, agent, self._terminals)

    async def _outlive(self, agent: Agent, terminals: LocalTerminals) -> None:
        """Commands end with the agent that has started them, not with the chat that may go on showing them."""
        await agent.gone.wait()
        terminals.end_all()

    def _shown(self, terminal_id: str) -> str | None:
        return None if self._terminals is None else self._terminals.shown(terminal_id)

    async def _turn(self, sending: _Sending, blocks: list[dict[str, Any]]) -> None:
        preface = [{"type": "text", "text": words} for words in self._preface]
        if self._opened.turn is None:
            # What came after the last turn was a message of its own.
            self._translation.close_message()
        try:
            end = await self.agent.prompt(self.session_id, [*preface, *blocks])
        except (AgentExited, RemoteError) as error:
            sending.event = self._ended(TurnFailed(f"{self._spec.name}: {error}"))
        except ClientError as error:
            sending.error = error
        except anyio.get_cancelled_exc_class():
            # The chat is being closed.
            sending.event = self._ended(TurnAborted())
            raise
        else:
            sending.event = self._ended(self._outcome(end))
        finally:
            sending.ended.set()

    def _outcome(self, end: TurnEnd) -> TurnEvent:
        rule = turn_rule(end.stop_reason)
        if rule.outcome == "aborted":
            return TurnAborted()
        if rule.outcome == "failed":
            return TurnFailed(f"{self._spec.name} {rule.words}")
        if rule.words is not None:
            self._warn(f"{self._spec.name} {rule.words}")
        return TurnDone(end.stop_reason)

    def _ended(self, event: TurnEvent) -> TurnEvent:
        self._preface = ()
        self._approvals.withdraw()
        self._translation.close_message()
        self._emit(event)
        return event

    # --- parts

    @property
    def _opened(self) -> Session:
        assert self._session is not None, "the chat has been started"
        return self._session

    def _warn(self, words: str) -> None:
        self._emit(Note(words, "warning"))

    def _emit(self, event: ChatEvent) -> None:
        try:
            self._launch.on_event(event)
        except Exception:
            _log.exception("the host's event handler failed")


class AcpBackend:
    """Chats with one kind of agent; made by `create_acp_backend`."""

    def __init__(self, spec: AcpAgentSpec) -> None:
        self.spec = spec

    @property
    def capabilities(self) -> ChatCapabilities:
        """What a host can expect of its chats."""
        return replace(self.spec.capabilities, compaction="none" if self.spec.compact_command is None else "prompt")

    @asynccontextmanager
    async def start(self, launch: Launch) -> AsyncIterator[Chat]:
        """Start the agent and open a session; on the way out both are ended.

        Args:
            launch: what this chat is about.

        Raises:
            ChatStartError: the agent cannot be started, speaks no ACP version 1, needs a login, runs in a mode that
                allows too much, or refused; its process has been ended.
        """
        chat = Chat(self.spec, launch)
        async with AsyncExitStack() as stack:
            try:
                await chat.open(stack)
            except (ClientError, RemoteError) as error:
                raise ChatStartError(f"{self.spec.name}: {error}") from error
            yield chat


def create_acp_backend(spec: AcpAgentSpec) -> AcpBackend:
    """Make the chat backend of an agent; a host may put it into a provider of its own making."""
    return AcpBackend(spec)
