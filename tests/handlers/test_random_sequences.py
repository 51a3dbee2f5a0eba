"""Random sequences of requests against the real handlers, in bursts, on a loop that shuffles its tasks.

Each script sends what a client may send at any moment, several messages in one write, and then ends the input. What
must hold whatever happened: every request is answered exactly once, no completion is refused, nothing of a session is
written between the answer of its close and the next request that names it, every machine is at rest, and the process
would exit with 0.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from sluice.machines import ALL, rows
from tests.support.setup import scripted_agent
from tests.support.wire import BOUND, TAKEN, Client, Server, serving

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

REST = {
    "connection": {"closed"},
    "deletion": {"clear"},
    "session": {"closed", "deleted", "absent"},
    "turn": {"closed"},
    "tool": {"completed", "failed"},
    "mcp": {"retired"},
}

SCRIPT: tuple[Json, ...] = (
    {"when": "tool", "tool_calls": [{"name": "think", "arguments": {"thought": "x"}}]},
    {"when": "ask", "tool_calls": [{"name": "shell", "arguments": {"cmd": "true"}}]},
    {"when": "slow", "text": ["a", "b", "c"], "delay": 0.02},
    {"when": "fail", "error": {"status": 400, "text": "no"}},
    {"when": {"step": 1}, "text": "after the tool"},
    {"text": "ok"},
)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Trio runs ready tasks in random order."""
    return str(request.param)


@pytest.fixture(autouse=True)
def chance_counts_for_nothing() -> Iterator[None]:
    """What a random sequence takes is no evidence that a row is always taken; see tests/zz_recorded."""
    before = set(TAKEN)
    yield
    assert {(name, row.event, row.source, row.target) for name, cls in ALL.items() for row in rows(cls)} >= TAKEN
    TAKEN.clear()
    TAKEN.update(before)


class Script:
    """One random client."""

    def __init__(self, client: Client, cwd: Path, rng: random.Random) -> None:
        self.client, self.cwd, self.rng = client, str(cwd), rng
        self.sent: list[Json] = []
        self.sessions: list[str] = []

    def message(self) -> Json:
        rng, client = self.rng, self.client
        session = rng.choice([*self.sessions, "nobody"]) if self.sessions else "nobody"
        where = {"sessionId": session}
        place = {"cwd": self.cwd, "mcpServers": []}
        text = rng.choice(["hi", "tool", "slow", "slow", "ask", "fail"])
        choices: list[tuple[str, Json, int]] = [
            ("session/new", place, 3),
            ("session/prompt", {**where, "prompt": [{"type": "text", "text": text}]}, 8),
            ("session/cancel", where, 4),
            ("session/load", {**where, **place}, 3),
            ("session/resume", {**where, "cwd": self.cwd}, 2),
            ("session/set_mode", {**where, "modeId": rng.choice(["default", "strict", "autonomous"])}, 2),
            ("session/close", where, 3),
            ("session/delete", where, 2),
            ("session/list", {}, 1),
            ("logout", {}, 1),
            ("authenticate", {"methodId": "host-credentials"}, 2),
        ]
        method, params, _ = rng.choices(choices, [weight for _, _, weight in choices])[0]
        if method == "session/cancel":
            return {"jsonrpc": "2.0", "method": method, "params": params}
        message = client.request(method, **params)
        self.sent.append(message)
        return message

    async def play(self, bursts: int) -> None:
        await self.client.initialize()
        self.sessions.append(await self.client.new(Path(self.cwd)))
        for _ in range(bursts):
            burst = [self.message() for _ in range(self.rng.randrange(1, 5))]
            if self.sent and self.rng.random() < 0.3:
                named = self.rng.choice(self.sent)["id"]
                burst.append({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": named}})
            await self.client.write(*burst)
            for _ in range(self.rng.randrange(0, 12)):
                await anyio.lowlevel.checkpoint()
            self._note_new_sessions()
            await self._answer_questions()

    def _note_new_sessions(self) -> None:
        for message in self.client.log:
            session = (message.get("result") or {}).get("sessionId") if "method" not in message else None
            if session and session not in self.sessions:
                self.sessions.append(session)

    async def _answer_questions(self) -> None:
        """Half of the open questions are answered, the others never."""
        for message in self.client.log[self.client.cursor :]:
            if message.get("method") == "session/request_permission" and self.rng.random() < 0.5:
                outcome = {"outcome": {"outcome": "selected", "optionId": self.rng.choice(["allow", "reject"])}}
                await self.client.write({"jsonrpc": "2.0", "id": message["id"], "result": outcome})
        self.client.cursor = len(self.client.log)


def check(server: Server, script: Script) -> None:
    log = server.client.log
    answered = [message["id"] for message in log if "method" not in message]
    for message in script.sent:
        assert answered.count(message["id"]) == 1, message
        answer = next(m for m in log if m.get("id") == message["id"] and "method" not in m)
        assert answer.get("error", {}).get("code") != -32603 or "runtimeCode" in answer["error"]["data"], answer
    final = {(step.machine, step.key): step.target for step in server.transitions}
    unrest = {name: state for name, state in final.items() if state not in REST.get(name[0], {state})}
    assert unrest == {}
    assert server.status == 0
    quiet_after_close(script, log)


def quiet_after_close(script: Script, log: list[Json]) -> None:
    closes = {m["id"]: m["params"]["sessionId"] for m in script.sent if m["method"] == "session/close"}
    reopened = {m["params"]["sessionId"] for m in script.sent if m["method"] in ("session/load", "session/resume")}
    for index, message in enumerate(log):
        session = closes.get(message.get("id")) if "method" not in message and "result" in message else None
        if session is None or session in reopened:
            continue
        later = [m for m in log[index:] if (m.get("params") or {}).get("sessionId") == session and "method" in m]
        assert later == [], later


@pytest.mark.requirement("machines.tests.real-handlers", "machines.decide.no-await-before-admission")
@pytest.mark.parametrize("seed", range(12))
async def test_whatever_a_client_sends_every_request_is_answered_once_and_everything_ends(
    tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    file = scripted_agent(tmp_path, *SCRIPT)
    with anyio.fail_after(BOUND * 3):
        async with serving(file, tmp_path / "s.db") as server:
            script = Script(server.client, tmp_path, rng)
            await script.play(12)
    check(server, script)
    declared = {name: {(row.source, row.event, row.target) for row in rows(cls)} for name, cls in ALL.items()}
    for step in server.transitions:
        assert (step.source, step.event, step.target) in declared[step.machine], step
