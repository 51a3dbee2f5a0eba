"""What every provider has to hold, against three agents: a played one, our own, and one on the official SDK.

Below it: what makes a provider of an agent, and the registry.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from sluice.client.errors import ChatStartError, ClientError, NotAdvertised, TurnInProgress
from sluice.client.fake_agent import Script
from sluice.client.provider import (
    ACP_CAPABILITIES,
    AcpAgentSpec,
    AcpProviderSpec,
    ApprovalRequested,
    Chat,
    ChatCapabilities,
    ChatProvider,
    Detection,
    Launch,
    Model,
    ModelCatalog,
    ProviderRegistry,
    TextDelta,
    TextDone,
    ToolDone,
    TurnAborted,
    TurnDone,
    create_acp_backend,
    create_acp_provider,
)
from tests.client.provider.support import Host, chatting, received, said, tool, turn
from tests.client.support import QUICK, ask
from tests.support.setup import scripted_agent

pytestmark = pytest.mark.anyio

SDK_AGENT = Path(__file__).with_name("sdk_agent.py")


# --- the agents --------------------------------------------------------------------------------------------------


def played(directory: Path) -> list[str]:
    """The fake agent; its script answers by the number of the prompt, so each test makes one kind of prompt."""
    kind = directory.name.partition("-")[0]
    wait = [said("pong"), {"wait": "session/cancel"}, {"result": {"stopReason": "cancelled"}}]
    asking = [
        said("pong"),
        tool("c1", title="run it", kind="execute", status="pending"),
        ask("p", "c1"),
        {"wait": {"response": "p"}},
        {"update": {"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed"}},
        {"result": {"stopReason": "end_turn"}},
    ]
    acts = {"wait": wait, "ask": asking}.get(kind, [said("pong"), {"result": {"stopReason": "end_turn"}}])
    return Script(on={"session/prompt": [acts]}).command(directory)


def ours(directory: Path) -> list[str]:
    shell = {"name": "shell", "arguments": {"cmd": "touch ran"}}
    agent = scripted_agent(
        directory,
        {"when": {"user": "wait", "step": 0}, "text": ["pong"] * 500, "delay": 0.1},
        {"when": {"user": "ask", "step": 0}, "text": "pong", "tool_calls": [shell]},
        {"when": {"user": "ask", "step": 1}, "text": "done"},
        {"when": {"user": "say", "step": 0}, "text": "pong"},
    )
    return [sys.executable, "-m", "sluice", "serve", "acp", str(agent), "-s", str(directory / "s.db")]


def official(directory: Path) -> list[str]:
    return [sys.executable, str(SDK_AGENT)]


Made = Callable[[Path], list[str]]
AGENTS = pytest.mark.parametrize("made", [played, ours, official], ids=["fake", "sluice", "sdk"])


def provider_of(command: list[str], **more: Any) -> ChatProvider:
    """A provider from nothing but a spec."""
    given = {"kind": "mine", "name": "Mine", "command": command[0], "args": command[1:], "ladder": QUICK, **more}
    return create_acp_provider(AcpProviderSpec(**given))


@asynccontextmanager
async def opened(
    made: Made, tmp_path: Path, kind: str, host: Host, session: str | None = None
) -> AsyncIterator[Chat]:
    directory = tmp_path / f"{kind}-dir"
    directory.mkdir(exist_ok=True)
    with anyio.fail_after(60):
        launch = Launch(directory, host, session_id=session)
        async with provider_of(made(directory)).create_backend().start(launch) as chat:
            yield chat


# --- the suite ---------------------------------------------------------------------------------------------------


@AGENTS
@pytest.mark.requirement("acp-provider.spec.enough")
async def test_a_turn_is_told_piece_by_piece_then_whole_then_done(made: Made, tmp_path: Path) -> None:
    host = Host()
    async with opened(made, tmp_path, "say", host) as chat:
        assert await chat.send("say") == TurnDone("end_turn")
        told = [event for event in host.events if isinstance(event, TextDelta | TextDone | TurnDone)]
        *pieces, whole, end = told
        assert "".join(piece.text for piece in pieces if isinstance(piece, TextDelta)) == "pong"
        assert isinstance(whole, TextDone) and whole.text == "pong" and end == TurnDone("end_turn")


@AGENTS
@pytest.mark.requirement("acp-provider.spec.enough")
async def test_a_call_waits_for_the_hosts_answer_and_ends_as_a_row(made: Made, tmp_path: Path) -> None:
    host = Host()
    async with opened(made, tmp_path, "ask", host) as chat, anyio.create_task_group() as tasks:

        async def approve() -> None:
            asked = await host.next(ApprovalRequested)
            assert not host.of(ToolDone) and asked.row.status == "pending"
            chat.answer(asked.id, "allow_once")

        tasks.start_soon(approve)
        assert await chat.send("ask") == TurnDone("end_turn")
        (done,) = host.of(ToolDone)
        assert done.row.status == "completed"


@AGENTS
@pytest.mark.requirement("acp-provider.spec.enough")
async def test_an_interrupt_ends_the_turn_and_a_turn_at_a_time_runs(made: Made, tmp_path: Path) -> None:
    host = Host()
    async with opened(made, tmp_path, "wait", host) as chat, anyio.create_task_group() as tasks:

        async def stop() -> None:
            await host.next(TextDelta)
            with pytest.raises(TurnInProgress):
                await chat.send("say")
            chat.interrupt()

        tasks.start_soon(stop)
        assert await chat.send("wait") == TurnAborted()


@AGENTS
@pytest.mark.requirement("acp-provider.spec.enough")
async def test_a_session_is_gone_on_with_in_a_later_chat(made: Made, tmp_path: Path) -> None:
    first, second = Host(), Host()
    async with opened(made, tmp_path, "say", first) as chat:
        await chat.send("say")
        session = chat.session_id
    async with opened(made, tmp_path, "say", second, session) as chat:
        assert chat.session_id == session
        assert await chat.send("say again") == TurnDone("end_turn")
        assert second.text == "pong"  # and nothing of what was said before


# --- a provider made by hand -------------------------------------------------------------------------------------


class Mirror:
    """A chat backend that is no agent at all, as a host may have one."""

    capabilities = ChatCapabilities(reports_cost=True)

    def start(self, launch: Launch) -> AbstractAsyncContextManager[Any]:
        raise NotImplementedError


@pytest.mark.requirement("acp-provider.spec.registry")
def test_a_registry_holds_any_kinds_side_by_side() -> None:
    mirror = ChatProvider("mirror", "Mirror", "mirror", Mirror)
    mine = provider_of(["mine"], kind="any word at all")
    off = provider_of(["off"], kind="off", enabled=False)
    registry = ProviderRegistry(mirror, mine)
    registry.add(off)
    assert [each.kind for each in registry] == ["mirror", "any word at all", "off"]
    assert registry.get("any word at all") is mine and registry.get("mirror").capabilities.reports_cost
    assert registry.enabled() == [mirror, mine]
    with pytest.raises(ClientError, match="kind 'mirror'"):
        registry.add(ChatProvider("mirror", "Another", "x", Mirror))
    with pytest.raises(ClientError, match="kind 'gone'"):
        registry.get("gone")


@pytest.mark.requirement("acp-provider.spec.backend-only")
async def test_a_backend_alone_goes_into_a_provider_made_by_hand(tmp_path: Path) -> None:
    program, *args = played(tmp_path)
    spec = AcpAgentSpec("x", "X", program, args, ladder=QUICK)
    by_hand = ChatProvider("mine", "By hand", "whatever", lambda: create_acp_backend(spec))
    host = Host()
    with anyio.fail_after(30):
        async with by_hand.create_backend().start(Launch(tmp_path, host)) as chat:
            assert await chat.send("hi") == TurnDone("end_turn")
    assert host.text == "pong"


@pytest.mark.requirement("acp-provider.spec.capabilities")
def test_a_spec_says_what_its_agent_does_beyond_the_rest() -> None:
    assert ChatCapabilities() == ACP_CAPABILITIES == provider_of(["x"]).capabilities
    more = ChatCapabilities(reports_cost=True, reports_context_window=True)
    assert provider_of(["x"], capabilities=more).capabilities == more


@pytest.mark.requirement("acp-provider.leaves-out.compaction")
async def test_the_context_is_folded_by_a_prompt_or_not_at_all(tmp_path: Path) -> None:
    assert provider_of(["x"]).capabilities.compaction == "none"
    assert provider_of(["x"], compact_command="compact").capabilities.compaction == "prompt"
    async with chatting(tmp_path, turn()) as it:
        with pytest.raises(NotAdvertised):
            await it.chat.compact()
        assert it.params("session/prompt") == []
    other = tmp_path / "other"
    other.mkdir()
    async with chatting(other, turn(), spec={"compact_command": "fold"}) as it:
        assert await it.chat.compact() == TurnDone("end_turn")
        (prompt,) = it.params("session/prompt")
        assert prompt["prompt"] == [{"type": "text", "text": "/fold"}]


@pytest.mark.requirement("acp-provider.spec.common-fields")
async def test_what_any_provider_has_is_taken_from_the_spec(tmp_path: Path) -> None:
    async def found() -> Detection:
        return Detection(True, "9.9")

    catalog = ModelCatalog([Model("m", "Model M", ("low", "high"))])
    made = provider_of(
        ["prog", "acp"],
        catalog=catalog,
        resume_command=lambda session: ["prog", "--resume", session],
        home=tmp_path,
        detect=found,
        one_shot_args=lambda prompt: ["-p", prompt],
        first_prompt_args=lambda prompt: ["--", prompt],
        enabled=False,
        ignores_project_config=True,
    )
    assert made.resume_command is not None and made.resume_command("s1") == ["prog", "--resume", "s1"]
    assert (made.home, made.enabled, made.ignores_project_config) == (tmp_path, False, True)
    assert made.catalog.get("m") == Model("m", "Model M", ("low", "high")) and made.catalog.get("n") is None
    assert made.one_shot_command("hi") == (["prog", "-p", "hi"], None)
    assert made.first_prompt_command("hi") == ["prog", "--", "hi"]
    assert await made.find() == Detection(True, "9.9")
    both = provider_of(["prog"], one_shot_args=lambda p: ["-p", p], one_shot_stdin_args=["-"])
    assert both.one_shot_command("hi") == (["prog", "-"], "hi")
    with pytest.raises(ClientError, match="no way to run a single prompt"):
        provider_of(["prog"]).one_shot_command("hi")


@pytest.mark.requirement("acp-provider.spec.chat-only-without-first-prompt")
def test_without_a_first_prompt_a_provider_is_for_chats_only() -> None:
    assert provider_of(["prog"]).chat_only
    with pytest.raises(ClientError, match="chat only"):
        provider_of(["prog"]).first_prompt_command("hi")
    assert not provider_of(["prog"], first_prompt_args=lambda prompt: [prompt]).chat_only


@pytest.mark.requirement("acp-provider.spec.detect-default")
@pytest.mark.parametrize(
    ("program", "detected"),
    [
        ("echo 'prog 1.2.3'; echo more", Detection(True, "prog 1.2.3")),
        ("echo 1.2 >&2", Detection(True, "1.2")),
        ("true", Detection(True)),
        ("echo usage; exit 2", Detection(False)),
    ],
)
async def test_a_program_is_asked_for_its_version(tmp_path: Path, program: str, detected: Detection) -> None:
    path = tmp_path / "prog"
    path.write_text(f'#!/bin/sh\n[ "$1" = --version ] || exit 3\n{program}\n')
    path.chmod(0o755)
    assert await provider_of([str(path)]).find() == detected
    assert await provider_of([str(tmp_path / "gone")]).find() == Detection(False)


@pytest.mark.requirement("acp-provider.testing.fake-agent")
async def test_the_fake_agent_that_is_shipped_plays_whatever_a_backend_must_stand(tmp_path: Path) -> None:
    """Each word of the scripts once, over real pipes: noise, requests of its own, refusals, and an early death."""
    noisy = [
        {"stderr": "a banner"},
        {"raw": "no JSON\n"},
        said("po"),
        {"flood": {"bytes": 5000, "to": "stderr"}},
        {"send": {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "elsewhere"}}},
        said("ng"),
        {"result": {"stopReason": "end_turn"}},
    ]
    dying = [said("half"), {"exit": 3}]
    host = Host()
    program, *args = Script(on={"session/prompt": [noisy, dying]}).command(tmp_path)
    spec = AcpAgentSpec("fake", "Fake", program, args, ladder=QUICK)
    with anyio.fail_after(30):
        async with create_acp_backend(spec).start(Launch(tmp_path, host)) as chat:
            assert await chat.send("one") == TurnDone("end_turn") and host.text == "pong"
            assert type(await chat.send("two")).__name__ == "TurnFailed"
    assert [line["method"] for line in received(tmp_path)][:2] == ["initialize", "session/new"]
    refusing = tmp_path / "refusing"
    refusing.mkdir()
    with pytest.raises(ChatStartError, match="not today"):
        async with chatting(refusing, {"session/new": [[{"error": {"code": -32603, "message": "not today"}}]]}):
            raise AssertionError("a chat that was refused")
    assert os.path.exists(refusing / "journal.jsonl")  # what it received is there to be looked at
