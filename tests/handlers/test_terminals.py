"""terminal/* over the wire: a shell tool whose commands run at the client."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from sluice.agent.ports import TerminalCommand, ToolContext, ToolFailure
from sluice.handlers import terminals
from sluice.machines import CompiledBackground
from sluice.tools import shell
from tests.support.model_server import Reply, Scripted, Stall, call, calls, text
from tests.support.setup import Stage, on_stage
from tests.support.terminals import Terminals

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
FREE = {"safety": "autonomous"}


@asynccontextmanager
async def with_terminals(
    directory: Path,
    *commands: str,
    exits: tuple[Json, ...] = (),
    agent: Json | None = None,
    more: tuple[Scripted, ...] = (),
) -> AsyncIterator[tuple[Stage, Terminals]]:
    """A session whose first turn calls `shell` once per command, one after the other, and then ends."""
    replies: list[Scripted] = [calls(call("shell", cmd=command)) for command in commands]
    async with on_stage(
        directory, *replies, text("end"), *more, agent={**FREE, **(agent or {})}, terminal=True
    ) as stage:
        yield stage, Terminals(stage.client, *exits)


def results(stage: Stage) -> list[str]:
    """The texts of the ended calls, in order."""
    ended = [u for u in stage.client.updates() if u.get("status") in ("completed", "failed")]
    return [u["content"][0]["content"]["text"] for u in ended]


def statuses(stage: Stage) -> list[str]:
    return [u["status"] for u in stage.client.updates() if u.get("status") in ("completed", "failed")]


def methods(stage: Stage) -> list[str]:
    return [m["method"].removeprefix("terminal/") for m in stage.client.requests("terminal/")]


def path_of(stage: Stage) -> list[str]:
    """The states the terminal machines went through, in order of the record."""
    return [t.target for t in stage.server.transitions if t.machine == "terminal"]


async def send_prompt(stage: Stage, words: str = "go") -> int:
    message = stage.client.send_prompt(stage.session, words)
    await stage.client.write(message)
    return int(message["id"])


async def cancel(stage: Stage) -> None:
    await stage.client.notify("session/cancel", sessionId=stage.session)


def short(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Make budgets so short that a test can wait for their end."""
    for name in names:
        monkeypatch.setattr(terminals, f"{name}_BUDGET", 0.05)


# --- the command ------------------------------------------------------------------------------------------------


@pytest.mark.requirement(
    "client-terminal.gate.negotiated",
    "client-terminal.command.interpreter",
    "client-terminal.cwd.absolute",
    "client-terminal.env.overrides-only",
    "client-terminal.own.exactly-one-release",
    "client-terminal.own.until-release",
    "client-terminal.output.final-only",
    "client-terminal.output.exit-text",
    "client-terminal.gate.no-local-fallback",
)
async def test_a_command_goes_through_the_clients_terminal_and_the_terminal_is_given_back(tmp_path: Path) -> None:
    line = "echo a | wc; touch here.txt"
    async with with_terminals(tmp_path, line, exits=({"exitCode": 0},)) as (stage, fake):
        assert (await stage.client.prompt(stage.session, "go"))["result"] == {"stopReason": "end_turn"}
        assert methods(stage) == ["create", "wait_for_exit", "output", "release"]
        create = stage.client.requests("terminal/create")[0]["params"]
        assert create == {
            "sessionId": stage.session,
            "command": "/bin/sh",
            "args": ["-c", line],
            "env": [],
            "cwd": str(stage.cwd),
            "outputByteLimit": 65536,
        }
        assert results(stage) == ["out\n"] and fake.all == [["wait_for_exit", "output", "release"]]
        assert not list(stage.cwd.iterdir())
        assert path_of(stage) == ["owned", "exited", "releasing", "released"]
        content = [u["content"] for u in stage.client.updates() if u.get("content") and "status" in u]
        assert all(part["type"] == "content" for parts in content for part in parts)


@pytest.mark.requirement("client-terminal.gate.negotiated", "capability-matrix.client.shell-tool")
@pytest.mark.parametrize("terminal", [True, False])
async def test_the_description_names_the_clients_terminal_exactly_when_there_is_one(
    tmp_path: Path, terminal: bool
) -> None:
    command = calls(call("shell", cmd="echo native"))
    async with on_stage(tmp_path, command, text("end"), agent=FREE, terminal=terminal) as stage:
        Terminals(stage.client, {"exitCode": 0})
        assert not stage.client.requests("terminal/")
        await stage.client.prompt(stage.session, "go")
        (tool,) = [t["function"] for t in stage.model.requests[0].body["tools"] if t["function"]["name"] == "shell"]
        assert ("client's terminal" in tool["description"]) is terminal
        assert results(stage) == ["out\n" if terminal else "native\n"]
        assert bool(methods(stage)) is terminal


@pytest.mark.requirement("client-terminal.own.exactly-one-release", "client-terminal.gate.no-local-fallback")
async def test_an_output_that_fails_is_a_failed_call_and_still_released(tmp_path: Path) -> None:
    """Naively the release stands behind the output on the happy path, or the command is run on the host instead."""
    commands = ("printf out; exit 3", "touch local-run.txt")
    async with with_terminals(tmp_path, *commands, exits=({"exitCode": 3}, {"exitCode": 0})) as (stage, fake):
        prompt = await send_prompt(stage)
        await stage.client.until(lambda m: m.get("method") == "terminal/release")
        fake.errors["output"] = -32603
        assert (await stage.client.answer(prompt))["result"] == {"stopReason": "end_turn"}
        assert fake.all == [["wait_for_exit", "output", "release"]] * 2
        assert results(stage)[0] == "The command failed with exit code 3.\nout\n"
        assert statuses(stage) == ["failed", "failed"] and "cannot (-32603)" in results(stage)[1]
        assert not list(stage.cwd.iterdir())
        await stage.client.result("session/close", sessionId=stage.session)
        assert methods(stage).count("release") == 2


@pytest.mark.requirement("client-terminal.output.exit-text")
@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ({"exitCode": 0}, ("completed", "out\n")),
        ({"exitCode": 1}, ("failed", "The command failed with exit code 1.\nout\n")),
        ({"exitCode": None, "signal": "SIGKILL"}, ("failed", "The command was ended by signal SIGKILL.\nout\n")),
        ({}, ("failed", "The client did not say how the command ended.\nout\n")),
    ],
)
async def test_exit_codes_and_signals_read_like_those_of_the_native_shell(
    tmp_path: Path, status: Json, shown: tuple[str, str]
) -> None:
    async with with_terminals(tmp_path, "x", exits=(status,)) as (stage, _):
        await stage.client.prompt(stage.session, "go")
        assert (statuses(stage)[0], results(stage)[0]) == shown


@pytest.mark.requirement("client-terminal.env.overrides-only", "client-terminal.env.referenced-secrets")
async def test_only_the_overrides_of_the_file_are_sent_with_their_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "zzz")
    toolsets = [{"type": "shell", "env": {"A": "1", "HOMEDIR": "${env.PATH}"}}]
    async with with_terminals(tmp_path, "x", exits=({"exitCode": 0},), agent={"toolsets": toolsets}) as (stage, _):
        await stage.client.prompt(stage.session, "go")
        env = {e["name"]: e["value"] for e in stage.client.requests("terminal/create")[0]["params"]["env"]}
        assert set(env) == {"A", "HOMEDIR"} and env["A"] == "1" and "/" in env["HOMEDIR"]


@pytest.mark.requirement("client-terminal.cwd.absolute")
async def test_the_directory_is_relative_to_the_workspace_and_may_lie_outside(tmp_path: Path) -> None:
    made = [call("shell", cmd="x", cwd="sub"), call("shell", cmd="y", cwd="/elsewhere")]
    async with on_stage(tmp_path, calls(made[0]), calls(made[1]), text("end"), agent=FREE, terminal=True) as stage:
        Terminals(stage.client, {"exitCode": 0}, {"exitCode": 0})
        await stage.client.prompt(stage.session, "go")
        directories = [m["params"]["cwd"] for m in stage.client.requests("terminal/create")]
        assert directories == [f"{stage.cwd}/sub", "/elsewhere"]


@pytest.mark.requirement("client-terminal.sudo.unsupported")
async def test_sudo_askpass_makes_the_call_fail_and_nothing_runs(tmp_path: Path) -> None:
    toolsets = [{"type": "shell", "sudo_askpass": True}]
    async with with_terminals(tmp_path, "sudo x", agent={"toolsets": toolsets}) as (stage, _):
        await stage.client.prompt(stage.session, "go")
        assert methods(stage) == [] and "sudo_askpass" in results(stage)[0] and statuses(stage) == ["failed"]


@pytest.mark.requirement("client-terminal.output.64k-tail")
async def test_a_long_output_is_shown_from_its_end_with_a_notice_and_no_character_is_cut(tmp_path: Path) -> None:
    async with with_terminals(tmp_path, "x", "y", exits=({"exitCode": 0}, {"exitCode": 0})) as (stage, fake):
        fake.output = {"output": "é" * 40_000 + "END", "truncated": False}
        prompt = await send_prompt(stage)
        await stage.client.until(lambda m: m.get("method") == "terminal/release")
        fake.output = {"output": "short\r\n", "truncated": True}
        await stage.client.answer(prompt)
        notice = "[the beginning of the output is left out]\n"
        long, brief = results(stage)
        assert brief == notice + "short\n"
        assert long.startswith(notice + "é") and long.endswith("éEND") and "\ufffd" not in long
        assert len(long.encode()) <= 50 * 1024


@pytest.mark.requirement("client-terminal.gate.same-safety")
async def test_a_call_is_asked_about_before_the_client_hears_of_it(tmp_path: Path) -> None:
    async with with_terminals(tmp_path, "one", "two", exits=({"exitCode": 0},), agent={"safety": "strict"}) as pair:
        stage, _ = pair
        prompt = await send_prompt(stage)
        asked = await stage.client.allow("reject")
        assert "one" in asked["params"]["toolCall"]["title"] and methods(stage) == []
        await stage.client.allow()
        await stage.client.answer(prompt)
        assert [m["params"]["args"][1] for m in stage.client.requests("terminal/create")] == ["two"]


@pytest.mark.requirement("client-terminal.own.exactly-one-release", "client-terminal.own.until-release")
async def test_two_terminals_of_one_turn_are_each_released_once_and_never_named_again(tmp_path: Path) -> None:
    both = calls(call("shell", cmd="a"), call("shell", cmd="b"))
    async with on_stage(tmp_path, both, text("end"), text("more"), agent=FREE, terminal=True) as stage:
        fake = Terminals(stage.client, {"exitCode": 0}, {"exitCode": 0})
        await stage.client.prompt(stage.session, "go")
        await stage.client.prompt(stage.session, "again")
        assert fake.all == [["wait_for_exit", "output", "release"]] * 2 and not fake.open
        assert methods(stage)[:2] == ["create", "create"]


# --- time and cancel --------------------------------------------------------------------------------------------


@pytest.mark.requirement(
    "client-terminal.own.kill-output-release",
    "client-terminal.timeout.default-and-longer",
    "client-terminal.own.exactly-one-release",
)
async def test_at_the_timeout_the_command_is_killed_then_read_then_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shell.DEFAULT_TIMEOUT == 30
    monkeypatch.setattr(shell, "DEFAULT_TIMEOUT", 0.05)
    async with with_terminals(tmp_path, "sleep 99") as (stage, fake):
        assert (await stage.client.prompt(stage.session, "go"))["result"] == {"stopReason": "end_turn"}
        assert fake.all == [["wait_for_exit", "kill", "output", "release"]]
        assert results(stage)[0].startswith("Timed out after 0.05 seconds") and results(stage)[0].endswith("out\n")
        assert path_of(stage) == ["owned", "killing", "releasing", "released"]


@pytest.mark.requirement(
    "client-terminal.own.kill-output-release",
    "client-terminal.output.cancel-omits-partial",
    "client-terminal.own.exactly-one-release",
    "machines.coupling.table",
)
async def test_a_cancel_kills_reads_and_releases_before_the_turn_is_answered(tmp_path: Path) -> None:
    async with with_terminals(tmp_path, "sleep 99") as (stage, fake):
        fake.silent.add("release")
        prompt = await send_prompt(stage)
        await stage.client.asked("terminal/wait_for_exit")
        await cancel(stage)
        release = await stage.client.asked("terminal/release")
        assert fake.all == [["wait_for_exit", "kill", "output", "release"]]
        assert not any(m.get("id") == prompt and "result" in m for m in stage.client.log)
        await stage.client.respond(release, {})
        assert (await stage.client.answer(prompt))["result"] == {"stopReason": "cancelled"}
        assert statuses(stage) == ["failed"] and "out" not in results(stage)[0].split()
        assert path_of(stage) == ["owned", "killing", "releasing", "released"]


@pytest.mark.requirement("client-terminal.own.kill-output-release", "client-terminal.output.cancel-omits-partial")
async def test_a_cancel_while_the_output_is_read_releases_what_has_exited(tmp_path: Path) -> None:
    async with with_terminals(tmp_path, "x", exits=({"exitCode": 0},)) as (stage, fake):
        fake.silent.add("output")
        prompt = await send_prompt(stage)
        await stage.client.asked("terminal/output")
        await cancel(stage)
        assert (await stage.client.answer(prompt))["result"] == {"stopReason": "cancelled"}
        assert fake.all == [["wait_for_exit", "output", "release"]]
        assert path_of(stage) == ["owned", "exited", "releasing", "released"]


@pytest.mark.requirement("tool-lifecycle.interrupt.known-results")
async def test_a_cancel_while_the_terminal_is_released_leaves_the_result_that_is_known(tmp_path: Path) -> None:
    async with with_terminals(tmp_path, "x", exits=({"exitCode": 0},)) as (stage, fake):
        fake.silent.add("release")
        prompt = await send_prompt(stage)
        release = await stage.client.asked("terminal/release")
        await cancel(stage)
        await stage.client.respond(release, {})
        assert (await stage.client.answer(prompt))["result"] == {"stopReason": "cancelled"}
        assert statuses(stage) == ["completed"] and results(stage) == ["out\n"]


@pytest.mark.requirement("client-terminal.create.late-id-released", "client-terminal.own.exactly-one-release")
async def test_an_id_that_comes_after_the_cancel_is_killed_and_released(tmp_path: Path) -> None:
    """Naively the pending create is abandoned together with the cancelled tool, and its command runs for ever."""
    async with with_terminals(tmp_path, "sleep 99", more=(text("ok"),)) as (stage, fake):
        fake.silent.add("create")
        prompt = await send_prompt(stage)
        create = await stage.client.asked("terminal/create")
        await cancel(stage)
        await stage.client.result("session/list")  # the cancel has been read by now
        await stage.client.respond(create, {"terminalId": fake.opened()})
        assert (await stage.client.answer(prompt))["result"] == {"stopReason": "cancelled"}
        assert fake.all == [["kill", "output", "release"]] and not fake.open
        assert path_of(stage) == ["abandoned", "killing", "releasing", "released"]
        cancelled = [m["params"]["requestId"] for m in stage.client.log if m.get("method") == "$/cancel_request"]
        assert create["id"] not in cancelled


async def test_a_create_that_is_refused_after_the_cancel_leaves_nothing_behind(tmp_path: Path) -> None:
    async with with_terminals(tmp_path, "sleep 99", more=(text("ok"),)) as (stage, fake):
        fake.silent.add("create")
        prompt = await send_prompt(stage)
        create = await stage.client.asked("terminal/create")
        await cancel(stage)
        await stage.client.result("session/list")
        await stage.client.refuse(create, -32602)
        assert (await stage.client.answer(prompt))["result"] == {"stopReason": "cancelled"}
        assert path_of(stage) == ["abandoned", "refused"]
        assert (await stage.client.prompt(stage.session, "next"))["result"] == {"stopReason": "end_turn"}


@pytest.mark.requirement("tool-lifecycle.interrupt.known-results")
async def test_an_exit_that_is_told_in_one_breath_with_the_cancel_is_a_known_result(tmp_path: Path) -> None:
    async with with_terminals(tmp_path, "x") as (stage, fake):
        prompt = await send_prompt(stage)
        wait = await stage.client.asked("terminal/wait_for_exit")
        exited = {"jsonrpc": "2.0", "id": wait["id"], "result": {"exitCode": 0}}
        gone = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": stage.session}}
        await stage.client.write(exited, gone)
        assert (await stage.client.answer(prompt))["result"] == {"stopReason": "cancelled"}
        assert path_of(stage) == ["owned", "killing", "killing", "releasing", "released"]
        assert statuses(stage) == ["completed"] and results(stage) == ["out\n"]
        assert fake.all == [["wait_for_exit", "kill", "output", "release"]]


async def test_a_cancel_gives_a_slow_create_its_whole_budget_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with with_terminals(tmp_path, "sleep 99") as (stage, fake):
        monkeypatch.setattr(terminals, "CREATE_BUDGET", 0.3)
        fake.silent.add("create")
        prompt = await send_prompt(stage)
        create = await stage.client.asked("terminal/create")
        monkeypatch.setattr(terminals, "CREATE_BUDGET", 60.0)
        await cancel(stage)
        with anyio.move_on_after(0.4):
            await anyio.sleep_forever()  # past the first deadline: only the new one counts
        await stage.client.respond(create, {"terminalId": fake.opened()})
        assert (await stage.client.answer(prompt))["result"] == {"stopReason": "cancelled"}
        assert path_of(stage)[-1] == "released"


# --- what cannot be resolved ------------------------------------------------------------------------------------


async def assert_blocked(stage: Stage) -> None:
    """Every gate of the slot is closed, and each says why."""
    block = [{"type": "text", "text": "x"}]
    gates: list[tuple[str, Json]] = [
        ("session/prompt", {"prompt": block}),
        ("session/set_mode", {"modeId": "strict"}),
        ("session/set_config_option", {"configId": "mode", "value": "strict"}),
        ("session/load", {"cwd": str(stage.cwd), "mcpServers": []}),
        ("session/resume", {"cwd": str(stage.cwd)}),
    ]
    for method, params in gates:
        error = await stage.client.error(method, sessionId=stage.session, **params)
        assert (error["code"], error["data"]["reason"]) == (-32603, "cleanup_failed"), method
        assert error["data"]["error"] in (terminals.UNKNOWN, terminals.UNRELEASED)


async def assert_kept(stage: Stage) -> None:
    """The session keeps its failure, and its history cannot be deleted."""
    for method in ("session/close", "session/close", "session/delete"):
        error = await stage.client.error(method, sessionId=stage.session)
        assert (error["code"], error["data"]["reason"]) == (-32603, "cleanup_failed"), method
    listed = (await stage.client.result("session/list"))["sessions"]
    assert [s["sessionId"] for s in listed] == [stage.session]


@pytest.mark.requirement(
    "client-terminal.create.ambiguous-poisons",
    "client-terminal.create.no-retry",
    "client-terminal.own.unresolved-blocks",
    "turn-admission.block.all-gates",
)
@pytest.mark.parametrize("cancelled", [True, False])
async def test_a_create_that_is_never_answered_poisons_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cancelled: bool
) -> None:
    """Naively a lost create is an ordinary tool error, and the next command runs beside one that nobody can end."""
    short(monkeypatch, "CREATE")
    async with with_terminals(tmp_path, "x") as (stage, fake):
        fake.silent.add("create")
        prompt = await send_prompt(stage)
        if cancelled:
            await stage.client.asked("terminal/create")
            await cancel(stage)
        reason = "cancelled" if cancelled else "end_turn"
        assert (await stage.client.answer(prompt))["result"] == {"stopReason": reason}
        assert statuses(stage) == ["failed"] and path_of(stage)[-1] == "unknown"
        await assert_blocked(stage)
        await assert_kept(stage)
        assert methods(stage) == ["create"]


@pytest.mark.requirement("client-terminal.create.ambiguous-poisons", "client-terminal.create.no-retry")
@pytest.mark.parametrize("code", [-32603, -32000, -32800, 7])
async def test_an_unclear_error_to_a_create_poisons_the_session(tmp_path: Path, code: int) -> None:
    async with with_terminals(tmp_path, "x") as (stage, fake):
        fake.errors["create"] = code
        assert (await stage.client.prompt(stage.session, "go"))["result"] == {"stopReason": "end_turn"}
        assert "it may be running" in results(stage)[0] and path_of(stage) == ["unknown"]
        await assert_blocked(stage)
        assert methods(stage) == ["create"]


@pytest.mark.requirement("client-terminal.create.ambiguous-poisons")
@pytest.mark.parametrize("result", [{}, {"terminalId": ""}, {"terminalId": 3}, [], "term-1", None])
async def test_an_answer_without_an_id_poisons_the_session(tmp_path: Path, result: Any) -> None:
    async with with_terminals(tmp_path, "x") as (stage, _):
        stage.client.responders["terminal/create"] = lambda request: {"result": result}
        await stage.client.prompt(stage.session, "go")
        assert path_of(stage) == ["unknown"]
        await assert_blocked(stage)


@pytest.mark.requirement("client-terminal.create.definite-refusal", "client-terminal.create.no-retry")
@pytest.mark.parametrize("code", [-32600, -32602, -32601])
async def test_a_definite_refusal_is_a_failed_call_and_no_more(tmp_path: Path, code: int) -> None:
    async with with_terminals(tmp_path, "x", more=(text("ok"),)) as (stage, fake):
        fake.errors["create"] = code
        await stage.client.prompt(stage.session, "go")
        assert statuses(stage) == ["failed"] and f"cannot ({code})" in results(stage)[0]
        assert (await stage.client.prompt(stage.session, "again"))["result"] == {"stopReason": "end_turn"}
        assert await stage.client.result("session/close", sessionId=stage.session) == {}
        assert methods(stage) == ["create"] and path_of(stage) == ["refused"]


@pytest.mark.requirement("client-terminal.own.kill-output-release", "client-terminal.cleanup.five-seconds")
@pytest.mark.parametrize("how", ["silent", "error"])
async def test_a_release_is_tried_even_if_kill_and_output_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    assert (terminals.KILL_BUDGET, terminals.OUTPUT_BUDGET, terminals.RELEASE_BUDGET) == (5, 5, 5)
    assert terminals.CREATE_BUDGET == 10
    short(monkeypatch, "KILL", "OUTPUT")
    async with with_terminals(tmp_path, "sleep 99", more=(text("ok"),)) as (stage, fake):
        for name in ("kill", "output"):
            if how == "silent":
                fake.silent.add(name)
            else:
                fake.errors[name] = -32603
        prompt = await send_prompt(stage)
        await stage.client.asked("terminal/wait_for_exit")
        await cancel(stage)
        assert (await stage.client.answer(prompt))["result"] == {"stopReason": "cancelled"}
        assert fake.all == [["wait_for_exit", "kill", "output", "release"]]
        assert (await stage.client.prompt(stage.session, "next"))["result"] == {"stopReason": "end_turn"}


@pytest.mark.requirement("client-terminal.output.exit-text", "client-terminal.own.exactly-one-release")
@pytest.mark.parametrize("code", [-32603, -32002])
async def test_a_wait_that_fails_ends_the_command_and_is_a_failed_call(tmp_path: Path, code: int) -> None:
    async with with_terminals(tmp_path, "x") as (stage, fake):
        fake.errors["wait_for_exit"] = code
        assert (await stage.client.prompt(stage.session, "go"))["result"] == {"stopReason": "end_turn"}
        assert fake.all == [["wait_for_exit", "kill", "output", "release"]]
        assert statuses(stage) == ["failed"] and "nobody knows how the command ended" in results(stage)[0]


@pytest.mark.requirement(
    "client-terminal.own.unresolved-blocks",
    "client-terminal.own.close-signals-first",
    "client-terminal.own.exactly-one-release",
)
@pytest.mark.parametrize("how", ["silent", "error"])
async def test_a_release_that_failed_blocks_the_session_until_its_close_tries_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    async with with_terminals(tmp_path, "x", exits=({"exitCode": 0},)) as (stage, fake):
        if how == "silent":
            monkeypatch.setattr(terminals, "RELEASE_BUDGET", 0.05)
            fake.silent.add("release")
        else:
            fake.errors["release"] = -32603
        assert (await stage.client.prompt(stage.session, "go"))["result"] == {"stopReason": "end_turn"}
        assert results(stage) == ["out\n"]
        await assert_blocked(stage)
        fake.silent.clear()
        fake.errors.clear()
        monkeypatch.undo()
        assert await stage.client.result("session/close", sessionId=stage.session) == {}
        assert fake.all == [["wait_for_exit", "output", "release", "release"]]
        assert path_of(stage)[-3:] == ["release_failed", "last_attempt", "released"]
        await stage.client.result("session/load", sessionId=stage.session, cwd=str(stage.cwd), mcpServers=[])


@pytest.mark.requirement("client-terminal.own.unresolved-blocks")
async def test_a_release_that_fails_twice_is_kept_and_keeps_the_history(tmp_path: Path) -> None:
    async with with_terminals(tmp_path, "x", exits=({"exitCode": 0},)) as (stage, fake):
        fake.errors["release"] = -32603
        await stage.client.prompt(stage.session, "go")
        await assert_kept(stage)
        assert fake.all == [["wait_for_exit", "output", "release", "release"]]
        assert path_of(stage)[-1] == "unreleased"


@pytest.mark.requirement("client-terminal.own.unresolved-blocks")
async def test_a_delete_does_not_discard_the_history_of_a_session_with_unresolved_cleanup(tmp_path: Path) -> None:
    async with with_terminals(tmp_path, "x", exits=({"exitCode": 0},)) as (stage, fake):
        fake.errors["release"] = -32603
        await stage.client.prompt(stage.session, "go")
        error = await stage.client.error("session/delete", sessionId=stage.session)
        assert error["data"]["reason"] == "cleanup_failed"
        assert len((await stage.client.result("session/list"))["sessions"]) == 1


async def test_a_queued_prompt_is_refused_when_the_cancelled_turn_leaves_a_terminal(tmp_path: Path) -> None:
    async with with_terminals(tmp_path, "sleep 99") as (stage, fake):
        fake.errors["release"] = -32603
        fake.silent.add("kill")
        first = await send_prompt(stage)
        await stage.client.asked("terminal/wait_for_exit")
        await cancel(stage)
        kill = await stage.client.asked("terminal/kill")
        second = await send_prompt(stage, "next")
        await stage.client.result("session/list")
        await stage.client.respond(kill, {})
        assert (await stage.client.answer(first))["result"] == {"stopReason": "cancelled"}
        assert (await stage.client.answer(second))["error"]["data"]["reason"] == "cleanup_failed"


@pytest.mark.requirement("client-terminal.own.unresolved-blocks", "machines.coupling.table")
async def test_a_terminal_of_a_background_agent_that_is_not_released_blocks_an_idle_session(tmp_path: Path) -> None:
    """Naively only the end of a turn looks at terminals, and the next prompt is admitted beside one that is left."""
    async with with_terminals(tmp_path, exits=({"exitCode": 0},)) as (stage, fake):
        live = stage.server.connection.entries[stage.session].live
        assert live is not None
        task = CompiledBackground(key="agent-1", record=live.connection.record)
        live.background.append(task)
        fake.errors["release"] = -32603
        context = ToolContext(stage.session, "c", str(stage.cwd), owner="agent-1")
        command = TerminalCommand(("/bin/sh", "-c", "x"), str(stage.cwd), {}, 1)
        assert (await live.terminals.run(command, context)).exit_code == 0
        task.fire("finished")
        await assert_blocked(stage)
        with pytest.raises(ToolFailure, match="no command is started"):
            await live.terminals.run(command, context)
        fake.errors.clear()
        assert await stage.client.result("session/close", sessionId=stage.session) == {}


# --- the end of a session ---------------------------------------------------------------------------------------


@pytest.mark.requirement(
    "client-terminal.own.close-signals-first",
    "client-terminal.own.exactly-one-release",
    "session.close.result-means-drained",
)
@pytest.mark.parametrize("method", ["session/close", "session/delete", "logout"])
async def test_closing_gives_an_open_terminal_back_before_it_is_answered(tmp_path: Path, method: str) -> None:
    async with with_terminals(tmp_path, "sleep 99") as (stage, fake):
        fake.silent.add("release")
        prompt = await send_prompt(stage)
        await stage.client.asked("terminal/wait_for_exit")
        closing = await stage.client.send(method, **({} if method == "logout" else {"sessionId": stage.session}))
        release = await stage.client.asked("terminal/release")
        assert fake.all == [["wait_for_exit", "kill", "output", "release"]]
        assert not any(m.get("id") == closing and "method" not in m for m in stage.client.log)
        await stage.client.respond(release, {})
        assert (await stage.client.answer(closing))["result"] == {}
        assert (await stage.client.answer(prompt))["result"] == {"stopReason": "cancelled"}


@pytest.mark.requirement("client-terminal.create.late-id-released", "client-terminal.own.close-signals-first")
async def test_closing_waits_for_the_id_of_a_create_under_way_and_releases_it(tmp_path: Path) -> None:
    async with with_terminals(tmp_path, "sleep 99") as (stage, fake):
        fake.silent.add("create")
        await send_prompt(stage)
        create = await stage.client.asked("terminal/create")
        closing = await stage.client.send("session/close", sessionId=stage.session)
        await stage.client.result("session/list")
        await stage.client.respond(create, {"terminalId": fake.opened()})
        assert (await stage.client.answer(closing))["result"] == {}
        assert fake.all == [["kill", "output", "release"]]


@pytest.mark.requirement("client-terminal.own.no-transfer")
async def test_a_call_of_a_closed_session_starts_nothing_for_the_one_that_took_its_id(tmp_path: Path) -> None:
    async with with_terminals(tmp_path, "x", exits=({"exitCode": 0},)) as (stage, _):
        live = stage.server.connection.entries[stage.session].live
        assert live is not None
        await stage.client.prompt(stage.session, "go")
        await stage.client.result("session/close", sessionId=stage.session)
        await stage.client.result("session/load", sessionId=stage.session, cwd=str(stage.cwd), mcpServers=[])
        command = TerminalCommand(("/bin/sh", "-c", "x"), str(stage.cwd), {}, 1)
        with pytest.raises(ToolFailure, match="no command is started"):
            await live.terminals.run(command, ToolContext(stage.session, "late", str(stage.cwd)))
        assert methods(stage).count("create") == 1


@pytest.mark.requirement("machines.terminal.states")
@pytest.mark.parametrize("at", ["create", "wait_for_exit", "output", "release"])
async def test_the_end_of_input_fails_open_calls_at_once_and_the_exit_status_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """Naively every budget runs out one after the other, and the process then claims that all was well."""
    for name in ("CREATE", "KILL", "OUTPUT", "RELEASE"):
        monkeypatch.setattr(terminals, f"{name}_BUDGET", 3600.0)
    async with with_terminals(tmp_path, "x", exits=({"exitCode": 0},)) as (stage, fake):
        fake.silent.add(at)
        if at == "wait_for_exit":
            fake.exits.clear()
        await send_prompt(stage)
        await stage.client.asked(f"terminal/{at}")
    assert stage.server.status == 1
    assert path_of(stage)[-1] == ("unknown" if at == "create" else "unreleased")


async def test_terminals_that_were_given_back_leave_the_exit_status_alone(tmp_path: Path) -> None:
    async with with_terminals(tmp_path, "x", exits=({"exitCode": 0},)) as (stage, _):
        await stage.client.prompt(stage.session, "go")
    assert stage.server.status == 0


@pytest.mark.requirement("client-terminal.command.same-platform")
def test_the_docs_say_what_the_agent_assumes_of_the_client() -> None:
    words = (Path(__file__).parents[2] / "docs" / "terminals.md").read_text(encoding="utf-8")
    assert "Client and agent must share platform and paths." in words
    assert "the client's to limit" in words


def test_the_interpreter_is_an_absolute_path_of_the_system() -> None:
    assert shell.interpreter("Linux") == ("/bin/sh", "-c")
    assert shell.interpreter("Windows") == (r"C:\Windows\System32\cmd.exe", "/D", "/C")


# --- what stays on the host, and what every client gets ---------------------------------------------------------


@pytest.mark.requirement("client-terminal.scope.local-rest", "tools.background-jobs.lifecycle")
async def test_background_jobs_run_on_the_host_and_end_with_the_session(tmp_path: Path) -> None:
    start = calls(call("run_background_job", cmd="echo $$ > pid; exec sleep 60"))
    agent = {**FREE, "toolsets": [{"type": "background_jobs"}, {"type": "shell"}]}
    async with on_stage(tmp_path, start, text("end"), agent=agent, terminal=True) as stage:
        await stage.client.prompt(stage.session, "go")
        with anyio.fail_after(5):
            while not (stage.cwd / "pid").exists() or not (stage.cwd / "pid").read_text():
                await anyio.lowlevel.checkpoint()
        process = Path("/proc") / (stage.cwd / "pid").read_text().strip()
        assert process.exists() and methods(stage) == []
        assert await stage.client.result("session/close", sessionId=stage.session) == {}
        assert not process.exists()


@pytest.mark.requirement(
    "capability-matrix.client.shell-tool",
    "capability-matrix.client.discovery-quiet",
    "client-terminal.command.environment-info",
)
async def test_shell_and_environment_are_offered_to_every_client_and_listing_asks_nothing(tmp_path: Path) -> None:
    agent = {**FREE, "toolsets": [{"type": name} for name in ("filesystem", "shell", "environment", "user_prompt")]}
    for bits in itertools.product((False, True), repeat=5):
        read, write, terminal, form, url = bits
        capabilities: Json = {
            "fs": {"readTextFile": read, "writeTextFile": write},
            "terminal": terminal,
            "elicitation": {"form": {} if form else None, "url": {} if url else None},
        }
        reply = calls(call("get_environment_info"))
        async with on_stage(tmp_path, reply, text("end"), agent=agent, **capabilities) as stage:
            await stage.client.prompt(stage.session, "go")
            offered = {t["function"]["name"]: t["function"] for t in stage.model.requests[0].body["tools"]}
            assert {"shell", "get_environment_info", "user_prompt"} <= set(offered), bits
            assert ("client's terminal" in offered["shell"]["description"]) is terminal, bits
            where = "in the client's terminal" if terminal else "on the agent's host"
            assert results(stage)[0].endswith(f"/bin/sh, {where}"), bits
            assert [m for m in stage.client.log if "id" in m and "method" in m] == [], bits


@pytest.mark.requirement("cancel.scope.background-keeps-own")
async def test_cancelling_the_turn_leaves_a_background_job_running_for_the_next_turn(tmp_path: Path) -> None:
    start = calls(call("run_background_job", cmd="echo $$ > pid; exec sleep 60"))
    look = calls(call("view_background_job", job_id="job-1"))
    agent = {**FREE, "toolsets": [{"type": "background_jobs"}]}
    async with on_stage(tmp_path, start, Reply([Stall()]), look, text("end"), agent=agent) as stage:
        client = stage.client
        prompt = await send_prompt(stage)
        await stage.model.wait_for_call(2)
        with anyio.fail_after(5):
            while not (stage.cwd / "pid").exists() or not (stage.cwd / "pid").read_text():
                await anyio.lowlevel.checkpoint()
        process = Path("/proc") / (stage.cwd / "pid").read_text().strip()
        await client.notify("session/cancel", sessionId=stage.session)
        assert (await client.answer(prompt))["result"] == {"stopReason": "cancelled"}
        assert process.exists()
        assert (await client.prompt(stage.session, "and now?"))["result"] == {"stopReason": "end_turn"}
        shown = stage.model.requests[-1].messages[-1]["content"]
        assert "running" in shown and process.exists()
        await client.result("session/close", sessionId=stage.session)
        assert not process.exists()
