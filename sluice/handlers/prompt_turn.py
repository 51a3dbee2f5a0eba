"""session/prompt and session/cancel: one turn, from the user's message to the stop reason.

Specification page: https://agentclientprotocol.com/protocol/prompt-turn.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from sluice import acp
from sluice.acp.validation import decode_notification, decode_params
from sluice.agent.compaction import Way
from sluice.agent.events import Event, ToolChanged
from sluice.agent.loop import Ports, Run
from sluice.agent.outcome import Failure, Outcome
from sluice.handlers import command_turn, slash_commands
from sluice.handlers.connection import Connection
from sluice.handlers.content import user_message
from sluice.handlers.file_system import ClientFiles
from sluice.handlers.initialization import advertised
from sluice.handlers.nesting import nest_in
from sluice.handlers.resource_links import LinkReader
from sluice.handlers.session import Holder, Incarnation
from sluice.handlers.session_config_options import post_options
from sluice.handlers.slash_commands import Typed
from sluice.handlers.tool_calls import ClientPermission
from sluice.handlers.updates import update_of, welcome
from sluice.persistence.errors import StoreError
from sluice.persistence.records import Message
from sluice.wire.errors import RpcError
from sluice.wire.frames import FrameTooLarge
from sluice.wire.peer import ConnectionLost, IncomingRequest

__all__ = ["MAX_TITLE", "cancel", "prompt"]

log = logging.getLogger(__name__)

MAX_TITLE = 50
"""Characters of a session's title, taken from the first line of its first prompt (store.title.update)."""


def prompt(connection: Connection, request: IncomingRequest) -> None:
    """Admit a prompt: it holds the slot now, or waits while a cancelled turn is draining."""
    params: acp.PromptRequest = decode_params("session/prompt", request.params)
    acp.check_prompt_gates(params, advertised(connection))
    entry = connection.entry(params.session_id)
    connection.decide("session/prompt", entry)
    live = entry.live
    assert live is not None and live.turn is not None, "an open session has an incarnation with a turn"
    typed = slash_commands.read(live.talk, params.prompt)
    # No await between the look-up and this event: admitted or refused, never half.
    live.turn.fire("session/prompt")
    holder = Holder(request, "session/prompt", lambda held: _work(live, held, params.prompt, typed))

    def withdraw() -> None:
        # A session/cancel that names this prompt only: it reaches the queued prompt while there is one.
        turn, named = live.turn, live.queued or live.holder
        if named is holder and turn is not None and turn.can("session/cancel"):
            live.fire_turn("session/cancel")

    request.on_cancel = withdraw
    live.hold(holder)


def cancel(connection: Connection, params: bytes) -> None:
    """Cancel the running or the queued prompt; silent in every other state.

    prompt-turn: "the Agent MUST respond to the original session/prompt request with the cancelled stop reason".
    """
    try:
        notice: acp.CancelNotification = decode_notification("session/cancel", params)
        entry = connection.entry(notice.session_id)
        decision = connection.decide("session/cancel", entry)
    except RpcError:
        return
    if decision.verdict == "admitted" and entry.live is not None:
        entry.live.fire_turn("session/cancel")


async def _work(
    live: Incarnation, holder: Holder, blocks: Sequence[acp.ContentBlock], typed: Typed | None
) -> Outcome:
    ports = await _ports(live)
    await live.notify(slash_commands.commands_of(live.talk))
    if typed is not None and typed.config is None:
        return await _built_in(live, holder, typed, ports)
    if typed is not None and typed.config is not None:
        if typed.config.agent:
            await command_turn.switch_agent(live, live.talk, typed.config.agent)
        blocks = slash_commands.instructed(typed)
        if not blocks:
            return Outcome()
    return await _chat(live, holder, await user_message(blocks, _links(live)), ports)


def _links(live: Incarnation) -> LinkReader:
    offered, talk = live.connection.capabilities, live.talk
    files = ClientFiles(live.connection.peer, live.id, offered) if offered.fs_read else None
    return LinkReader(files, talk.cwd, talk.roots)


async def _built_in(live: Incarnation, holder: Holder, typed: Typed, ports: Ports) -> Outcome:
    if typed.name == "usage":
        return await command_turn.usage(live, ports.sink)
    holder.settle = lambda: command_turn.keep_books(live)
    return await command_turn.compact(live, Way(ports.sink, ports.post), typed.arguments)


async def _chat(live: Incarnation, holder: Holder, message: Message, ports: Ports) -> Outcome:
    run = holder.run = Run(live.talk, ports)
    holder.settle = lambda: _settle(live, run)
    try:
        return await run.run(message)
    except StoreError as error:
        log.error("store: %s", error.text)
        # The store has just said that it takes nothing: asking it again would only make the client wait longer.
        holder.settle = None if not run.calls else run.settle
        return Outcome(failure=Failure("error", error.text))
    finally:
        _name(live, message)


async def _ports(live: Incarnation) -> Ports:
    """The way out for a turn of the session, and for the tasks that it delegates."""
    talk, store = live.talk, await live.connection.assembly.store()
    nest = nest_in(store, live.workspace, talk.approval.mode, lambda owner: replace(_way(live, owner), nest=nest))
    return replace(_way(live), nest=nest)


def _way(live: Incarnation, owner: str = "") -> Ports:
    """To the client of the session, for what the session or a nested one (`owner`) says."""
    peer = live.connection.peer

    async def sink(event: Event) -> None:
        update = update_of(live.id, event, owner)
        if update is None or not welcome(update.update, live.connection.capabilities):
            return
        try:
            await peer.notify("session/update", update)
        except FrameTooLarge:
            _post_lean(live, event)

    def post(event: Event) -> None:
        update = update_of(live.id, event, owner)
        if update is None or not welcome(update.update, live.connection.capabilities):
            return
        try:
            peer.post("session/update", update)
        except FrameTooLarge:
            _post_lean(live, event)

    connection = live.connection
    return Ports(
        sink,
        post,
        ClientPermission(peer, live.id),
        connection.record,
        tracer=connection.tracing,
        switch=partial(command_turn.switch_agent, live),
        background=live.background_agents,
    )


def _post_lean(live: Incarnation, event: Event) -> None:
    """Send what is left of a report that fits into no line; what it tells of has happened all the same."""
    log.warning("an update of session %s is too large for a line; its details are left out", live.id)
    lean = update_of(live.id, replace(event, arguments=None, diff=None)) if isinstance(event, ToolChanged) else None
    if lean is not None:
        live.connection.peer.post("session/update", lean)


async def _settle(live: Incarnation, run: Run) -> None:
    """The drain of a prompt: calls, then the books, then the title, all before the answer."""
    await run.settle()
    talk = live.talk
    await live.keep(
        title=talk.title,
        grants=tuple(sorted(talk.approval.grants)),
        context_tokens=talk.books.context_tokens,
        cost=talk.books.own_cost,
    )
    post_options(live)


def _name(live: Incarnation, message: Message) -> None:
    """Give the session its title after the first turn, and tell the client before the answer."""
    talk = live.talk
    if talk.title is not None or not any(item.message is message for item in talk.items):
        return  # it has one, or the prompt was not taken
    typed = "".join(part.text for part in message.parts if part.type == "text" and not part.notice)
    first = next((line.strip() for line in typed.splitlines() if line.strip()), "")
    if not first:
        return
    talk.title = first if len(first) <= MAX_TITLE else first[: MAX_TITLE - 1].rstrip() + "…"
    try:
        update = acp.SessionInfoUpdate(title=talk.title)
        live.connection.peer.post("session/update", acp.SessionNotification(live.id, update))
    except ConnectionLost:
        log.debug("the client is gone; the title is stored all the same")
