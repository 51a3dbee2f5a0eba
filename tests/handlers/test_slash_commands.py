"""Slash commands over the wire."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.model_server import ModelServer, Usage, text
from tests.support.setup import agent_on, on_stage
from tests.support.wire import Client, serving

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

LIST = "available_commands_update"


def said(*texts: str) -> list[Json]:
    return [{"type": "text", "text": one} for one in texts]


def kinds(client: Client) -> list[str]:
    return [m["params"]["update"]["sessionUpdate"] if "method" in m else "result" for m in client.log]


def user_texts(recorded: Any) -> list[Any]:
    return [m["content"] for m in recorded.messages if m["role"] == "user"]


@pytest.mark.requirement(
    "slash-commands.advertise.moments",
    "slash-commands.advertise.shape",
    "slash-commands.advertise.builtins",
    "slash-commands.advertise.no-new",
)
async def test_the_list_follows_a_new_session_precedes_a_reopened_one_and_begins_each_turn(tmp_path: Path) -> None:
    async with on_stage(tmp_path, text("one")) as stage:
        client, cwd = stage.client, str(stage.cwd)
        await client.until(lambda m: LIST in str(m))
        assert kinds(client)[1:] == ["result", LIST]
        (sent,) = client.updates(stage.session, LIST)
        for command in sent["availableCommands"]:
            assert "/" not in command["name"] and command["description"]
            assert command["name"] != "new"
        assert "usage" in client.commands()
        before = len(client.log)
        await client.prompt(stage.session, "hi")
        assert kinds(client)[before] == LIST and kinds(client)[-1] == "result"
        before = len(client.log)
        await client.result("session/resume", sessionId=stage.session, cwd=cwd)
        assert kinds(client)[before:] == [LIST, "result"]
        await client.result("session/close", sessionId=stage.session)
        before = len(client.log)
        await client.result("session/load", sessionId=stage.session, cwd=cwd, mcpServers=[])
        assert kinds(client)[before:] == ["user_message_chunk", "agent_message_chunk", LIST, "result"]


@pytest.mark.requirement(
    "slash-commands.parse.leading-text-only",
    "slash-commands.parse.not-in-resources",
    "slash-commands.parse.unknown-is-chat",
)
async def test_only_typed_text_at_the_start_is_a_command_and_an_unknown_word_is_chat(tmp_path: Path) -> None:
    resource = {"type": "resource", "resource": {"uri": "file:///w/n.md", "mimeType": "text/plain", "text": "/usage"}}
    chats: list[list[Json]] = [
        said("/frobnicate now"),
        said("/usr/bin/env is missing"),
        said("please /usage"),
        said(" /usage"),
        said("/"),
        [*said("summarise"), resource],
        [resource, *said("/usage")],
    ]
    async with on_stage(tmp_path, *[text(f"answer {n}") for n in range(len(chats))]) as stage:
        for number, prompt in enumerate(chats):
            result = await stage.client.result("session/prompt", sessionId=stage.session, prompt=prompt)
            assert result == {"stopReason": "end_turn"}
            assert len(stage.model.requests) == number + 1
        assert user_texts(stage.model.requests[1]) == ["/frobnicate now", "/usr/bin/env is missing"]
        # Leading texts are read as one: the name stands in two blocks here.
        await stage.client.result("session/prompt", sessionId=stage.session, prompt=said("/us", "age"))
        assert len(stage.model.requests) == len(chats)


@pytest.mark.requirement(
    "slash-commands.usage.no-arguments",
    "slash-commands.builtin.no-attachments",
    "slash-commands.reserved.new-refused",
)
@pytest.mark.parametrize(
    "prompt",
    [
        said("/usage please"),
        [*said("/usage"), {"type": "resource_link", "uri": "file:///w/a", "name": "a"}],
        said("/new"),
        said("/new topic"),
    ],
    ids=["arguments", "attachment", "new", "new-with-text"],
)
async def test_what_cannot_be_run_is_a_params_error_and_changes_nothing(tmp_path: Path, prompt: list[Json]) -> None:
    async with on_stage(tmp_path, text("one"), text("two")) as stage:
        client = stage.client
        await client.prompt(stage.session, "first")
        error = await client.error("session/prompt", sessionId=stage.session, prompt=prompt)
        assert error["code"] == -32602
        assert len((await client.result("session/list"))["sessions"]) == 1
        await client.prompt(stage.session, "second")
        assert user_texts(stage.model.requests[1]) == ["first", "second"]


@pytest.mark.requirement("slash-commands.builtin.not-in-history", "usage-cost.limit.unknown-in-text")
async def test_a_built_in_leaves_nothing_behind_and_asks_no_model(tmp_path: Path) -> None:
    async with on_stage(tmp_path, text("answer"), text("more")) as stage:
        client, cwd = stage.client, str(stage.cwd)
        assert (await client.prompt(stage.session, "/usage"))["result"] == {"stopReason": "end_turn"}
        assert "unknown" in client.text() and "$0.0000" in client.text()
        assert stage.model.requests == [] and client.updates(kind="usage_update") == []
        await client.prompt(stage.session, "hello")
        await client.prompt(stage.session, "/usage")
        assert (await client.result("session/list"))["sessions"][0]["title"] == "hello"
        await client.result("session/close", sessionId=stage.session)
        before = len(client.log)
        await client.result("session/load", sessionId=stage.session, cwd=cwd, mcpServers=[])
        replayed = [m["params"]["update"] for m in client.log[before:] if "method" in m]
        assert [u["content"]["text"] for u in replayed if "content" in u] == ["hello", "answer"]
        await client.prompt(stage.session, "and?")
        assert user_texts(stage.model.requests[1]) == ["hello", "and?"]


COMMANDS: Json = {
    "fix": "Repair this:",
    "about": {"description": "says what it is", "instruction": "Say what this is."},
    "usage": "not this one",
    "new": "nor this",
    "compact": "nor that",
    "two/parts": "never offered",
    "page": {"url": "https://example.org/{{session_id}}"},
    "script": {"instruction": "Look at ${env.HOME || 'x'}"},
    "bang": {"instruction": "Today is !shell(cmd=date)"},
    "other": {"agent": "second"},
    "ask": {"agent": "second", "instruction": "Answer this:"},
}


async def staged(tmp_path: Path, model: ModelServer) -> Path:
    second = {
        "model": "n",
        "description": "another",
        "instruction": "Be second.",
        "commands": {"back": {"agent": "root"}},
    }
    root = {"model": "m", "description": "one", "instruction": "Be first.", "commands": COMMANDS}
    names = {
        name: {
            "provider": "openai",
            "model": name,
            "base_url": model.base_url,
            "provider_opts": {"context_size": size},
        }
        for name, size in (("m", 8000), ("n", 2000))
    }
    return agent_on(tmp_path, model.base_url, agents={"root": root, "second": second}, models=names)


@pytest.mark.requirement(
    "slash-commands.configured.literal",
    "slash-commands.reserved.names",
    "slash-commands.unsupported.explicit-error",
    "slash-commands.advertise.metadata-only",
)
async def test_configured_commands_send_their_text_with_the_arguments_and_attachments(tmp_path: Path) -> None:
    async with ModelServer([text("1"), text("2")]) as model:
        async with serving(await staged(tmp_path, model), tmp_path / "s.db") as server:
            client = server.client
            await client.initialize()
            session = await client.new(tmp_path)
            await client.until(lambda m: LIST in str(m))
            offered = client.updates(session, LIST)[-1]["availableCommands"]
            configured = [c["name"] for c in offered if c.get("input") == {"hint": "optional arguments"}]
            assert configured == ["about", "ask", "fix", "other"]
            assert "not this one" not in str(offered) and "nor this" not in str(offered)
            assert [c["description"] for c in offered if c["name"] == "about"] == ["says what it is"]
            attached = {"type": "resource", "resource": {"uri": "file:///w/a.py", "text": "print(1)"}}
            await client.result(
                "session/prompt", sessionId=session, prompt=[*said("/fix  the   bug \n"), attached, *said("now")]
            )
            content = model.requests[0].messages[-1]["content"]
            assert "Repair this: the   bug" in str(content) and "print(1)" in str(content) and "now" in str(content)
            assert "/fix" not in str(content)
            for name in ("page", "script", "bang", "two/parts"):
                error = await client.error("session/prompt", sessionId=session, prompt=said(f"/{name} x"))
                assert error["code"] == -32602 and error["data"]["command"] == name
            assert len(model.requests) == 1


@pytest.mark.requirement(
    "slash-commands.configured.agent-switch", "usage-cost.limit.agent-switch-unknown", "usage-cost.limit.no-inference"
)
async def test_a_command_hands_the_conversation_to_another_agent_and_that_is_remembered(tmp_path: Path) -> None:
    async with ModelServer([text("1"), text("2"), text("3"), text("4")]) as model:
        file = await staged(tmp_path, model)
        async with serving(file, tmp_path / "s.db") as server:
            client = server.client
            await client.initialize()
            session = await client.new(tmp_path)
            await client.prompt(session, "hello")
            assert (await client.prompt(session, "/other"))["result"] == {"stopReason": "end_turn"}
            assert len(model.requests) == 1 and "back" in client.commands() and "fix" not in client.commands()
            gauges = len(client.updates(kind="usage_update"))
            await client.prompt(session, "/usage")
            assert "unknown" in client.text() and len(client.updates(kind="usage_update")) == gauges
            await client.prompt(session, "/ask me")  # the second agent has no such command: it is chat
            assert user_texts(model.requests[1]) == ["hello", "/ask me"]
            assert model.requests[1].body["model"] == "n" and "Be second." in model.requests[1].messages[0]["content"]
            assert client.updates(kind="usage_update")[-1]["size"] == 2000
        async with serving(file, tmp_path / "s.db") as server:
            client = server.client
            await client.initialize()
            await client.result("session/resume", sessionId=session, cwd=str(tmp_path))
            assert "back" in client.commands()
            await client.prompt(session, "/back to you")
            assert model.requests[2].body["model"] == "m" and user_texts(model.requests[2])[-1] == "to you"
            await client.prompt(session, "/ask this")
            assert model.requests[3].body["model"] == "n" and user_texts(model.requests[3])[-1] == "Answer this: this"
        assert model.refusals == []


@pytest.mark.requirement(
    "usage-cost.command.same-aggregate",
    "usage-cost.shape.update",
    "usage-cost.limit.needed-for-update",
    "usage-cost.gauge.root-only",
)
async def test_usage_says_the_same_in_text_and_in_numbers(tmp_path: Path) -> None:
    window = {"provider_opts": {"context_size": 8000}, "cost": {"input": 1.0, "output": 2.0}}
    async with ModelServer([text("1", usage=Usage(1000, 50)), text("2", usage=Usage(1200, 40))]) as model:
        entry = {"provider": "openai", "model": "test-model", "base_url": model.base_url, **window}
        async with serving(agent_on(tmp_path, model.base_url, models={"m": entry}), tmp_path / "s.db") as server:
            client = server.client
            await client.initialize()
            session = await client.new(tmp_path)
            await client.prompt(session, "a")
            await client.prompt(session, "b")
            await client.prompt(session, "/usage")
            used = [
                (u["used"], u["size"], u["cost"]["amount"], u["cost"]["currency"])
                for u in client.updates(kind="usage_update")
            ]
            first, second = 0.0011, pytest.approx(0.00238)
            assert used == [(1050, 8000, pytest.approx(first), "USD"), *[(1240, 8000, second, "USD")] * 2]
            assert "1,240 of 8,000 tokens (16 %)" in client.text() and "$0.0024" in client.text()
