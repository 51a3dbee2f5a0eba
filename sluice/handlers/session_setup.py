"""session/new, session/load and session/resume: make a session, or open a stored one again.

Specification page: https://agentclientprotocol.com/protocol/session-setup. Load replays the stored conversation
before its answer; resume does not. Both replace the client's MCP servers and the additional directories as a whole.
"""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio.to_thread

from sluice import acp
from sluice.acp.validation import decode_params
from sluice.agent.books import Books, usages
from sluice.agent.budgets import pots_of
from sluice.agent.conversation import Conversation
from sluice.agent.events import UsageChanged
from sluice.agent.permissions import Approval
from sluice.agent.ports import ToolFailure
from sluice.handlers.answers import auth_required, not_found
from sluice.handlers.assembly import MissingCredentials
from sluice.handlers.connection import Connection
from sluice.handlers.entry import Entry
from sluice.handlers.file_system import ClientFiles
from sluice.handlers.initialization import advertised
from sluice.handlers.mcp_servers import retire_servers, start_servers
from sluice.handlers.nesting import restore_below, spent_by_children
from sluice.handlers.replay import nested_ids, replay
from sluice.handlers.session import Holder, Incarnation, Setup
from sluice.handlers.session_config_options import modes_of, shown_options
from sluice.handlers.slash_commands import commands_of
from sluice.handlers.team_setup import Built, ClientSide, Owner
from sluice.handlers.updates import update_of
from sluice.persistence.records import Item, SessionRecord
from sluice.persistence.store import Store
from sluice.wire.cleanup import shielded
from sluice.wire.errors import BackendError, InvalidParams
from sluice.wire.peer import IncomingRequest

__all__ = ["load", "new", "resume"]

log = logging.getLogger(__name__)

Reopen = acp.LoadSessionRequest | acp.ResumeSessionRequest


def new(connection: Connection, request: IncomingRequest) -> None:
    """Start constructing a session under a fresh id."""
    params: acp.NewSessionRequest = decode_params("session/new", request.params)
    construct_new(connection, request, params, params.cwd)


def construct_new(
    connection: Connection, request: IncomingRequest, params: acp.NewSessionRequest, workspace: str | None
) -> None:
    """Admit a new session. `workspace` is what is stored, None for none; `params.cwd` is where tools work."""
    acp.check_transport_gates(params.mcp_servers, advertised(connection))
    entry = connection.entry(uuid.uuid4().hex)
    connection.decide("session/new", entry)
    _construct(connection, entry, request, "session/new", NewSession(params, workspace))


def load(connection: Connection, request: IncomingRequest) -> None:
    """Open a stored session and replay it."""
    _reopen(connection, request, "session/load")


def resume(connection: Connection, request: IncomingRequest) -> None:
    """Open a stored session without replay."""
    _reopen(connection, request, "session/resume")


def _reopen(connection: Connection, request: IncomingRequest, method: str) -> None:
    params: Reopen = decode_params(method, request.params)
    reopen(connection, request, method, params)


def reopen(
    connection: Connection, request: IncomingRequest, method: str, params: Reopen, own_directory: str | None = None
) -> None:
    """Admit a load or resume. `own_directory` replaces the check of `params.cwd`: the stored directory is used, or
    this one for a session that was stored without any.
    """
    acp.check_transport_gates(params.mcp_servers, advertised(connection))
    entry = connection.entry(params.session_id)
    decision = connection.decide(method, entry)
    if "session" in decision.fire:
        _construct(connection, entry, request, method, StoredSession(params, own_directory))
        return
    live = entry.live
    assert live is not None, "an open session has an incarnation"
    holder = Holder(request, method, lambda held: _reconnect(live, held, params, own_directory))
    request.on_cancel = holder.scope.cancel
    live.fire_turn(method)
    live.hold(holder)


def _construct(connection: Connection, entry: Entry, request: IncomingRequest, method: str, setup: Setup) -> None:
    """Fire, and start the owner's task. Cancelling the request closes what is being constructed."""
    entry.machine.fire(method)
    connection.register(entry)
    live = entry.live = Incarnation(connection, entry, request, setup)

    def give_up() -> None:
        if entry.machine.state == "constructing":
            live.fire_session("session/close")

    request.on_cancel = give_up
    connection.tasks.start_soon(live.run)


# --- constructing -----------------------------------------------------------------------------------------------


class NewSession:
    """What session/new does beyond what every construction does."""

    def __init__(self, params: acp.NewSessionRequest, workspace: str | None) -> None:
        self.params = params
        self.workspace = workspace
        self.stored = False

    async def build(self, live: Incarnation) -> str:
        """Make the team and the servers, and store the session last: a failure before leaves no row."""
        params = self.params
        cwd = await existing_directory(params.cwd)
        store = await live.connection.assembly.store()
        built = await make_team(live, cwd, params.additional_directories)
        workspace = cwd if self.workspace is not None else None
        record = SessionRecord(live.id, time.time(), cwd=workspace, agent=built.team.current)
        live.servers = await start_servers(live, params.mcp_servers, cwd)
        open_conversation(live, store, Stored(record, cwd), built)
        live.talk.roots = tuple(params.additional_directories)
        await store.add_session(record)
        self.stored = True
        return "constructed"

    async def abandon(self, live: Incarnation) -> None:
        """Nobody got the id, so the row goes too (session.new.cancel-request)."""
        if self.stored:
            store = await live.connection.assembly.store()
            await store.delete_tree(live.id)

    def result(self, live: Incarnation) -> tuple[Any, list[tuple[str, Any]]]:
        """The id, the modes and the options; the commands directly behind them, now that the client knows the id."""
        commands = acp.SessionNotification(live.id, commands_of(live.talk))
        result = acp.NewSessionResponse(live.id, modes_of(live), shown_options(live))
        return result, [("session/update", commands)]


class StoredSession:
    """What load and resume do when the session is not open here."""

    def __init__(self, params: Reopen, own_directory: str | None) -> None:
        self.params = params
        self.own_directory = own_directory

    async def build(self, live: Incarnation) -> str:
        """Find the row, check the workspace, make a new team, start the servers; load then replays."""
        params = self.params
        store = await live.connection.assembly.store()
        record = await store.session(params.session_id)
        if record is None:
            live.setup_error = not_found(params.session_id)
            return "not_found"
        live.entry.ancestors = tuple(await store.ancestors(record.id))
        cwd = await _directory(record.cwd, params.cwd, self.own_directory)
        built = await make_team(live, cwd, params.additional_directories, record.model_overrides)
        items, children = await store.items(record.id), await spent_by_children(store, record.id)
        stored = Stored(record, cwd, items, children)
        live.servers = await start_servers(live, params.mcp_servers, cwd)
        open_conversation(live, store, stored, built)
        await restore_below(live.talk.budgets, store, record.id)
        live.talk.roots = tuple(params.additional_directories)
        if isinstance(params, acp.LoadSessionRequest):
            await send_history(live)
        await tell_present(live)
        return "constructed"

    async def abandon(self, live: Incarnation) -> None:
        """Nothing: what was stored before stays."""

    def result(self, live: Incarnation) -> tuple[Any, list[tuple[str, Any]]]:
        """The modes and the options; everything else went out before."""
        return setup_result(live, self.params), []


def setup_result(live: Incarnation, params: Reopen) -> Any:
    """The result of load or resume."""
    if isinstance(params, acp.LoadSessionRequest):
        return acp.LoadSessionResponse(modes_of(live), shown_options(live))
    return acp.ResumeSessionResponse(modes_of(live), shown_options(live))


async def make_team(
    live: Incarnation, cwd: str, roots: Sequence[str], overrides: Mapping[str, str] | None = None
) -> Built:
    """A started team from the agent file as it is now; the owner stops it, also when starting failed half way.

    Raises:
        RefusedError: -32000 when credentials are missing; the connection then asks for authenticate.
    """
    connection = live.connection
    try:
        built = await connection.assembly.team(cwd, roots, client_side(live), overrides)
    except MissingCredentials as missing:
        connection.assembly.missing = missing.text
        if connection.machine.can("credentials_missing"):
            connection.fire("credentials_missing")
        raise auth_required(missing.text) from missing
    live.team = built.team
    try:
        await built.team.start()
    except ToolFailure as failure:
        log.error("session %s: %s", live.id, failure)
        raise BackendError("A toolset could not be started", {"error": str(failure)}) from failure
    return built


def client_side(live: Incarnation) -> ClientSide:
    """What the tools of a session use at the client, by what the client said it can do."""
    connection = live.connection
    offered = connection.capabilities
    return ClientSide(
        files=ClientFiles(connection.peer, live.id, offered),
        can_read=offered.fs_read,
        can_write=offered.fs_write,
        terminal=live.terminals if offered.terminal else None,
        owner=Owner(live.tasks, live.id, live.supervised, live.offer_tools, connection.record),
        background_agents=True,
        elicitation=live.elicitation if offered.elicitation_form or offered.elicitation_url else None,
    )


@dataclass(frozen=True, slots=True)
class Stored:
    """What the store has of a session, and the directory its tools work in."""

    record: SessionRecord
    cwd: str
    items: Sequence[Item] = ()
    children: Mapping[str, float] = field(default_factory=dict)


def open_conversation(live: Incarnation, store: Store, stored: Stored, built: Built) -> None:
    """Put together what the turn works on."""
    record = stored.record
    live.assembled = built
    if record.agent in built.team.agents:
        built.team.current = record.agent

    async def append(new_items: Sequence[Item]) -> Sequence[int]:
        return await store.append(record.id, new_items)

    live.workspace = record.cwd
    live.conversation = Conversation(
        session_id=record.id,
        cwd=stored.cwd,
        team=built.team,
        append=append,
        items=list(stored.items),
        approval=Approval(
            record.mode or built.default_mode, built.rules, built.user_rules, grants=set(record.grants)
        ),
        books=Books(
            record.context_tokens,
            record.cost,
            built.team.agent.model.context_size,
            dict(stored.children),
            sum(used.input_tokens + used.output_tokens for _agent, used in usages(stored.items)),
        ),
        budgets=pots_of(built.file),
        title=record.title,
    )
    live.talk.budgets.restore(stored.items)
    live.offer_tools()


async def send_history(live: Incarnation) -> None:
    """Replay a copy taken now; rows added later are not mixed in (session.load.captured-copy)."""
    items = list(live.talk.items)
    store = await live.connection.assembly.store()
    nested: dict[str, Sequence[Item]] = {}
    unread = nested_ids(items)
    while unread:
        child = unread.pop()
        if child not in nested:
            nested[child] = await store.items(child)
            unread += nested_ids(nested[child])
    for notification in replay(live.id, items, nested):
        await live.connection.peer.notify("session/update", notification)


async def tell_present(live: Incarnation) -> None:
    """What holds now, behind the history and before the answer: the commands, and the gauge when it has a limit."""
    await live.notify(commands_of(live.talk))
    books = live.talk.books
    gauge = update_of(live.id, UsageChanged(books.context_tokens, books.limit, books.cost))
    if gauge is not None:
        await live.connection.peer.notify("session/update", gauge)


# --- reconnecting to an open session ----------------------------------------------------------------------------


async def _reconnect(live: Incarnation, holder: Holder, params: Reopen, own_directory: str | None) -> Any:
    """Replace servers and roots of an idle session; a failure before the replacement changes nothing."""
    talk = live.talk
    await _directory(live.workspace, params.cwd, own_directory)
    fresh = await start_servers(live, params.mcp_servers, talk.cwd)
    with shielded(None, "servers and roots are replaced as a whole; stopping the old ones is bounded"):
        old = live.servers
        live.servers = [*old, *fresh]
        talk.roots = tuple(params.additional_directories)
        await retire_servers(old)
        live.servers = [*(server for server in old if server.machine.state == "failed"), *fresh]
        live.offer_tools()
    if isinstance(params, acp.LoadSessionRequest):
        try:
            await send_history(live)
        except Exception:
            # A client that saw half a history must not go on with it: the session closes (session.load.failure).
            holder.method = "setup_failed"
            live.fire_session("setup_failed")
            raise
    await tell_present(live)
    return setup_result(live, params)


# --- the workspace ----------------------------------------------------------------------------------------------


async def existing_directory(cwd: str) -> str:
    """The cleaned path of a directory that exists. Raises InvalidParams."""
    cleaned = os.path.normpath(cwd)

    def exists() -> bool:
        try:
            return Path(cleaned).is_dir()
        except (OSError, ValueError):  # a name too long, or no name at all, for this file system
            return False

    if not await anyio.to_thread.run_sync(exists):
        raise InvalidParams("cwd is not an existing directory", {"path": "$.cwd"})
    return cleaned


async def _directory(stored: str | None, given: str, own: str | None) -> str:
    """Where the tools of a reopened session work; `own` is for callers in this process that name no directory."""
    if own is None:
        return await same_directory(stored, given)
    return stored if stored is not None else await existing_directory(own)


async def same_directory(stored: str | None, given: str) -> str:
    """The stored path, when `given` names the same directory; aliases are accepted (workspace.match.*).

    session-setup: the working directory of a load must be that of the session.
    """
    if stored is None:
        raise InvalidParams("This session has no workspace and cannot be given one", {"path": "$.cwd"})
    if os.path.normpath(given) == stored:
        return stored

    def same() -> bool:
        try:
            return Path(given).samefile(stored)
        except (OSError, ValueError):
            return False

    if not await anyio.to_thread.run_sync(same):
        raise InvalidParams("cwd is not the directory of this session", {"path": "$.cwd"})
    return stored
