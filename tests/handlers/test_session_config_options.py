"""Options and modes over the wire: the lists, what a change does, and what it may not do."""

from __future__ import annotations

import socket
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from sluice import machines
from sluice.handlers.session import Incarnation
from sluice.wire.peer import ConnectionLost
from tests.support.model_server import ModelServer, text
from tests.support.setup import Stage, agent_on
from tests.support.wire import Client, Server, serving

pytestmark = pytest.mark.anyio

Json = dict[str, Any]


def models_on(url: str) -> Json:
    return {
        "m": {"provider": "openai", "model": "test-model", "base_url": url},
        "thinker": {"provider": "openai", "model": "gpt-5.1", "base_url": url, "thinking_budget": "none"},
        "fast": {"provider": "openai", "model": "gpt-5-mini", "base_url": url, "description": "the quick one"},
        "budgeted": {"provider": "openai", "model": "nobody-knows", "base_url": url, "thinking_budget": "high"},
        "keyless": {"provider": "mistral", "model": "mistral-small-latest"},
    }


@asynccontextmanager
async def on(
    directory: Path, model: ModelServer, *, busy_timeout: float = 5.0, models: Json | None = None, **more: Any
) -> AsyncIterator[Server]:
    file = agent_on(directory, model.base_url, models=models or models_on(model.base_url), **more)
    async with serving(file, directory / "s.db", busy_timeout=busy_timeout) as server:
        await server.client.initialize()
        yield server


@asynccontextmanager
async def staged(directory: Path, *replies: Any, busy_timeout: float = 5.0, **more: Any) -> AsyncIterator[Stage]:
    async with ModelServer(replies) as model, on(directory, model, busy_timeout=busy_timeout, **more) as server:
        yield Stage(model, server, server.client, await server.client.new(directory), directory)
        assert model.refusals == []


def chosen(options: list[Json]) -> dict[str, str]:
    return {option["id"]: option["currentValue"] for option in options}


def offered(options: list[Json], option_id: str) -> list[str]:
    (found,) = (option for option in options if option["id"] == option_id)
    return [entry["value"] for entry in found["options"]]


async def change(client: Client, session: str, option: str, value: Any) -> list[Json]:
    result = await client.result("session/set_config_option", sessionId=session, configId=option, value=value)
    found: list[Json] = result["configOptions"]
    return found


def live_of(stage: Stage) -> Incarnation:
    live = stage.server.connection.entries[stage.session].live
    assert live is not None
    return live


@asynccontextmanager
async def locked(directory: Path) -> AsyncIterator[None]:
    """Another process's write lock on the store."""
    other = sqlite3.connect(directory / "s.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


@pytest.mark.requirement(
    "config-options.shape.in-setup-results",
    "config-options.shape.three-ids",
    "config-options.model.values",
    "config-options.reasoning.omitted",
    "modes.list.five-ids",
)
async def test_every_setup_result_has_the_options_in_agreement_with_the_modes(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        client, cwd = stage.client, str(tmp_path)
        await change(client, stage.session, "model", "model:fast")
        await client.result("session/set_mode", sessionId=stage.session, modeId="balanced")
        new = await client.result("session/new", cwd=cwd, mcpServers=[])
        load = await client.result("session/load", sessionId=stage.session, cwd=cwd, mcpServers=[])
        resume = await client.result("session/resume", sessionId=stage.session, cwd=cwd)
        for result, ids in ((new, ["mode", "model"]), (load, ["mode", "model", "thought_level"]), (resume, None)):
            options = result["configOptions"]
            assert ids is None or [option["id"] for option in options] == ids
            assert [option["category"] for option in options] == [option["id"] for option in options]
            assert {option["type"] for option in options} == {"select"}
            assert result["modes"]["currentModeId"] == chosen(options)["mode"]
            five = ["default", "strict", "balanced", "restricted", "autonomous"]
            assert [mode["id"] for mode in result["modes"]["availableModes"]] == five == offered(options, "mode")
        models = ["default", "model:budgeted", "model:fast", "model:m", "model:thinker"]
        assert offered(new["configOptions"], "model") == models
        assert load["configOptions"] == resume["configOptions"]
        assert "thought_level" not in chosen(await change(client, stage.session, "model", "model:budgeted"))


@pytest.mark.requirement(
    "config-options.set.exact-values",
    "config-options.set.rejects",
    "config-options.set.stray-type",
    "modes.set.unknown",
)
async def test_only_offered_values_are_taken_and_a_wrong_one_changes_nothing(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        client = stage.client
        before = await change(client, stage.session, "model", "model:fast")
        told = len(client.told())
        wrong: list[tuple[str, Any]] = [
            ("mode", "yolo"),
            ("mode", "Default"),
            ("mode", True),
            ("mode", 3),
            ("model", "fast"),
            ("model", "model:keyless"),
            ("model", "model:"),
            ("model", "current"),
            ("thought_level", "none"),
            ("thought_level", "xhigh"),
            ("color", "red"),
            ("", "default"),
        ]
        for option, value in wrong:
            params = {"sessionId": stage.session, "configId": option, "value": value}
            assert (await client.error("session/set_config_option", **params))["code"] == -32602, (option, value)
        params = {"sessionId": stage.session, "configId": "mode", "type": "boolean", "value": True}
        assert (await client.error("session/set_config_option", **params))["code"] == -32602
        assert (await client.error("session/set_mode", sessionId=stage.session, modeId="yolo"))["code"] == -32602
        assert len(client.told()) == told
        stray = {"sessionId": stage.session, "configId": "model", "type": "list", "value": "model:fast"}
        assert (await client.result("session/set_config_option", **stray))["configOptions"] == before


@pytest.mark.requirement(
    "config-options.set.offline", "config-options.model.local-only", "config-options.set.complete-list"
)
async def test_every_offered_value_of_every_option_can_be_set_without_a_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with staged(tmp_path) as stage:

        def no_network(*_: Any) -> None:
            raise AssertionError("an address was dialled")

        monkeypatch.setattr(socket.socket, "connect", no_network)
        options = await change(stage.client, stage.session, "model", "model:thinker")
        for option in options:
            for value in offered(options, option["id"]):
                if option["id"] == "thought_level":
                    await change(stage.client, stage.session, "model", "model:thinker")
                answered = await change(stage.client, stage.session, option["id"], value)
                assert chosen(answered)[option["id"]] == value
        assert stage.model.requests == []


@pytest.mark.requirement(
    "config-options.persist.model-and-safety",
    "config-options.persist.cold-apply",
    "usage-cost.limit.after-model-change",
)
async def test_a_chosen_model_answers_at_once_and_in_the_next_process(tmp_path: Path) -> None:
    async with ModelServer([text("1"), text("2"), text("3")]) as model:
        async with on(tmp_path, model) as server:
            client = server.client
            session = await client.new(tmp_path)
            await client.prompt(session, "one")
            await change(client, session, "model", "model:fast")
            gauges = len(client.updates(kind="usage_update"))
            await client.prompt(session, "/usage")
            assert "unknown" in client.text() and len(client.updates(kind="usage_update")) == gauges
            await client.prompt(session, "two")
            assert client.updates(kind="usage_update")[-1]["size"] == 272_000
        async with on(tmp_path, model) as server:
            client = server.client
            loaded = await client.result("session/load", sessionId=session, cwd=str(tmp_path), mcpServers=[])
            assert chosen(loaded["configOptions"])["model"] == "model:fast"
            await client.prompt(session, "three")
        assert [request.body["model"] for request in model.requests] == ["test-model", "gpt-5-mini", "gpt-5-mini"]


@pytest.mark.requirement("config-options.persist.stale-override")
async def test_a_stored_model_that_is_gone_fails_the_load_and_shows_nothing_else_in_its_place(tmp_path: Path) -> None:
    async with ModelServer([text("1")]) as model:
        async with on(tmp_path, model) as server:
            session = await server.client.new(tmp_path)
            await change(server.client, session, "model", "model:fast")
        fewer = {"m": models_on(model.base_url)["m"]}
        async with on(tmp_path, model, models=fewer) as server:
            for method in ("session/load", "session/resume"):
                error = await server.client.error(method, sessionId=session, cwd=str(tmp_path), mcpServers=[])
                assert error["code"] == -32603 and "fast" in str(error["data"])
        async with on(tmp_path, model) as server:
            result = await server.client.result("session/resume", sessionId=session, cwd=str(tmp_path))
            assert chosen(result["configOptions"])["model"] == "model:fast"


@pytest.mark.requirement("config-options.model.inert-current")
async def test_a_model_in_force_that_no_choice_stands_for_is_shown_and_choosing_it_does_nothing(
    tmp_path: Path,
) -> None:
    async with ModelServer([]) as model:
        async with on(tmp_path, model) as server:
            session = await server.client.new(tmp_path)
        with sqlite3.connect(tmp_path / "s.db") as database:
            database.execute("UPDATE sessions SET model_overrides = ?", ['{"root": "ollama/qwen3"}'])
        database.close()
        async with on(tmp_path, model) as server:
            client = server.client
            result = await client.result("session/resume", sessionId=session, cwd=str(tmp_path))
            assert chosen(result["configOptions"])["model"] == "current"
            live = server.connection.entries[session].live
            assert live is not None
            before = live.talk.team.agent.model
            told = len(client.told())
            assert await change(client, session, "model", "current") == result["configOptions"]
            assert live.talk.team.agent.model is before and len(client.told()) == told
            assert "current" not in offered(await change(client, session, "model", "default"), "model")
        assert model.requests == []


@pytest.mark.requirement("config-options.model.flat-alloy", "config-options.model.nested-alloy")
async def test_an_alloy_can_be_chosen_without_a_reasoning_level_and_one_of_alloys_is_not_listed(
    tmp_path: Path,
) -> None:
    async with ModelServer([text("1")]) as model:
        models = {**models_on(model.base_url), "both": {"model": "fast,thinker"}, "all": {"model": "both,m"}}
        async with on(tmp_path, model, models=models) as server:
            session = await server.client.new(tmp_path)
            options = await change(server.client, session, "model", "model:both")
            assert "model:both" in offered(options, "model") and "model:all" not in offered(options, "model")
            assert chosen(options) == {"mode": "default", "model": "model:both"}
            await server.client.prompt(session, "hi")
        assert model.requests[0].body["model"] in ("gpt-5-mini", "gpt-5.1")


@pytest.mark.requirement("config-options.reasoning.runtime-only", "config-options.reasoning.none-distinct")
async def test_a_reasoning_choice_is_sent_survives_a_live_load_and_ends_with_the_model_or_the_process(
    tmp_path: Path,
) -> None:
    async with ModelServer([text(str(n)) for n in range(5)]) as model:
        async with on(tmp_path, model) as server:
            client = server.client
            session = await client.new(tmp_path)
            options = await change(client, session, "model", "model:fast")
            assert offered(options, "thought_level") == ["default", "minimal", "low", "medium", "high"]
            await client.prompt(session, "unset")
            await change(client, session, "thought_level", "high")
            # The same model again keeps it, and so does a load of the open session.
            assert chosen(await change(client, session, "model", "model:fast"))["thought_level"] == "high"
            loaded = await client.result("session/load", sessionId=session, cwd=str(tmp_path), mcpServers=[])
            assert chosen(loaded["configOptions"])["thought_level"] == "high"
            await client.prompt(session, "high")
            options = await change(client, session, "model", "model:thinker")
            assert chosen(options)["thought_level"] == "default"
            (level,) = (option for option in options if option["id"] == "thought_level")
            assert level["options"][0]["name"] == "Default (none)" and "none" in offered(options, "thought_level")
            assert chosen(await change(client, session, "thought_level", "none"))["thought_level"] == "none"
            await change(client, session, "thought_level", "low")
            await client.prompt(session, "low")
        async with on(tmp_path, model) as server:
            result = await server.client.result("session/resume", sessionId=session, cwd=str(tmp_path))
            assert chosen(result["configOptions"])["thought_level"] == "default"
            await server.client.prompt(session, "none")
        assert [r.body.get("reasoning_effort") for r in model.requests] == [None, "high", "low", "none"]


@pytest.mark.requirement("config-options.persist.failed-write", "config-options.persist.model-and-safety")
async def test_a_change_that_cannot_be_stored_does_not_happen(tmp_path: Path) -> None:
    async with staged(tmp_path, text("1"), busy_timeout=0.05) as stage:
        client = stage.client
        before = await client.result("session/resume", sessionId=stage.session, cwd=str(tmp_path))
        model, told = live_of(stage).talk.team.agent.model, len(client.told())
        async with locked(tmp_path):
            for option, value in (("model", "model:fast"), ("mode", "autonomous")):
                params = {"sessionId": stage.session, "configId": option, "value": value}
                assert (await client.error("session/set_config_option", **params))["code"] == -32603
        assert live_of(stage).talk.team.agent.model is model and len(client.told()) == told
        after = await client.result("session/resume", sessionId=stage.session, cwd=str(tmp_path))
        assert after == before
        await client.prompt(stage.session, "hi")
        assert stage.model.requests[0].body["model"] == "test-model"


@pytest.mark.requirement("config-options.idle.blocks-prompts", "config-options.idle.joined-by-cleanup")
async def test_while_a_change_is_stored_prompts_are_busy_and_a_close_waits_for_it(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        client, live = stage.client, live_of(stage)
        async with locked(tmp_path):
            params = {"sessionId": stage.session, "configId": "model", "value": "model:fast"}
            setting = await client.send("session/set_config_option", **params)
            error = (await client.prompt(stage.session, "now?"))["error"]
            assert error["code"] == -32600 and error["data"]["reason"] == "busy"
            closing = await client.send("session/close", sessionId=stage.session)
            assert await client.error(
                "session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": "x"}]
            )
            assert not live.ending.done.is_set()
        assert (await client.answer(closing))["result"] == {}
        assert (await client.answer(setting))["error"]["code"] == -32800
        assert client.log.index(await client.answer(setting)) < client.log.index(await client.answer(closing))


@pytest.mark.requirement("config-options.idle.busy-background", "config-options.idle.volatile-hidden")
async def test_background_work_makes_a_change_busy_and_hides_what_cannot_change_under_it(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        client, task = stage.client, machines.CompiledBackground(key="b")
        live_of(stage).background.append(task)
        for method, params in (
            ("session/set_config_option", {"configId": "mode", "value": "strict"}),
            ("session/set_mode", {"modeId": "strict"}),
        ):
            error = await client.error(method, sessionId=stage.session, **params)
            assert error["code"] == -32600 and error["data"]["reason"] == "busy"
        resumed = await client.result("session/resume", sessionId=stage.session, cwd=str(tmp_path))
        assert list(chosen(resumed["configOptions"])) == ["mode"]
        task.fire("finished")
        resumed = await client.result("session/resume", sessionId=stage.session, cwd=str(tmp_path))
        assert list(chosen(resumed["configOptions"])) == ["mode", "model"]


@pytest.mark.requirement("config-options.notify.boundaries", "slash-commands.configured.agent-switch")
async def test_options_are_told_after_a_switch_of_agents_and_only_when_they_differ(tmp_path: Path) -> None:
    common = {
        "description": "d",
        "instruction": "i",
        "commands": {"one": {"agent": "root"}, "two": {"agent": "second"}},
    }
    agents = {"root": {"model": "m", **common}, "second": {"model": "thinker", **common}}
    async with staged(tmp_path, text("1"), text("2"), agents=agents) as stage:
        client, kind = stage.client, "config_option_update"
        await client.prompt(stage.session, "hello")
        assert client.updates(kind=kind) == []
        await client.prompt(stage.session, "/two")
        assert list(chosen(client.updates(kind=kind)[-1]["configOptions"])) == ["mode", "model", "thought_level"]
        await client.prompt(stage.session, "/two")
        assert len(client.updates(kind=kind)) == 1
        await change(client, stage.session, "model", "model:fast")
        assert len(client.updates(kind=kind)) == 2
        await client.prompt(stage.session, "/one and on")
        assert chosen(client.updates(kind=kind)[-1]["configOptions"]) == {"mode": "default", "model": "default"}
        assert stage.model.requests[1].body["model"] == "test-model" and len(client.updates(kind=kind)) == 3


@pytest.mark.requirement("config-options.notify.failure-keeps-change")
async def test_a_change_that_could_not_be_told_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with staged(tmp_path) as stage:

        async def lost(_: Any) -> None:
            raise ConnectionLost("gone")

        with monkeypatch.context() as patched:
            patched.setattr(live_of(stage), "notify", lost)
            assert chosen(await change(stage.client, stage.session, "model", "model:fast"))["model"] == "model:fast"
        resumed = await stage.client.result("session/resume", sessionId=stage.session, cwd=str(tmp_path))
        assert chosen(resumed["configOptions"])["model"] == "model:fast"


@pytest.mark.requirement("modes.set.legacy-path", "config-options.idle.busy-foreground")
async def test_both_ways_to_the_mode_are_one_setting_under_one_rule(tmp_path: Path) -> None:
    gate = anyio.Event()
    async with staged(tmp_path, lambda _: waiting(gate)) as stage:
        client = stage.client
        await client.result("session/set_mode", sessionId=stage.session, modeId="strict")
        assert chosen(await change(client, stage.session, "mode", "balanced"))["mode"] == "balanced"
        resumed = await client.result("session/resume", sessionId=stage.session, cwd=str(tmp_path))
        assert resumed["modes"]["currentModeId"] == "balanced"
        prompt = await client.send("session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": "x"}])
        await stage.model.wait_for_call()
        for method, params in (
            ("session/set_config_option", {"configId": "model", "value": "model:fast"}),
            ("session/set_mode", {"modeId": "strict"}),
        ):
            error = await client.error(method, sessionId=stage.session, **params)
            assert error["code"] == -32600 and error["data"]["reason"] == "busy"
        gate.set()
        assert (await client.answer(prompt))["result"] == {"stopReason": "end_turn"}


def waiting(gate: anyio.Event) -> Any:
    from tests.support.model_server import Finish, Reply, Text, Wait

    return Reply([Wait(gate), Text("done"), Finish()])
