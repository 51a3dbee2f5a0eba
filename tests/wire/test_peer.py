"""One end of a connection: order, ids, cancelling, errors."""

from __future__ import annotations

import json
import logging
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from sluice.wire.errors import InvalidParams, MethodNotFound, RefusedError
from sluice.wire.frames import FrameTooLarge
from sluice.wire.outbox import QUEUE_BYTES
from sluice.wire.peer import ConnectionLost, IncomingRequest, Peer, RemoteError
from sluice.wire.transport import MemoryTransport
from tests.wire.support import SECONDS, Recorder, Wire, connected

pytestmark = pytest.mark.anyio


def answering(request: IncomingRequest) -> None:
    request.answer({"method": request.method})


# --- requests of the other side


@pytest.mark.requirement("jsonrpc.id.exact-echo", "jsonrpc.id.null-is-request", "jsonrpc.id.integral-float")
async def test_each_answer_carries_the_id_exactly_as_it_was_written() -> None:
    ids = ["7", '"7"', '"a-b"', "0", "-3", "9007199254740993", '""', "null", "1.0", "2e0", '"\\u0061"']
    async with connected(Recorder(answering)) as it:
        for id in ids:
            await it.wire.send(f'{{"jsonrpc":"2.0","id":{id},"method":"m"}}\n'.encode())
            assert await it.wire.line() == f'{{"jsonrpc":"2.0","id":{id},"result":{{"method":"m"}}}}'.encode()


@pytest.mark.requirement("transport.framing.split-and-joined-reads")
async def test_a_message_byte_by_byte_and_many_in_one_write_are_each_answered_once() -> None:
    async with connected(Recorder(answering)) as it:
        for byte in b'{"jsonrpc":"2.0","id":1,"method":"a"}\r\n':
            await it.wire.send(bytes([byte]))
        await it.wire.send({"id": 2, "method": "b"}, b"\n", b" \t \r\n", {"id": 3, "method": "c"})
        assert [(await it.wire.message())["id"] for _ in range(3)] == [1, 2, 3]
        assert it.router.log == ["request a", "request b", "request c"]


@pytest.mark.requirement("jsonrpc.dispatch.admit-in-read-order")
async def test_everything_in_one_write_is_dispatched_in_its_order() -> None:
    def admit(request: IncomingRequest) -> None:
        request.on_cancel = lambda: request.answer("cancelled")

    async with connected(Recorder(admit)) as it:
        await it.wire.send(
            {"id": 1, "method": "prompt"},
            {"method": "note", "params": {}},
            {"method": "$/cancel_request", "params": {"requestId": 1}},
            {"id": 2, "method": "next"},
        )
        assert await it.wire.message() == {"id": 1, "result": "cancelled"}
        await it.router.until(lambda: len(it.router.log) == 3)
        assert it.router.log == ["request prompt", "notification note {}", "request next"]


@pytest.mark.requirement("jsonrpc.dispatch.out-of-order-answers", "jsonrpc.dispatch.reader-free")
async def test_a_request_that_takes_long_delays_nobody() -> None:
    async with connected() as it:
        await it.wire.send({"id": 1, "method": "long"}, {"id": 2, "method": "short"})
        await it.router.until(lambda: len(it.router.requests) == 2)
        it.router.requests[1].answer("short")
        it.router.requests[0].answer("long")
        assert await it.wire.message() == {"id": 2, "result": "short"}
        assert await it.wire.message() == {"id": 1, "result": "long"}


@pytest.mark.requirement("jsonrpc.id.live-duplicate")
async def test_an_id_in_flight_is_refused_and_may_be_used_again_later() -> None:
    async with connected() as it:
        await it.wire.send(
            {"id": 1, "method": "first"}, {"id": 1, "method": "second"}, {"id": "1", "method": "third"}
        )
        assert await it.wire.error() == (1, -32600)
        await it.router.until(lambda: len(it.router.requests) == 2)
        first, third = it.router.requests
        assert (first.method, third.method) == ("first", "third")
        before = first.answered
        first.answer("done")
        assert (before, first.answered) == (False, True)
        assert await it.wire.message() == {"id": 1, "result": "done"}
        await it.wire.send({"id": 1, "method": "again"})
        await it.router.until(lambda: len(it.router.requests) == 3)
        it.router.requests[2].answer("again")
        assert await it.wire.message() == {"id": 1, "result": "again"}


@pytest.mark.requirement("jsonrpc.envelope.single-outcome-per-id")
async def test_a_second_answer_is_ignored_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with connected() as it:
        await it.wire.send({"id": 1, "method": "m"})
        await it.router.until(lambda: len(it.router.requests) == 1)
        first = it.router.requests[0]
        first.answer("one")
        first.answer("two", [("note", {})])
        first.fail(RefusedError("three"))
        await it.wire.send({"id": 1, "method": "m"})
        await it.router.until(lambda: len(it.router.requests) == 2)
        first.answer("not the answer of the later request with this id")
        it.router.requests[1].answer("four")
        assert await it.wire.message() == {"id": 1, "result": "one"}
        assert await it.wire.message() == {"id": 1, "result": "four"}
    assert caplog.text.count("second answer") == 3


async def test_follow_ups_come_directly_behind_their_response() -> None:
    async with connected() as it:
        await it.wire.send({"id": 1, "method": "m"})
        await it.router.until(lambda: len(it.router.requests) == 1)
        it.peer.post("before", {})
        it.router.requests[0].answer({}, [("a", {"n": 1}), ("bad", {"n": object()}), ("b", None)])
        it.peer.post("after", {})
        seen = [await it.wire.message() for _ in range(5)]
        assert [message.get("method") for message in seen] == ["before", None, "a", "b", "after"]


@pytest.mark.requirement("jsonrpc.envelope.fixed-internal-text", "jsonrpc.envelope.error-shape")
async def test_an_unforeseen_exception_shows_a_fixed_text_and_its_detail_only_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def explode(request: IncomingRequest) -> None:
        raise ValueError("the detail")

    async with connected(Recorder(explode)) as it:
        await it.wire.send({"id": 1, "method": "m"})
        assert await it.wire.message() == {"id": 1, "error": {"code": -32603, "message": "Internal error"}}
    assert "the detail" in caplog.text


async def test_an_rpc_error_keeps_its_code_message_and_data() -> None:
    def refuse(request: IncomingRequest) -> None:
        if request.method == "raise":
            raise MethodNotFound("No such method.")
        request.fail(RefusedError("The session is busy.", {"reason": "busy"}))

    async with connected(Recorder(refuse)) as it:
        await it.wire.send({"id": 1, "method": "raise"}, {"id": 2, "method": "fail"})
        assert (await it.wire.message())["error"] == {"code": -32601, "message": "No such method."}
        assert (await it.wire.message())["error"] == {
            "code": -32600,
            "message": "The session is busy.",
            "data": {"reason": "busy"},
        }


async def test_a_router_that_answers_and_then_raises_has_answered() -> None:
    def both(request: IncomingRequest) -> None:
        request.answer("done")
        raise InvalidParams("too late")

    async with connected(Recorder(both)) as it:
        await it.wire.send({"id": 1, "method": "m"})
        assert await it.wire.message() == {"id": 1, "result": "done"}


@pytest.mark.requirement("jsonrpc.envelope.result-xor-error")
async def test_a_result_without_a_json_form_becomes_an_internal_error(caplog: pytest.LogCaptureFixture) -> None:
    async with connected(Recorder(lambda request: request.answer(object()))) as it:
        await it.wire.send({"id": 1, "method": "m"})
        assert await it.wire.error() == (1, -32603)


@pytest.mark.requirement("transport.limits.outbound-ceiling")
async def test_a_response_above_the_ceiling_becomes_an_error_and_a_notification_raises() -> None:
    async with connected(Recorder(lambda request: request.answer("x" * 1000)), limit=1000) as it:
        await it.wire.send({"id": 1, "method": "m"})
        assert await it.wire.error() == (1, -32603)
        for send in (it.peer.notify, it.peer.request):
            with pytest.raises(FrameTooLarge):
                await send("n", {"t": "x" * 1000})
        with pytest.raises(FrameTooLarge):
            it.peer.post("n", {"t": "x" * 1000})


# --- bad lines


@pytest.mark.requirement(
    "jsonrpc.robust.survives-errors",
    "jsonrpc.envelope.parse-error",
    "jsonrpc.envelope.not-a-request",
    "jsonrpc.batch.refused",
    "transport.framing.invalid-utf8",
    "transport.limits.deep-nesting",
)
async def test_after_any_run_of_bad_lines_the_next_request_is_served() -> None:
    bad = {
        b'{"id":1,\n': (None, -32700),
        b'{"a":"\xff"}\n': (None, -32700),
        b"[" * 200_000 + b"\n": (None, -32700),
        b'{"foo":1}\n': (None, -32600),
        b"17\n": (None, -32600),
        b'[{"jsonrpc":"2.0","id":1,"method":"m"},{"jsonrpc":"2.0","id":2,"method":"m"}]\n': (None, -32600),
        b'{"jsonrpc":"2.0","id":5,"method":""}\n': (5, -32600),
        b'{"jsonrpc":"1.0","id":"6","method":"m"}\n': ("6", -32600),
        b'{"jsonrpc":"2.0","id":{},"method":"m"}\n': (None, -32600),
    }
    async with connected(Recorder(answering)) as it:
        for line, answer in bad.items():
            await it.wire.send(line)
            assert await it.wire.error() == answer
        await it.wire.send({"id": 9, "method": "m"})
        assert await it.wire.message() == {"id": 9, "result": {"method": "m"}}
        assert it.router.log == ["request m"]


@pytest.mark.requirement("transport.limits.inbound-ceiling")
async def test_a_line_above_the_limit_gets_one_error_and_the_connection_lives() -> None:
    async with connected(Recorder(answering), limit=1000) as it:
        await it.wire.send(b"x" * 70_000, b"\n", {"id": 2, "method": "m"})
        message = await it.wire.message()
        assert (message["id"], message["error"]["code"], message["error"]["data"]) == (None, -32600, {"limit": 1000})
        assert (await it.wire.message())["id"] == 2


@pytest.mark.requirement("transport.framing.unterminated-last-line")
async def test_the_last_line_is_served_without_its_line_end() -> None:
    async with connected(Recorder(answering)) as it:
        await it.wire.send(b'{"jsonrpc":"2.0","id":1,"method":"m"}')
        it.wire.transport.send_eof()
        assert (await it.wire.message())["id"] == 1
        await it.router.until(lambda: len(it.router.log) == 2)
        assert it.router.log == ["request m", "end of input"]


@pytest.mark.requirement("jsonrpc.dispatch.notification-silent", "transport.framing.blank-lines")
async def test_no_notification_is_ever_answered(caplog: pytest.LogCaptureFixture) -> None:
    async with connected(Recorder(answering)) as it:
        await it.wire.send(
            {"method": "nope/x", "params": [1]},
            {"method": "boom"},
            {"method": "n", "params": 7},
            b'{"method":"no version"}\n',
            {"method": "$/unknown"},
            {"method": "$/cancel_request"},
            {"method": "$/cancel_request", "params": {"requestId": {}}},
            {"method": "$/cancel_request", "params": [1]},
            {"method": "$/cancel_request", "params": {"requestId": 77}},
            b"\r\n",
            b"   \n",
            {"id": 1, "method": "m"},
        )
        assert (await it.wire.message())["id"] == 1
        assert it.router.log == [
            "notification nope/x [1]",
            "notification boom",
            "notification $/unknown",
            "request m",
        ]


@pytest.mark.requirement("jsonrpc.dispatch.dollar-methods", "jsonrpc.dispatch.exact-names")
async def test_methods_reach_the_router_exactly_as_they_were_sent() -> None:
    methods = ["$/unknown", "$/cancel_request", "Session/New", "session/new ", "_acme/x"]
    async with connected(Recorder(answering)) as it:
        for number, method in enumerate(methods):
            await it.wire.send({"id": number, "method": method})
            assert (await it.wire.message())["result"] == {"method": method}


# --- $/cancel_request of the other side


async def test_a_cancel_reaches_the_request_with_that_id_and_type_only() -> None:
    cancelled: list[bytes] = []

    def admit(request: IncomingRequest) -> None:
        request.on_cancel = lambda: cancelled.append(request.id)

    async with connected(Recorder(admit)) as it:
        await it.wire.send({"id": 1, "method": "m"}, {"id": "1", "method": "m"}, {"id": 2, "method": "m"})
        await it.router.until(lambda: len(it.router.requests) == 3)
        it.router.requests[2].on_cancel = None
        await it.wire.send(
            {"method": "$/cancel_request", "params": {"requestId": "1"}},
            {"method": "$/cancel_request", "params": {"requestId": 2}},
            {"method": "done"},
        )
        await it.router.until(lambda: "notification done" in it.router.log)
        assert cancelled == [b'"1"']
        it.router.requests[0].answer({})
        await it.wire.send({"method": "$/cancel_request", "params": {"requestId": 1}}, {"method": "end"})
        await it.router.until(lambda: "notification end" in it.router.log)
        assert cancelled == [b'"1"']


async def test_a_failing_cancel_is_logged_and_reading_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    def admit(request: IncomingRequest) -> None:
        def fail() -> None:
            raise RuntimeError("cancel failed")

        request.on_cancel = fail

    async with connected(Recorder(admit)) as it:
        await it.wire.send({"id": 1, "method": "m"}, {"method": "$/cancel_request", "params": {"requestId": 1}})
        await it.wire.send({"method": "n"})
        await it.router.until(lambda: "notification n" in it.router.log)
    assert "cancel failed" in caplog.text


# --- requests of our own


class Outcomes:
    """Runs own requests in tasks and keeps what came of them."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.seen: dict[str, Any] = {}

    async def call(self, method: str) -> None:
        try:
            self.seen[method] = await self.peer.request(method, {})
        except (RemoteError, ConnectionLost) as error:
            self.seen[method] = error


@pytest.mark.requirement("jsonrpc.id.own-ids-unique", "jsonrpc.id.two-directions", "jsonrpc.id.typed-response-match")
async def test_answers_are_matched_by_id_and_type_in_a_space_of_their_own() -> None:
    async with connected() as it, anyio.create_task_group() as tasks:
        outcomes = Outcomes(it.peer)
        tasks.start_soon(outcomes.call, "a")
        a = await it.wire.message()
        tasks.start_soon(outcomes.call, "b")
        b = await it.wire.message()
        assert isinstance(a["id"], int)
        assert a["id"] != b["id"]
        await it.wire.send(
            {"id": a["id"], "method": "the same id in the other direction"},
            {"id": str(a["id"]), "result": "wrong type"},
            {"id": 99, "result": "nobody asked"},
            {"id": None, "error": {"code": 1, "message": "m"}},
            {"id": [], "result": 1},
            {"id": b["id"], "result": {"for": "b"}},
            {"id": b["id"], "result": "twice"},
            {"id": a["id"], "result": {"for": "a"}},
        )
        await it.router.until(lambda: len(it.router.requests) == 1)
        it.router.requests[0].answer("ours")
        assert await it.wire.message() == {"id": a["id"], "result": "ours"}
        while len(outcomes.seen) < 2:
            await anyio.lowlevel.checkpoint()
        assert outcomes.seen == {"a": {"for": "a"}, "b": {"for": "b"}}


async def test_an_error_answer_raises_what_it_says() -> None:
    async with connected() as it, anyio.create_task_group() as tasks:
        outcomes = Outcomes(it.peer)
        tasks.start_soon(outcomes.call, "m")
        id = (await it.wire.message())["id"]
        await it.wire.send({"id": id, "result": None, "error": {"code": -32000, "message": "no", "data": [1]}})
        while not outcomes.seen:
            await anyio.lowlevel.checkpoint()
        error = outcomes.seen["m"]
        assert isinstance(error, RemoteError)
        assert (error.code, error.message, error.data) == (-32000, "no", [1])


@pytest.mark.parametrize("answer", [{"result": None}, {"result": None, "error": None}])
async def test_a_null_result_is_a_result(answer: dict[str, Any]) -> None:
    async with connected() as it, anyio.create_task_group() as tasks:
        outcomes = Outcomes(it.peer)
        tasks.start_soon(outcomes.call, "m")
        await it.wire.send({"id": (await it.wire.message())["id"], **answer})
        while not outcomes.seen:
            await anyio.lowlevel.checkpoint()
        assert outcomes.seen == {"m": None}


@pytest.mark.requirement("jsonrpc.robust.stray-responses")
@pytest.mark.parametrize(
    "answer",
    [
        {"result": {}, "error": {"code": 1, "message": "m"}},
        {"error": "text"},
        {"error": {"code": "1", "message": "m"}},
        {"error": None},
        {},
    ],
)
async def test_a_malformed_answer_fails_only_the_request_it_names(answer: dict[str, Any]) -> None:
    async with connected() as it, anyio.create_task_group() as tasks:
        outcomes = Outcomes(it.peer)
        tasks.start_soon(outcomes.call, "a")
        a = (await it.wire.message())["id"]
        tasks.start_soon(outcomes.call, "b")
        b = (await it.wire.message())["id"]
        await it.wire.send({"id": a, **answer})
        while not outcomes.seen:
            await anyio.lowlevel.checkpoint()
        assert outcomes.seen.keys() == {"a"}
        assert isinstance(outcomes.seen["a"], RemoteError)
        await it.wire.send({"id": b, "result": 1})
        while len(outcomes.seen) < 2:
            await anyio.lowlevel.checkpoint()
        assert outcomes.seen["b"] == 1


async def test_a_call_nobody_waits_for_any_more_is_withdrawn_and_its_late_answer_ignored() -> None:
    async with connected() as it, anyio.create_task_group() as tasks:
        outcomes = Outcomes(it.peer)
        with anyio.CancelScope() as scope:
            tasks.start_soon(outcomes.call, "other")
            other = (await it.wire.message())["id"]

            async def give_up() -> None:
                id = (await it.wire.message())["id"]
                scope.cancel()
                assert await it.wire.message() == {"method": "$/cancel_request", "params": {"requestId": id}}
                await it.wire.send({"id": id, "result": "late"}, {"id": other, "result": "fine"})

            tasks.start_soon(give_up)
            await it.peer.request("m", {})
        assert scope.cancelled_caught
        while not outcomes.seen:
            await anyio.lowlevel.checkpoint()
        assert outcomes.seen == {"other": "fine"}


async def test_after_the_end_of_input_every_open_and_every_later_call_is_lost() -> None:
    async with connected() as it, anyio.create_task_group() as tasks:
        outcomes = Outcomes(it.peer)
        for method in ("a", "b"):
            tasks.start_soon(outcomes.call, method)
            await it.wire.message()
        it.peer.fail_outstanding()
        await outcomes.call("late")
        while len(outcomes.seen) < 3:
            await anyio.lowlevel.checkpoint()
        assert all(isinstance(outcome, ConnectionLost) for outcome in outcomes.seen.values())
        await it.peer.notify("still", {})
        assert await it.wire.message() == {"method": "still", "params": {}}


# --- the end, and a peer that does not read


async def test_the_writer_sends_what_is_queued_and_ends_after_close() -> None:
    ours, theirs = MemoryTransport.pair()
    peer, wire = Peer(ours), Wire(theirs)
    await peer.notify("a", {})
    peer.post("b", {})
    peer.close()
    peer.post("dropped", {})
    with pytest.raises(ConnectionLost):
        await peer.notify("refused", {})
    with anyio.fail_after(SECONDS):
        await peer.write()
    await ours.aclose()
    assert [(await wire.message())["method"] for _ in range(2)] == ["a", "b"]
    assert await wire.line() == b""
    assert not peer.broken.is_set()


@pytest.mark.requirement("transport.output.broken-pipe")
async def test_when_nobody_reads_any_more_the_writer_ends_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    async with connected() as it, anyio.create_task_group() as tasks:
        outcomes = Outcomes(it.peer)
        tasks.start_soon(outcomes.call, "a")
        await it.wire.message()
        await it.wire.send({"id": 1, "method": "m"})
        await it.router.until(lambda: len(it.router.requests) == 1)
        it.wire.transport.stop_receiving()
        it.peer.post("n", {})
        await it.peer.broken.wait()
        for _ in range(100):
            with pytest.raises(ConnectionLost):
                await it.peer.notify("n", {})
        it.router.requests[0].answer({})
        while not outcomes.seen:
            await anyio.lowlevel.checkpoint()
        assert isinstance(outcomes.seen["a"], ConnectionLost)
        await it.wire.send({"method": "still read"})
        await it.router.until(lambda: "notification still read" in it.router.log)
    assert caplog.text == ""


@pytest.mark.requirement("transport.output.broken-pipe")
async def test_a_transport_that_breaks_is_the_end_of_input() -> None:
    async with connected() as it:
        await it.transport.aclose()
        await it.router.until(lambda: it.router.log == ["end of input"])


@pytest.mark.requirement("transport.output.slow-reader")
async def test_a_peer_that_does_not_read_stops_the_producer_but_not_the_reader() -> None:
    text = "x" * 1000
    sent = 0

    async def produce(scope: anyio.CancelScope) -> None:
        nonlocal sent
        with scope:
            while True:
                await it.peer.notify("update", {"n": sent, "text": text})
                sent += 1

    async with connected(capacity=4096) as it, anyio.create_task_group() as tasks:
        scope = anyio.CancelScope()

        def admit(request: IncomingRequest) -> None:
            def cancel() -> None:
                scope.cancel()
                request.answer("cancelled")

            request.on_cancel = cancel
            tasks.start_soon(produce, scope)

        it.router.on_request = admit
        await it.wire.send({"id": 1, "method": "prompt"})
        await anyio.wait_all_tasks_blocked()
        assert QUEUE_BYTES // 2 < sent * len(text) < 2 * QUEUE_BYTES
        await it.wire.send({"method": "n"})
        await it.router.until(lambda: "notification n" in it.router.log)
        await it.wire.send({"method": "$/cancel_request", "params": {"requestId": 1}})
        await anyio.wait_all_tasks_blocked()
        assert scope.cancelled_caught
        numbers = [(await it.wire.message())["params"]["n"] for _ in range(sent)]
        assert numbers == list(range(sent))
        assert await it.wire.message() == {"id": 1, "result": "cancelled"}


@pytest.mark.requirement("transport.output.slow-reader")
async def test_a_producer_waits_for_room_and_goes_on_when_the_peer_reads() -> None:
    async with connected(capacity=4096) as it, anyio.create_task_group() as tasks:

        async def produce() -> None:
            for number in range(3000):
                await it.peer.notify("update", {"n": number, "text": "x" * 1000})

        tasks.start_soon(produce)
        assert [(await it.wire.message())["params"]["n"] for _ in range(3000)] == list(range(3000))


async def test_asking_without_ever_reading_the_answers_pauses_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.wire.peer.UNREAD_ANSWERS_BYTES", 100_000)
    router = Recorder(lambda request: request.answer("x" * 1000))
    async with connected(router, capacity=4096) as it, anyio.create_task_group() as tasks:

        async def ask() -> None:
            for number in range(2000):
                await it.wire.send({"id": number, "method": "m"})

        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        assert len(router.requests) < 300
        assert [(await it.wire.message())["id"] for _ in range(2000)] == list(range(2000))


@pytest.mark.requirement("transport.output.single-writer")
async def test_messages_of_many_tasks_never_mix_and_each_task_keeps_its_order() -> None:
    async with connected(capacity=1000) as it, anyio.create_task_group() as tasks:

        async def produce(name: int) -> None:
            for number in range(100):
                await it.peer.notify(str(name), {"n": number, "text": "é" * (number * 7 % 400)})
                if number % 5 == name:
                    await anyio.lowlevel.checkpoint()

        for name in range(4):
            tasks.start_soon(produce, name)
        seen: dict[str, list[int]] = {}
        for _ in range(400):
            message = await it.wire.message()
            seen.setdefault(message["method"], []).append(message["params"]["n"])
        assert seen == {str(name): list(range(100)) for name in range(4)}


async def test_a_flood_of_updates_does_not_starve_the_reader() -> None:
    async with connected(capacity=1 << 24) as it:
        with anyio.CancelScope() as scope:

            def stop(request: IncomingRequest) -> None:
                scope.cancel()

            it.router.on_request = stop
            await it.wire.send({"id": 1, "method": "stop"})
            while True:
                await it.peer.notify("n", {})
        assert it.router.log == ["request stop"]


async def test_a_cancelled_writer_leaves_nothing_waiting() -> None:
    async with connected(capacity=100) as it, anyio.create_task_group() as tasks:
        outcomes = Outcomes(it.peer)

        async def fill() -> None:
            with pytest.raises(ConnectionLost):
                while True:
                    await it.peer.notify("n", {"t": "x" * 10_000})

        ours, _ = MemoryTransport.pair(100)
        it.peer = outcomes.peer = Peer(ours)
        with anyio.CancelScope() as scope:
            tasks.start_soon(fill)
            tasks.start_soon(outcomes.call, "m")
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
            await it.peer.write()
        with pytest.raises(ConnectionLost):
            await it.peer.request("m", {})
    assert isinstance(outcomes.seen["m"], ConnectionLost)


async def test_the_tap_sees_every_line_of_both_directions(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[tuple[str, Any]] = []

    def tap(direction: str, line: bytes) -> None:
        seen.append((direction, json.loads(line)["id" if direction == "in" else "jsonrpc"]))
        if direction == "in":
            raise OSError("the disk is full")

    async with connected(Recorder(lambda request: request.answer({}, [("n", {})])), tap=tap) as it:
        await it.wire.send({"id": 1, "method": "m"})
        await it.wire.message()
        await it.wire.message()
    assert seen == [("in", 1), ("out", "2.0"), ("out", "2.0")]
