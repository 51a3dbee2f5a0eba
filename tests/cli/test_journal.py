"""The journal of a real process: written, printed, drawn, checked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.model_server import ModelServer, Reply, Stall, Text, call, calls, text
from tests.support.setup import agent_on, scripted_agent
from tests.support.wire import spawned

pytestmark = pytest.mark.anyio


async def busy_conversation(directory: Path, *flags: str) -> Path:
    """The journal of a conversation with a tool call, a refusal, a cancel, a reload and a delete."""
    journal = directory / "journal.jsonl"
    replies = [calls(call("shell", cmd="echo secret words")), text("done"), Reply([Text("half"), Stall()])]
    async with ModelServer(replies) as model:
        file = agent_on(directory, model.base_url)
        async with spawned(file, directory / "s.db", "--journal", str(journal), *flags) as server:
            client = server.client
            await client.initialize()
            session = await client.new(directory)
            prompt = client.send_prompt(session, "go")
            await client.write(prompt)
            await client.allow()
            await client.answer(prompt["id"])
            prompt = client.send_prompt(session, "again")
            await client.write(prompt)
            await client.until(lambda m: "half" in str(m))
            await client.prompt(session, "busy")
            await client.notify("session/cancel", sessionId=session)
            await client.answer(prompt["id"])
            await client.result("session/close", sessionId=session)
            await client.result("session/load", sessionId=session, cwd=str(directory), mcpServers=[])
            await client.result("session/delete", sessionId=session)
    return journal


def sluice(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sluice", "journal", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


async def test_a_journal_shows_what_happened_and_nothing_that_was_said(tmp_path: Path) -> None:
    journal = await busy_conversation(tmp_path)
    assert "secret words" not in journal.read_text()
    shown = sluice(journal)
    assert shown.returncode == 0
    assert "idle → busy (session/prompt)" in shown.stdout and "→ session/prompt #" in shown.stdout
    drawn = sluice(journal, "--mermaid").stdout
    assert drawn.startswith("sequenceDiagram\n") and "client->>agent: session/new" in drawn
    checked = sluice(journal, "--check")
    assert checked.returncode == 0 and checked.stdout.endswith("transitions, 0 foreign\n")


async def test_bodies_are_kept_when_they_are_asked_for(tmp_path: Path) -> None:
    journal = await busy_conversation(tmp_path, "--journal-bodies")
    assert "secret words" in journal.read_text()
    assert "secret words" in sluice(journal).stdout


async def test_an_edited_transition_is_named_with_its_line(tmp_path: Path) -> None:
    journal = await busy_conversation(tmp_path)
    lines = journal.read_text().splitlines()
    index = next(n for n, line in enumerate(lines) if json.loads(line).get("target") == "draining")
    for key, value, why in [("target", "idle", "not a row"), ("machine", "turnip", "no machine")]:
        edited = [*lines]
        edited[index] = json.dumps({**json.loads(lines[index]), key: value})
        journal.write_text("\n".join(edited) + "\n")
        checked = sluice(journal, "--check")
        assert checked.returncode == 1 and f":{index + 1}: " in checked.stderr and why in checked.stderr
    del lines[index]
    journal.write_text("\n".join(lines) + "\n")
    assert "the machine was in busy" in sluice(journal, "--check").stderr


async def test_what_is_no_journal_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("hello\n")
    assert "line 1 is no journal entry" in sluice(tmp_path / "x").stderr
    assert sluice(tmp_path / "missing").returncode == 1


async def test_processes_that_share_a_journal_are_followed_each_for_itself(tmp_path: Path) -> None:
    """An editor starts the agent again and again, and two windows run it at once."""
    journal = tmp_path / "journal.jsonl"
    file = scripted_agent(tmp_path, {"text": "hi"})
    database = tmp_path / "s.db"
    async with (
        spawned(file, database, "--journal", str(journal)) as one,
        spawned(file, database, "--journal", str(journal)) as two,
    ):
        for server in (one, two):
            await server.client.initialize()
        session = await one.client.new(tmp_path)
        await one.client.prompt(session, "1")
        other = await two.client.new(tmp_path)
        await two.client.prompt(other, "2")
        await one.client.result("session/close", sessionId=session)
    async with spawned(file, database, "--journal", str(journal)) as again:
        await again.client.initialize()
        await again.client.result("session/load", sessionId=session, cwd=str(tmp_path), mcpServers=[])
        await again.client.prompt(session, "3")
    checked = sluice(journal, "--check")
    assert (checked.returncode, checked.stderr) == (0, "")
    shown = sluice(journal).stdout
    for server in (one, two, again):
        assert f"process {server.process.pid}, 2" in shown
    assert sluice(journal, "--mermaid").stdout.count("Note over client,agent: process") == 3


async def test_a_journal_that_can_no_longer_be_written_is_told_once_and_ends_nothing(tmp_path: Path) -> None:
    """What is served outranks the notes of it: a full disk must not make every request an internal error."""
    journal = tmp_path / "journal"
    os.mkfifo(journal)
    reader = os.open(journal, os.O_RDONLY | os.O_NONBLOCK)
    file = scripted_agent(tmp_path, {"text": "one"}, {"text": "two"})
    async with spawned(file, tmp_path / "s.db", "--journal", str(journal)) as server:
        client = server.client
        await client.initialize()
        os.close(reader)
        session = await client.new(tmp_path)
        for _ in range(2):
            assert (await client.prompt(session, "go"))["result"] == {"stopReason": "end_turn"}
        await client.result("session/close", sessionId=session)
    told = [line for line in server.stderr.read_text().splitlines() if "ERROR" in line]
    assert len(told) == 1 and told[0].endswith(f"{journal}: Broken pipe; nothing more is noted in this journal")
