"""A conversation with an agent on this terminal, over the real wire.

The first interrupt cancels the turn, a second one leaves. Nothing is approved silently: without a terminal to ask on,
permissions are rejected unless everything was allowed beforehand.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import anyio
import anyio.abc
import anyio.lowlevel

from sluice import __version__
from sluice.cli import output
from sluice.cli.line_editor import LineEditor
from sluice.cli.local_commands import LocalCommands, is_local
from sluice.cli.opening import Opening, listed
from sluice.cli.output import INTERRUPTED, STDERR, STDIN, STDOUT, complain, explain
from sluice.cli.reasons import reason
from sluice.cli.settings import UnknownChoice, find_setting, status_parts
from sluice.client.agent import Agent, connect
from sluice.client.connection import ClientHandlers, ClientOptions
from sluice.client.errors import ClientError
from sluice.client.files import LocalFiles
from sluice.client.keys import read_key, single_keys, unechoed
from sluice.client.permissions import Decision, PermissionRequest, choose_option
from sluice.client.process import AgentCommand
from sluice.client.session import Session, SessionEntry, SessionUpdate, TurnEnd
from sluice.client.terminal import TerminalView
from sluice.client.updates import Commands
from sluice.client.wording import one_line
from sluice.wire.errors import RpcError
from sluice.wire.peer import RemoteError

__all__ = ["Conversation", "View"]

COMMANDS_PATIENCE = 0.3
"""Seconds the first prompt waits for the agent's list of commands, which comes behind the answer that opened the
session; while a line is read nothing is taken in."""

_KEYS: Mapping[str, tuple[Decision, str]] = {
    "y": ("allow_once", "allow once"),
    "a": ("allow_always", "allow always in this session"),
    "n": ("reject", "reject"),
}


class View(Protocol):
    """What shows a session: `TerminalView` line by line, `RichView` in place."""

    def begin(self) -> None:
        """A turn begins."""

    def update(self, update: SessionUpdate) -> None:
        """Show one update."""

    def question(self, request: PermissionRequest, keys: Mapping[str, str]) -> None:
        """Ask for a permission."""

    def answer(self, line: str) -> None:
        """Say how it was answered."""

    def end(self, end: TurnEnd) -> None:
        """Show the end of a turn."""

    def close(self) -> None:
        """Make everything final."""

    def note(self, line: str) -> None:
        """Say something of our own."""

    async def animate(self) -> None:
        """Redraw what moves, for ever."""


@dataclass
class Conversation:
    """One run of an agent on this terminal.

    Attributes:
        command: the agent.
        cwd: the session's directory.
        prompt: the only prompt, or None to ask for prompts on the terminal.
        yes: whether everything the agent asks for is allowed, once each, without a question.
        plain: whether to write line by line even on a terminal that can do more.
        opening: which session to open.
        session: the session that is open; set by `run`.
        welcome: what the agent file says to people before the first prompt; "" for nothing.
    """

    command: AgentCommand
    cwd: str
    prompt: str | None = None
    yes: bool = False
    plain: bool = False
    opening: Opening = field(default_factory=Opening)
    welcome: str = ""
    view: View = field(init=False)
    session: Session = field(init=False)
    _agent: Agent = field(init=False)
    _question: View = field(init=False)
    _scope: anyio.CancelScope = field(init=False)
    _asking: anyio.Lock = field(init=False)
    _offered: anyio.Event = field(init=False)
    _interrupt: Callable[[], bool] = field(init=False)
    _unwritable: OSError | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._out = output.writer(STDOUT)
        self._rich = output.moves_cursor() and not self.plain
        self.view = self._rich_view() if self._rich else TerminalView(self._show, colour=output.colour())
        # Questions must be readable where they are asked: on stderr when stdout goes to a file.
        aside = TerminalView(output.writer(STDERR, lossy=True), colour=output.colour(STDERR))
        self._question = self.view if os.isatty(STDOUT) else aside
        self._interrupt = lambda: False

    def _rich_view(self) -> View:
        from sluice.client.rich_view import RichView

        def status() -> Sequence[str]:
            return status_parts(getattr(self, "session", None))

        return RichView(self._show, output.size, colour=output.colour(), status=status)

    async def run(self) -> int:
        """Run to the end. Returns the exit status."""
        self._scope, self._asking, self._offered = anyio.CancelScope(), anyio.Lock(), anyio.Event()
        status = INTERRUPTED
        async with anyio.create_task_group() as group:
            await group.start(self._listen)
            group.start_soon(self.view.animate)
            with self._scope:
                status = await self._guarded()
            self.view.close()
            group.cancel_scope.cancel()
        if self._unwritable is None:
            return status
        if not isinstance(self._unwritable, BrokenPipeError):  # whose reader has left, and needs to be told nothing
            complain(reason(OSError(self._unwritable.errno, self._unwritable.strerror, "standard output")))
        return 1

    async def _guarded(self) -> int:
        try:
            # This terminal has no editor, so the agent works on the files of the directory, as if they were opened.
            files = LocalFiles([Path(self.cwd)])
            handlers = ClientHandlers(self._update, self._permission, files.requests())
            options = ClientOptions(
                name="sluice-run",
                version=__version__,
                capabilities={"fs": files.capabilities(), "terminal": False},
            )
            async with connect(self.command, handlers, options) as agent:
                await agent.initialize()
                self._agent = agent
                await self._open()
                return await (self._loop() if self.prompt is None else self._once(self.prompt))
        except (ClientError, RemoteError, RpcError, UnknownChoice) as error:
            self.view.close()
            complain(explain(error))
            return 1

    # --- sessions

    async def _open(self) -> None:
        self.session = await self.opening.open(self._agent, self.cwd, self._pick)
        self.view.close()
        for name, wanted in (("mode", self.opening.mode), ("model", self.opening.model)):
            if wanted is not None:
                await find_setting(self.session, name).set(self._agent, self.session.id, wanted)
        self._tell_model()

    def _tell_model(self) -> None:
        """Say which model answers where the agent file leaves that open; its name is in the option's own."""
        option = self.session.option("model")
        name = dict(option.values).get(str(option.current), "") if option is not None else ""
        if name.startswith("Default (") and name.endswith(")"):
            self._question.note(f"model: {one_line(name.removeprefix('Default (')[:-1], 80)}")
            self._question.close()

    def _pick(self, entries: Sequence[SessionEntry]) -> str:
        self.view.note("\n".join(listed(entries)))
        try:
            return LineEditor(lambda line: ()).read("resume which? ").strip()
        except (EOFError, KeyboardInterrupt):
            raise ClientError("none was picked") from None

    async def switch(self, opening: Callable[[], Awaitable[Session]]) -> None:
        """Open another session; the one before is closed where the agent offers that."""
        before = self.session
        self.session = await opening()
        self.view.close()
        if before.id != self.session.id and "sessionCapabilities.close" in self._agent.info.capabilities:
            await self._agent.close_session(before.id)
        self.say(f"session {one_line(self.session.id, 80)}")

    def say(self, line: str) -> None:
        """Show lines of our own."""
        self.view.note(line)
        self.view.close()

    def _update(self, update: SessionUpdate) -> None:
        if isinstance(update.update, Commands):
            self._offered.set()
        self.view.update(update)

    # --- turns

    async def _once(self, prompt: str) -> int:
        stop = await self._turn(prompt)
        return {"cancelled": INTERRUPTED, "refusal": 1}.get(stop, 0)

    async def _loop(self) -> int:
        commands = LocalCommands(self._agent, self)
        editor = LineEditor(commands.completions)
        about = self._agent.info.title or self._agent.info.name or "the agent"
        self.view.note(f"talking to {one_line(about, 60)}; :help helps, ctrl-c stops a turn, ctrl-d leaves")
        if self.welcome:
            self.view.note(self.welcome)
        with anyio.move_on_after(COMMANDS_PATIENCE):
            await self._offered.wait()
        while True:
            # What came between turns, a list of commands for instance, has been taken in before the line is read.
            await anyio.lowlevel.checkpoint()
            self.view.close()
            try:
                line = editor.read()
            except EOFError:
                self.view.note("")
                return 0
            except KeyboardInterrupt:
                self.view.note("")
                return INTERRUPTED
            if is_local(line):
                if not await commands.run(line):
                    return 0
            elif line.strip():
                await self._try_turn(line)

    async def _try_turn(self, line: str) -> None:
        try:
            await self._turn(line)
        except RemoteError as error:
            # The turn failed, the session goes on.
            self.view.close()
            complain(explain(error))

    async def _turn(self, prompt: str) -> str:
        pressed: list[int] = []
        session_id = self.session.id

        def interrupt() -> bool:
            pressed.append(1)
            if len(pressed) > 1:
                return False
            self._agent.cancel(session_id)
            self.view.note("cancelling; press ctrl-c again to leave")
            return True

        self._interrupt = interrupt
        with ExitStack() as stack:
            stack.callback(self._uninterruptible)
            if self._rich and os.isatty(STDIN):
                # What is typed while the agent works is kept for the next line, but not echoed into the picture.
                stack.enter_context(unechoed(STDIN))
            self.view.begin()
            end = await self._agent.prompt(session_id, prompt)
            self.view.end(end)
        return end.stop_reason

    def _uninterruptible(self) -> None:
        self._interrupt = lambda: False

    async def _listen(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        """Signals: an interrupt in a turn cancels the turn; everything else leaves, with the agent's whole ladder."""
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            task_status.started()
            async for number in signals:
                if number != signal.SIGINT or not self._interrupt():
                    self._scope.cancel()

    async def _permission(self, request: PermissionRequest) -> str | None:
        title = one_line(request.row.title or request.row.name or "a tool")
        if self.yes:
            return choose_option(request.options, "allow_once")
        if not os.isatty(STDIN) or not (os.isatty(STDOUT) or os.isatty(STDERR)):
            complain(f"rejected, as there is no terminal to ask on (--yes allows): {title}")
            return choose_option(request.options, "reject")
        async with self._asking:
            offered = {key for key, (decision, _) in _KEYS.items() if _serves(request, decision)}
            said = ""
            try:
                with single_keys(STDIN):
                    self._question.question(request, {key: _KEYS[key][1] for key in _KEYS if key in offered})
                    key = await read_key(STDIN, offered, refusals="n") or "n"
                said = f"{key}: {_KEYS[key][1]}"
            finally:
                self._question.answer(said)
        return choose_option(request.options, _KEYS[key][0])

    def _show(self, said: str) -> None:
        try:
            self._out(said)
        except OSError as error:
            # Nobody reads any more (`sluice run ... | head`), or the disk is full: to go on would be for nothing.
            self._unwritable = self._unwritable or error
            self._scope.cancel()


def _serves(request: PermissionRequest, decision: Decision) -> bool:
    """Whether a key is worth offering: a rejection always is, an approval when the agent has that very option."""
    return decision == "reject" or any(option.kind == decision for option in request.options)
