"""The shell tool with real processes."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from sluice.agent.ports import ToolFailure
from sluice.tools import process
from sluice.tools.shell import NO_OUTPUT
from tests.tools.support import call, make

pytestmark = pytest.mark.anyio


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


async def gone(*pids: int) -> None:
    with anyio.fail_after(5):
        while any(alive(pid) for pid in pids):
            await anyio.lowlevel.checkpoint()


async def written(path: Path) -> str:
    with anyio.fail_after(5):
        while not (path.exists() and path.read_text().endswith("\n")):
            await anyio.lowlevel.checkpoint()
    return path.read_text()


@pytest.mark.requirement("tools.shell.semantics")
async def test_a_command_runs_in_the_session_directory_and_its_two_outputs_are_merged_in_order(
    tmp_path: Path,
) -> None:
    result = await call(make("shell", tmp_path), tmp_path, "shell", cmd="pwd; echo err >&2; echo out")
    assert result.text == f"{tmp_path}\nerr\nout\n"
    assert not result.is_error


async def test_the_directory_of_a_call_is_relative_to_the_session_directory(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    shell = make("shell", tmp_path)
    assert (await call(shell, tmp_path, "shell", cmd="pwd", cwd="sub")).text == f"{tmp_path}/sub\n"
    with pytest.raises(ToolFailure, match="does not exist"):
        await call(shell, tmp_path, "shell", cmd="pwd", cwd="nowhere")


@pytest.mark.requirement("tools.shell.semantics")
async def test_a_command_has_nothing_to_read_and_is_not_kept_waiting(tmp_path: Path) -> None:
    with anyio.fail_after(5):
        result = await call(make("shell", tmp_path), tmp_path, "shell", cmd="cat; echo end")
    assert result.text == "end\n"


async def test_no_output_is_said_in_words(tmp_path: Path) -> None:
    assert (await call(make("shell", tmp_path), tmp_path, "shell", cmd="true")).text == NO_OUTPUT


async def test_a_failing_command_is_an_error_result_with_code_and_output(tmp_path: Path) -> None:
    result = await call(make("shell", tmp_path), tmp_path, "shell", cmd="echo why; exit 3")
    assert result.is_error
    assert "exit code 3" in result.text
    assert result.text.endswith("why\n")


async def test_a_command_ended_by_a_signal_says_which(tmp_path: Path) -> None:
    result = await call(make("shell", tmp_path), tmp_path, "shell", cmd="kill -9 $$")
    assert result.is_error
    assert "signal 9" in result.text


@pytest.mark.requirement("tools.shell.semantics")
async def test_a_timeout_ends_the_whole_group_and_keeps_what_was_printed(tmp_path: Path) -> None:
    line = f"echo early; sleep 300 & echo $! > {tmp_path}/pid; wait"
    with anyio.fail_after(8):
        result = await call(make("shell", tmp_path), tmp_path, "shell", cmd=line, timeout=0.5)
    assert result.is_error
    assert "Timed out after 0.5 seconds" in result.text
    assert "early" in result.text
    await gone(int((tmp_path / "pid").read_text()))


@pytest.mark.requirement("tools.shell.cancel-kills-group")
async def test_cancelling_a_call_ends_its_whole_group_before_it_returns(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    line = f"sleep 300 & a=$!; (sleep 300) & echo $$ $a $! > {pids}; wait"
    shell = make("shell", tmp_path)
    with anyio.fail_after(8):
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: call(shell, tmp_path, "shell", cmd=line))
            found = [int(pid) for pid in (await written(pids)).split()]
            group.cancel_scope.cancel()
    assert not process.group_alive(found[0])
    await gone(*found)


@pytest.mark.requirement("tools.shell.cancel-kills-group")
async def test_a_group_that_ignores_sigterm_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "TERM_SECONDS", 0.2)
    pids = tmp_path / "pids"
    line = f"trap '' TERM; sleep 300 & echo $$ $! > {pids}; wait; wait"
    shell = make("shell", tmp_path)
    with anyio.fail_after(8):
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: call(shell, tmp_path, "shell", cmd=line))
            found = [int(pid) for pid in (await written(pids)).split()]
            group.cancel_scope.cancel()
    await gone(*found)


async def test_a_child_that_daemonizes_and_keeps_the_pipe_does_not_hold_the_call(tmp_path: Path) -> None:
    program = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        f"    open({str(tmp_path / 'pid')!r}, 'w').write(f'{{os.getpid()}}\\n')\n"
        "    time.sleep(300)\n"
        "print('parent')\n"
    )
    (tmp_path / "daemon.py").write_text(program)
    with anyio.fail_after(8):
        result = await call(make("shell", tmp_path), tmp_path, "shell", cmd=f"{sys.executable} daemon.py")
    assert result.text == "parent\n"
    pid = int(await written(tmp_path / "pid"))
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


async def test_what_a_command_leaves_in_the_background_lives_on_and_ends_with_the_toolset(tmp_path: Path) -> None:
    shell = make("shell", tmp_path)
    with anyio.fail_after(8):
        result = await call(shell, tmp_path, "shell", cmd="sleep 300 & echo $!")
        pid = int(result.text)
        await call(shell, tmp_path, "shell", cmd="true")
        assert alive(pid)
        await shell.stop()
    await gone(pid)


async def test_endless_output_keeps_its_end_and_never_fills_the_memory(tmp_path: Path) -> None:
    line = "head -c 20000000 /dev/zero | tr '\\0' 'x'; echo; echo last"
    result = await call(make("shell", tmp_path), tmp_path, "shell", cmd=line)
    assert result.text.endswith("last\n")
    assert "bytes of the output are left out" in result.text
    assert len(result.text.encode()) <= 50 * 1024


async def test_output_that_is_no_utf8_is_shown_with_replacement_characters(tmp_path: Path) -> None:
    result = await call(make("shell", tmp_path), tmp_path, "shell", cmd="printf 'a\\377b'")
    assert result.text == "a\ufffdb"


async def test_the_environment_is_inherited_and_overridden(tmp_path: Path) -> None:
    shell = make("shell", tmp_path, env={"SLUICE_PROBE": "lit-$HOME"})
    result = await call(shell, tmp_path, "shell", cmd='printf "%s|%s" "$SLUICE_PROBE" "$PATH"')
    assert result.text == f"lit-$HOME|{os.environ['PATH']}"


async def test_the_alias_of_the_command_argument_is_taken(tmp_path: Path) -> None:
    assert (await call(make("shell", tmp_path), tmp_path, "shell", command="echo hi")).text == "hi\n"


@pytest.mark.parametrize("timeout", [0, -1, True, "soon", float("inf"), float("nan")])
async def test_a_timeout_that_makes_no_sense_is_refused(tmp_path: Path, timeout: object) -> None:
    with pytest.raises(ToolFailure, match="timeout"):
        await call(make("shell", tmp_path), tmp_path, "shell", cmd="true", timeout=timeout)


async def test_a_command_with_nul_is_a_failure_with_a_text(tmp_path: Path) -> None:
    with pytest.raises(ToolFailure, match="could not be started"):
        await call(make("shell", tmp_path), tmp_path, "shell", cmd="echo \0")


def test_the_tail_drops_a_character_cut_at_its_start() -> None:
    tail = process.Tail(4)
    tail.add("aé€".encode())
    assert tail.text() == "€"
    assert tail.omitted == 2
