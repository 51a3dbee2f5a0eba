"""Rules, modes, grants and questions over the wire."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from sluice.config.environment import Environment
from tests.support.editor import FS, Editor
from tests.support.model_server import Call, ModelServer, call, calls, text
from tests.support.setup import Stage, agent_on, on_stage
from tests.support.wire import serving, spawned

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

END = {"stopReason": "end_turn"}


def asked(stage: Stage) -> list[Json]:
    return [m["params"] for m in stage.client.log if m.get("method") == "session/request_permission"]


def statuses(stage: Stage) -> list[str]:
    """The last status of each call, in order of the calls."""
    return list({u["toolCallId"]: u["status"] for u in stage.client.updates() if "toolCallId" in u}.values())


async def start(stage: Stage, said: str = "go") -> int:
    return await stage.client.send("session/prompt", sessionId=stage.session, prompt=[{"type": "text", "text": said}])


async def set_mode(stage: Stage, mode: str) -> None:
    await stage.client.result("session/set_mode", sessionId=stage.session, modeId=mode)


SAFE, UNSAFE, HARMFUL = "ls", "make -n", "rm -f nothing"

EXPECTED = {
    "default": ("ask", "ask", "ask", "run"),
    "strict": ("ask", "ask", "ask", "ask"),
    "balanced": ("run", "ask", "ask", "run"),
    "restricted": ("run", "deny", "deny", "run"),
    "autonomous": ("run", "run", "run", "run"),
}
"""Mode -> what becomes of a safe, an unknown and a destructive command, and of a tool that says it only reads."""


@pytest.mark.requirement(
    "modes.default.read-only-auto",
    "modes.default.not-balanced",
    "modes.strict.asks-all",
    "modes.balanced.labels",
    "modes.restricted.never-asks",
    "modes.autonomous.allows-all",
)
@pytest.mark.parametrize("mode", EXPECTED)
async def test_each_mode_asks_runs_and_denies_as_its_table_says(tmp_path: Path, mode: str) -> None:
    batch = calls(*(call("shell", cmd=cmd) for cmd in (SAFE, UNSAFE, HARMFUL)), call("list_directory", path="."))
    async with on_stage(tmp_path, batch, text("done")) as stage:
        await set_mode(stage, mode)
        prompt = await start(stage)
        for _ in range(EXPECTED[mode].count("ask")):
            await stage.client.allow("reject")
        assert (await stage.client.answer(prompt))["result"] == END
        questions = {question["toolCall"]["toolCallId"] for question in asked(stage)}
        results = [m["content"] for m in stage.model.requests[1].messages if m["role"] == "tool"]
        ids = list({u["toolCallId"]: None for u in stage.client.updates() if "toolCallId" in u})
        # Calls of one batch run at once, so they are told apart by what the model was answered.
        kinds = ["ask" if "rejected" in r else "deny" if "not allowed" in r else "run" for r in results]
        assert tuple(kinds) == EXPECTED[mode]
        assert len(questions) == EXPECTED[mode].count("ask") and questions <= set(ids)


@pytest.mark.requirement("modes.precedence.kept")
async def test_a_denial_holds_in_autonomous_mode_and_is_found_in_a_compound_line(tmp_path: Path) -> None:
    """Field case B17: nobody is asked, the file is still there, the turn goes on, and default asks again."""
    batch = calls(
        call("shell", cmd="rm keep.txt"),
        call("shell", cmd="true; rm keep.txt"),
        call("shell", cmd="bash -c 'rm keep.txt'"),
        call("shell", cmd="echo fine"),
    )
    again = calls(call("shell", cmd="echo fine"))
    rules = {"permissions": {"deny": ["shell:cmd=rm *"]}}
    async with on_stage(tmp_path, batch, text("end"), again, text("end"), file=rules) as stage:
        (stage.cwd / "keep.txt").write_text("kept")
        await set_mode(stage, "autonomous")
        assert (await stage.client.prompt(stage.session, "go"))["result"] == END
        assert statuses(stage) == ["failed"] * 3 + ["completed"]
        results = [m["content"] for m in stage.model.requests[1].messages if m["role"] == "tool"]
        assert all("denies" in result for result in results[:3]) and results[3] == "fine\n"
        assert (stage.cwd / "keep.txt").read_text() == "kept"
        assert asked(stage) == []
        await set_mode(stage, "default")
        prompt = await start(stage)
        await stage.client.allow()
        assert (await stage.client.answer(prompt))["result"] == END


@pytest.mark.requirement("modes.precedence.team-ask-yields", "modes.default.clears-autonomous")
async def test_a_team_rule_that_asks_yields_to_a_chosen_mode(tmp_path: Path) -> None:
    look = calls(call("list_directory", path="."))
    rules = {"permissions": {"ask": ["list_directory"]}}
    async with on_stage(tmp_path, look, text("1"), look, text("2"), look, text("3"), file=rules) as stage:
        for mode, questions in (("default", 1), ("autonomous", 1), ("default", 2)):
            await set_mode(stage, mode)
            prompt = await start(stage)
            if len(asked(stage)) < questions:
                await stage.client.allow()
            await stage.client.answer(prompt)
            assert len(asked(stage)) == questions


@pytest.mark.requirement("permission.grant.shell-words", "tools.shell.classifier")
async def test_a_configured_rule_for_a_command_lets_no_chained_one_through(tmp_path: Path) -> None:
    lines = ["echo*", "echo hi; touch ran", "echo $(touch ran)", "echo hi && touch ran", "echoes", "echo 'hi'"]
    batch = calls(*(call("shell", cmd=line) for line in lines))
    rules = {"permissions": {"allow": ["shell:cmd=echo*"]}}
    async with on_stage(tmp_path, batch, text("end"), file=rules) as stage:
        prompt = await start(stage)
        for _ in range(5):
            await stage.client.allow("reject")
        assert (await stage.client.answer(prompt))["result"] == END
        results = [m["content"] for m in stage.model.requests[1].messages if m["role"] == "tool"]
        assert ["rejected" in result for result in results] == [True] * 5 + [False]
        assert list(stage.cwd.iterdir()) == []


@pytest.mark.requirement("permission.grant.tool-only", "modes.grants.survive-switch")
async def test_a_grant_changes_no_mode_and_survives_the_death_of_the_process(tmp_path: Path) -> None:
    """Field case B07, and what it leaves open: the process is killed right after the turn."""
    shell, other = calls(call("shell", cmd="echo 1")), calls(call("create_directory", paths=["x"]))
    cwd = tmp_path / "project"
    cwd.mkdir()
    async with ModelServer([shell, text("1"), shell, other, text("2")]) as model:
        file = agent_on(tmp_path, model.base_url)
        async with spawned(file, tmp_path / "s.db") as server:
            await server.client.initialize()
            session = await server.client.new(cwd)
            prompt = await server.client.send(
                "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "go"}]
            )
            await server.client.allow("allow-always")
            assert (await server.client.answer(prompt))["result"] == END
            kinds = {u["sessionUpdate"] for u in server.client.updates()}
            assert not kinds & {"current_mode_update", "config_option_update"}
            server.kill()
        async with spawned(file, tmp_path / "s.db") as server:
            client = server.client
            await client.initialize()
            loaded = await client.result("session/load", sessionId=session, cwd=str(cwd), mcpServers=[])
            assert loaded["modes"]["currentModeId"] == "default"
            prompt = await client.send("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "go"}])
            question = await client.allow("reject")
            assert question["params"]["toolCall"]["name"] == "create_directory"
            assert (await client.answer(prompt))["result"] == END


@pytest.mark.requirement("permission.request.enough-to-decide", "tool-locations-diffs.location.absolute")
async def test_a_question_about_an_edit_shows_path_place_and_what_would_change(tmp_path: Path) -> None:
    edit = calls(call("edit_file", path="src/a.py", edits=[{"oldText": "one", "newText": "two"}]))
    async with on_stage(tmp_path, edit, text("end"), fs=FS) as stage:
        path = str(stage.cwd / "src/a.py")
        editor = Editor(stage.client, {path: "one\r\nmore"})
        prompt = await start(stage)
        question = (await stage.client.allow("reject"))["params"]["toolCall"]
        assert (await stage.client.answer(prompt))["result"] == END
        assert "src/a.py" in question["title"] and question["kind"] == "edit"
        assert question["locations"] == [{"path": path}]
        diff = {"type": "diff", "path": path, "oldText": "one\r\nmore", "newText": "two\r\nmore"}
        assert question["content"] == [diff]
        assert question["rawInput"]["edits"] == [{"oldText": "one", "newText": "two"}]
        assert editor.methods() == ["read"] and editor.texts == {path: "one\r\nmore"}


@pytest.mark.requirement("permission.request.enough-to-decide")
@pytest.mark.parametrize("edits", [[{"oldText": "absent", "newText": "x"}], [{"oldText": "", "newText": "x"}]])
async def test_a_question_is_asked_even_when_there_is_nothing_to_show(tmp_path: Path, edits: list[Json]) -> None:
    edit = calls(call("edit_file", path="a.py", edits=edits), call("write_file", path="../out", content="x"))
    async with on_stage(tmp_path, edit, text("end"), fs=FS) as stage:
        editor = Editor(stage.client, {str(stage.cwd / "a.py"): "text"})
        prompt = await start(stage)
        await stage.client.allow()
        await stage.client.allow()
        assert (await stage.client.answer(prompt))["result"] == END
        questions = {question["toolCall"]["name"]: question["toolCall"] for question in asked(stage)}
        assert all("content" not in question for question in questions.values())
        assert questions["write_file"]["rawInput"] == {"path": "../out", "content": "x"}
        assert statuses(stage) == ["failed", "failed"]
        assert "write" not in editor.methods()


@pytest.mark.requirement("permission.answer.no-timeout")
async def test_a_client_that_never_answers_a_preview_is_asked_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sluice.agent import calls as one_call

    monkeypatch.setattr(one_call, "PREVIEW_SECONDS", 0.05)
    edit = calls(call("edit_file", path="a.py", edits=[{"oldText": "a", "newText": "b"}]))
    async with on_stage(tmp_path, edit, text("end"), fs=FS) as stage:
        prompt = await start(stage)
        question = await stage.client.allow("reject")
        assert "content" not in question["params"]["toolCall"]
        assert (await stage.client.answer(prompt))["result"] == END
        assert [m for m in stage.client.log if m.get("method") == "$/cancel_request"]


@pytest.mark.requirement("permission.request.enough-to-decide")
@pytest.mark.parametrize("name", ["cmd", "command"])
async def test_the_command_is_in_the_title_whatever_the_model_called_it(tmp_path: Path, name: str) -> None:
    async with on_stage(tmp_path, calls(Call("shell", {name: "make all"})), text("end")) as stage:
        prompt = await start(stage)
        question = (await stage.client.allow("reject"))["params"]["toolCall"]
        await stage.client.answer(prompt)
        assert "make all" in question["title"]
        assert question["rawInput"] == {"cmd": "make all"}
        assert question["kind"] == "execute"


@pytest.mark.requirement("modes.precedence.kept", "config-file.permissions.user-level")
async def test_rules_of_the_persons_settings_stand_beside_those_of_the_agent_file(tmp_path: Path) -> None:
    config, cwd = tmp_path / "config", tmp_path / "project"
    config.mkdir()
    cwd.mkdir()
    settings = {"permissions": {"deny": ["shell:cmd=sudo *"], "allow": ["shell:cmd=pwd"]}}
    (config / "settings.yaml").write_text(yaml.safe_dump(settings))
    batch = calls(call("shell", cmd="true; sudo x"), call("shell", cmd="pwd"), call("shell", cmd="echo no"))
    team = {"allow": ["shell"], "deny": ["shell:cmd=echo *"]}

    def environment() -> Environment:
        return Environment.read({"PATH": os.environ["PATH"]}, (), config)

    async with ModelServer([batch, text("end")]) as model:
        file = agent_on(tmp_path, model.base_url, permissions=team)
        async with serving(file, tmp_path / "s.db", environment) as server:
            await server.client.initialize()
            session = await server.client.new(cwd)
            assert (await server.client.prompt(session, "go"))["result"] == END
            results = [m["content"] for m in model.requests[1].messages if m["role"] == "tool"]
            assert "denies" in results[0] and results[1] == f"{cwd}\n" and "denies" in results[2]
            (config / "settings.yaml").write_text("permissions: {deny: sudo}\n")
            error = await server.client.error("session/new", cwd=str(cwd), mcpServers=[])
            assert error["code"] == -32603
            assert error["data"]["key"] == "permissions.deny" and error["data"]["line"] == 1


@pytest.mark.requirement("permission.status.not-inferred")
async def test_what_a_client_claims_about_a_call_does_not_let_it_run(tmp_path: Path) -> None:
    async with on_stage(tmp_path, calls(call("shell", cmd="touch ran")), text("end")) as stage:
        client = stage.client
        prompt = await start(stage)
        question = await client.until(lambda m: m.get("method") == "session/request_permission")
        named = question["params"]["toolCall"]["toolCallId"]
        for status in ("in_progress", "completed"):
            update = {"sessionUpdate": "tool_call_update", "toolCallId": named, "status": status}
            await client.notify("session/update", sessionId=stage.session, update=update)
        await client.result("session/list")
        assert statuses(stage) == ["pending"] and list(stage.cwd.iterdir()) == []
        await client.respond(question, {"outcome": {"outcome": "selected", "optionId": "reject"}})
        assert (await client.answer(prompt))["result"] == END
        assert list(stage.cwd.iterdir()) == []
