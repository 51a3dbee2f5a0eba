"""What people who use agents over ACP ran into, each with the right value."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml

from sluice.wire.transport import StreamTransport
from tests.handlers.support import history
from tests.handlers.test_process import descendants, gone
from tests.support.model_server import Call, ModelServer, call, calls, text
from tests.support.setup import agent_on, on_stage, scripted_agent
from tests.support.wire import Client, serving, spawned

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

ODD = Path(__file__).parents[1] / "mcp" / "server_odd.py"


def is_permission(message: Json) -> bool:
    return message.get("method") == "session/request_permission"


def last_states(updates: list[Json]) -> list[str]:
    return list({u["toolCallId"]: u["status"] for u in updates if "toolCallId" in u}.values())


@pytest.mark.requirement("cancel.permission.answered-first", "cancel.prompt.final-updates-first")
@pytest.mark.parametrize("order", ["cancel first", "answer first"])
async def test_a_permission_dismissed_around_a_cancel_is_a_cancelled_turn(tmp_path: Path, order: str) -> None:
    """Field case B01: stop pressed while a dialog is open is reported as a normal end, or never ends."""
    async with on_stage(tmp_path, calls(call("shell", cmd="touch ran.txt")), text("ok again")) as stage:
        client = stage.client
        prompt = client.send_prompt(stage.session, "run it")
        await client.write(prompt)
        asked = await client.until(is_permission)
        cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": stage.session}}
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": {"outcome": {"outcome": "cancelled"}}}
        await client.write(*([cancel, answer] if order == "cancel first" else [answer, cancel]))
        response = await client.answer(prompt["id"])
        assert response["result"] == {"stopReason": "cancelled"} and client.log[-1] == response
        last = client.updates(stage.session, "tool_call_update")[-1]
        assert last["toolCallId"] == asked["params"]["toolCall"]["toolCallId"] and last["status"] == "failed"
        assert not (stage.cwd / "ran.txt").exists() and len(stage.model.requests) == 1
        assert (await client.prompt(stage.session, "still there?"))["result"] == {"stopReason": "end_turn"}


@pytest.mark.requirement(
    "jsonrpc.dispatch.reader-free", "turn-admission.parallel.other-session", "jsonrpc.dispatch.out-of-order-answers"
)
async def test_a_session_that_waits_for_its_user_holds_up_no_other(tmp_path: Path) -> None:
    """Field case B03: while one conversation waits for an approval, all others get no answer."""
    second = tmp_path / "second"
    second.mkdir()
    replies = [calls(call("shell", cmd="pwd")), text("hello from B"), text("A done")]
    async with on_stage(tmp_path, *replies) as stage:
        client = stage.client
        parked = client.send_prompt(stage.session, "work")
        await client.write(parked)
        asked = await client.until(is_permission)
        other = await client.new(second)
        assert (await client.prompt(other, "hi"))["result"] == {"stopReason": "end_turn"}
        assert len((await client.result("session/list"))["sessions"]) == 2
        assert client.text(other) == "hello from B" and client.text(stage.session) == ""
        await client.respond(asked, {"outcome": {"outcome": "selected", "optionId": "allow"}})
        assert (await client.answer(parked["id"]))["result"] == {"stopReason": "end_turn"}
        assert client.text(stage.session) == "A done"
        assert stage.model.requests[-1].messages[-1]["content"] == f"{stage.cwd}\n"


@pytest.mark.requirement("cancel.prompt.history-consistent", "turn-admission.release.always")
async def test_an_interrupt_in_a_tool_call_spoils_no_later_request(tmp_path: Path) -> None:
    """Field case B04: a call without a result in the history is refused by the provider for ever after."""
    both = calls(Call("shell", {"cmd": "sleep 30"}, "c1"), Call("shell", {"cmd": "echo two"}, "c2"))
    async with ModelServer([both, text("after cancel"), text("after restart")]) as model:
        file = agent_on(tmp_path, model.base_url)
        async with serving(file, tmp_path / "s.db") as server:
            client = server.client
            await client.initialize()
            session = await client.new(tmp_path)
            prompt = client.send_prompt(session, "alpha task")
            await client.write(prompt)
            await client.allow()
            await client.until(lambda m: "in_progress" in str(m))
            await client.notify("session/cancel", sessionId=session)
            response = await client.answer(prompt["id"])
            assert response["result"] == {"stopReason": "cancelled"} and client.log[-1] == response
            assert last_states(client.updates(session)) == ["failed", "failed"]
            assert (await client.prompt(session, "beta task"))["result"] == {"stopReason": "end_turn"}
        async with serving(file, tmp_path / "s.db") as server:
            await server.client.initialize()
            where = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
            await server.client.result("session/load", **where)
            assert last_states(history(server.client)) == ["failed", "failed"]
            assert (await server.client.prompt(session, "gamma task"))["result"] == {"stopReason": "end_turn"}
        assert model.refusals == []
        for request in model.requests[1:]:
            roles = [message["role"] for message in request.messages[1:5]]
            assert roles == ["user", "assistant", "tool", "tool"]
            assert request.messages[1]["content"] == "alpha task"


@pytest.mark.requirement("transport.stdio.stdout-pure", "transport.stdio.plain-child")
async def test_noise_of_every_kind_stays_off_the_wire(tmp_path: Path) -> None:
    """Field case B08: warnings, a hook's output and a child's output land between the protocol lines."""
    toolsets = [
        {"type": "filesystem", "post_edit": [{"path": "*.txt", "cmd": "echo formatted; no-such-program"}]},
        {"type": "shell"},
    ]
    replies = [
        calls(call("shell", cmd="echo raw-shell-output; echo more >&2")),
        calls(call("write_file", path="n.txt", content="n")),
        text("x"),
    ]
    async with ModelServer(replies) as model:
        file = agent_on(tmp_path, model.base_url, agent={"toolsets": toolsets})
        content = yaml.safe_load(file.read_text())
        content["agents"]["root"]["welcome_message"] = "${unknown.thing}"
        file.write_text(yaml.safe_dump(content))
        noisy = {"PYTHONWARNINGS": "always", "PYTHONDEVMODE": "1", "LC_ALL": "C", "PYTHONIOENCODING": "latin-1"}
        command = [sys.executable, "-m", "sluice", "serve", "acp", str(file), "-s", str(tmp_path / "s.db"), "--debug"]
        process = await anyio.open_process(command, env={**os.environ, **noisy})
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        raw = b""

        async def ask(number: int, method: str, **params: Any) -> Json:
            nonlocal raw
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            await process.stdin.send(json.dumps(message).encode() + b"\n")  # type: ignore[union-attr]
            seen = len(raw)
            while True:
                for line in raw[seen:].split(b"\n")[:-1]:
                    answer: Json = json.loads(line)
                    if answer.get("id") == number and "method" not in answer:
                        return answer
                raw += await process.stdout.receive()  # type: ignore[union-attr]

        async def listen() -> None:
            async for _ in process.stderr:  # type: ignore[union-attr]
                continue

        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(listen)
                await ask(1, "initialize", protocolVersion=1)
                made = await ask(2, "session/new", cwd=str(tmp_path), mcpServers=[])
                session = made["result"]["sessionId"]
                await ask(3, "session/set_mode", sessionId=session, modeId="autonomous")
                prompt = [{"type": "text", "text": "grüße \N{GRINNING FACE} \u2028"}]
                done = await ask(4, "session/prompt", sessionId=session, prompt=prompt)
                assert done["result"] == {"stopReason": "end_turn"}
                await process.stdin.aclose()
                async for rest in process.stdout:
                    raw += rest
                assert await process.wait() == 0
        assert raw[:1] == b"{" and raw[-1:] == b"\n"
        for line in raw.split(b"\n")[:-1]:
            assert json.loads(line.decode("utf-8"))["jsonrpc"] == "2.0" and b"\r" not in line and b"\x1b" not in line
        assert model.requests[0].messages[-1]["content"] == prompt[0]["text"]


@pytest.mark.requirement("shutdown.eof.clean-exit", "shutdown.cancel.admitted")
async def test_what_was_read_before_the_end_of_input_is_answered_before_the_exit(tmp_path: Path) -> None:
    """Field case B26: the process stays, or it goes and drops what it had accepted."""
    async with spawned(scripted_agent(tmp_path, {"text": "x"}), tmp_path / "s.db") as server:
        client = server.client
        first = client.request("initialize", protocolVersion=1)
        new = client.request("session/new", cwd=str(tmp_path), mcpServers=[])
        await client.write(first, new)
        assert server.process.stdin is not None
        await server.process.stdin.aclose()
        assert await server.wait() == 0
        assert "result" in await client.answer(first["id"]) and await client.answer(new["id"])
        assert "Traceback" not in server.stderr.read_text()


@pytest.mark.requirement("shutdown.eof.clean-exit", "shutdown.restart.sessions-survive")
async def test_a_command_and_a_server_end_with_the_input_and_the_history_is_there(tmp_path: Path) -> None:
    """Field case B26: orphans pile up."""
    odd = {"name": "m", "command": sys.executable, "args": [str(ODD), "media"], "env": []}
    running = calls(call("shell", cmd="sleep 300", timeout=600))
    async with ModelServer([running, text("x")]) as model:
        file = agent_on(tmp_path, model.base_url)
        async with spawned(file, tmp_path / "s.db") as server:
            client = server.client
            await client.initialize()
            session = await client.new(tmp_path, mcpServers=[odd])
            await client.write(client.send_prompt(session, "go"))
            await client.allow()
            await client.until(lambda m: "in_progress" in str(m))
            children = descendants(server.process.pid)
            assert server.process.stdin is not None
            await server.process.stdin.aclose()
            assert await server.wait() == 0
            await gone(children)
            assert "Traceback" not in server.stderr.read_text()
        async with spawned(file, tmp_path / "s.db") as server:
            await server.client.initialize()
            listed = (await server.client.result("session/list"))["sessions"]
            assert [entry["sessionId"] for entry in listed] == [session]
            await server.client.result("session/load", sessionId=session, cwd=str(tmp_path), mcpServers=[])
            assert history(server.client)[0]["content"]["text"] == "go"


@pytest.mark.requirement("shutdown.signal.first-clean")
async def test_a_second_signal_waits_for_nothing(tmp_path: Path) -> None:
    stubborn = {"name": "m", "command": sys.executable, "args": [str(ODD), "stubborn"], "env": []}
    async with spawned(scripted_agent(tmp_path, {"text": "x"}), tmp_path / "s.db") as server:
        await server.client.initialize()
        await server.client.new(tmp_path, mcpServers=[stubborn])
        children = descendants(server.process.pid)
        server.process.send_signal(signal.SIGTERM)
        # The first one has been seen once an answer says so; the server that does not end keeps the process.
        with anyio.fail_after(10):
            while "result" in (answer := await server.client.call("session/list")):
                continue
        assert answer["error"]["data"]["reason"] == "shutting_down"
        server.process.send_signal(signal.SIGTERM)
        assert await server.wait() == 130
        for pid in children:
            os.kill(pid, signal.SIGKILL)


def inodes(pid: int) -> set[str]:
    found = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(entry)
        except OSError:
            continue
        if target.startswith("socket:["):
            found.add(target.removeprefix("socket:[").removesuffix("]"))
    return found


@pytest.mark.requirement("transport.stdio.no-listener")
async def test_a_serving_process_holds_no_network_socket_and_listens_nowhere(tmp_path: Path) -> None:
    async with spawned(scripted_agent(tmp_path, {"text": "ok"}), tmp_path / "s.db") as server:
        await server.client.initialize()
        session = await server.client.new(tmp_path)
        await server.client.prompt(session, "hi")
        held = inodes(server.process.pid)
        network = Path(f"/proc/{server.process.pid}/net")
        for table in ("tcp", "tcp6", "udp", "udp6", "raw"):
            rows = [line.split() for line in (network / table).read_text().splitlines()[1:]]
            assert not {row[9] for row in rows} & held, table
        listening = [row.split() for row in (network / "unix").read_text().splitlines()[1:]]
        assert not {row[6] for row in listening if int(row[3], 16) & 0x10000} & held


@pytest.mark.requirement("cancel.prompt.double-and-race", "turn-admission.release.always")
@pytest.mark.parametrize("pieces", [0, 1, 5, 25])
async def test_cancels_that_race_the_end_of_a_turn_give_one_answer(tmp_path: Path, pieces: int) -> None:
    async with on_stage(tmp_path, text(*["a"] * 30), text("next")) as stage:
        client = stage.client
        prompt = client.send_prompt(stage.session, "1")
        cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": stage.session}}
        withdraw = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": prompt["id"]}}
        await client.write(prompt)
        for _ in range(pieces):
            await client.until(lambda m: "agent_message_chunk" in str(m))
        await client.write(cancel, cancel, withdraw)
        result = (await client.answer(prompt["id"]))["result"]
        assert result["stopReason"] in ("cancelled", "end_turn")
        await client.write(cancel, withdraw)
        assert (await client.prompt(stage.session, "2"))["result"] == {"stopReason": "end_turn"}
        assert len([m for m in client.log if m.get("id") == prompt["id"] and "method" not in m]) == 1


@pytest.mark.requirement("store.engine.two-processes", "jsonrpc.envelope.error-shape")
async def test_a_disk_that_is_full_fails_the_turn_in_words_and_the_process_lives(tmp_path: Path) -> None:
    """A limit on file sizes stands for the full disk: the store cannot grow."""
    limit = "ulimit -f 600; exec "
    file = scripted_agent(tmp_path, {"text": "ok"})
    shell = tmp_path / "limited"
    shell.write_text(f'#!/bin/sh\n{limit}{sys.executable} "$@"\n')
    shell.chmod(0o755)
    command = [str(shell), "-m", "sluice", "serve", "acp", str(file), "-s", str(tmp_path / "s.db")]
    process = await anyio.open_process(command, stderr=None)
    assert process.stdin is not None and process.stdout is not None
    client = Client(StreamTransport(process.stdout, process.stdin))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.read)
        await client.initialize()
        session = await client.new(tmp_path)
        answers = [await client.prompt(session, "x" * 200_000) for _ in range(4)]
        failed = [answer["error"] for answer in answers if "error" in answer]
        assert failed and failed[0]["code"] == -32603 and failed[0]["data"]["runtimeCode"] == "error"
        assert "space" in failed[0]["data"]["error"] or "full" in failed[0]["data"]["error"]
        assert len((await client.result("session/list"))["sessions"]) == 1
        await process.stdin.aclose()
        with anyio.fail_after(10):
            assert await process.wait() == 0
    async with serving(file, tmp_path / "s.db") as server:
        await server.client.initialize()
        await server.client.result("session/load", sessionId=session, cwd=str(tmp_path), mcpServers=[])
        assert (await server.client.prompt(session, "again"))["result"] == {"stopReason": "end_turn"}


@pytest.mark.requirement("session.load.sets-up-servers", "message-ids.tool-name.client-mcp-alias")
async def test_a_load_brings_its_servers_up_and_their_tools_go_by_their_alias(tmp_path: Path) -> None:
    odd = {"name": "m", "command": sys.executable, "args": [str(ODD), "media"], "env": []}
    async with on_stage(tmp_path) as stage:
        client = stage.client
        where = {"sessionId": stage.session, "cwd": str(stage.cwd), "mcpServers": [odd]}
        await client.result("session/load", **where)
        known = set()

        def use(recorded: Any) -> Any:
            known.update(recorded.tools)
            return calls(Call(next(name for name in recorded.tools if "alpha" in name), {}))

        stage.model.add(use, text("ok"))
        prompt = client.send_prompt(stage.session, "go")
        await client.write(prompt)
        asked = await client.allow()
        assert (await client.answer(prompt["id"]))["result"] == {"stopReason": "end_turn"}
        names = {u["name"] for u in client.updates() if "toolCallId" in u}
        assert names == {asked["params"]["toolCall"]["name"]} and names <= known
