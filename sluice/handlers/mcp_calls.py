"""One call of `serve mcp`: a whole turn of one agent, in a session of its own, with nobody to ask.

Knows nothing of MCP: `mcp_server` turns requests into calls and replies into results. The loop is the one that serves
editors. Requirements `serve-mcp.call.*`, `serve-mcp.safety.*`, `serve-mcp.tools.annotations`.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import anyio

from sluice.agent.attempts import new_id
from sluice.agent.books import Books, usages
from sluice.agent.budgets import pots_of
from sluice.agent.conversation import Conversation
from sluice.agent.events import Event, TextDelta, ToolChanged
from sluice.agent.loop import Ports, Run
from sluice.agent.outcome import in_words
from sluice.agent.permissions import Approval
from sluice.agent.ports import Tool, ToolFailure
from sluice.agent.unattended import DenyAll
from sluice.config.schema import AgentConfig, AgentFile
from sluice.handlers.assembly import Assembly, MissingCredentials
from sluice.handlers.nesting import nest_in, restore_below, spent_by_children
from sluice.handlers.team_setup import Built, ClientSide, Owner
from sluice.persistence.records import Item, Message, Part, SessionRecord
from sluice.persistence.store import Store
from sluice.wire.cleanup import shielded
from sluice.wire.errors import RpcError

__all__ = ["NO_ANSWER", "TITLE", "AgentCall", "CallFailed", "Calls", "Hints", "Reply", "safety_of"]

log = logging.getLogger(__name__)

TITLE = "Called over MCP"
"""The title of every session made here; only such sessions can be gone on with."""

NO_ANSWER = "The agent gave no answer."

T = TypeVar("T")

Progress = Callable[[str], Awaitable[None]]


class CallFailed(Exception):
    """The call could not be made or its turn failed; the text is for whoever called."""


@dataclass(frozen=True, slots=True)
class AgentCall:
    """What was asked: which agent, what to tell it, and the session to go on with, "" for a new one."""

    agent: str
    message: str
    session: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """The agent's last words, and the session they were said in."""

    response: str
    session: str


@dataclass(frozen=True, slots=True)
class Hints:
    """What holds for an agent because it holds for all its tools and those of the agents that it brings to work; an
    agent without tools changes nothing.
    """

    read_only: bool = False
    idempotent: bool = False
    destructive: bool = True
    open_world: bool = True

    @classmethod
    def of(cls, tools: Iterable[Tool]) -> Hints:
        """The hints of an agent with these tools. What a tool does not say does not hold."""
        listed = list(tools)
        return cls(
            read_only=all(tool.read_only for tool in listed),
            idempotent=all(tool.idempotent or tool.read_only for tool in listed),
            destructive=not all(tool.read_only or tool.destructive is False for tool in listed),
            open_world=not all(tool.open_world is False for tool in listed),
        )


def safety_of(file: AgentFile, agent: AgentConfig, flag: str | None, *, local: bool) -> tuple[str, str]:
    """The safety mode of an agent's calls and where it comes from.

    Args:
        file: the agent file.
        agent: one of its agents.
        flag: the mode of the command line, None when there is none.
        local: whether the caller started this process itself (stdio). Then the calls of an agent for which no mode is
            configured count as approved; over the network they are restricted.
    """
    for mode, source in ((flag, "--safety"), (agent.safety, f"agents.{agent.name}.safety")):
        if mode:
            return mode, source
    if file.runtime.safety:
        return file.runtime.safety, "runtime.safety"
    return ("autonomous", "approved by the local client") if local else ("restricted", "the default over HTTP")


class Calls:
    """Makes calls. One per process; calls run side by side, those of one session one after another or not at all."""

    def __init__(self, assembly: Assembly, *, safety: str | None, local: bool) -> None:
        self.assembly = assembly
        self._safety = safety
        self._local = local
        self._busy: set[str] = set()
        self._hints: dict[tuple[str, int, int], Hints] = {}

    async def file(self) -> AgentFile:
        """The agent file as it is now. Raises CallFailed."""
        try:
            return await self.assembly.load()
        except RpcError as error:
            raise CallFailed(_text(error)) from error

    async def hints(self, agent: str) -> Hints:
        """The hints of an agent; found by starting its tools once for each version of the agent file."""
        stat = Path(self.assembly.options.agent_file).stat()
        key = (agent, stat.st_mtime_ns, stat.st_size)
        if key not in self._hints:

            async def look(built: Built) -> Hints:
                return Hints.of(tool for one in built.team.reachable() for tool in one.tools.values())

            try:
                self._hints[key] = await self._with_team(agent, "hints", look)
            except (CallFailed, ToolFailure) as failure:
                log.warning("the tools of agent %s are not known: %s", agent, failure)
                return Hints()  # whoever calls it is told why
        return self._hints[key]

    async def call(self, wanted: AgentCall, progress: Progress) -> Reply:
        """Run one turn to its end. Cancelling ends the turn; what was said until then is kept.

        Raises:
            CallFailed: there is no such agent or session, it is busy, or the turn failed.
        """
        if wanted.session in self._busy:
            raise CallFailed("The session is busy with another call.")
        session = wanted.session or uuid.uuid4().hex
        self._busy.add(session)
        try:
            return await self._call(wanted, session, progress)
        except RpcError as error:
            raise CallFailed(_text(error)) from error
        finally:
            self._busy.remove(session)

    async def _call(self, wanted: AgentCall, session: str, progress: Progress) -> Reply:
        store = await self.assembly.store()
        record, items = await _opened(store, wanted, session)

        async def turn(built: Built) -> Reply:
            return await self._turn(store, Stored(record, items), built, Turn(wanted.message, progress))

        try:
            return await self._with_team(wanted.agent, session, turn)
        except ToolFailure as failure:
            raise CallFailed(str(failure)) from failure

    async def _with_team(self, agent: str, key: str, work: Callable[[Built], Awaitable[T]]) -> T:
        """Start a team, use it, and stop it whatever happens. Raises what `work` raises, and CallFailed."""
        done: list[T] = []
        failure: Exception | None = None
        async with anyio.create_task_group() as tasks:
            built: Built | None = None
            try:
                built = await self._team(agent, Owner(tasks, key, []))
                await built.team.start()
                done.append(await work(built))
            except Exception as error:  # raised below: the task group would wrap it
                failure = error
            finally:
                if built is not None:
                    await self._stop(built)
        if failure is not None:
            raise failure
        return done[0]

    async def _team(self, agent: str, owner: Owner) -> Built:
        try:
            built = await self.assembly.team(str(Path.cwd()), (), ClientSide(owner=owner))
        except MissingCredentials as missing:
            raise CallFailed(missing.text) from missing
        except RpcError as error:
            raise CallFailed(_text(error)) from error
        if agent not in built.team.agents:
            raise CallFailed("There is no such agent in the agent file any more.")
        built.team.current = agent
        return built

    async def _stop(self, built: Built) -> None:
        with shielded(None, "the toolsets of a call stop before it is answered; each is bounded"):
            try:
                await built.team.stop()
            except Exception:
                log.exception("the toolsets of a call could not be stopped")

    async def _turn(self, store: Store, stored: Stored, built: Built, turn: Turn) -> Reply:
        record = stored.record
        mode, _source = safety_of(built.file, built.team.agent.config, self._safety, local=self._local)

        async def append(new_items: Sequence[Item]) -> Sequence[int]:
            return await store.append(record.id, new_items)

        talk = Conversation(
            session_id=record.id,
            cwd=str(Path.cwd()),
            team=built.team,
            append=append,
            items=list(stored.items),
            approval=Approval(mode=mode, team=built.rules, user=built.user_rules),
            books=Books(
                record.context_tokens,
                record.cost,
                children=await spent_by_children(store, record.id),
                tokens=sum(u.input_tokens + u.output_tokens for _agent, u in usages(stored.items)),
            ),
            budgets=pots_of(built.file),
            title=TITLE,
        )
        talk.budgets.restore(stored.items)
        await restore_below(talk.budgets, store, record.id)
        ports = Ports(turn.sink, lambda event: None, DenyAll())
        ports.nest = nest_in(store, None, mode, lambda owner: ports)
        run = Run(talk, ports)
        message = Message(role="user", id=new_id(), parts=(Part(type="text", text=turn.message),))
        try:
            outcome = await run.run(message)
        finally:
            with shielded(None, "a call stores what was said and done before it ends; the store has its own bound"):
                await run.settle()
                await store.update_session(
                    record.id, context_tokens=talk.books.context_tokens, cost=talk.books.own_cost
                )
        if outcome.failure is not None:
            raise CallFailed(outcome.failure.text)
        return Reply(in_words(turn.answer(), outcome.stop_reason) or NO_ANSWER, record.id)


@dataclass(frozen=True, slots=True)
class Stored:
    """A session and what was said in it before."""

    record: SessionRecord
    items: Sequence[Item]


class Turn:
    """What comes out of one turn: the text of its last message, and a line of progress for each step."""

    def __init__(self, message: str, progress: Progress) -> None:
        self.message = message
        self._progress = progress
        self._last = ""
        self._pieces: list[str] = []

    async def sink(self, event: Event) -> None:
        """Take an event of the turn."""
        if isinstance(event, TextDelta):
            if event.message != self._last:
                self._last, self._pieces = event.message, []
                await self._progress("answering")
            self._pieces.append(event.text)
        elif isinstance(event, ToolChanged):
            self._last, self._pieces = "", []
            await self._progress(f"{event.title}: {event.status.replace('_', ' ')}")

    def answer(self) -> str:
        """What the agent said after its last tool call."""
        return "".join(self._pieces).strip()


async def _opened(store: Store, wanted: AgentCall, session: str) -> tuple[SessionRecord, Sequence[Item]]:
    """The stored session of a call, a new one if none is named. It has no workspace, so no editor lists it."""
    if not wanted.session:
        record = SessionRecord(session, time.time(), title=TITLE, agent=wanted.agent)
        await store.add_session(record)
        return record, ()
    found = await store.session(wanted.session)
    # Only what was made here: an id from elsewhere must not open somebody's conversation with an editor.
    if found is None or found.title != TITLE or found.cwd is not None or found.agent != wanted.agent:
        raise CallFailed("There is no such session of this agent.")
    return found, await store.items(found.id)


def _text(error: RpcError) -> str:
    data = error.data if isinstance(error.data, dict) else {}
    place = ":".join(str(data[key]) for key in ("file", "line") if data.get(key))
    parts = [str(error), place, str(data.get("key") or ""), str(data.get("error", ""))]
    return ": ".join(part for part in parts if part)
