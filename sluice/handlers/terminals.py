"""terminal/*: commands that run at the client, and the ledger of who must still release what.

Specification page: https://agentclientprotocol.com/protocol/terminals. One machine per `terminal/create`; it belongs
to the turn or the background task whose call made it, and to nothing but its incarnation of the session. Whatever
ends a call, its terminal is given back in the same task, shielded and in bounded steps: kill, read, release.

"the Agent MUST release the terminal": a release that fails blocks the session, and is tried once more when the
session closes. A create whose answer never comes leaves a command that nobody can name, so it blocks as well.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from sluice import acp, machines
from sluice.acp.validation import BadAnswer, decode_result
from sluice.agent.ports import TerminalCommand, TerminalOutcome, ToolContext, ToolFailure
from sluice.machines import View, admission
from sluice.wire.cleanup import shielded
from sluice.wire.errors import InvalidParams, InvalidRequest, MethodNotFound
from sluice.wire.frames import FrameTooLarge
from sluice.wire.peer import ConnectionLost, RemoteError

if TYPE_CHECKING:
    from sluice.handlers.session import Incarnation

__all__ = ["CREATE_BUDGET", "KILL_BUDGET", "OUTPUT_BUDGET", "OUTPUT_BYTES", "RELEASE_BUDGET", "ClientTerminals"]

log = logging.getLogger(__name__)

CREATE_BUDGET = 10.0
"""Seconds for the answer to a create, and again from the moment its call is cancelled: time for a late id."""

KILL_BUDGET = 5.0
"""Seconds for the answer to a kill; then the terminal is released all the same, which ends the command too."""

OUTPUT_BUDGET = 5.0
"""Seconds for the answer with the output; then there is no output."""

RELEASE_BUDGET = 5.0
"""Seconds for the answer to a release; then it counts as failed."""

OUTPUT_BYTES = 65536
"""The most output a client is asked to keep, in bytes: its end."""

REFUSALS = frozenset(cls.default_code for cls in (InvalidRequest, InvalidParams, MethodNotFound))
"""Error codes that say for certain that nothing was started."""

UNKNOWN = "the client did not say whether it started the command; it may be running"
UNRELEASED = "the client did not confirm that a terminal was released"
MAX_SHOWN = 300
"""Characters of a client's error text that are shown."""


class ClientError(Exception):
    """A request about a terminal failed; the text says how."""


class _Held:
    """One terminal from its create to the knowledge that it is gone.

    Attributes:
        owner: the id of the background task it belongs to, "" for a turn.
        id: the client's id of it, "" until there is one; used in no request after a release that succeeded.
    """

    def __init__(self, live: Incarnation, owner: str, number: int) -> None:
        self.live = live
        self.owner = owner
        self.machine = machines.Terminal(key=f"{live.id}/{number}", record=live.connection.record)
        self.id = ""
        self.creating = anyio.CancelScope(shield=True)

    def fire(self, event: str) -> None:
        """Fire, forget what is gone, and let the turn know of what cannot be resolved, in one step."""
        self.machine.fire(event)
        state = self.machine.state
        if state in ("released", "refused"):
            self.live.terminals.held.remove(self)
        elif state in ("release_failed", "unknown"):
            self.live.entry.error = UNKNOWN if state == "unknown" else UNRELEASED
            self.live.couple_upwards("terminal", state)

    def stop(self) -> None:
        """Take `stop` where there is a row for it; a create under way has another budget from now on."""
        if self.machine.can("stop"):
            self.fire("stop")
            if self.machine.state == "abandoned":
                self.creating.deadline = anyio.current_time() + CREATE_BUDGET

    async def create(self, command: TerminalCommand) -> None:
        """Ask for the terminal, once. Shielded: an id that comes after a cancel must still be released.

        Raises:
            ToolFailure: there is no terminal; the text says whether the command may be running all the same.
        """
        program, *arguments = command.argv
        params = acp.CreateTerminalRequest(
            self.live.id,
            program,
            arguments,
            [acp.EnvVariable(name, value) for name, value in command.env.items()],
            command.cwd,
            OUTPUT_BYTES,
        )
        event, why = "create_lost", UNKNOWN
        self.creating.deadline = anyio.current_time() + CREATE_BUDGET
        try:
            with self.creating:
                answer = await self.live.connection.peer.request("terminal/create", params)
                self.id = self._new_id(decode_result("terminal/create", answer).terminal_id)
                event = "created"
        except RemoteError as error:
            if error.code in REFUSALS:
                event, why = "create_refused", f"the client refused to run the command: {_said(error)}"
        except FrameTooLarge:
            event, why = "create_refused", "the command is too long"
        except (BadAnswer, ConnectionLost) as error:
            log.warning("a create of session %s was lost: %s", self.live.id, error)
        finally:
            self.fire(event)
        if event != "created":
            raise ToolFailure(why)

    def _new_id(self, terminal_id: str) -> str:
        # Two terminals under one id could not be told apart, so the answer says nothing about this one.
        if not terminal_id or any(other.id == terminal_id for other in self.live.terminals.held):
            raise BadAnswer("the id is empty or belongs to another terminal")
        return terminal_id

    async def ask(self, method: str, params: type[Any]) -> Any:
        """One request about this terminal. Raises ClientError."""
        try:
            answer = await self.live.connection.peer.request(method, params(self.live.id, self.id))
            return decode_result(method, answer)
        except RemoteError as error:
            raise ClientError(f"the client answered {method} with an error: {_said(error)}") from error
        except BadAnswer as error:
            raise ClientError(f"the client's answer to {method} cannot be used") from error
        except (ConnectionLost, FrameTooLarge) as error:
            raise ClientError("the client cannot be reached") from error
        except Exception as error:  # whatever it is: the terminal must still be given back
            log.exception("%s of session %s failed", method, self.live.id)
            raise ClientError(f"{method} could not be sent") from error

    async def collect(self) -> acp.TerminalOutputResponse:
        """The output so far, within its budget. Raises ClientError."""
        with anyio.move_on_after(OUTPUT_BUDGET):
            output: acp.TerminalOutputResponse = await self.ask("terminal/output", acp.TerminalOutputRequest)
            return output
        raise ClientError(f"the client did not give the output within {OUTPUT_BUDGET:g} seconds")

    async def give_back(self) -> acp.TerminalOutputResponse | None:
        """Kill what still runs, read it, and release in any case; returns what was read. Call it shielded."""
        self.stop()
        output = None
        if self.machine.state == "killing":
            try:
                with anyio.move_on_after(KILL_BUDGET):
                    await self.ask("terminal/kill", acp.KillTerminalRequest)
            except ClientError as error:
                log.warning("a terminal of session %s could not be killed: %s", self.live.id, error)
            try:
                output = await self.collect()
            except ClientError as error:
                log.warning("the output of a terminal of session %s is lost: %s", self.live.id, error)
            self.fire("collected")
        await self.release()
        return output

    async def release(self) -> None:
        """Release, within its budget; the machine then says whether it worked."""
        event = "release_error"
        try:
            with anyio.move_on_after(RELEASE_BUDGET):
                await self.ask("terminal/release", acp.ReleaseTerminalRequest)
                event = "terminal/release"
        except ClientError as error:
            log.warning("a terminal of session %s could not be released: %s", self.live.id, error)
        self.fire(event)


class ClientTerminals:
    """The terminal port of one incarnation of a session.

    Attributes:
        held: the terminals that are not known to be gone, in the order of their creation.
    """

    def __init__(self, live: Incarnation) -> None:
        self.live = live
        self.held: list[_Held] = []
        self.made = 0

    def states(self, owner: str | None = None) -> list[str]:
        """The states of what is held: by one owner, or by the whole session."""
        return [held.machine.state for held in self.held if owner is None or held.owner == owner]

    def stop(self, owner: str) -> None:
        """The effect of coupling: every terminal of this owner hears `stop`."""
        for held in list(self.held):
            if held.owner == owner:
                held.stop()

    async def last_attempt(self) -> None:
        """Release what could not be released before, once more and side by side; then it counts. Call it shielded."""
        async with anyio.create_task_group() as tasks:
            for held in list(self.held):
                if held.machine.can("try_again"):
                    held.fire("try_again")
                    tasks.start_soon(held.release)

    # --- the port

    async def run(self, command: TerminalCommand, context: ToolContext) -> TerminalOutcome:
        """Run one command at the client; see `sluice.agent.ports.Terminal`."""
        # A call that is already cancelled must not start anything: the create itself is shielded.
        await anyio.lowlevel.checkpoint_if_cancelled()
        held = self._admit(context.owner)
        await held.create(command)
        status, output, failure = None, None, None
        try:
            if held.machine.state == "owned":
                with anyio.move_on_after(command.timeout):
                    status = await held.ask("terminal/wait_for_exit", acp.WaitForTerminalExitRequest)
                    held.fire("exit")
            if held.machine.state == "exited":
                output = await held.collect()
                if held.machine.can("collected"):  # a stop may have come while the answer was on its way
                    held.fire("collected")
        except ClientError as error:
            failure = error
        finally:
            with shielded(None, "a terminal is given back; kill, output and release have budgets of their own"):
                late = await held.give_back()
        if failure is not None:
            raise ToolFailure(_failed(status, failure))
        if status is not None:
            return _outcome(output or late, status)
        # Cancelled: what was printed so far is left out. Else the time was up.
        await anyio.lowlevel.checkpoint_if_cancelled()
        return _outcome(late, None)

    def _admit(self, owner: str) -> _Held:
        """Look, decide, and hold: no await in between. Raises ToolFailure when the table refuses."""
        live, connection = self.live, self.live.connection
        current = live.entry.live is live  # a call of a closed session must not act for the one that took its id
        view = View(
            connection=connection.machine.state,
            session=live.entry.machine.state if current else "closed",
            turn=live.turn.state if live.turn is not None else None,
            owner=live.background_state(owner) if owner else None,
        )
        decision = admission.admit("terminal/create", view)
        if decision.verdict != "admitted":
            raise ToolFailure("no command is started any more: what it was for is being ended")
        self.made += 1
        held = _Held(live, owner, self.made)
        self.held.append(held)
        return held


def _said(error: RemoteError) -> str:
    return f"{' '.join(error.message.split())[:MAX_SHOWN]} ({error.code})"


def _failed(status: acp.WaitForTerminalExitResponse | None, failure: ClientError) -> str:
    if status is None:
        return f"nobody knows how the command ended: {failure}"
    how = f"signal {status.signal}" if status.signal else f"exit code {status.exit_code}"
    return f"the command ended ({how}), but {failure}"


def _outcome(
    output: acp.TerminalOutputResponse | None, status: acp.WaitForTerminalExitResponse | None
) -> TerminalOutcome:
    text, truncated = (output.output, output.truncated) if output is not None else ("", False)
    text = text.replace("\r\n", "\n")
    if status is None:
        return TerminalOutcome(text, timed_out=True, truncated=truncated)
    code, signal = status.exit_code, status.signal
    if code is None and signal is None and output is not None and output.exit_status is not None:
        code, signal = output.exit_status.exit_code, output.exit_status.signal
    return TerminalOutcome(text, code, signal, truncated=truncated)
