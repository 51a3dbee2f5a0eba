"""Kill the server at random points of random conversations, and see that nothing acknowledged is lost.

`python -m tests.crash.runs [KILLS [SEED]]` is the long run (`make crash`). What counts as acknowledged: a session
whose session/new was answered, and the prompt and reply of every turn that was answered. After each kill the next
process lists and loads every session, finds all of that in order, and its history is accepted by a model server that
refuses invalid ones.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from tests.support.model_server import ModelServer, Recorded, Reply, call, calls, text
from tests.support.setup import agent_on
from tests.support.wire import BOUND, Client, spawned

__all__ = ["Outcome", "crash"]

Json = dict[str, Any]


@dataclass
class Known:
    """What the client was told of one session: texts that must be replayed, in order."""

    acknowledged: list[str] = field(default_factory=list)


@dataclass
class Outcome:
    """What a run saw."""

    kills: int = 0
    sessions: int = 0
    lost: list[str] = field(default_factory=list)


def _reply(rng: random.Random) -> Callable[[Recorded], Reply]:
    """A model that answers each user text with an echo of it, sometimes after a tool call."""

    def answer(recorded: Recorded) -> Reply:
        last = recorded.messages[-1]
        said = next(m["content"] for m in reversed(recorded.messages) if m["role"] == "user")
        if last["role"] == "user" and rng.random() < 0.4:
            return calls(call("think", thought=f"about {said}"))
        return text(*(f"{piece} " for piece in f"echo of {said} in some pieces".split()))

    return answer


async def crash(directory: Path, kills: int, seed: int) -> Outcome:
    """Kill and restart `kills` times; returns what was found."""
    rng = random.Random(seed)
    outcome, known = Outcome(), dict[str, Known]()
    async with ModelServer([], default=_reply(rng)) as model:
        file = agent_on(directory, model.base_url)
        for _ in range(kills):
            async with spawned(file, directory / "s.db") as server:
                await server.client.initialize()
                await _verify(server.client, directory, known, outcome)
                await _until_killed(server.client, directory, known, rng, server.kill)
                await server.wait()
            outcome.kills += 1
        async with spawned(file, directory / "s.db") as server:
            await server.client.initialize()
            await _verify(server.client, directory, known, outcome)
            for session in list(known)[-3:]:
                await server.client.result("session/resume", sessionId=session, cwd=str(directory))
                response = await server.client.prompt(session, "still there?")
                if "result" not in response:
                    outcome.lost.append(f"{session}: {response}")
        outcome.lost += model.refusals
    outcome.sessions = len(known)
    return outcome


async def _until_killed(
    client: Client, cwd: Path, known: dict[str, Known], rng: random.Random, kill: Callable[[], None]
) -> None:
    """Talk, and kill after a random number of messages from the server."""
    limit = len(client.log) + rng.randrange(1, 60)

    async def talk() -> None:
        while True:
            if not known or rng.random() < 0.3:
                known[await client.new(cwd)] = Known()
            session = rng.choice(list(known)[-4:])
            said = f"prompt {rng.randrange(10**9)}"
            before = len(client.updates(session, "agent_message_chunk"))
            response = await client.prompt(session, said)
            if "result" in response:
                chunks = client.updates(session, "agent_message_chunk")[before:]
                answered = "".join(chunk["content"]["text"] for chunk in chunks)
                known[session].acknowledged += [said, answered]
            else:  # stored but not open in this process
                await client.call("session/resume", sessionId=session, cwd=str(cwd))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_ignoring_the_end, talk)
        with anyio.fail_after(BOUND):
            await client.until(lambda _: len(client.log) >= limit)
        kill()
        await client.ended.wait()
        tasks.cancel_scope.cancel()


async def _ignoring_the_end(work: Callable[[], Any]) -> None:
    try:
        await work()
    except (AssertionError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        return  # the server is gone, as it should be


async def _verify(client: Client, cwd: Path, known: dict[str, Known], outcome: Outcome) -> None:
    """Load every session that was acknowledged and compare what is replayed."""
    listed: set[str] = set()
    cursor: str | None = None
    while True:
        page = await client.result("session/list", **({"cursor": cursor} if cursor else {}))
        listed |= {entry["sessionId"] for entry in page["sessions"]}
        cursor = page.get("nextCursor")
        if cursor is None:
            break
    for session, told in list(known.items())[-6:]:
        if session not in listed:
            outcome.lost.append(f"{session} is not listed")
            continue
        before = len(client.log)
        await client.result("session/load", sessionId=session, cwd=str(cwd), mcpServers=[])
        shown = "".join(_text(message) for message in client.log[before:])
        place = 0
        for words in told.acknowledged:
            found = shown.find(words, place)
            if found < 0:
                outcome.lost.append(f"{session}: {words!r} is not replayed in its place")
                break
            place = found + len(words)
        await client.result("session/close", sessionId=session)


def _text(message: Json) -> str:
    update = message.get("params", {}).get("update", {})
    return str(update["content"]["text"]) if str(update.get("sessionUpdate", "")).endswith("message_chunk") else ""


def main(arguments: list[str]) -> int:
    kills = int(arguments[0]) if arguments else 200
    seed = int(arguments[1]) if len(arguments) > 1 else random.randrange(10**6)
    with tempfile.TemporaryDirectory() as directory:
        outcome = anyio.run(crash, Path(directory), kills, seed)
    print(f"seed {seed}: {outcome.kills} kills, {outcome.sessions} sessions checked, {len(outcome.lost)} lost")
    for loss in outcome.lost:
        print(f"  lost: {loss}")
    return 1 if outcome.lost else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
