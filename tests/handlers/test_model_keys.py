"""What an agent file says about models and answers, over the wire: choices of models, fallbacks, forms, the cache."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sluice.config.environment import Environment
from tests.support.model_server import Close, ModelServer, Reply, Scripted, Text, call, calls, failure, text
from tests.support.setup import Stage, agent_on
from tests.support.wire import serving

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

FORM = {
    "name": "verdict",
    "strict": True,
    "schema": {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]},
}


@asynccontextmanager
async def stage(
    directory: Path, *replies: Scripted, agent: Json, env: dict[str, str] | None = None, **file: Any
) -> AsyncIterator[Stage]:
    """An open session of an agent with the models one, two and three, all on one model server."""
    async with ModelServer(replies) as model:
        entry = {"provider": "openai", "base_url": model.base_url}
        models = {name: {**entry, "model": name} for name in ("one", "two", "three")}
        models["keyed"] = {**entry, "model": "keyed", "token_key": "SOME_KEY"}
        path = agent_on(directory, model.base_url, agent={"model": "one", **agent}, models=models, **file)
        read = Environment.read(env or {}, (), None)
        async with serving(path, directory / "session.db", lambda: read) as server:
            await server.client.initialize()
            yield Stage(model, server, server.client, await server.client.new(directory), directory)
        assert model.refusals == []


def asked(stage: Stage) -> list[str]:
    return [request.body["model"] for request in stage.model.requests]


def messages(stage: Stage) -> list[tuple[str, str]]:
    """(id, text) of each message chunk."""
    return [(u["messageId"], u["content"]["text"]) for u in stage.client.updates(kind="agent_message_chunk")]


# --- which model answers -----------------------------------------------------------------------------------------


@pytest.mark.requirement("models.ref.alloy")
async def test_an_alloy_answers_each_turn_with_one_of_its_members(tmp_path: Path) -> None:
    turns = 24
    replies = [reply for _ in range(turns) for reply in (calls(call("think", thought="x")), text("done"))]
    async with stage(tmp_path, *replies, agent={"model": "one, two"}) as on:
        for _ in range(turns):
            assert (await on.client.prompt(on.session, "go"))["result"] == {"stopReason": "end_turn"}
        models = asked(on)
        assert set(models) == {"one", "two"}
        assert models[0::2] == models[1::2]


@pytest.mark.requirement("models.ref.first-available")
@pytest.mark.parametrize(("env", "model"), [({}, "two"), ({"SOME_KEY": "k"}, "keyed")])
async def test_first_available_asks_the_first_model_with_credentials(
    tmp_path: Path, env: dict[str, str], model: str
) -> None:
    async with stage(tmp_path, text("hi"), agent={"model": "keyed"}, env={"SOME_KEY": "k"}) as on:
        path = tmp_path / "agent.yaml"
        content = path.read_text().replace("model: keyed\n    desc", "model: any\n    desc")
        path.write_text(content + "  any:\n    first_available: [keyed, two]\n")
        read = Environment.read(env, (), None)
        async with serving(path, tmp_path / "other.db", lambda: read) as server:
            await server.client.initialize()
            session = await server.client.new(tmp_path)
            await server.client.prompt(session, "go")
        assert asked(on) == [model]


@pytest.mark.requirement("models.credentials.missing-named")
async def test_a_refused_key_is_named_by_the_variable_of_its_provider_entry(tmp_path: Path) -> None:
    async with ModelServer([failure(401, "no")]) as model:
        providers = {"house": {"base_url": model.base_url, "token_key": "HOUSE_TOKEN"}}
        path = agent_on(tmp_path, model.base_url, agent={"model": "house/x"}, providers=providers)
        read = Environment.read({"HOUSE_TOKEN": "hush-hush"}, (), None)
        async with serving(path, tmp_path / "session.db", lambda: read) as server:
            await server.client.initialize()
            response = await server.client.prompt(await server.client.new(tmp_path), "go")
    said = response["error"]["data"]["error"]
    assert "HOUSE_TOKEN" in said
    assert "hush" not in json.dumps(response)


# --- when a model fails ------------------------------------------------------------------------------------------


@pytest.mark.requirement("models.fallback.next-model")
@pytest.mark.parametrize("status", [429, 400, 403, 404])
async def test_the_next_model_is_asked_at_once_and_stays(tmp_path: Path, status: int) -> None:
    agent = {"fallback": {"models": ["two", "three"]}}
    async with stage(tmp_path, failure(status), text("a"), text("b"), agent=agent) as on:
        assert (await on.client.prompt(on.session, "go"))["result"] == {"stopReason": "end_turn"}
        assert (await on.client.prompt(on.session, "go on"))["result"] == {"stopReason": "end_turn"}
        assert asked(on) == ["one", "two", "two"]


@pytest.mark.requirement("models.fallback.next-model")
async def test_after_the_cooldown_the_agents_own_model_is_asked_again(tmp_path: Path) -> None:
    agent = {"fallback": {"models": ["two"], "cooldown": "0s"}}
    async with stage(tmp_path, failure(429), text("a"), text("b"), agent=agent) as on:
        await on.client.prompt(on.session, "go")
        await on.client.prompt(on.session, "go on")
        assert asked(on) == ["one", "two", "one"]


@pytest.mark.requirement("models.fallback.retryable", "models.fallback.visible-in-stream")
async def test_a_broken_answer_leaves_no_doubled_text_and_only_the_whole_one_is_stored(tmp_path: Path) -> None:
    half = Reply([Text("The ans"), Close()])
    agent = {"fallback": {"models": ["two"], "retries": 1}}
    async with stage(tmp_path, half, half, text("The answer."), text("ok"), agent=agent) as on:
        assert (await on.client.prompt(on.session, "go"))["result"] == {"stopReason": "end_turn"}
        assert asked(on) == ["one", "one", "two"]
        assert [said for _, said in messages(on)] == ["The ans", "The ans", "The answer."]
        assert len({identity for identity, _ in messages(on)}) == 3
        await on.client.prompt(on.session, "and?")
        history = [m["content"] for m in on.model.requests[-1].messages if m["role"] == "assistant"]
        assert history == ["The answer."]


@pytest.mark.requirement("models.fallback.next-model")
async def test_when_every_model_fails_the_turn_fails_with_the_first_reason(tmp_path: Path) -> None:
    async with stage(tmp_path, failure(429), failure(400), agent={"fallback": {"models": ["two"]}}) as on:
        error = (await on.client.prompt(on.session, "go"))["error"]
        assert error["data"]["runtimeCode"] == "rate_limited"
        assert asked(on) == ["one", "two"]


async def test_a_fallback_without_credentials_is_left_out(tmp_path: Path) -> None:
    async with stage(tmp_path, failure(429), text("a"), agent={"fallback": {"models": ["keyed", "three"]}}) as on:
        assert (await on.client.prompt(on.session, "go"))["result"] == {"stopReason": "end_turn"}
        assert asked(on) == ["one", "three"]


# --- the form of the answer --------------------------------------------------------------------------------------


@pytest.mark.requirement("config-file.agents.structured-output")
async def test_an_answer_of_the_right_form_ends_the_turn_and_the_provider_was_told_the_form(tmp_path: Path) -> None:
    replies = [calls(call("think", thought="x")), text('{"ok": true}')]
    async with stage(tmp_path, *replies, agent={"structured_output": FORM}) as on:
        assert (await on.client.prompt(on.session, "go"))["result"] == {"stopReason": "end_turn"}
        for request in on.model.requests:
            assert request.body["response_format"] == {"type": "json_schema", "json_schema": FORM}


@pytest.mark.requirement("config-file.agents.structured-output")
@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (text("It is fine."), "it is not JSON"),
        (text('{"ok": "yes"}'), "$.ok: 'yes' is not of type 'boolean'"),
        (text('{"ok": tr', finish="length"), "it is not JSON (the answer was cut off at the limit of tokens)"),
    ],
)
async def test_an_answer_of_another_form_fails_the_turn(tmp_path: Path, reply: Reply, said: str) -> None:
    async with stage(tmp_path, reply, text('{"ok": true}'), agent={"structured_output": FORM}) as on:
        error = (await on.client.prompt(on.session, "go"))["error"]
        assert error["code"] == -32603
        assert error["data"] == {
            "sessionId": on.session,
            "runtimeCode": "structured_output_failed",
            "error": f"The answer does not fit the schema verdict: {said}.",
        }
        assert (await on.client.prompt(on.session, "again"))["result"] == {"stopReason": "end_turn"}


async def test_a_refusal_is_a_refusal_whatever_form_was_asked_for(tmp_path: Path) -> None:
    async with stage(tmp_path, text("No.", finish="content_filter"), agent={"structured_output": FORM}) as on:
        assert (await on.client.prompt(on.session, "go"))["result"] == {"stopReason": "refusal"}


# --- the response cache ------------------------------------------------------------------------------------------


@pytest.mark.requirement("config-file.agents.cache", "message-ids.cache.hit-identified")
async def test_a_question_that_was_answered_gets_its_answer_without_the_model(tmp_path: Path) -> None:
    cache = {"enabled": True, "trim_spaces": True}
    async with stage(tmp_path, text("Forty-", "two."), text("Other."), agent={"cache": cache}) as on:
        for typed in ("What is it?", " what is IT? ", "What else?"):
            assert (await on.client.prompt(on.session, typed))["result"] == {"stopReason": "end_turn"}
        assert len(on.model.requests) == 2
        assert [said for _, said in messages(on)] == ["Forty-", "two.", "Forty-two.", "Other."]
        assert len({identity for identity, _ in messages(on)}) == 3
        history = [(m["role"], m["content"]) for m in on.model.requests[-1].messages[1:]]
        assert history[2:4] == [("user", " what is IT? "), ("assistant", "Forty-two.")]
        other = await on.client.new(tmp_path)
        await on.client.prompt(other, "What is it?")
        assert on.client.text(other) == "Forty-two."
        assert len(on.model.requests) == 2


@pytest.mark.requirement("config-file.agents.cache")
async def test_a_cache_in_a_file_outlives_the_server_and_stands_beside_the_agent_file(tmp_path: Path) -> None:
    agent = {"cache": {"enabled": True, "path": "answers.json"}}
    async with stage(tmp_path, text("a"), agent=agent) as on:
        await on.client.prompt(on.session, "q")
        assert (tmp_path / "answers.json").exists()
    async with stage(tmp_path, agent=agent) as on:
        await on.client.prompt(on.session, "q")
        assert on.client.text() == "a"
        assert on.model.requests == []


@pytest.mark.requirement("config-file.agents.cache")
async def test_only_an_answer_that_ended_by_itself_is_kept_and_none_for_a_prompt_with_an_attachment(
    tmp_path: Path,
) -> None:
    cache = {"enabled": True}
    replies = [text("cut", finish="length"), text("whole"), text("with link"), text("again")]
    async with stage(tmp_path, *replies, agent={"cache": cache}) as on:
        await on.client.prompt(on.session, "q")
        await on.client.prompt(on.session, "q")
        linked = [{"type": "text", "text": "q"}, {"type": "resource_link", "uri": "file:///a", "name": "a"}]
        for _ in range(2):
            await on.client.call("session/prompt", sessionId=on.session, prompt=linked)
        await on.client.prompt(on.session, "q")
        assert [said for _, said in messages(on)] == ["cut", "whole", "with link", "again", "whole"]


@pytest.mark.requirement("message-ids.cache.xml-tool-miss")
async def test_a_kept_answer_that_holds_a_tool_call_as_xml_is_a_miss_and_never_shown(tmp_path: Path) -> None:
    agent = {"cache": {"enabled": True, "path": "answers.json"}}
    async with stage(tmp_path, text("clean"), text("<tool_call>x</tool_call>"), agent=agent) as on:
        await on.client.prompt(on.session, "q")
        kept = json.loads((tmp_path / "answers.json").read_text())
        kept["answers"] = dict.fromkeys(kept["answers"], "<tool_call>hidden</tool_call>")
        (tmp_path / "answers.json").write_text(json.dumps(kept))
        await on.client.prompt(on.session, "q")
        assert "hidden" not in json.dumps(on.client.log)
        assert len(on.model.requests) == 2
        assert "x</tool_call>" not in (tmp_path / "answers.json").read_text()
