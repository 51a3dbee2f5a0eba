"""The agent as a process: K004-K010 and K070-K071 of the client checklist."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio
import pytest

from sluice.client.agent import connect
from sluice.client.connection import ClientOptions
from sluice.client.errors import AgentExited, AgentStartError
from sluice.client.fake_agent import Script
from sluice.client.process import AgentCommand, Ladder
from tests.client.support import QUICK, chunk, in_session, playing

pytestmark = pytest.mark.anyio

VERSION_1 = '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'


def alive(pid: int) -> bool:
    """Whether a process runs; one that waits to be reaped by an init that never does has ended."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (ProcessLookupError, FileNotFoundError):
        return False


@pytest.mark.requirement("acp-provider.process.lines")
@pytest.mark.parametrize(
    "noise",
    [
        "Welcome to the agent!\nWARNING: old node\n",
        "\n\r\n  \n",
        "[1, 2, 3]\n",
        '[{"jsonrpc":"2.0","id":1,"result":{}}]\n',
        "\ufeff",
        '"text"\nnull\n42\n{}\n{"a":1}\n',
        '{"id":null,"error":{"code":-32700,"message":"what?"}}\n',
        "progress 10%\rprogress 20%\n",
        "\udcff\udcfe broken bytes\n",
        '{"jsonrpc":"2.0","id":1.5,"method":"x/y"}\n',
    ],
)
async def test_what_is_not_a_message_is_skipped_and_never_answered(tmp_path: Path, noise: str) -> None:
    steps = [{"raw": noise + VERSION_1 + "\r\n"}]
    async with playing(tmp_path, {"initialize": [steps]}) as played:
        await played.agent.initialize()
        await played.settled()
        assert played.methods() == ["initialize", "_test/barrier"]
        assert played.answers() == {}


@pytest.mark.requirement("acp-provider.process.lines")
async def test_a_line_separator_inside_a_string_and_broken_utf8_do_not_end_a_line(tmp_path: Path) -> None:
    raw = '{"method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk",'
    raw += '"content":{"type":"text","text":"a\u2028b\udcff"}}}}\n'
    steps = [{"raw": raw}, {"result": {"stopReason": "end_turn"}}]
    async with in_session(tmp_path, {"session/prompt": [steps]}) as played:
        await played.agent.prompt("s1", "x")
        assert played.said == "a\u2028b\ufffd"


@pytest.mark.requirement("acp-provider.process.lines")
async def test_our_own_lines_hold_one_message_each_whatever_the_prompt_holds(tmp_path: Path) -> None:
    text = "one\ntwo\r\n\u2028 \U0001f600 \ud83d \x00"
    async with in_session(tmp_path) as played:
        await played.agent.prompt("s1", text)
        raw = (tmp_path / "journal.jsonl").read_bytes()
        assert raw.count(b"\n") == len(played.script.received()) == 3
        (params,) = played.params("session/prompt")
        assert params["prompt"] == [{"type": "text", "text": text.replace("\ud83d", "\ufffd")}]


@pytest.mark.requirement("acp-provider.process.large-and-noisy")
@pytest.mark.parametrize("size", [(1 << 16) + 1, 20 << 20])
async def test_long_lines_are_accepted(tmp_path: Path, size: int) -> None:
    frame = len(
        '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":'
        '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":""}}}}\n'
    )
    head = '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":'
    head += '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'
    # The flood ends in a newline, which must be the line's own: so the text stands last.
    steps = [{"raw": head + "y" * (size - frame) + '"}}}}\n'}, {"result": {"stopReason": "end_turn"}}]
    async with in_session(tmp_path, {"session/prompt": [steps]}) as played:
        await played.agent.prompt("s1", "x")
        assert len(played.said) == size - frame


@pytest.mark.requirement("acp-provider.process.large-and-noisy")
@pytest.mark.parametrize("end", [[], [{"wait": "never"}]])
async def test_a_line_above_the_limit_is_a_clear_error_and_no_hang(tmp_path: Path, end: list[object]) -> None:
    steps = [{"raw": "y" * 70000}, *end]
    options = ClientOptions(line_limit=65536)
    async with in_session(tmp_path, {"session/prompt": [steps]}, options=options) as played:
        with pytest.raises(AgentExited, match="line of more than 65536 bytes"):
            await played.agent.prompt("s1", "x")


@pytest.mark.requirement("acp-provider.process.large-and-noisy")
async def test_a_noisy_stderr_is_drained(tmp_path: Path) -> None:
    flood = {"flood": {"bytes": 10 << 20, "to": "stderr"}}
    async with in_session(tmp_path, {"session/prompt": [[flood, {"result": {"stopReason": "end_turn"}}]]}) as played:
        await played.agent.prompt("s1", "x")
        assert played.agent.process is not None
        assert sum(map(len, played.agent.process.stderr_tail)) <= 2000


@pytest.mark.requirement("acp-provider.process.death")
async def test_a_missing_command_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(AgentStartError, match="no-such-program: command not found"):
        async with connect([str(tmp_path / "no-such-program")]):
            raise AssertionError("it cannot have started")
    with pytest.raises(AgentStartError, match="no agent command"):
        async with connect([]):
            raise AssertionError("it cannot have started")
    with pytest.raises(AgentStartError, match="no such directory"):
        async with connect(AgentCommand(["true"], cwd=tmp_path / "nowhere")):
            raise AssertionError("it cannot have started")
    script = tmp_path / "plain.txt"
    script.write_text("no program")
    with pytest.raises(AgentStartError, match="Permission denied"):
        async with connect([str(script)]):
            raise AssertionError("it cannot have started")


@pytest.mark.requirement("acp-provider.process.death")
async def test_an_early_exit_fails_the_pending_call_with_the_tail_of_stderr(tmp_path: Path) -> None:
    start = [{"stderr": "reading the config"}, {"stderr": "no API key: set FAKE_KEY"}, {"exit": 3}]
    async with playing(tmp_path, start=start) as played:
        with pytest.raises(
            AgentExited, match=r"exited with status 3 \(initialize\): no API key: set FAKE_KEY"
        ) as error:
            await played.agent.initialize()
        assert error.value.returncode == 3
        assert error.value.stderr == ("reading the config", "no API key: set FAKE_KEY")
        with pytest.raises(AgentExited, match="exited with status 3"):
            await played.agent.initialize()


@pytest.mark.requirement("acp-provider.process.death")
async def test_a_usage_error_on_stdout_is_what_the_error_shows_when_stderr_is_silent(tmp_path: Path) -> None:
    async with playing(tmp_path, start=[{"raw": "usage: agent FILE\n"}, {"exit": 2}]) as played:
        with pytest.raises(AgentExited, match=r"status 2.*usage: agent FILE"):
            await played.agent.initialize()


@pytest.mark.requirement("acp-provider.process.death")
async def test_a_death_in_a_turn_ends_the_turn_although_a_grandchild_holds_the_pipes(tmp_path: Path) -> None:
    steps = [{"spawn": ["sleep", "60"]}, {"update": chunk("last words")}, {"exit": 9}]
    async with in_session(tmp_path, {"session/prompt": [steps]}) as played:
        with pytest.raises(AgentExited, match="status 9"):
            await played.agent.prompt("s1", "x")
        assert played.said == "last words"
        assert played.agent.gone.is_set()
    (spawned,) = [line["spawned"] for line in played.script.received() if "spawned" in line]
    assert not alive(spawned)


@pytest.mark.requirement("acp-provider.process.shutdown-ladder")
async def test_a_well_behaved_agent_ends_by_the_end_of_its_input(tmp_path: Path) -> None:
    async with in_session(tmp_path) as played:
        process = played.agent.process
    assert process is not None
    assert process.returncode == 0
    assert played.methods()[-1] == "session/close"


@pytest.mark.requirement("acp-provider.process.shutdown-ladder")
async def test_an_agent_that_ignores_everything_dies_with_its_grandchild(tmp_path: Path) -> None:
    script = Script(start=[{"spawn": ["sh", "-c", "trap '' TERM; sleep 60"]}], ignore_eof=True, ignore_term=True)
    ladder = Ladder(after_close=0.1, after_term=0.1, after_kill=5.0)
    with anyio.fail_after(10):
        async with connect(AgentCommand(script.command(tmp_path), ladder=ladder)) as agent:
            await agent.initialize()
    assert agent.process is not None
    assert agent.process.returncode == -9
    (spawned,) = [line["spawned"] for line in script.received() if "spawned" in line]
    assert not alive(spawned)


@pytest.mark.requirement("acp-provider.process.shutdown-ladder")
async def test_a_cancelled_client_still_ends_its_agent(tmp_path: Path) -> None:
    script = Script(ignore_eof=True)
    with anyio.fail_after(10), anyio.CancelScope() as scope:
        ladder = Ladder(after_close=0.05, after_term=5.0)
        async with connect(AgentCommand(script.command(tmp_path), ladder=ladder)) as agent:
            await agent.initialize()
            scope.cancel()
            await anyio.sleep_forever()
    assert agent.process is not None
    assert agent.process.returncode == -15


async def test_the_environment_is_laid_over_ours_and_arguments_reach_the_program_unparsed(tmp_path: Path) -> None:
    code = "import os,sys; sys.stderr.write(os.environ['MARK'] + sys.argv[1] + os.getcwd()); sys.exit(4)"
    command = AgentCommand([sys.executable, "-c", code, "a b; $HOME"], cwd=tmp_path, env={"MARK": "m"}, ladder=QUICK)
    with anyio.fail_after(10):
        async with connect(command) as agent:
            with pytest.raises(AgentExited) as error:
                await agent.initialize()
    assert error.value.stderr == (f"ma b; $HOME{tmp_path}",)
