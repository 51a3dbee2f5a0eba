"""The same turns over every model API, through the wire: the server of each refuses what the real service refuses."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sluice.agent import attempts
from sluice.handlers import audio
from tests.support.apis import APIS, SPOKEN
from tests.support.model_server import (
    Close,
    Finish,
    ModelServer,
    Raw,
    Reply,
    Scripted,
    Stall,
    Text,
    Thought,
    ToolCalls,
    Usage,
    call,
    calls,
    text,
)
from tests.support.setup import Stage, agent_on, on_stage
from tests.support.wire import serving, spawned

CARRIES = [name for name in APIS if SPOKEN[name].carries]
BUILT = pytest.mark.requirement(
    "models.providers.anthropic", "models.providers.openai-responses", "models.providers.gemini"
)
pytestmark = [pytest.mark.anyio]

THINKS = {"type": "think"}


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "backoff", lambda attempt: 0.0)


@asynccontextmanager
async def stage_of(api: str, directory: Path, *replies: Scripted, **more: Any) -> AsyncIterator[Stage]:
    spoken = SPOKEN[api]
    entry = {**spoken.entry, **more.pop("entry", {})}
    async with on_stage(
        directory, *replies, dialect=spoken.dialect(), entry=entry, file=spoken.file, **more
    ) as stage:
        yield stage


def shell(words: str, thought: str = "Let me look.", text: str = "Looking.") -> Reply:
    return Reply([Thought(thought), Text(text), ToolCalls([call("shell", cmd=words)])])


def sent(stage: Stage, number: int = -1) -> str:
    """A request as text, to look for words in it."""
    return json.dumps(stage.model.requests[number].body, ensure_ascii=False)


def failing(api: str, status: int, message: str, **headers: str) -> Reply:
    spoken = SPOKEN[api].dialect()
    return Reply(status=status, error=spoken.error(status, message), headers=headers)


@BUILT
@pytest.mark.parametrize("api", APIS)
async def test_a_turn_with_a_call_that_is_asked_about(tmp_path: Path, api: str) -> None:
    replies = [shell("echo first"), shell("echo second", "And now?", ""), Reply([Thought("Enough."), Text("Done.")])]
    async with stage_of(api, tmp_path, *replies, text("And on.")) as stage:
        client = stage.client
        prompt = await client.send("session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": "go"}])
        await client.allow()
        await client.allow("reject")
        assert (await client.answer(prompt))["result"] == {"stopReason": "end_turn"}
        assert client.text() == "Looking.Done."
        thoughts = client.updates(kind="agent_thought_chunk")
        assert "".join(update["content"]["text"] for update in thoughts) == "Let me look.And now?Enough."
        assert "first" in sent(stage, 1) and "rejected" in sent(stage, 2)
        await client.prompt(stage.session, "again")
        assert stage.model.unscripted == []
        assert stage.model.requests[0].tools


@BUILT
@pytest.mark.parametrize("api", CARRIES)
async def test_signed_thoughts_go_back_as_they_came_also_after_a_restart(tmp_path: Path, api: str) -> None:
    spoken = SPOKEN[api]
    replies = [
        shell("echo one"),
        Reply([Thought("Sealed.", key="redacted"), Thought("Well."), Text("One."), Text(" Two.")]),
        Reply([Thought("Later."), Text("Three.")]),
        text("Four."),
    ]
    async with ModelServer(replies, dialect=spoken.dialect()) as model:
        agent = {"safety": "autonomous"}
        path = agent_on(tmp_path, model.base_url, model=spoken.entry, agent=agent, **spoken.file)
        async with serving(path, tmp_path / "s.db") as server:
            await server.client.initialize()
            session = await server.client.new(tmp_path)
            await server.client.prompt(session, "go")
            await server.client.prompt(session, "more")
        assert carried(model, 1) == 1
        assert carried(model, 2) == 3
        async with serving(path, tmp_path / "s.db") as server:
            await server.client.initialize()
            await server.client.result("session/load", sessionId=session, cwd=str(tmp_path), mcpServers=[])
            await server.client.prompt(session, "and then?")
            assert "signature" not in json.dumps(server.client.log)
        assert carried(model, 3) == 4
        assert model.refusals == [] and model.unscripted == []


def carried(model: ModelServer, number: int) -> int:
    """How many signed pieces stand in a request."""
    return model.requests[number].dialect.carried(model.requests[number].body)


@BUILT
@pytest.mark.parametrize("api", CARRIES)
async def test_thoughts_behind_something_that_has_changed_are_left_out(tmp_path: Path, api: str) -> None:
    agent = {"safety": "autonomous", "max_old_tool_call_tokens": 250}
    long = "x" * 300
    replies = [
        shell(f"echo {long}"),
        shell(f"echo {long}"),
        text("one"),
        Reply([Thought("c"), Text("two")]),
        text("d"),
    ]
    async with stage_of(api, tmp_path, *replies, agent=agent) as stage:
        await stage.client.prompt(stage.session, "go")
        # The first call has been shortened by now, so its answer is not what it was, nor is what came behind it.
        assert [carried(stage.model, number) for number in range(3)] == [0, 1, 0]
        await stage.client.prompt(stage.session, "more")
        await stage.client.prompt(stage.session, "and more")
        assert [carried(stage.model, number) for number in (3, 4)] == [0, 1]
        assert stage.model.unscripted == []


@BUILT
@pytest.mark.parametrize("api", CARRIES)
async def test_a_service_that_does_not_know_its_thoughts_again_gets_none(tmp_path: Path, api: str) -> None:
    refusal = failing(api, 400, "messages.1.content.0: Invalid `signature` in `thinking` block")
    replies = [shell("echo a"), refusal, text("one"), text("two")]
    async with stage_of(api, tmp_path, *replies, agent={"safety": "autonomous"}) as stage:
        assert (await stage.client.prompt(stage.session, "go"))["result"] == {"stopReason": "end_turn"}
        await stage.client.prompt(stage.session, "more")
        assert [carried(stage.model, number) for number in range(4)] == [0, 1, 0, 0]


@BUILT
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    "half",
    [
        [Thought("Hm."), Text("half"), Stall()],
        [Text("half"), Thought("Hm."), Stall()],
        [Text("half"), ToolCalls([call("shell", cmd="true")]), Stall()],
    ],
    ids=["text", "thought", "call"],
)
async def test_after_a_cancel_in_the_middle_the_history_is_taken(
    tmp_path: Path, api: str, half: Sequence[Any]
) -> None:
    async with stage_of(api, tmp_path, Reply(half), shell("echo a"), text("on")) as stage:
        client = stage.client
        prompt = await client.send("session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": "go"}])
        await client.until(lambda message: "half" in str(message))
        await client.notify("session/cancel", sessionId=stage.session)
        assert (await client.answer(prompt))["result"] == {"stopReason": "cancelled"}
        await stage.model.wait_for_abort()
        prompt = await client.send("session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": "on"}])
        await client.asked("session/request_permission")
        await client.notify("session/cancel", sessionId=stage.session)
        assert (await client.answer(prompt))["result"] == {"stopReason": "cancelled"}
        assert (await client.prompt(stage.session, "again"))["result"] == {"stopReason": "end_turn"}
        assert "half" in sent(stage) and "Cancelled before it ran" in sent(stage)


@BUILT
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(("finish", "stop"), [("length", "max_tokens"), ("content_filter", "refusal")])
async def test_how_an_answer_ended_is_told(tmp_path: Path, api: str, finish: str, stop: str) -> None:
    cut = Reply([Text("a"), ToolCalls([call("think", thought="x")]), Finish(finish), Usage()])
    replies = [Reply([Text("no"), Finish(finish), Usage()]), cut, text("yes"), text("yes")]
    async with stage_of(api, tmp_path, *replies) as stage:
        assert (await stage.client.prompt(stage.session, "go"))["result"] == {"stopReason": stop}
        # A call that is whole runs although the answer was cut; one of a refused answer does not.
        wanted = "end_turn" if finish == "length" else stop
        assert (await stage.client.prompt(stage.session, "go on"))["result"] == {"stopReason": wanted}
        assert (await stage.client.prompt(stage.session, "well"))["result"] == {"stopReason": "end_turn"}


@BUILT
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("status", "message", "code"),
    [
        (401, "invalid x-api-key", "model_error"),
        (404, "no such model", "model_error"),
        (400, "something else", "model_error"),
        (429, "Number of requests has exceeded your rate limit", "rate_limited"),
        (413, "Request exceeds the maximum size", "request_too_large"),
        (400, "image exceeds 5 MB maximum", "media_too_large"),
        (400, "prompt is too long: 200001 tokens > 200000 maximum", "context_exceeded"),
    ],
)
async def test_errors_have_their_code_and_the_session_goes_on(
    tmp_path: Path, api: str, status: int, message: str, code: str
) -> None:
    failed = failing(api, status, message)
    agent = {"session_compaction": False}
    async with stage_of(api, tmp_path, failed, text("ok"), agent=agent) as stage:
        error = (await stage.client.prompt(stage.session, "go"))["error"]
        assert error["data"]["runtimeCode"] == code
        assert (await stage.client.prompt(stage.session, "again"))["result"] == {"stopReason": "end_turn"}


@BUILT
@pytest.mark.parametrize("api", APIS)
async def test_passing_failures_are_tried_again(tmp_path: Path, api: str) -> None:
    busy = failing(api, 529, "Overloaded", **{"retry-after": "0"})
    broken = Reply([Thought("hm"), Text("Hel"), Close()])
    inside = Reply([Text("Hel"), Raw(b'data: {"type": "error", "error": {"type": "overloaded_error", '
                                     b'"message": "Overloaded"}}\n\n'), Stall()])  # fmt: skip
    replies = [busy, text("one"), broken, text("two"), inside, text("three")]
    async with stage_of(api, tmp_path, *replies) as stage:
        for _ in range(3):
            assert (await stage.client.prompt(stage.session, "go"))["result"] == {"stopReason": "end_turn"}
        assert stage.model.unscripted == []


@BUILT
@pytest.mark.parametrize("api", APIS)
async def test_tokens_and_their_price(tmp_path: Path, api: str) -> None:
    entry = {
        "cost": {"input": 10.0, "output": 100.0, "cache_read": 1.0, "cache_write": 20.0},
        "provider_opts": {"context_size": 1_000_000},
    }
    used = Usage(100_000, 1000, cached=50_000, reasoning=100)
    async with stage_of(api, tmp_path, text("a", usage=used), entry=entry) as stage:
        await stage.client.prompt(stage.session, "go")
        update = stage.client.updates(kind="usage_update")[-1]
        assert (update["used"], update["size"]) == (101_000, 1_000_000)
        assert update["cost"]["amount"] == pytest.approx(0.5 + 0.05 + 0.1)


@BUILT
@pytest.mark.parametrize("api", APIS)
async def test_a_conversation_is_compacted_and_goes_on(tmp_path: Path, api: str) -> None:
    full = failing(api, 400, "prompt is too long: 200001 tokens > 200000 maximum")
    replies = [shell("echo a"), text("one"), full, text("SUMMARY"), text("two"), text("BRIEF"), text("three")]
    async with stage_of(api, tmp_path, *replies, agent={"safety": "autonomous"}) as stage:
        await stage.client.prompt(stage.session, "first")
        assert (await stage.client.prompt(stage.session, "second"))["result"] == {"stopReason": "end_turn"}
        assert "SUMMARY" in sent(stage)
        await stage.client.prompt(stage.session, "/compact")
        await stage.client.prompt(stage.session, "third")
        assert "BRIEF" in sent(stage) and stage.client.text().endswith("three")
        assert stage.model.unscripted == []


@pytest.mark.requirement("audio.provider.others-notice-only")
@pytest.mark.parametrize("api", ["anthropic", "openai_responses"])
async def test_other_apis_get_the_notice_of_a_sound_and_no_bytes(tmp_path: Path, api: str) -> None:
    sound = base64.b64encode(b"RIFF sound").decode()
    block = {"type": "audio", "data": sound, "mimeType": "audio/wav"}
    async with stage_of(api, tmp_path, text("ok"), takes={"audio": True}) as stage:
        await stage.client.result("session/prompt", sessionId=stage.session, prompt=[block])
        assert sound not in sent(stage)
        assert json.dumps(audio.NOTICE)[1:-1] in json.dumps(stage.model.requests[0].body)


@pytest.mark.requirement("audio.provider.gemini", "audio.provider.two-conditions", "audio.bytes.exact")
@pytest.mark.parametrize("takes", [True, False])
async def test_gemini_gets_a_sound_inline_with_the_parameters_of_its_type(tmp_path: Path, takes: bool) -> None:
    sound = base64.b64encode(b"raw sound").decode()
    block = {"type": "audio", "data": sound, "mimeType": "Audio/L16; Rate=16000"}
    async with stage_of("gemini", tmp_path, text("ok"), takes={"audio": takes}) as stage:
        await stage.client.result("session/prompt", sessionId=stage.session, prompt=[block])
        parts = stage.model.requests[0].body["contents"][0]["parts"]
        inline = [part["inlineData"] for part in parts if "inlineData" in part]
        assert inline == ([{"mimeType": "audio/l16;rate=16000", "data": sound}] if takes else [])
        assert audio.NOTICE in "".join(part.get("text", "") for part in parts)


@BUILT
@pytest.mark.requirement("models.ref.auto")
@pytest.mark.parametrize("api", APIS)
async def test_auto_takes_the_provider_whose_key_is_set_and_the_key_shows_nowhere(tmp_path: Path, api: str) -> None:
    spoken, key = SPOKEN[api], "sk-secret-0123456789abcdef"
    async with ModelServer([failing(api, 401, f"bad key {key}"), calls(call("think", thought="x")), text("ok")],
                           dialect=spoken.dialect()) as model:  # fmt: skip
        path = tmp_path / "agent.yaml"
        declared = {**spoken.declared, "base_url": model.base_url, "token_key": spoken.key}
        path.write_text(
            json.dumps(
                {
                    "agents": {"root": {"model": "auto", "toolsets": [{"type": "think"}]}},
                    "providers": {spoken.provider: declared},
                }
            )
        )
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), spoken.key: key}
        journal = tmp_path / "journal"
        arguments = ["--debug", "--log-file", str(tmp_path / "log"), "--journal", str(journal)]
        async with spawned(path, tmp_path / "s.db", *arguments, environment=environment) as server:
            await server.client.initialize()
            session = await server.client.new(tmp_path)
            assert "error" in await server.client.prompt(session, "go")
            assert (await server.client.prompt(session, "go"))["result"] == {"stopReason": "end_turn"}
        assert key in str(model.requests[0].headers)
        assert key not in json.dumps(server.client.log)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and key.encode() in path.read_bytes()]


@pytest.mark.requirement("models.gateway.replaces-endpoints")
@pytest.mark.parametrize("api", APIS)
async def test_a_gateway_is_asked_in_the_api_of_each_provider(tmp_path: Path, api: str) -> None:
    spoken, login = SPOKEN[api], "gateway-login-0123456789"
    async with ModelServer([text("ok")], dialect=spoken.dialect()) as model:
        path = tmp_path / "agent.yaml"
        reference = f"{spoken.provider}/{spoken.model}"
        path.write_text(json.dumps({"agents": {"root": {"model": reference}}, **spoken.file}))
        environment = {"SLUICE_MODELS_GATEWAY_TOKEN": login, spoken.key: "never-to-be-sent"}
        flag = f"--models-gateway=http://127.0.0.1:{model.port}"
        async with spawned(path, tmp_path / "s.db", flag, environment=environment) as server:
            await server.client.initialize()
            session = await server.client.new(tmp_path)
            assert (await server.client.prompt(session, "go"))["result"] == {"stopReason": "end_turn"}
        headers = model.requests[0].headers
        assert headers["x-sluice-provider"] == spoken.provider
        assert login in str(headers) and "never-to-be-sent" not in str(headers)
        async with spawned(path, tmp_path / "s.db", flag, environment={spoken.key: "k"}) as server:
            await server.client.initialize()
            error = await server.client.error("session/new", cwd=str(tmp_path), mcpServers=[])
            assert error["code"] == -32000 and "SLUICE_MODELS_GATEWAY_TOKEN" in error["data"]["message"]
