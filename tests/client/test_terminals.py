"""The terminals a client may offer: real commands, their output by bytes and characters, and how they end."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from sluice.client.provider import AcpAgentSpec, Launch, TurnDone, create_acp_backend
from sluice.client.provider.rows import draw
from sluice.client.terminals import MAX_TERMINALS, LocalTerminals, local_terminals
from sluice.client.updates import ToolRow
from sluice.wire.errors import BackendError, InvalidParams, RefusedError
from tests.client.provider.support import Host, chatting, turn
from tests.client.support import QUICK
from tests.support.setup import scripted_agent

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("acp-provider.client.optional-terminal")]


class Agent:
    """The agent's side: requests by method."""

    def __init__(self, terminals: LocalTerminals) -> None:
        self.terminals = terminals

    async def ask(self, method: str, **params: Any) -> Any:
        return await self.terminals.requests()[f"terminal/{method}"]({"sessionId": "s", **params})

    async def create(self, *command: str, **more: Any) -> str:
        program, *args = command
        return str((await self.ask("create", command=program, args=args, **more))["terminalId"])

    async def python(self, code: str, **more: Any) -> str:
        return await self.create(sys.executable, "-c", code, **more)

    async def output(self, terminal: str) -> Any:
        return await self.ask("output", terminalId=terminal)

    async def wait(self, terminal: str) -> Any:
        return await self.ask("wait_for_exit", terminalId=terminal)

    async def says(self, terminal: str, words: str) -> None:
        """Wait until a command has said this."""
        while words not in (await self.output(terminal))["output"]:
            await anyio.sleep(0.01)


@asynccontextmanager
async def agent(cwd: Path) -> AsyncIterator[Agent]:
    with anyio.fail_after(30):
        async with local_terminals(cwd) as terminals:
            yield Agent(terminals)


async def gone(*pids: int) -> bool:
    """Wait until these processes have ended; one that is only not reaped yet has."""
    for pid in pids:
        with suppress(OSError), anyio.fail_after(10):
            while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                await anyio.sleep(0.01)
    return True


# --- starting ----------------------------------------------------------------------------------------------------


async def test_an_executable_gets_its_arguments_as_they_are_and_no_shell_sees_them(tmp_path: Path) -> None:
    async with agent(tmp_path) as it:
        print_all = "import sys, os; print(sys.argv[1:], os.environ['OWN'], os.getcwd(), end='')"
        odd = ["a b", "$HOME", "*", ";", ""]
        terminal = await it.create(
            sys.executable, "-c", print_all, *odd, env=[{"name": "OWN", "value": "x y"}], cwd=None
        )
        assert await it.wait(terminal) == {"exitCode": 0, "signal": None}
        assert (await it.output(terminal))["output"] == f"{odd} x y {os.path.realpath(tmp_path)}"
        with pytest.raises(BackendError, match="No such file"):
            await it.create("echo a; echo b")


async def test_creating_waits_for_nothing_and_the_exit_is_told_once_there_is_one(tmp_path: Path) -> None:
    async with agent(tmp_path) as it:
        terminal = await it.python("import time; print('here', flush=True); time.sleep(600)")
        await it.says(terminal, "here")
        assert await it.output(terminal) == {"output": "here\n", "truncated": False}
        await it.ask("kill", terminalId=terminal)
        await it.wait(terminal)
        assert await it.output(terminal) == {
            "output": "here\n",
            "truncated": False,
            "exitStatus": {"exitCode": None, "signal": "SIGTERM"},
        }


@pytest.mark.parametrize(
    "params",
    [
        {"command": ""},
        {"command": 3},
        {"command": "x", "args": "y"},
        {"command": "x", "args": [1]},
        {"command": "x", "cwd": "a"},
        {"command": "x\0"},
    ],
)
async def test_what_is_no_command_is_refused(tmp_path: Path, params: Any) -> None:
    async with agent(tmp_path) as it:
        with pytest.raises(InvalidParams):
            await it.ask("create", **params)


async def test_an_agent_that_releases_nothing_is_stopped_at_some_number(tmp_path: Path) -> None:
    async with agent(tmp_path) as it:
        for _ in range(MAX_TERMINALS):
            await it.create("true")
        with pytest.raises(RefusedError, match="release some"):
            await it.create("true")


# --- output ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "output", "truncated"),
    [
        (None, "aé€😀z", False),
        (11, "aé€😀z", False),
        (10, "é€😀z", True),
        (9, "€😀z", True),
        (6, "😀z", True),
        (4, "z", True),
        (1, "z", True),
        (0, "", True),
    ],
)
async def test_output_is_cut_at_its_beginning_and_between_characters(
    tmp_path: Path, limit: int | None, output: str, truncated: bool
) -> None:
    async with agent(tmp_path) as it:
        more = {} if limit is None else {"outputByteLimit": limit}
        terminal = await it.python("import sys; sys.stdout.buffer.write('aé€😀z'.encode())", **more)
        await it.wait(terminal)
        found = await it.output(terminal)
        assert (found["output"], found["truncated"]) == (output, truncated)


async def test_half_a_character_is_shown_only_when_no_more_can_come(tmp_path: Path) -> None:
    half = "import sys, time; sys.stdout.buffer.write(b'ok\\xe2\\x82'); sys.stdout.flush(); time.sleep(600)"
    async with agent(tmp_path) as it:
        terminal = await it.python(half)
        await it.says(terminal, "ok")
        assert (await it.output(terminal))["output"] == "ok"
        await it.ask("kill", terminalId=terminal)
        await it.wait(terminal)
        assert (await it.output(terminal))["output"] == "ok\ufffd"


# --- ending ------------------------------------------------------------------------------------------------------


async def test_everybody_who_waits_is_answered_by_one_end_and_the_id_stays_until_it_is_released(
    tmp_path: Path,
) -> None:
    async with agent(tmp_path) as it:
        terminal = await it.create("sleep", "600")
        ends: list[Any] = []

        async def waiter() -> None:
            ends.append(await it.wait(terminal))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(waiter)
            tasks.start_soon(waiter)
            await it.ask("kill", terminalId=terminal)
        assert ends == [{"exitCode": None, "signal": "SIGTERM"}] * 2
        assert await it.wait(terminal) == ends[0]
        assert await it.ask("kill", terminalId=terminal) == {}
        assert await it.ask("release", terminalId=terminal) == {}
        for method in ("output", "wait_for_exit", "kill", "release"):
            with pytest.raises(RefusedError) as refused:
                await it.ask(method, terminalId=terminal)
            assert refused.value.code == -32002


async def test_a_release_ends_what_still_runs_and_answers_who_waits(tmp_path: Path) -> None:
    async with agent(tmp_path) as it:
        terminal = await it.create("sleep", "600")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(it.wait, terminal)
            tasks.start_soon(lambda: it.ask("release", terminalId=terminal))
        with pytest.raises(RefusedError):
            await it.wait(terminal)


async def test_a_terminal_of_another_session_is_not_there(tmp_path: Path) -> None:
    async with agent(tmp_path) as it:
        terminal = await it.create("true")
        with pytest.raises(RefusedError):
            await it.ask("output", terminalId=terminal, sessionId="other")


async def test_a_command_that_ignores_a_kill_and_what_it_has_started_end_all_the_same(tmp_path: Path) -> None:
    stubborn = "trap '' TERM; sleep 600 & echo $! $$; wait; sleep 600"
    async with agent(tmp_path) as it:
        terminal = await it.create("sh", "-c", stubborn)
        await it.says(terminal, "\n")
        pids = [int(word) for word in (await it.output(terminal))["output"].split()]
        await it.ask("kill", terminalId=terminal)
        assert (await it.wait(terminal))["signal"] == "SIGKILL"
        assert await gone(*pids)


async def test_what_a_command_leaves_behind_does_not_hold_its_end_back(tmp_path: Path) -> None:
    """Naively the output has no end while a child that holds the pipe sleeps on."""
    async with agent(tmp_path) as it:
        terminal = await it.create("sh", "-c", "sleep 600 & echo $!")
        assert await it.wait(terminal) == {"exitCode": 0, "signal": None}
        assert await gone(int((await it.output(terminal))["output"]))


async def test_leaving_the_block_ends_everything(tmp_path: Path) -> None:
    async with agent(tmp_path) as it:
        terminal = await it.create("sh", "-c", "sleep 600 & echo $! $$; wait")
        await it.says(terminal, "\n")
        pids = [int(word) for word in (await it.output(terminal))["output"].split()]
    assert await gone(*pids)


# --- a chat that offers them ------------------------------------------------------------------------------------


async def test_a_row_shows_what_its_terminal_said_also_after_the_release(tmp_path: Path) -> None:
    """Our own server is the agent: its shell tool runs in the client's terminal."""
    shell = {"name": "shell", "arguments": {"cmd": "echo here I am"}}
    file = scripted_agent(tmp_path, {"tool_calls": [shell]}, {"text": "done"}, permissions={"allow": ["shell"]})
    args = ["-m", "sluice", "serve", "acp", str(file), "-s", str(tmp_path / "s.db")]
    spec, host = AcpAgentSpec("mine", "Mine", sys.executable, args, ladder=QUICK), Host()
    with anyio.fail_after(60):
        launch = Launch(tmp_path, host, terminals=True)
        async with create_acp_backend(spec).start(launch) as chat:
            assert await chat.send("go") == TurnDone("end_turn")
    assert "here I am" in host.rows[-1].output


async def test_terminals_are_offered_only_when_the_host_wants_them(tmp_path: Path) -> None:
    for wanted in (False, True):
        directory = tmp_path / str(wanted)
        directory.mkdir()
        async with chatting(directory, turn(), launch={"terminals": wanted}) as it:
            (params,) = it.params("initialize")
            assert params["clientCapabilities"]["terminal"] is wanted


async def test_the_last_output_of_a_terminal_stays_in_the_row(tmp_path: Path) -> None:
    made = {"sessionId": "s1", "command": "echo", "args": ["kept"]}
    create = {"send": {"jsonrpc": "2.0", "id": "t1", "method": "terminal/create", "params": made}}
    async with chatting(tmp_path, turn(create, {"wait": {"response": "t1"}}), launch={"terminals": True}) as it:
        await it.chat.send("go")
        terminal, terminals = it.answers()["t1"]["result"]["terminalId"], it.chat._terminals
        assert terminals is not None
        named = {"sessionId": "s1", "terminalId": terminal}
        await terminals.requests()["terminal/wait_for_exit"](named)
        await terminals.requests()["terminal/release"](named)
        row = ToolRow("c1", content=({"type": "terminal", "terminalId": terminal},))
        assert draw(row, terminals.shown).output == "kept\n" and draw(row).output == ""


async def test_commands_end_with_the_agent_that_started_them(tmp_path: Path) -> None:
    made = {"sessionId": "s1", "command": "sh", "args": ["-c", "echo $$; exec sleep 600"]}
    create = {"send": {"jsonrpc": "2.0", "id": "t1", "method": "terminal/create", "params": made}}
    dying = [create, {"wait": {"response": "t1"}}, {"wait": "_test/barrier"}, {"exit": 1}]
    async with chatting(tmp_path, turn(*dying), launch={"terminals": True}) as it:
        terminals = it.chat._terminals
        assert terminals is not None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(it.chat.send, "go")
            while "t1" not in it.answers():
                await anyio.sleep(0.01)
            terminal = it.answers()["t1"]["result"]["terminalId"]
            while not terminals.shown(terminal):
                await anyio.sleep(0.01)
            pid = int(terminals.shown(terminal) or "")
            await it.settled()
        ended = await terminals.requests()["terminal/wait_for_exit"]({"sessionId": "s1", "terminalId": terminal})
        assert ended == {"exitCode": None, "signal": "SIGKILL"} and await gone(pid)
