"""Trace contexts of two conversations at once, with spans exported."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from tests.handlers.test_tracing import Exported, blocks, exported
from tests.support.editor import FS, Editor
from tests.support.model_server import Reply, Stall, Text, call, calls, text
from tests.support.setup import on_stage

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

__all__ = ["exported"]

A, B = "a" * 32, "b" * 32


@pytest.mark.requirement(
    "tracing.scope.per-request",
    "tracing.inbound.no-baggage",
    "tracing.outbound.two-keys",
    "tracing.outbound.response-not-adopted",
    "tracing.inbound.server-span",
    "tracing.inbound.span-content",
)
async def test_two_traces_never_mix_and_a_cancelled_stream_leaves_no_complaint(
    tmp_path: Path, exported: Exported, caplog: pytest.LogCaptureFixture
) -> None:
    """Naively a span stays current across the yields of a stream, so that closing it from another task complains, or
    the context lies in the process or the session and is that of the prompt before."""
    cwds = [tmp_path / "one", tmp_path / "two"]
    for cwd in cwds:
        cwd.mkdir()
    replies = [Reply([*[Text(piece) for piece in "abc"], Stall()]), calls(call("read_file", path="n.md")), text("x")]
    caplog.set_level(logging.INFO)
    async with on_stage(tmp_path, *replies, text("y"), fs=FS, spans=exported.spans) as stage:
        client = stage.client
        editor = Editor(client, {str(cwds[1] / "n.md"): "n"})
        plain = client.responders["fs/read_text_file"]

        def with_trace(request: Json) -> Json | None:
            answer = plain(request)
            assert answer is not None
            answer["result"]["_meta"] = {"traceparent": f"00-{'c' * 32}-{'3' * 16}-01"}
            return answer

        client.responders["fs/read_text_file"] = with_trace
        first, second = [await client.new(cwd) for cwd in cwds]
        before = len(client.log)
        metas: list[Json] = [
            {"traceparent": f"00-{A}-{'1' * 16}-01", "baggage": "k=v", "other": 1},
            {"traceparent": f"00-{B}-{'2' * 16}-01", "tracestate": "t" * 600},
        ]
        slow = client.request("session/prompt", sessionId=first, prompt=blocks("slow"), _meta=metas[0])
        await client.write(slow)
        await client.until(lambda m: m.get("params", {}).get("update", {}).get("content", {}).get("text") == "c")
        reads = client.request("session/prompt", sessionId=second, prompt=blocks("read"), _meta=metas[1])
        await client.write(reads)
        await client.notify("session/cancel", sessionId=first)
        assert (await client.answer(slow["id"]))["result"] == {"stopReason": "cancelled"}
        assert (await client.answer(reads["id"]))["result"] == {"stopReason": "end_turn"}
        assert editor.methods() == ["read"]
        traces: dict[str, set[str]] = {first: set(), second: set()}
        for message in client.log[before:]:
            if "method" in message and "sessionId" in message["params"]:
                meta = message["params"]["_meta"]
                assert set(meta) == {"traceparent"}, meta
                traces[message["params"]["sessionId"]].add(meta["traceparent"].split("-")[1])
        assert traces == {first: {A}, second: {B}}
        before = len(client.log)
        odd = {"traceparent": 17}
        response = await client.call("session/prompt", sessionId=second, prompt=blocks("plain"), _meta=odd)
        assert response["result"] == {"stopReason": "end_turn"}
        assert B not in str(client.log[before:])
    turns = [span for span in exported.finished() if span.name == "acp.session/prompt"]
    assert len(turns) == 3 and not any(span.attributes or span.events for span in turns)
    parents = {f"{s.parent.trace_id:032x}-{s.parent.span_id:016x}" for s in turns if s.parent}
    assert parents == {f"{A}-{'1' * 16}", f"{B}-{'2' * 16}"}
    assert "detach" not in caplog.text.lower() and "Traceback" not in caplog.text
