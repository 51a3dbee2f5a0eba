"""Standard input and output: every kind of descriptor, nothing shared with children, nothing left behind."""

from __future__ import annotations

import json
import os
import pty
import socket
import subprocess
import sys
import tty
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from sluice.wire import stdio
from sluice.wire.stdio import FdTransport
from tests.wire.support import SECONDS

on_both_loops = pytest.mark.parametrize("command", ["asyncio", "trio"], indirect=True)
CHILD = Path(__file__).with_name("child.py")
LARGE = "x" * 3_000_000


@pytest.fixture
def command(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.delenv(
        "PYTHONUNBUFFERED", raising=False
    )  # what is still in the buffer at the claim is part of the test
    return [sys.executable, str(CHILD), str(getattr(request, "param", "asyncio"))]


@contextmanager
def started(command: list[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Start a child that does not outlive the test, however the test ends."""
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def call(id: int, method: str, params: Any = None) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\n"


def answers(output: bytes) -> list[Any]:
    assert output.endswith(b"\n") or not output
    return [json.loads(line.decode("utf-8"))["result"] for line in output.split(b"\n")[:-1]]


def run(command: list[str], data: bytes, **options: Any) -> tuple[list[Any], str]:
    done = subprocess.run(command, input=data, capture_output=True, timeout=SECONDS, check=True, **options)
    return answers(done.stdout), done.stderr.decode("utf-8")


@pytest.mark.requirement("transport.stdio.plain-child", "transport.framing.unterminated-last-line")
@on_both_loops
def test_a_child_with_pipes_serves_and_ends_at_the_end_of_input(command: list[str]) -> None:
    data = call(1, "echo", {"a": 1}) + call(2, "echo", {"t": LARGE}) + call(3, "echo", [3]).rstrip()
    assert run(command, data)[0] == [{"a": 1}, {"t": LARGE}, [3]]


@pytest.mark.requirement("transport.limits.large-lines", "transport.limits.inbound-ceiling")
def test_lines_below_the_limit_are_served_and_one_above_is_skipped(command: list[str]) -> None:
    sizes = [64 * 1024 + 1, 1024 * 1024, int(9.9 * 1024 * 1024)]
    lines = [call(size, "echo", {"t": "x" * (size - len(call(size, "echo", {"t": ""})))}) for size in sizes]
    assert [len(line) for line in lines] == sizes
    data = b"".join(lines) + call(1, "echo", {"t": "x" * 11 * 1024 * 1024}) + call(2, "echo", {})
    done = subprocess.run(command, input=data, capture_output=True, timeout=SECONDS, check=True)
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    assert [message["id"] for message in messages] == [*sizes, None, 2]
    error = messages[3]["error"]
    assert (error["code"], error["data"]) == (-32600, {"limit": 10 * 1024 * 1024})
    assert b"xxxx" not in done.stderr


@pytest.mark.requirement("transport.framing.utf8-always")
def test_both_directions_are_utf8_whatever_the_locale_says(command: list[str]) -> None:
    environment = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"}
    text = "é\u2028שלום \U0001f600"
    data = f'{{"jsonrpc":"2.0","id":1,"method":"echo","params":{{"t":"{text}"}}}}\n'.encode()
    assert run(command, data, env=environment)[0] == [{"t": text}]


@pytest.mark.requirement("transport.stdio.stdout-pure")
def test_whatever_is_printed_lands_on_stderr(command: list[str]) -> None:
    results, log = run(command, call(1, "noise") + call(2, "echo", {}), env={**os.environ, "LC_ALL": "C"})
    assert results == [{}, {}]
    for text in ("printed before the claim", "printed é \U0001f600 \\ud800", "written", "raw"):
        assert text in log


def test_an_output_that_is_a_file_and_a_log_that_is_a_pipe_go_together(command: list[str], tmp_path: Path) -> None:
    """A stream that was opened on a file may seek; the pipe that takes its place may not."""
    with (tmp_path / "out").open("wb") as out:
        data = call(1, "noise") + call(2, "echo", {"a": 1})
        done = subprocess.run(command, input=data, stdout=out, stderr=subprocess.PIPE, timeout=SECONDS, check=True)
    assert answers((tmp_path / "out").read_bytes()) == [{}, {"a": 1}]
    assert b"printed before the claim" in done.stderr


@pytest.mark.requirement("transport.stdio.children-detached")
def test_a_grandchild_gets_neither_protocol_descriptor(command: list[str]) -> None:
    results, log = run(command, call(1, "spawn") + call(2, "echo", {"not": "eaten by cat"}))
    assert results[1] == {"not": "eaten by cat"}
    assert "leak" in log
    incoming, outgoing = results[0]["protocol"]
    assert incoming.startswith("pipe:")
    assert outgoing.startswith("pipe:")
    assert incoming not in log
    assert outgoing not in log
    assert results[0]["now"][0] == "/dev/null"
    assert results[0]["now"][1] != outgoing


@pytest.mark.requirement("transport.stdio.plain-child")
@on_both_loops
def test_socket_pairs_serve_as_well_as_pipes_and_keep_their_flags(command: list[str]) -> None:
    with ExitStack() as stack:
        ours, theirs = (stack.enter_context(end) for end in socket.socketpair())
        process = stack.enter_context(
            started(command, stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=subprocess.DEVNULL)
        )
        ours.settimeout(SECONDS)
        output = stack.enter_context(ours.makefile("rb"))
        ours.sendall(call(1, "echo", {"a": 1}))
        assert answers(output.readline()) == [{"a": 1}]
        ours.sendall(call(2, "echo", {"t": LARGE}))
        ours.shutdown(socket.SHUT_WR)
        assert answers(output.readline()) == [{"t": LARGE}]
        assert process.wait(SECONDS) == 0
        assert os.get_blocking(theirs.fileno())


@pytest.mark.requirement("transport.stdio.plain-child")
def test_the_parents_pipes_stay_blocking(command: list[str]) -> None:
    with ExitStack() as stack:
        incoming, to_child = os.pipe()
        from_child, outgoing = os.pipe()
        for fd in (incoming, outgoing, from_child):
            stack.callback(os.close, fd)
        process = stack.enter_context(started(command, stdin=incoming, stdout=outgoing, stderr=subprocess.DEVNULL))
        os.write(to_child, call(1, "echo", {}))
        assert answers(os.read(from_child, 1000)) == [{}]
        assert os.get_blocking(incoming)
        assert os.get_blocking(outgoing)
        os.close(to_child)
        assert process.wait(SECONDS) == 0
        assert os.get_blocking(incoming)
        assert os.get_blocking(outgoing)


@on_both_loops
def test_regular_files_serve_as_input_and_output(command: list[str], tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(call(1, "echo", {"a": 1}) + call(2, "echo", {"t": LARGE}))
    with source.open("rb") as stdin, target.open("wb") as stdout:
        subprocess.run(command, stdin=stdin, stdout=stdout, stderr=subprocess.DEVNULL, timeout=SECONDS, check=True)
    assert answers(target.read_bytes()) == [{"a": 1}, {"t": LARGE}]


def test_the_null_device_is_an_input_that_has_ended(command: list[str]) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=True)
    assert done.stdout == b""


def test_closed_standard_input_is_an_input_that_has_ended(command: list[str]) -> None:
    shell = ["sh", "-c", 'exec "$@" <&-', "sh", *command]
    done = subprocess.run(shell, capture_output=True, timeout=SECONDS, check=True)
    assert done.stdout == b""


def test_a_terminal_serves_too(command: list[str]) -> None:
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    with started(command, stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL) as process:
        os.close(theirs)
        os.write(ours, call(1, "echo", {"a": 1}))
        output = b""
        while output.count(b"\n") < 2:  # before the claim, what is printed still goes to the terminal
            output += os.read(ours, 1000)
        assert answers(output.split(b"\n", 1)[1]) == [{"a": 1}]
        os.close(ours)  # hangs up
        assert process.wait(SECONDS) == 0


@pytest.mark.requirement("transport.output.broken-pipe")
@on_both_loops
def test_a_host_that_stops_reading_ends_the_process_without_a_traceback(command: list[str]) -> None:
    with started(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdin.write(call(1, "echo", {}))
        process.stdin.flush()
        process.stdout.readline()
        process.stdout.close()
        process.stdin.write(call(2, "echo", {"t": LARGE}))
        process.stdin.flush()
        assert process.wait(SECONDS) == 0
        assert b"Traceback" not in process.stderr.read()


@pytest.mark.requirement("transport.output.slow-reader")
def test_a_host_that_does_not_read_yet_is_still_read_from(command: list[str]) -> None:
    with started(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin
        assert process.stdout
        for id in range(5):  # far more than the pipe holds; it could not be written if the child waited to be read
            process.stdin.write(call(id, "echo", {"t": LARGE}))
        process.stdin.close()
        assert len(answers(process.stdout.read())) == 5
        assert process.wait(SECONDS) == 0


# --- in this process, on both event loops


@pytest.fixture(params=["pipe", "socket", "pieces"])
def ends(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[FdTransport, FdTransport]]:
    """Two connected transports; "pieces" is what pipes use where a descriptor cannot be opened anew."""
    if request.param == "pieces":
        monkeypatch.setattr(stdio, "_reopened", lambda fd: fd)
    if request.param == "socket":
        left, right = (end.detach() for end in socket.socketpair())
        yield FdTransport(os.dup(left), left), FdTransport(os.dup(right), right)
    else:
        (there_out, there_in), (back_out, back_in) = os.pipe(), os.pipe()
        yield FdTransport(back_out, there_in), FdTransport(there_out, back_in)


@pytest.mark.anyio
class TestFdTransport:
    async def test_more_than_the_kernel_holds_goes_through_in_both_directions(
        self, ends: tuple[FdTransport, FdTransport]
    ) -> None:
        data = os.urandom(1_000_000)
        received: dict[FdTransport, bytes] = {}

        async def receive(end: FdTransport) -> None:
            received[end] = b""
            while len(received[end]) < len(data):
                received[end] += await end.receive()

        with anyio.fail_after(SECONDS):
            async with anyio.create_task_group() as tasks:
                for end in ends:
                    tasks.start_soon(receive, end)
                    tasks.start_soon(end.send, data)
            assert all(value == data for value in received.values())
            await ends[0].aclose()
            assert await ends[1].receive() == b""
            assert await ends[1].receive() == b""
            with pytest.raises(anyio.BrokenResourceError):
                await ends[1].send(b"x")
            await ends[1].aclose()
            await ends[1].aclose()

    async def test_a_cancelled_receive_loses_nothing(self, ends: tuple[FdTransport, FdTransport]) -> None:
        left, right = ends
        with anyio.fail_after(SECONDS):
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(right.receive)
                    await anyio.wait_all_tasks_blocked()
                    scope.cancel()
            await left.send(b"kept")
            assert await right.receive() == b"kept"
            await left.aclose()
            await right.aclose()

    async def test_a_cancelled_send_finishes_what_it_began(self, ends: tuple[FdTransport, FdTransport]) -> None:
        left, right = ends
        data = os.urandom(1_000_000)
        with anyio.fail_after(SECONDS):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(left.send, data)
                received = await right.receive()
                tasks.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    while len(received) < len(data):
                        received += await right.receive()
            assert received == data
            await left.aclose()
            await right.aclose()

    async def test_a_cancelled_send_that_cannot_finish_gives_up(
        self, ends: tuple[FdTransport, FdTransport], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(stdio, "FINISH_LINE_SECONDS", 0.01)
        left, right = ends
        with anyio.fail_after(SECONDS):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(left.send, bytes(10_000_000))
                await anyio.wait_all_tasks_blocked()
                tasks.cancel_scope.cancel()
        assert "finishing the last line" in caplog.text
        await left.aclose()
        await right.aclose()

    async def test_closing_wakes_whoever_waits(self, ends: tuple[FdTransport, FdTransport]) -> None:
        left, right = ends

        async def receive() -> None:
            with pytest.raises(anyio.BrokenResourceError):
                await left.receive()

        async def send() -> None:
            with pytest.raises(anyio.BrokenResourceError):
                await left.send(bytes(10_000_000))

        with anyio.fail_after(SECONDS):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(receive)
                tasks.start_soon(send)
                await anyio.wait_all_tasks_blocked()
                await left.aclose()
            with pytest.raises(anyio.BrokenResourceError):
                await left.receive()
            await right.aclose()
