"""`sluice run FILE [PROMPT]`: start `sluice serve acp FILE` as a child and talk to it over the real wire.

With a prompt, or with piped input, one turn is run; on a terminal a conversation. The first interrupt cancels the
turn, a second one leaves. Nothing is approved silently: without a terminal to ask on, permissions are rejected unless
`--yes` was given.
"""

from __future__ import annotations

import argparse
import locale
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.abc

from sluice import __version__
from sluice.client.agent import Agent, connect
from sluice.client.connection import ClientHandlers, ClientOptions
from sluice.client.errors import ClientError
from sluice.client.files import LocalFiles
from sluice.client.keys import read_key, single_keys
from sluice.client.permissions import Decision, PermissionRequest, choose_option
from sluice.client.process import AgentCommand
from sluice.client.reading import members, text
from sluice.client.terminal import TerminalView, one_line
from sluice.wire.errors import RpcError
from sluice.wire.peer import RemoteError

__all__ = ["INTERRUPTED", "Conversation", "converse", "explain", "run", "serve_command"]

INTERRUPTED = 130
"""Exit status after an interrupt, as shells have it."""

_STDIN, _STDOUT, _STDERR = 0, 1, 2

_AUTH_REQUIRED = -32000
"""ACP's code for missing credentials."""

_KEYS: Mapping[str, tuple[Decision, str]] = {
    "y": ("allow_once", "allow once"),
    "a": ("allow_always", "allow always in this session"),
    "n": ("reject", "reject"),
}


def run(options: argparse.Namespace) -> int:
    """Run the command. Returns the exit status: 0, 1 after an error, 2 without a prompt, 130 after an interrupt."""
    prompt = options.prompt
    if prompt is None and not os.isatty(_STDIN):
        prompt = _read_all(_STDIN).decode("utf-8", "replace")
        if not prompt.strip():
            _complain("nothing to do: give a prompt, pipe one in, or run this on a terminal")
            return 2
    command = AgentCommand(serve_command(options), echo_stderr=options.debug)
    cwd = options.working_dir or "."
    return converse(Conversation(command, cwd=cwd, prompt=prompt, yes=options.yes), debug=options.debug)


def converse(conversation: Conversation, *, debug: bool = False) -> int:
    """Hold a conversation with any agent.

    Args:
        conversation: what to do.
        debug: whether to log to stderr.

    Returns:
        The exit status.
    """
    _set_up_logging(debug)
    return anyio.run(conversation.run)


def serve_command(options: argparse.Namespace) -> list[str]:
    """The command line of the agent: this program's own `serve acp`, with the shared flags passed on."""
    command = [sys.executable, "-m", "sluice", "serve", "acp"]
    for flag in ("working_dir", "data_dir", "config_dir", "session_db", "log_file"):
        if (value := getattr(options, flag)) is not None:
            command += [f"--{flag.replace('_', '-')}={value}"]
    command += [f"--env-from-file={name}" for name in options.env_from_file or ()]
    command += [f"--flavor={name}" for name in options.flavor or ()]
    command += [f"--allow-address={network}" for network in options.allow_address or ()]
    command += ["--debug"] if options.debug else []
    return [*command, "--", options.agent_file]


@dataclass
class Conversation:
    """One run of an agent on this terminal.

    Attributes:
        command: the agent.
        cwd: the session's directory.
        prompt: the only prompt, or None to ask for prompts on the terminal.
        yes: whether everything the agent asks for is allowed, once each, without a question.
    """

    command: AgentCommand
    cwd: str
    prompt: str | None = None
    yes: bool = False
    view: TerminalView = field(init=False)
    _scope: anyio.CancelScope = field(init=False)
    _asking: anyio.Lock = field(init=False)
    _interrupt: Callable[[], bool] = field(init=False)

    def __post_init__(self) -> None:
        self.view = TerminalView(self._show, colour=_colour())
        # Questions must be readable where they are asked: on stderr when stdout goes to a file.
        self._question = self.view if os.isatty(_STDOUT) else TerminalView(_writer(_STDERR), colour=_colour(_STDERR))
        self._out = _writer(_STDOUT)
        self._interrupt = lambda: False

    async def run(self) -> int:
        """Run to the end. Returns the exit status."""
        self._scope, self._asking = anyio.CancelScope(), anyio.Lock()
        status = INTERRUPTED
        async with anyio.create_task_group() as group:
            await group.start(self._listen)
            with self._scope:
                status = await self._guarded()
            group.cancel_scope.cancel()
        return status

    async def _guarded(self) -> int:
        try:
            # This terminal has no editor, so the agent works on the files of the directory, as if they were opened.
            files = LocalFiles([Path(self.cwd)])
            handlers = ClientHandlers(self.view.update, self._permission, files.requests())
            options = ClientOptions(
                name="sluice-run",
                version=__version__,
                capabilities={"fs": files.capabilities(), "terminal": False},
            )
            async with connect(self.command, handlers, options) as agent:
                await agent.initialize()
                session = await agent.new_session(self.cwd)
                return await (self._loop(agent, session.id) if self.prompt is None else self._once(agent, session.id))
        except (ClientError, RemoteError, RpcError) as error:
            self.view.close()
            _complain(explain(error))
            return 1

    async def _once(self, agent: Agent, session_id: str) -> int:
        assert self.prompt is not None
        stop = await self._turn(agent, session_id, self.prompt)
        return {"cancelled": INTERRUPTED, "refusal": 1}.get(stop, 0)

    async def _loop(self, agent: Agent, session_id: str) -> int:
        with suppress(ImportError):
            import readline  # noqa: F401  (importing it gives `input` line editing and history)
        about = agent.info.title or agent.info.name or "the agent"
        self.view.note(f"talking to {one_line(about, 60)}; ctrl-c stops a turn, ctrl-d leaves")
        while True:
            try:
                line = self._read_line()
            except EOFError:
                self.view.note("")
                return 0
            except KeyboardInterrupt:
                self.view.note("")
                return INTERRUPTED
            if not line.strip():
                continue
            try:
                await self._turn(agent, session_id, line)
            except RemoteError as error:
                # The turn failed, the session goes on.
                self.view.close()
                _complain(explain(error))

    def _read_line(self) -> str:
        """Ask for a prompt.

        This blocks the event loop on purpose. Between turns an agent has nothing to say that cannot wait, and a
        permission asked in the background must not fight with the line editor for the keys.

        Raises:
            EOFError: the user ended the input.
            KeyboardInterrupt: the user interrupted it.
        """
        # An interrupt must reach `input`; the event loop's own handler would make it wait for the end of the line.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return input("> ")
        finally:
            signal.signal(signal.SIGINT, before)

    async def _turn(self, agent: Agent, session_id: str, prompt: str) -> str:
        pressed: list[int] = []

        def interrupt() -> bool:
            pressed.append(1)
            if len(pressed) > 1:
                return False
            agent.cancel(session_id)
            self.view.note("cancelling; press ctrl-c again to leave")
            return True

        self._interrupt = interrupt
        try:
            end = await agent.prompt(session_id, prompt)
        finally:
            self._interrupt = lambda: False
        self.view.end(end)
        return end.stop_reason

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
        if not os.isatty(_STDIN) or not (os.isatty(_STDOUT) or os.isatty(_STDERR)):
            _complain(f"rejected, as there is no terminal to ask on (--yes allows): {title}")
            return choose_option(request.options, "reject")
        async with self._asking:
            offered = {key for key, (decision, _) in _KEYS.items() if _serves(request, decision)}
            with single_keys(_STDIN):
                self._question.question(request, {key: _KEYS[key][1] for key in _KEYS if key in offered})
                key = await read_key(_STDIN, offered) or "n"
            decision = _KEYS[key][0]
            self._question.note(f"  {key}: {_KEYS[key][1]}")
        return choose_option(request.options, decision)

    def _show(self, said: str) -> None:
        try:
            self._out(said)
        except OSError:
            # Nobody reads any more (`sluice run ... | head`); there is nobody to tell either.
            self._scope.cancel()


def explain(error: Exception) -> str:
    """One readable line for an error of the agent or of the connection to it.

    Args:
        error: what was raised.

    Returns:
        The line, printable, with file, line and key of a broken agent file, or what to set when a key is missing.
    """
    if not isinstance(error, RemoteError):
        return one_line(str(error), 1000)
    data = members(error.data)
    detail = text(data.get("error")) or text(data.get("message"))
    if (file := text(data.get("file"))) is not None:
        line = data.get("line")
        where = f"{file}:{line}" if isinstance(line, int) else file
        key = text(data.get("key"))
        return one_line(": ".join(part for part in (where, key, detail or error.message) if part), 1000)
    said = f"{error.message}: {detail}" if detail and detail != error.message else error.message
    if error.code == _AUTH_REQUIRED:
        said += "; set the API key variable of the agent's model, or name a file with --env-from-file"
    return one_line(said, 1000)


def _serves(request: PermissionRequest, decision: Decision) -> bool:
    """Whether a key is worth offering: a rejection always is, an approval when the agent has that very option."""
    return decision == "reject" or any(option.kind == decision for option in request.options)


def _writer(descriptor: int) -> Callable[[str], None]:
    """Text to a descriptor in the locale's encoding; what that lacks is shown as an escape."""
    encoding = locale.getencoding()

    def write(said: str) -> None:
        view = memoryview(said.encode(encoding, "backslashreplace"))
        while view:
            view = view[os.write(descriptor, view) :]

    return write


def _colour(descriptor: int = _STDOUT) -> bool:
    """Colours only on a terminal that knows them, and never against NO_COLOR (https://no-color.org)."""
    return os.isatty(descriptor) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in (None, "dumb")


def _complain(line: str) -> None:
    with suppress(OSError):
        _writer(_STDERR)(f"sluice: {line}\n")


def _read_all(descriptor: int) -> bytes:
    parts = []
    while data := os.read(descriptor, 1 << 16):
        parts.append(data)
    return b"".join(parts)


def _set_up_logging(debug: bool) -> None:
    if debug:
        logging.basicConfig(level=logging.DEBUG, format="%(levelname)s %(name)s: %(message)s")
    else:
        # What the client library notices (a banner it skipped, say) is not for the user of this command.
        logging.getLogger("sluice").addHandler(logging.NullHandler())
