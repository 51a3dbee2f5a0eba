"""Background agents over the wire: they outlive their turn, ask nobody, tell nobody, and end with their session."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from sluice.handlers import background_agents
from tests.handlers.test_teams import END, FREE, SHELL, team
from tests.support.model_server import (
    Finish,
    Recorded,
    Reply,
    Stall,
    Text,
    ToolCalls,
    Usage,
    call,
    calls,
    failure,
    text,
)
from tests.support.setup import Stage, on_stage
from tests.support.wire import BOUND, serving

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

BACKGROUND = {"type": "background_agents"}
ALLOWED = ["run_background_agent", "stop_background_agent"]
SIZED = {"cost": {"input": 1_000_000, "output": 0}, "provider_opts": {"context_size": 9000}}
"""One USD a token."""


def file(**more: Any) -> Json:
    """A root with agents in the background, `scout` and `other`; nobody is asked whether one may be started."""
    agents = team(
        root={"toolsets": [BACKGROUND], "sub_agents": ["scout", "other"]},
        scout={"toolsets": SHELL, **more.pop("scout", {})},
        other={"toolsets": SHELL},
        **more.pop("agents", {}),
    )
    return {**agents, "permissions": {"allow": [*ALLOWED, *more.pop("allow", [])]}, **more}


def started(*agents: str) -> Reply:
    return calls(*(call("run_background_agent", agent=name, task=f"task of {name}") for name in agents))


def spoken_to(recorded: Recorded) -> str:
    return str(recorded.messages[0]["content"]).partition("You are ")[2].partition(".")[0]


def played(**scripts: Sequence[Reply]) -> Callable[[Recorded], Reply]:
    """A model that gives each agent its own replies in order, however their calls are mixed."""
    left = {name: list(replies) for name, replies in scripts.items()}
    return lambda recorded: left[spoken_to(recorded)].pop(0)


def results(stage: Stage, agent: str = "root") -> list[str]:
    """The tool results in the newest call of an agent."""
    newest = [recorded for recorded in stage.model.requests if spoken_to(recorded) == agent][-1]
    return [m["content"] for m in newest.messages if m["role"] == "tool"]


def steps(stage: Stage, machine: str) -> list[str]:
    return [step.event for step in stage.server.transitions if step.machine == machine]


async def ended(stage: Stage) -> None:
    """Wait until the first background agent of the session has ended; nothing on the wire says so."""
    live = stage.server.connection.entries[stage.session].live
    assert live is not None
    await live.background_agents.wait(["agent-1"], BOUND)
    assert [task.state for task in live.background] == ["ended"]


async def prompted(stage: Stage, words: str = "go") -> Any:
    response = await stage.client.prompt(stage.session, words)
    return response.get("result", response)


@pytest.mark.requirement(
    "teams.background.own-scope", "teams.background.results", "usage-cost.background.no-unsolicited"
)
async def test_an_agent_works_on_after_its_turn_and_is_told_of_with_the_next(tmp_path: Path) -> None:
    gate = anyio.Event()
    found = Reply([Text("It is red."), Finish(), Usage(70, 0)], before=gate)
    root = (
        started("scout"),
        text("It works.", usage=Usage(20, 0)),
        calls(call("wait_background_agents", task_ids=["agent-1"])),
        text("Red."),
    )
    model = played(root=root, scout=[found])
    async with on_stage(tmp_path, *[model] * 5, file=file(), entry=SIZED) as stage:
        assert await prompted(stage) == END
        assert results(stage) == ["scout works on it as agent-1."]
        await stage.model.wait_for_call(3)
        before = list(stage.client.log)
        gate.set()
        await ended(stage)
        await stage.client.result("session/list")
        assert len(stage.client.log) == len(before) + 1  # the answer to the list, and nothing else
        await prompted(stage, "/usage")
        gauge = stage.client.updates(kind="usage_update")[-1]
        assert (gauge["used"], gauge["cost"]["amount"]) == (20, 100)
        assert await prompted(stage) == END
        assert results(stage)[-1] == "agent-1 (scout): done\nIt is red."
        assert stage.client.text(stage.session).endswith("Red.") and "It is red." not in stage.client.text()
        task = next(recorded for recorded in stage.model.requests if spoken_to(recorded) == "scout")
        assert [m["content"] for m in task.messages[1:]] == ["task of scout"]
    async with serving(tmp_path / "agent.yaml", tmp_path / "session.db") as server:
        await server.client.initialize()
        await server.client.result("session/load", sessionId=stage.session, cwd=str(stage.cwd), mcpServers=[])
        assert "It is red." in server.client.text(stage.session)
        gauge = server.client.updates(kind="usage_update")[-1]
        assert gauge["cost"]["amount"] == 120  # each of them once


@pytest.mark.requirement("teams.background.non-interactive", "permission.non-interactive.denies")
@pytest.mark.parametrize("nested", [False, True], ids=["itself", "a task that it gives"])
async def test_what_would_ask_is_denied_in_the_background(tmp_path: Path, nested: bool) -> None:
    """Also when the tool stands under the name of somebody whom it asks to do it."""
    touch = [calls(call("shell", cmd="touch here")), text("I could not.")]
    other = {"scout": {"sub_agents": ["other"]}} if nested else {}
    scripts = {"scout": touch}
    if nested:
        scripts = {"scout": [calls(call("transfer_task", agent="other", task="t")), text("No.")], "other": touch}
    model = played(root=[started("scout"), text("ok")], **scripts)
    async with on_stage(tmp_path, *[model] * 6, file=file(**other)) as stage:
        assert await prompted(stage) == END
        await ended(stage)
        (denied,) = results(stage, "other" if nested else "scout")
        assert denied == "This call needs approval, and there is nobody to ask in this session, so it is denied."
        assert not stage.client.requests("session/request_permission") and not list(stage.cwd.iterdir())


@pytest.mark.requirement("elicitation.request.session-scope", "teams.background.own-scope")
@pytest.mark.parametrize("answered", [True, False], ids=["answered", "stopped"])
async def test_a_question_of_a_tool_reaches_the_person_under_the_sessions_id_and_ends_with_its_agent(
    tmp_path: Path, answered: bool
) -> None:
    """Such a question is no leave to be given; a person who does not want it declines it."""
    scout = {"toolsets": [{"type": "user_prompt"}]}
    asks = calls(call("user_prompt", message="Which door?"))
    model = played(root=[started("scout"), text("ok")], scout=[asks, text("Thanks.")])
    async with on_stage(tmp_path, *[model] * 4, file=file(scout=scout), elicitation={"form": {}}) as stage:
        assert await prompted(stage) == END
        asked = await stage.client.asked("elicitation/create")
        assert asked["params"]["sessionId"] == stage.session and asked["params"]["message"] == "Which door?"
        if answered:
            await stage.client.respond(asked, {"action": "accept", "content": {}})
            await ended(stage)
            assert json.loads(results(stage, "scout")[0])["action"] == "accept"
        else:
            await stage.client.result("session/close", sessionId=stage.session)
            assert steps(stage, "elicitation") == ["withdraw"]
            assert steps(stage, "background") == ["cancel", "finished"]


@pytest.mark.requirement("teams.background.own-scope", "cancel.scope.background-keeps-own")
async def test_stopping_the_turn_does_not_reach_it_and_closing_the_session_ends_it(tmp_path: Path) -> None:
    slow = calls(call("shell", cmd="touch begun; sleep 600"))
    root = (started("scout"), Reply([Text("I think"), Stall()]))
    model = played(root=root, scout=[slow])
    async with on_stage(tmp_path, *[model] * 3, file=file(allow=["shell"])) as stage:
        prompt = stage.client.send_prompt(stage.session, "go")
        await stage.client.write(prompt)
        await stage.client.until(lambda message: "I think" in str(message))
        with anyio.fail_after(BOUND):
            while not (stage.cwd / "begun").exists():
                await anyio.sleep(0.01)
        await stage.client.notify("session/cancel", sessionId=stage.session)
        assert (await stage.client.answer(prompt["id"]))["result"] == {"stopReason": "cancelled"}
        assert steps(stage, "background") == []
        await stage.client.result("session/close", sessionId=stage.session)
        assert steps(stage, "background") == ["cancel", "finished"]
        order = [(step.machine, step.event) for step in stage.server.transitions]
        assert order.index(("background", "finished")) < order.index(("session", "drained"))
        # The call was under way: nobody knows what it has done, and the history says so.
        store = await stage.server.connection.assembly.store()
        (below,) = await store.descendants(stage.session)
        last = (await store.items(below))[-1].message
        assert last is not None and last.text.startswith("Interrupted while it ran")


@pytest.mark.requirement("teams.background.results")
async def test_agents_are_listed_viewed_stopped_and_awaited_in_the_order_that_was_asked_for(tmp_path: Path) -> None:
    scout = Reply([Text("half a word"), Stall()])
    both = ["agent-2", "agent-1"]
    root = (
        started("scout", "other"),
        calls(call("wait_background_agents", task_ids=["agent-2"])),
        calls(call("list_background_agents"), call("view_background_agent", task_id="agent-1")),
        calls(call("wait_background_agents", task_ids=both, timeout=0)),
        calls(call("stop_background_agent", task_id="agent-1"), call("view_background_agent", task_id="agent-9")),
        calls(call("wait_background_agents", task_ids=both), call("list_background_agents")),
        text("done"),
    )
    model = played(root=root, scout=[scout], other=[failure(400, "no luck")])
    async with on_stage(tmp_path, *[model] * 9, file=file()) as stage:
        prompt = stage.client.send_prompt(stage.session, "go")
        await stage.client.write(prompt)
        assert (await stage.client.answer(prompt["id"]))["result"] == END
        told = results(stage)[3:]
        failed = told[2].split("\n\n")[0]
        assert failed.startswith("agent-2 (other): failed\nThe task failed: ") and "no luck" in failed
        assert told[0] == f"agent-1 (scout): working\n{failed.splitlines()[0]}"
        assert told[1].startswith("agent-1 (scout): working")
        assert told[2].split("\n\n")[1].startswith("agent-1 (scout): working")
        assert told[3].startswith("agent-1 (scout): stopped")
        assert told[4] == "There is no background agent 'agent-9'. There are: agent-1, agent-2."
        assert told[5].startswith(f"{failed}\n\nagent-1 (scout): stopped")
        assert told[6] == "agent-1 (scout): stopped\nagent-2 (other): failed"
        assert steps(stage, "background") == ["finished", "cancel", "finished"]


@pytest.mark.requirement("teams.background.own-scope")
@pytest.mark.parametrize("most", ["running", "ever"])
async def test_there_are_at_most_so_many_at_a_time_and_in_one_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: str
) -> None:
    """All are asked for at once, so that a limit that is looked at before something is awaited does not hold."""
    assert (background_agents.MOST_RUNNING, background_agents.MOST_EVER) == (20, 100)
    monkeypatch.setattr(background_agents, "MOST_RUNNING" if most == "running" else "MOST_EVER", 3)
    scout = Reply([Text("half"), Stall()])
    root = (started(*["scout"] * 5), text("ok"))

    def model(recorded: Recorded) -> Reply:
        return scout if spoken_to(recorded) == "scout" else root[len(results_in(recorded)) > 0]

    async with on_stage(tmp_path, *[model] * 5, file=file()) as stage:
        assert await prompted(stage) == END
        told = results(stage)
        assert sum("works on it as agent-" in line for line in told) == 3
        words = "3 agents work in the background already" if most == "running" else "3 agents were started in this"
        assert sum(line.startswith(words) for line in told) == 2
        store = await stage.server.connection.assembly.store()
        assert len(await store.descendants(stage.session)) == 3
    assert stage.server.status == 0  # the end of the input ended those that still worked


def results_in(recorded: Recorded) -> list[str]:
    return [m["content"] for m in recorded.messages if m["role"] == "tool"]


@pytest.mark.requirement("session.load.background-not-frozen", "session.resume.background-allowed")
@pytest.mark.parametrize("method", ["session/load", "session/resume"])
async def test_a_session_is_opened_again_while_an_agent_works_and_the_agent_goes_on(
    tmp_path: Path, method: str
) -> None:
    gate = anyio.Event()
    touch = ToolCalls((call("shell", cmd="touch here"),))
    scout = (Reply([Text("on my way"), touch], before=gate), text("there"))
    model = played(root=[started("scout"), text("ok")], scout=scout)
    async with on_stage(tmp_path, *[model] * 4, file=file(allow=["shell"])) as stage:
        assert await prompted(stage) == END
        await stage.model.wait_for_call(3)
        # What it works with stays: only the next prompt sees other directories and options.
        error = await stage.client.error("session/set_mode", sessionId=stage.session, modeId="restricted")
        assert error["data"]["reason"] == "busy"
        again = {"sessionId": stage.session, "cwd": str(stage.cwd), "mcpServers": []}
        await stage.client.result(method, **again)
        assert steps(stage, "background") == []
        gate.set()
        await ended(stage)
        assert (stage.cwd / "here").exists()
        await stage.client.result("session/set_mode", sessionId=stage.session, modeId="restricted")


async def test_nothing_is_offered_to_an_agent_that_has_nobody_to_start(tmp_path: Path) -> None:
    agents = team(root={"toolsets": [BACKGROUND, {"type": "think"}]})
    async with on_stage(tmp_path, text("ok"), file=agents) as stage:
        assert await prompted(stage) == END
        assert stage.model.requests[0].tools == ["think"]
        assert "background" not in json.dumps(stage.model.requests[0].body)


async def test_the_terminal_of_a_background_agent_outlives_the_turn_and_is_given_back_at_the_close(
    tmp_path: Path,
) -> None:
    """Naively the turn is its owner, and waits for it or stops it."""
    model = played(root=[started("scout"), text("ok")], scout=[calls(call("shell", cmd="sleep 600"))])
    allow = {**file(allow=["shell"]), "permissions": {"allow": [*ALLOWED, *FREE["allow"]]}}
    async with on_stage(tmp_path, *[model] * 3, file=allow, terminal=True) as stage:
        client = stage.client
        client.responders["terminal/create"] = lambda request: {"result": {"terminalId": "t"}}
        for method in ("terminal/kill", "terminal/release"):
            client.responders[method] = lambda request: {"result": {}}
        client.responders["terminal/output"] = lambda request: {"result": {"output": "", "truncated": False}}
        assert await prompted(stage) == END
        created = await client.until(lambda m: m.get("method") == "terminal/wait_for_exit")
        assert created["params"]["sessionId"] == stage.session
        await client.result("session/close", sessionId=stage.session)
        assert len(client.requests("terminal/release")) == 1
        assert steps(stage, "background") == ["cancel", "finished"]
