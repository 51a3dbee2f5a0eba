"""Traces over the wire: from the client's request through the turn and back to the client."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from sluice.wire.tracing import Spans
from tests.support.editor import FS, Editor
from tests.support.model_server import Finish, Reply, Stall, Text, Wait, call, calls, text
from tests.support.setup import Stage, on_stage

pytestmark = pytest.mark.anyio

Json = dict[str, Any]


def parent(number: int) -> str:
    return f"00-{number:032x}-{number:016x}-01"


def blocks(said: str = "go") -> list[Json]:
    return [{"type": "text", "text": said}]


def sent(stage: Stage, since: int = 0) -> list[Json]:
    """The `_meta` of what the server sent of its own accord, `$/cancel_request` apart."""
    return [
        message["params"].get("_meta") or {}
        for message in stage.client.log[since:]
        if message.get("method") and message["method"] != "$/cancel_request"
    ]


class Exported:
    """A tracer of a provider of its own, and what it has finished."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.spans = Spans(self.provider.get_tracer("test"))

    def finished(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def named(self, name: str) -> ReadableSpan:
        (found,) = [span for span in self.finished() if span.name == name]
        return found


@pytest.fixture
def exported() -> Iterator[Exported]:
    made = Exported()
    yield made
    made.provider.shutdown()


@pytest.mark.requirement("tracing.outbound.two-keys", "tracing.inbound.no-baggage", "tracing.export.opt-in")
async def test_without_spans_a_context_is_passed_on_as_it_came(tmp_path: Path) -> None:
    batch = calls(call("read_file", path="a"), call("shell", cmd="true"))
    async with on_stage(tmp_path, batch, text("ok"), fs=FS) as stage:
        client = stage.client
        Editor(client, {str(stage.cwd / "a"): "A"})
        before = len(client.log)
        meta = {"traceparent": parent(7), "tracestate": "v=1", "baggage": "user=me", "other": 1}
        prompt = await client.send("session/prompt", sessionId=stage.session, prompt=blocks(), _meta=meta)
        await client.allow()
        assert (await client.answer(prompt))["result"] == {"stopReason": "end_turn"}
        methods = {message.get("method") for message in client.log[before:]}
        assert {"session/update", "session/request_permission", "fs/read_text_file"} <= methods
        assert all(one == {"traceparent": parent(7), "tracestate": "v=1"} for one in sent(stage, before))
        before = len(client.log)
        stage.model.add(text("ok"))
        await client.prompt(stage.session, "and without")
        assert all(one == {} for one in sent(stage, before))


@pytest.mark.requirement("tracing.export.opt-in")
def test_without_the_flag_the_library_is_not_loaded() -> None:
    code = "import sys, sluice.cli.serve_acp; print([name for name in sys.modules if 'opentelemetry' in name])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.requirement(
    "tracing.inbound.server-span",
    "tracing.inbound.span-content",
    "tracing.flow.into-runtime",
    "tracing.outbound.nothing-more",
    "tracing.outbound.two-keys",
)
async def test_the_spans_of_a_turn_descend_from_the_clients_context(tmp_path: Path, exported: Exported) -> None:
    replies = calls(call("read_file", path="a")), text("o", "k")
    async with on_stage(tmp_path, *replies, fs=FS, spans=exported.spans) as stage:
        client = stage.client
        Editor(client, {str(stage.cwd / "a"): "A"})
        before = len(client.log)
        meta = {"traceparent": parent(7), "tracestate": "v=1"}
        response = await client.call("session/prompt", sessionId=stage.session, prompt=blocks(), _meta=meta)
        assert response["result"] == {"stopReason": "end_turn"}
        turn = exported.named("acp.session/prompt")
        assert turn.kind is SpanKind.SERVER and turn.parent is not None
        assert (turn.context.trace_id, turn.parent.span_id, turn.parent.is_remote) == (7, 7, True)
        assert not turn.attributes and not turn.events and turn.status.description is None
        below = [span for span in exported.finished() if span.parent and span.parent.span_id == turn.context.span_id]
        ask = "chat openai/test-model"
        assert [span.name for span in below] == [ask, "execute_tool read_file", ask]
        (read,) = client.requests("fs/read_text_file")
        tool = exported.named("execute_tool read_file").context
        assert read["params"]["_meta"]["traceparent"] == f"00-{7:032x}-{tool.span_id:016x}-01"
        assert {one["traceparent"].split("-")[1] for one in sent(stage, before)} == {f"{7:032x}"}
        assert {span.name for span in exported.finished()} == {
            "acp.initialize",
            "acp.session/new",
            "acp.session/prompt",
            "chat openai/test-model",
            "execute_tool read_file",
        }
        assert not any(span.kind is SpanKind.CLIENT for span in exported.finished())


@pytest.mark.requirement("tracing.inbound.server-span", "tracing.inbound.span-content")
async def test_a_refused_request_and_a_notification_have_spans_and_an_unknown_method_has_none(
    tmp_path: Path, exported: Exported
) -> None:
    async with on_stage(tmp_path, spans=exported.spans) as stage:
        await stage.client.error("session/load", sessionId="no", cwd="/secret/place", mcpServers=[])
        await stage.client.error("session/unheard_of")
        await stage.client.notify("session/cancel", sessionId=stage.session)
        await stage.client.notify("session/unheard_of")
        await stage.client.result("session/list")
    names = [span.name for span in exported.finished()]
    assert names.count("acp.session/load") == names.count("acp.session/cancel") == 1
    assert "unheard" not in str(names)
    for span in exported.finished():
        assert not span.attributes and not span.events and "secret" not in str(span.status.description)


@pytest.mark.requirement("tracing.scope.per-request", "tracing.outbound.response-not-adopted")
async def test_two_prompts_at_once_and_one_after_another_keep_to_their_own_context(tmp_path: Path) -> None:
    gate = anyio.Event()
    shell = calls(call("shell", cmd="true"))
    async with on_stage(tmp_path, shell, Reply([Text("a"), Wait(gate), Text("b"), Finish()])) as stage:
        client = stage.client
        first = await client.send(
            "session/prompt", sessionId=stage.session, prompt=blocks(), _meta={"traceparent": parent(1)}
        )
        asked = await client.asked("session/request_permission")
        outcome = {"outcome": {"outcome": "selected", "optionId": "allow"}, "_meta": {"traceparent": parent(9)}}
        await client.respond(asked, outcome)
        await stage.model.wait_for_call(2)
        other = await client.new(stage.cwd)
        stage.model.add(text("other"))
        await client.call("session/prompt", sessionId=other, prompt=blocks(), _meta={"traceparent": parent(2)})
        gate.set()
        await client.answer(first)
        stage.model.add(text("again"))
        await client.call(
            "session/prompt", sessionId=stage.session, prompt=blocks(), _meta={"traceparent": parent(3)}
        )
        seen: dict[str, list[str]] = {stage.session: [], other: []}
        for message in client.log:
            trace = ((message.get("params") or {}).get("_meta") or {}).get("traceparent")
            if trace is not None:
                seen[message["params"]["sessionId"]].append(trace)
        assert set(seen[other]) == {parent(2)}
        assert list(dict.fromkeys(seen[stage.session])) == [parent(1), parent(3)]


@pytest.mark.requirement("tracing.scope.per-request", "tracing.scope.detached-outlives")
async def test_a_queued_prompt_goes_on_in_its_own_context_and_a_drain_in_that_of_its_turn(tmp_path: Path) -> None:
    async with on_stage(tmp_path, Reply([Text("half"), Stall()]), text("ok"), terminal=True) as stage:
        client = stage.client
        first = await client.send(
            "session/prompt", sessionId=stage.session, prompt=blocks(), _meta={"traceparent": parent(1)}
        )
        await client.until(lambda message: "half" in str(message))
        cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": stage.session}}
        second = client.request(
            "session/prompt", sessionId=stage.session, prompt=blocks(), _meta={"traceparent": parent(2)}
        )
        await client.write(cancel, second)
        assert (await client.answer(first))["result"] == {"stopReason": "cancelled"}
        at = len(client.log)
        assert (await client.answer(second["id"]))["result"] == {"stopReason": "end_turn"}
        chunk = [u for u in client.log[at:] if "agent_message_chunk" in str(u)]
        assert {one["params"]["_meta"]["traceparent"] for one in chunk} == {parent(2)}


@pytest.mark.requirement("tracing.scope.final-close", "tracing.outbound.two-keys")
async def test_the_last_release_of_a_terminal_belongs_to_who_closes(tmp_path: Path) -> None:
    async with on_stage(tmp_path, calls(call("shell", cmd="true")), text("ok"), terminal=True) as stage:
        client = stage.client
        prompt = await client.send(
            "session/prompt", sessionId=stage.session, prompt=blocks(), _meta={"traceparent": parent(1)}
        )
        await client.allow()
        await client.respond(await client.asked("terminal/create"), {"terminalId": "t"})
        await client.respond(await client.asked("terminal/wait_for_exit"), {"exitCode": 0})
        await client.respond(await client.asked("terminal/output"), {"output": "", "truncated": False})
        await client.refuse(await client.asked("terminal/release"), -32603)
        await client.answer(prompt)
        close = await client.send("session/close", sessionId=stage.session, _meta={"traceparent": parent(5)})
        await client.respond(await client.asked("terminal/release"), {})
        assert (await client.answer(close))["result"] == {}
        releases = client.requests("terminal/release")
        assert [one["params"]["_meta"]["traceparent"] for one in releases] == [parent(1), parent(5)]
