"""Servers that a client supplies: their environment, their names, their questions."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.handlers.test_mcp_servers import use_tool
from tests.handlers.test_process import descendants, gone
from tests.support.model_server import Call, ModelServer, Usage, calls, text
from tests.support.setup import Stage, agent_on, on_stage
from tests.support.wire import spawned

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

HERE = Path(__file__).parent
ASKING = str(HERE / "asking_server.py")
SDK = str(HERE.parent / "mcp" / "server_sdk.py")
ODD = str(HERE.parent / "mcp" / "server_odd.py")
END_TURN = {"stopReason": "end_turn"}


def stdio(name: str, script: str, *args: str, **env: str) -> Json:
    variables = [{"name": key, "value": value} for key, value in env.items()]
    return {"name": name, "command": sys.executable, "args": [script, *args], "env": variables}


def results(stage: Stage) -> list[str]:
    return [m["content"] for m in stage.model.requests[-1].messages if m["role"] == "tool"]


@pytest.mark.requirement("client-mcp.stdio.environment", "client-mcp.stdio.literal", "client-mcp.stdio.session-cwd")
async def test_a_server_inherits_the_environment_and_gets_its_own_values_literally(tmp_path: Path) -> None:
    """Naively a list of variables, even an empty one, is the whole environment, and PATH is gone."""
    given = stdio("probe-tools", SDK, "--tag", "a b;$HOME")
    given["env"] = [{"name": "PROJECT_MODE", "value": "first"}, {"name": "PROJECT_MODE", "value": "lit-$HOME"}]
    async with on_stage(tmp_path) as stage:
        for entry, mode, argv in (
            (given, "lit-$HOME", ["--tag", "a b;$HOME"]),
            (stdio("empty", SDK), None, []),
        ):
            session = await stage.client.new(stage.cwd, mcpServers=[entry])
            stage.model.add(use_tool("_env"), text("end"))
            assert (await stage.client.prompt(session, "env?"))["result"] == END_TURN
            found = json.loads(results(stage)[-1])
            assert found["PATH"] and (found["PROJECT_MODE"], found["argv"]) == (mode, argv)
            assert found["cwd"] == str(stage.cwd)


@pytest.mark.requirement(
    "client-mcp.setup.thirty-seconds", "client-mcp.stdio.absolute-command", "session.new.failure-leaves-nothing"
)
async def test_a_setup_that_fails_leaves_no_process_and_no_session(tmp_path: Path) -> None:
    """Naively the servers that did start stay, and half a session is in the list."""
    good = stdio("good", SDK)
    async with ModelServer([]) as model, spawned(agent_on(tmp_path, model.base_url), tmp_path / "s.db") as server:
        client = server.client
        await client.initialize()
        for bad, code in (
            ({**good, "name": "bad", "command": str(tmp_path / "does-not-exist")}, -32603),
            ({**good, "name": "rel", "command": "python3"}, -32602),
            (good, -32602),
        ):
            error = await client.error("session/new", cwd=str(tmp_path), mcpServers=[good, bad])
            assert error["code"] == code, error
            await gone(descendants(server.process.pid))
        assert (await client.result("session/list"))["sessions"] == []


@pytest.mark.requirement(
    "client-mcp.tools.generation-aliases", "client-mcp.replace.retired-calls-fail", "client-mcp.tools.supplement"
)
async def test_all_pages_of_two_servers_are_offered_under_valid_names_that_lead_to_their_own_tool(
    tmp_path: Path,
) -> None:
    """Naively the first page is all, odd names reach the provider, long ones are cut into each other, and a call of
    the second server's tool goes to the first. The model server refuses invalid and doubled names with 400."""
    async with on_stage(tmp_path) as stage:
        client = stage.client
        servers = [stdio("s1", ODD, "paged"), stdio("s2", ODD, "media")]
        session = await client.new(stage.cwd, mcpServers=servers)

        def use_all(recorded: Any) -> Any:
            own = [name for name in recorded.tools if name.startswith(("s1", "s2"))]
            return calls(*(Call(name, {}, f"c{number}") for number, name in enumerate(own)))

        stage.model.add(use_all, text("end"))
        prompt = client.send_prompt(session, "go")
        await client.write(prompt)
        for _ in range(6):
            await client.allow()
        assert (await client.answer(prompt["id"]))["result"] == END_TURN
        own = [name for name in stage.model.requests[0].tools if name.startswith(("s1", "s2"))]
        assert len(own) == 6 and all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in own)
        said = dict(zip(own, results(stage), strict=True))
        long = "n" * 79
        expected = ["alpha", "beta.v2/run", long + "a", long + "b", "omega"]
        assert [said[name] for name in own if name.startswith("s1")] == [f"called {name}" for name in expected]
        (second,) = [name for name in own if name.startswith("s2")]
        assert "words" in said[second] and "called" not in said[second]
        # The replacement of a server does not get the calls of the one before it.
        await client.result("session/resume", sessionId=session, cwd=str(stage.cwd), mcpServers=servers[1:])
        stage.model.add(calls(Call(second, {}, "late")), text("end"))
        assert (await client.prompt(session, "once more"))["result"] == END_TURN
        assert second not in stage.model.requests[-1].tools and "no tool named" in results(stage)[-1]


# --- questions ----------------------------------------------------------------------------------------------------

OFFERS: list[tuple[Any, bool, bool]] = [
    ("absent", False, False),
    (None, False, False),
    ({}, False, False),
    ({"form": None}, False, False),
    ({"url": {}}, False, True),
    ({"form": {}}, True, False),
    ({"form": {}, "url": {}}, True, True),
]

ASKED = (
    Call("q_ask_g1", {}, "c1"),
    Call("q_ask_secret_g1", {}, "c2"),
    Call("q_ask_page_g1", {"url": "https://example.org/login"}, "c3"),
    Call("q_ask_page_g1", {"url": "https://user:pw@example.org/"}, "c4"),
    Call("q_ask_page_g1", {"url": "file:///etc/passwd"}, "c5"),
)


@pytest.mark.requirement(
    "elicitation.negotiate.independent",
    "elicitation.negotiate.unsupported-declined",
    "elicitation.request.session-scope",
    "elicitation.secrets.form-declined",
    "elicitation.url.http-only",
)
@pytest.mark.parametrize(("offer", "form", "page"), OFFERS, ids=[str(row[0]) for row in OFFERS])
async def test_a_servers_question_goes_to_the_client_that_can_show_it_or_is_declined(
    tmp_path: Path, offer: Any, form: bool, page: bool
) -> None:
    """Naively `{}` and null pass for support, a question that cannot be put is accepted with nothing in it, or it
    names the session that was opened last."""
    capabilities = {} if offer == "absent" else {"elicitation": offer}
    async with on_stage(tmp_path, **capabilities) as stage:
        client = stage.client
        answers = {"form": {"action": "accept", "content": {"name": "Ada"}}, "url": {"action": "accept"}}
        client.responders["elicitation/create"] = lambda request: {"result": answers[request["params"]["mode"]]}
        session = await client.new(stage.cwd, mcpServers=[stdio("q", ASKING)])
        await client.new(stage.cwd)
        # One after the other: a server whose calls overlap has no owner for a question.
        stage.model.add(*(calls(one) for one in ASKED), text("end", usage=Usage()))
        assert (await client.prompt(session, "ask"))["result"] == END_TURN
        told = ["accept Ada" if form else "decline", "decline", "accept" if page else "decline", "decline", "decline"]
        assert results(stage) == told
        sent = [request["params"] for request in client.requests("elicitation/")]
        assert [params["mode"] for params in sent] == ["form"] * form + ["url"] * page
        assert {params["sessionId"] for params in sent} <= {session}
        for params in sent:
            if params["mode"] == "form":
                assert params["message"] == "Who are you?" and params["requestedSchema"]["required"] == ["name"]
            else:
                assert params["url"] == "https://example.org/login" and params["elicitationId"]


@pytest.mark.requirement("elicitation.wait.own-cancellation", "elicitation.wait.joined-by-cleanup")
@pytest.mark.parametrize("ending", ["cancel", "close"])
async def test_an_open_question_of_a_server_ends_with_its_call(tmp_path: Path, ending: str) -> None:
    """Naively the dialog stays open, the turn waits for it for ever, or a late answer reaches the next call."""
    async with on_stage(tmp_path, calls(ASKED[0]), elicitation={"form": {}}) as stage:
        client = stage.client
        session = await client.new(stage.cwd, mcpServers=[stdio("q", ASKING)])
        prompt = client.send_prompt(session, "ask")
        await client.write(prompt)
        asked = await client.asked("elicitation/create")
        if ending == "cancel":
            await client.notify("session/cancel", sessionId=session)
        else:
            assert await client.result("session/close", sessionId=session) == {}
        response = await client.answer(prompt["id"])
        assert response["result"] == {"stopReason": "cancelled"}
        withdrawn = [m["params"]["requestId"] for m in client.log if m.get("method") == "$/cancel_request"]
        assert withdrawn == [asked["id"]]
        await client.respond(asked, {"action": "accept", "content": {"name": "late"}})
        if ending == "cancel":
            stage.model.add(calls(ASKED[1]), text("end"))
            assert (await client.prompt(session, "again"))["result"] == END_TURN
            assert results(stage)[-1] == "decline" and "late" not in str(stage.model.requests[-1].messages)


async def test_a_server_that_wants_our_model_is_refused_and_the_turn_goes_on(tmp_path: Path) -> None:
    """Naively the request waits for ever, or words of the server's choice go to a model that the person pays for."""
    async with on_stage(tmp_path, elicitation={"form": {}}) as stage:
        client = stage.client
        session = await client.new(stage.cwd, mcpServers=[stdio("q", ASKING)])
        stage.model.add(calls(Call("q_sample_g1", {}, "c1")), calls(ASKED[1]), text("end"))
        assert (await client.prompt(session, "go"))["result"] == END_TURN
        refused, after = results(stage)
        assert "sampled" not in refused and "sampling" in refused.lower() and after == "decline"
        assert len(stage.model.requests) == 3 and client.requests("elicitation/") == []
