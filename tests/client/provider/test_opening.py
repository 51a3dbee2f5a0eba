"""How a chat opens its session: continuing, logging in, modes, models; with the scripted agent as a real process."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sluice.client.errors import ChatStartError, ClientError
from sluice.client.fake_agent import Script
from sluice.client.provider import (
    RUNTIME_MODES,
    AcpClientInfo,
    AcpSessionInfo,
    CommandsChanged,
    Note,
    RuntimeMode,
    Selection,
    TextDelta,
    TitleChanged,
    TurnDone,
)
from sluice.client.provider.policy import TooWide, mode_for
from sluice.client.session import Choice
from tests.client.provider.support import Host, advertising, chatting, received, said, tool, update
from tests.client.provider.test_updates import select

pytestmark = pytest.mark.anyio

AUTH: Mapping[str, Any] = {"error": {"code": -32000, "message": "Authentication required"}}
METHODS = {"authMethods": [{"id": "key", "name": "Key"}, {"id": "tty", "name": "TTY", "type": "terminal"}]}


def methods_of(directory: Path) -> list[str]:
    return [line["method"] for line in received(directory) if "method" in line]


# --- the start


@pytest.mark.requirement(
    "acp-provider.start.first-message",
    "acp-provider.spec.client-info",
    "acp-provider.start.no-fs-no-terminal",
    "acp-provider.start.opens-session",
)
async def test_initialize_is_first_and_alone_and_the_session_is_open_before_the_first_turn(tmp_path: Path) -> None:
    client = AcpClientInfo("my-host", "3.1", "My host")
    async with chatting(tmp_path, spec={"client": client}) as it:
        assert it.methods() == ["initialize", "session/new"]
        assert it.params("initialize") == [
            {
                "protocolVersion": 1,
                "clientCapabilities": {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False},
                "clientInfo": {"name": "my-host", "version": "3.1", "title": "My host"},
            }
        ]
        assert it.chat.session_id == "s1"
        assert it.chat.agent.session("s1").id == "s1"


@pytest.mark.requirement("acp-provider.start.version-1-only", "acp-provider.spec.kind-and-name")
@pytest.mark.parametrize("version", [2, 0, "1", None])
async def test_another_version_ends_the_start_with_an_error_and_the_process(tmp_path: Path, version: Any) -> None:
    steps = [{"spawn": ["sleep", "60"]}, {"result": {"protocolVersion": version}}]
    with pytest.raises(ChatStartError, match=r"^Fake: .*this client speaks ACP version 1"):
        async with chatting(tmp_path, {"initialize": [steps]}):
            pass
    (child,) = [line["spawned"] for line in received(tmp_path) if "spawned" in line]
    assert not running(child)
    assert methods_of(tmp_path) == ["initialize"]


def running(pid: int) -> bool:
    """Whether a process is alive (a zombie nobody reaps is not)."""
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] not in "ZX"


@pytest.mark.requirement("acp-provider.start.absolute-cwd")
async def test_the_directory_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path)
    async with chatting(tmp_path, launch={"cwd": "work"}) as it:
        assert it.params("session/new") == [{"cwd": str(tmp_path / "work"), "mcpServers": []}]


@pytest.mark.requirement("acp-provider.spec.command-args", "acp-provider.spec.env")
async def test_the_command_is_run_without_a_shell_and_its_variables_override_those_of_the_launch(
    tmp_path: Path,
) -> None:
    # A program of its own that writes down what it was given, and then is the agent.
    show = tmp_path / "show.py"
    show.write_text(
        "import json, os, sys\n"
        "where, *rest = sys.argv[1:]\n"
        "names = ('A', 'B', 'C')\n"
        "open(where, 'w').write(json.dumps([rest, {n: os.environ.get(n) for n in names}, os.getcwd()]))\n"
        "from sluice.client.fake_agent import main\n"
        "sys.exit(main(rest[:1]))\n"
    )
    args = [str(show), str(tmp_path / "seen"), Script().command(tmp_path)[-1], "$HOME; touch x", "*", ""]
    spec = {"command": sys.executable, "args": args, "env": {"B": "spec", "C": "spec"}}
    os.environ["A"] = "host"
    try:
        async with chatting(tmp_path, spec=spec, launch={"env": {"A": "launch", "B": "launch"}}):
            pass
    finally:
        del os.environ["A"]
    given, environment, cwd = json.loads((tmp_path / "seen").read_text())
    assert given[1:] == ["$HOME; touch x", "*", ""]
    assert environment == {"A": "launch", "B": "spec", "C": "spec"}
    assert cwd == str(tmp_path)


@pytest.mark.requirement("acp-provider.continue.early-updates")
async def test_updates_before_the_answer_of_session_new_reach_the_thread(tmp_path: Path) -> None:
    early = {**update("available_commands_update", availableCommands=[{"name": "go"}]), "sessionId": "s1"}
    steps = [early, {**said("hello"), "sessionId": "s1"}, {"result": {"sessionId": "s1"}}]
    async with chatting(tmp_path, {"session/new": [steps]}) as it:
        assert [type(event) for event in it.host.events] == [CommandsChanged, TextDelta]


# --- going on with a session


@pytest.mark.requirement("acp-provider.continue.resume-first")
async def test_a_session_is_resumed_where_the_agent_can(tmp_path: Path) -> None:
    async with chatting(tmp_path, launch={"session_id": "old"}) as it:
        assert it.chat.session_id == "old"
        assert it.methods() == ["initialize", "session/resume"]
        assert it.params("session/resume") == [{"sessionId": "old", "cwd": str(tmp_path), "mcpServers": []}]
        assert it.host.events == []


@pytest.mark.requirement("acp-provider.continue.load-second")
async def test_else_it_is_loaded_and_the_replayed_history_is_dropped(tmp_path: Path) -> None:
    replay = [
        update("user_message_chunk", content={"type": "text", "text": "before"}),
        said("answer"),
        said("thought", thought=True),
        tool("c1", status="completed"),
        update("plan", entries=[{"content": "step"}]),
        update("session_info_update", title="Old tale"),
    ]
    on = {**advertising("resume"), "session/load": [[*replay, {"result": None}]]}
    async with chatting(tmp_path, on, launch={"session_id": "old"}) as it:
        assert it.methods() == ["initialize", "session/load"]
        assert it.host.events == [TitleChanged("Old tale")]
        assert await it.chat.send("x") == TurnDone("end_turn")
        assert it.params("session/prompt")[0]["sessionId"] == "old"


@pytest.mark.requirement("acp-provider.continue.new-with-note")
async def test_an_agent_that_can_do_neither_gets_a_new_session_and_the_thread_a_note(tmp_path: Path) -> None:
    async with chatting(tmp_path, advertising("resume", "loadSession"), launch={"session_id": "old"}) as it:
        assert it.methods() == ["initialize", "session/new"]
        (note,) = it.host.events
        assert isinstance(note, Note) and "new one" in note.text and note.text.startswith("Fake ")


@pytest.mark.requirement("acp-provider.continue.new-with-note")
@pytest.mark.parametrize(("missing", "method"), [((), "session/resume"), (("resume",), "session/load")])
@pytest.mark.parametrize("code", [-32002, -32603, 7])
async def test_an_agent_that_turns_the_session_down_gets_a_new_one_and_the_thread_a_note(
    tmp_path: Path, missing: tuple[str, ...], method: str, code: int
) -> None:
    refusal = [said("a piece of the past"), {"error": {"code": code, "message": "no such session"}}]
    on = {**advertising(*missing), method: [refusal if method == "session/load" else refusal[1:]]}
    async with chatting(tmp_path, on, launch={"session_id": "old"}) as it:
        assert it.methods() == ["initialize", method, "session/new"]
        assert it.chat.session_id == "s1"
        (note,) = it.host.events
        assert isinstance(note, Note) and "no such session" in note.text


@pytest.mark.requirement("acp-provider.continue.new-with-note")
async def test_a_new_chat_has_no_note(tmp_path: Path) -> None:
    async with chatting(tmp_path, advertising("resume", "loadSession")) as it:
        assert it.host.events == []


@pytest.mark.requirement("acp-provider.continue.folders")
@pytest.mark.parametrize(
    ("missing", "session", "method"),
    [((), None, "session/new"), ((), "old", "session/resume"), (("resume",), "old", "session/load")],
)
async def test_folders_go_along_complete_whenever_a_session_is_opened(
    tmp_path: Path, missing: tuple[str, ...], session: str | None, method: str
) -> None:
    launch = {"folders": [tmp_path / "one", "/two"], "session_id": session}
    async with chatting(tmp_path, advertising(*missing), launch=launch) as it:
        assert it.params(method)[0]["additionalDirectories"] == [str(tmp_path / "one"), "/two"]


@pytest.mark.requirement("acp-provider.continue.folders")
@pytest.mark.parametrize("session", [None, "old"])
async def test_folders_are_left_out_where_they_are_not_advertised(tmp_path: Path, session: str | None) -> None:
    launch = {"folders": ["/two"], "session_id": session}
    async with chatting(tmp_path, advertising("additionalDirectories"), launch=launch) as it:
        opening = it.lines()[1]
        assert set(opening["params"]) == {"cwd", "mcpServers"} | ({"sessionId"} if session else set())


def texts(prompt: Mapping[str, Any]) -> list[str]:
    return [block["text"] for block in prompt["prompt"]]


INSTRUCTIONS = {
    "instructions": "Be kind.",
    "resume_instructions": "Be kind again.",
    "resume_note": "A day has passed.",
}


@pytest.mark.requirement("acp-provider.prompt.instructions")
async def test_instructions_stand_before_the_first_prompt_of_a_new_session_only(tmp_path: Path) -> None:
    failed = [{"error": {"code": 1, "message": "no"}}]
    on: dict[str, Any] = {"session/prompt": [failed, [{"result": {"stopReason": "end_turn"}}]]}
    async with chatting(tmp_path, on, launch=INSTRUCTIONS) as it:
        for words in ("one", "two", "three"):
            await it.chat.send(words)
        assert [texts(prompt) for prompt in it.params("session/prompt")] == [["Be kind.", "one"], ["two"], ["three"]]


@pytest.mark.requirement("acp-provider.prompt.instructions")
async def test_a_session_that_could_not_be_continued_is_new_and_gets_the_instructions(tmp_path: Path) -> None:
    on = {"session/resume": [[{"error": {"code": -32002, "message": "gone"}}]]}
    async with chatting(tmp_path, on, launch={"session_id": "old", **INSTRUCTIONS}) as it:
        await it.chat.send("one")
        assert [texts(prompt) for prompt in it.params("session/prompt")] == [["Be kind.", "one"]]


@pytest.mark.requirement("acp-provider.prompt.resume-instructions")
@pytest.mark.parametrize("missing", [(), ("resume",)])
async def test_a_continued_session_gets_its_own_instructions_and_the_note(
    tmp_path: Path, missing: tuple[str, ...]
) -> None:
    async with chatting(tmp_path, advertising(*missing), launch={"session_id": "old", **INSTRUCTIONS}) as it:
        await it.chat.send("one")
        await it.chat.send("two")
        first, second = it.params("session/prompt")
        assert texts(first) == ["Be kind again.", "A day has passed.", "one"]
        assert texts(second) == ["two"]


# --- logging in


@pytest.mark.requirement("acp-provider.auth.once-and-retry", "acp-provider.spec.auth-method")
@pytest.mark.parametrize(
    ("missing", "session", "method"),
    [((), None, "session/new"), ((), "old", "session/resume"), (("resume",), "old", "session/load")],
)
async def test_an_agent_that_asks_for_a_login_gets_one_and_is_asked_once_more(
    tmp_path: Path, missing: tuple[str, ...], session: str | None, method: str
) -> None:
    on = {**advertising(*missing, **METHODS), method: [[AUTH], [{"result": {"sessionId": "s1"}}]]}
    async with chatting(tmp_path, on, spec={"auth_method": "key"}, launch={"session_id": session}) as it:
        assert it.methods() == ["initialize", method, "authenticate", method]
        assert it.params("authenticate") == [{"methodId": "key"}]
        assert it.host.events == []


@pytest.mark.requirement("acp-provider.auth.once-and-retry")
async def test_a_second_demand_fails_the_start(tmp_path: Path) -> None:
    on = {**advertising(**METHODS), "session/new": [[AUTH]]}
    with pytest.raises(ChatStartError, match=r"^Fake: Run `fake login`"):
        async with chatting(tmp_path, on, spec={"auth_method": "key", "login_hint": "Run `fake login`."}):
            pass
    assert methods_of(tmp_path) == ["initialize", "session/new", "authenticate", "session/new"]


@pytest.mark.requirement("acp-provider.auth.once-and-retry")
async def test_the_login_of_a_refused_continuation_is_not_repeated_for_the_new_session(tmp_path: Path) -> None:
    gone = [{"error": {"code": -32002, "message": "gone"}}]
    on = {**advertising(**METHODS), "session/resume": [[AUTH], gone], "session/new": [[AUTH]]}
    with pytest.raises(ChatStartError, match="Authentication required"):
        async with chatting(tmp_path, on, spec={"auth_method": "key"}, launch={"session_id": "old"}):
            pass
    opened = ["session/resume", "authenticate", "session/resume", "session/new"]
    assert methods_of(tmp_path) == ["initialize", *opened]


@pytest.mark.requirement("acp-provider.auth.no-method", "acp-provider.spec.auth-method")
@pytest.mark.parametrize("session", [None, "old"])
async def test_without_a_method_the_start_fails_with_the_hint(tmp_path: Path, session: str | None) -> None:
    on = {**advertising(**METHODS), "session/new": [[AUTH]], "session/resume": [[AUTH]]}
    with pytest.raises(ChatStartError, match=r"^Fake: Run `fake login`"):
        async with chatting(tmp_path, on, spec={"login_hint": "Run `fake login`."}, launch={"session_id": session}):
            pass
    assert "authenticate" not in methods_of(tmp_path)
    assert len(methods_of(tmp_path)) == 2


@pytest.mark.requirement("acp-provider.auth.once-and-retry")
async def test_a_login_that_fails_fails_the_start(tmp_path: Path) -> None:
    refused = [{"error": {"code": -32603, "message": "wrong key"}}]
    on = {**advertising(**METHODS), "session/new": [[AUTH]], "authenticate": [refused]}
    with pytest.raises(ChatStartError, match="wrong key"):
        async with chatting(tmp_path, on, spec={"auth_method": "key"}):
            pass
    assert methods_of(tmp_path) == ["initialize", "session/new", "authenticate"]


@pytest.mark.requirement("acp-provider.auth.terminal-method")
async def test_a_method_for_a_terminal_is_never_passed_on(tmp_path: Path) -> None:
    on = {**advertising(**METHODS), "session/new": [[AUTH]]}
    with pytest.raises(ChatStartError, match=r"Run `fake login`.*terminal"):
        async with chatting(tmp_path, on, spec={"auth_method": "tty", "login_hint": "Run `fake login`."}):
            pass
    assert "authenticate" not in methods_of(tmp_path)


# --- modes


MODES = {
    "supervised": ["ask", "plan"],
    "auto-accept-edits": ["edits"],
    "auto": ["smart", "smarter"],
    "full-access": ["yolo"],
}


def offering(current: str | None, *ids: str, option: bool) -> dict[str, Any]:
    """A `session/new` with these modes, as a setting or in the older way."""
    if option:
        # Where both are there, the setting counts.
        decoy = {"currentModeId": "yolo", "availableModes": [{"id": "yolo", "name": "Y"}]}
        options = [select("mode", current, *ids, option_id="mode-option")]
        answer: dict[str, Any] = {"sessionId": "s1", "configOptions": options, "modes": decoy}
    else:
        modes = {"currentModeId": current, "availableModes": [{"id": mode, "name": mode} for mode in ids]}
        answer = {"sessionId": "s1", "modes": modes}
    return {"session/new": [[{"result": answer}]], "session/set_config_option": [[{"result": {}}]]}


def set_to(lines: list[dict[str, Any]]) -> list[Any]:
    """What modes were set, by whichever method."""
    found = []
    for line in lines:
        if line.get("method") == "session/set_mode":
            found.append(("set_mode", line["params"]["modeId"]))
        if line.get("method") == "session/set_config_option":
            assert line["params"]["configId"] == "mode-option"
            found.append(("set_config_option", line["params"]["value"]))
    return found


@pytest.mark.requirement("acp-provider.mode.set", "acp-provider.spec.modes")
@pytest.mark.parametrize("option", [False, True])
@pytest.mark.parametrize(
    ("wanted", "offered", "chosen"),
    [
        ("auto", ("ask", "smarter", "smart", "yolo"), "smart"),
        ("auto", ("ask", "smarter", "yolo"), "smarter"),
        ("supervised", ("plan", "yolo"), "plan"),
        ("full-access", ("ask", "yolo"), "yolo"),
    ],
)
async def test_the_first_mapped_mode_on_offer_is_set(
    tmp_path: Path, option: bool, wanted: str, offered: tuple[str, ...], chosen: str
) -> None:
    on = offering("elsewhere", "elsewhere", *offered, option=option)
    async with chatting(tmp_path, on, spec={"modes": MODES}, launch={"mode": wanted}) as it:
        assert set_to(it.lines()) == [("set_config_option" if option else "set_mode", chosen)]
        assert it.methods()[-1] != "session/prompt"


@pytest.mark.requirement("acp-provider.mode.falls-narrower")
@pytest.mark.parametrize("option", [False, True])
@pytest.mark.parametrize(
    ("wanted", "offered", "chosen"),
    [
        ("auto", ("ask", "edits", "yolo"), "edits"),
        ("full-access", ("ask", "smarter"), "smarter"),
        ("auto-accept-edits", ("ask", "smart", "yolo"), "ask"),
        ("full-access", ("plan",), "plan"),
    ],
)
async def test_without_its_mode_the_next_stricter_one_is_set_and_never_a_looser(
    tmp_path: Path, option: bool, wanted: str, offered: tuple[str, ...], chosen: str
) -> None:
    on = offering("elsewhere", "elsewhere", *offered, option=option)
    async with chatting(tmp_path, on, spec={"modes": MODES}, launch={"mode": wanted}) as it:
        assert [mode for _, mode in set_to(it.lines())] == [chosen]


@pytest.mark.requirement("acp-provider.mode.falls-narrower")
async def test_an_agent_without_a_mapped_mode_is_left_as_it_is(tmp_path: Path) -> None:
    on = offering("elsewhere", "elsewhere", "smart", "yolo", option=False)
    async with chatting(tmp_path, on, spec={"modes": MODES}, launch={"mode": "supervised"}) as it:
        assert set_to(it.lines()) == []


@pytest.mark.requirement("acp-provider.mode.too-wide-fails")
@pytest.mark.parametrize("option", [False, True])
@pytest.mark.parametrize(("wanted", "current"), [("supervised", "edits"), ("auto", "yolo"), ("supervised", "smart")])
async def test_an_agent_that_runs_too_free_and_offers_nothing_stricter_fails_the_start(
    tmp_path: Path, option: bool, wanted: str, current: str
) -> None:
    on = offering(current, current, "yolo", option=option)
    with pytest.raises(ChatStartError, match=f"^Fake: runs in the mode '{current}', which allows more than {wanted}"):
        async with chatting(tmp_path, on, spec={"modes": MODES}, launch={"mode": wanted}):
            pass
    assert set_to(received(tmp_path)) == []


@pytest.mark.requirement("acp-provider.mode.too-wide-fails")
async def test_an_agent_that_runs_too_free_and_refuses_a_stricter_mode_fails_the_start(tmp_path: Path) -> None:
    on = offering("yolo", "ask", "yolo", option=False)
    on["session/set_mode"] = [[{"error": {"code": -32600, "message": "no"}}]]
    with pytest.raises(ChatStartError, match="refused the mode 'ask'"):
        async with chatting(tmp_path, on, spec={"modes": MODES}):
            pass


async def test_a_refused_mode_of_an_agent_that_is_strict_enough_is_a_warning(tmp_path: Path) -> None:
    on = offering("ask", "ask", "smart", option=False)
    on["session/set_mode"] = [[{"error": {"code": -32600, "message": "not today"}}]]
    async with chatting(tmp_path, on, spec={"modes": MODES}, launch={"mode": "auto"}) as it:
        (note,) = it.host.of(Note)
        assert note.level == "warning" and "not today" in note.text


@pytest.mark.requirement("acp-provider.mode.falls-narrower", "acp-provider.mode.too-wide-fails")
@pytest.mark.parametrize("wanted", RUNTIME_MODES)
@pytest.mark.parametrize("current", [None, "elsewhere", "ask", "edits", "smart", "yolo"])
def test_no_choice_is_ever_looser_than_asked_for(wanted: RuntimeMode, current: str | None) -> None:
    ids = ["ask", "edits", "smart", "yolo"]
    modes: Any = dict(zip(RUNTIME_MODES, ([one] for one in ids), strict=True))
    limit = RUNTIME_MODES.index(wanted)
    for mask in range(16):
        offered = [one for bit, one in enumerate(ids) if mask >> bit & 1]
        try:
            chosen = mode_for(wanted, modes, offered, current)
        except TooWide:
            assert current in ids and ids.index(current) > limit
            assert not any(ids.index(one) <= limit for one in offered)
            continue
        stricter = [one for one in offered if ids.index(one) <= limit]
        assert chosen == (stricter[-1] if stricter else None)
        in_force = chosen or current
        assert in_force not in ids or ids.index(in_force) <= limit


@pytest.mark.requirement("acp-provider.mode.set")
async def test_the_mode_can_be_changed_later_and_narrows_at_once(tmp_path: Path) -> None:
    on = offering("ask", "ask", "yolo", option=False)
    on["session/set_mode"] = [[{"result": {}}], [{"error": {"code": 1, "message": "stuck"}}]]
    async with chatting(tmp_path, on, spec={"modes": MODES}) as it:
        await it.chat.set_mode("full-access")
        assert (it.chat.mode, it.chat.info.mode) == ("full-access", "yolo")
        with pytest.raises(ClientError, match="stuck"):
            await it.chat.set_mode("supervised")
        # The agent is still too free, but nothing is answered for the person any more.
        assert (it.chat.mode, it.chat.info.mode) == ("supervised", "yolo")


# --- models


def models(how: str) -> dict[str, Any]:
    """A `session/new` that offers "big" and "small", and runs "small"."""
    older = {"currentModelId": "small", "availableModels": [{"modelId": "big", "name": "Big"}, {"modelId": "small"}]}
    answer: dict[str, Any] = {"sessionId": "s1"}
    if how == "older":
        answer["models"] = older
    if how == "option":
        answer["configOptions"] = [select("model", "small", "big", "small", option_id="model-option")]
        answer["models"] = {"currentModelId": "decoy", "availableModels": [{"modelId": "decoy"}]}
    return {
        "session/new": [[{"result": answer}]],
        "session/set_config_option": [[{"result": {}}]],
        "session/set_model": [[{"result": {}}]],
    }


def switched(lines: list[dict[str, Any]]) -> list[Any]:
    return [(one["method"], one["params"]) for one in lines if str(one.get("method")).startswith("session/set_")]


BY_OPTION = ("session/set_config_option", {"sessionId": "s1", "configId": "model-option", "value": "big"})
OLDER = ("session/set_model", {"sessionId": "s1", "modelId": "big"})


@pytest.mark.requirement("acp-provider.model.sources", "acp-provider.model.switch", "acp-provider.spec.on-session")
@pytest.mark.parametrize(("how", "call"), [("option", BY_OPTION), ("older", OLDER)])
async def test_models_come_from_the_option_or_the_older_field_and_are_switched_accordingly(
    tmp_path: Path, how: str, call: Any
) -> None:
    offers: list[AcpSessionInfo] = []
    launch = {"selection": Selection("big")}
    async with chatting(tmp_path, models(how), spec={"on_session": offers.append}, launch=launch) as it:
        (offer,) = offers
        assert offer.models[0] == Choice("big", "Big")
        assert ([choice.id for choice in offer.models], offer.model) == (["big", "small"], "small")
        assert switched(it.lines()) == [call]
        assert it.host.events == []


@pytest.mark.requirement("acp-provider.model.switch")
@pytest.mark.parametrize(("how", "call"), [("option", BY_OPTION), ("older", OLDER)])
async def test_a_model_can_be_picked_later_and_the_present_one_is_not_set_again(
    tmp_path: Path, how: str, call: Any
) -> None:
    async with chatting(tmp_path, models(how), launch={"selection": Selection("small")}) as it:
        assert switched(it.lines()) == []
        await it.chat.select(Selection("big"))
        assert switched(it.lines()) == [call]


@pytest.mark.requirement("acp-provider.model.not-offered")
@pytest.mark.parametrize("how", ["option", "older", "none"])
async def test_a_model_that_is_not_offered_keeps_the_agents_own_and_leaves_a_note(tmp_path: Path, how: str) -> None:
    async with chatting(tmp_path, models(how), launch={"selection": Selection("huge")}) as it:
        assert switched(it.lines()) == []
        (note,) = it.host.events
        assert isinstance(note, Note) and "'huge'" in note.text
        assert await it.chat.send("x") == TurnDone("end_turn")


@pytest.mark.requirement("acp-provider.spec.catalog", "acp-provider.spec.model-null")
@pytest.mark.parametrize(
    ("spec", "calls"),
    [({}, [BY_OPTION]), ({"model": lambda picked: "big" if picked.slug == "b" else None}, [])],
)
async def test_the_slug_is_the_model_id_and_null_from_the_function_leaves_the_agent_its_own(
    tmp_path: Path, spec: dict[str, Any], calls: list[Any]
) -> None:
    async with chatting(tmp_path, models("option"), spec=spec, launch={"selection": Selection("big")}) as it:
        assert switched(it.lines()) == calls
        assert it.host.events == []


@pytest.mark.requirement("acp-provider.spec.catalog")
async def test_the_function_may_return_another_id(tmp_path: Path) -> None:
    spec = {"model": lambda picked: f"bi{picked.slug}"}
    async with chatting(tmp_path, models("option"), spec=spec, launch={"selection": Selection("g")}) as it:
        assert switched(it.lines()) == [BY_OPTION]


async def test_a_refused_model_is_a_warning(tmp_path: Path) -> None:
    on = {**models("older"), "session/set_model": [[{"error": {"code": 1, "message": "sold out"}}]]}
    async with chatting(tmp_path, on, launch={"selection": Selection("big")}) as it:
        (note,) = it.host.of(Note)
        assert "sold out" in note.text


@pytest.mark.requirement("acp-provider.model.effort")
@pytest.mark.parametrize(
    ("effort", "options", "calls"),
    [
        ("high", [select("thought_level", "low", "low", "high", option_id="t")], ["high"]),
        ("max", [select("thought_level", "low", "low", "high", option_id="t")], []),
        ("high", [select("other", "low", "low", "high", option_id="t")], []),
        ("high", [], []),
        (None, [select("thought_level", "low", "low", "high", option_id="t")], []),
    ],
)
async def test_an_effort_is_set_where_its_value_is_on_offer(
    tmp_path: Path, effort: str | None, options: list[Any], calls: list[str]
) -> None:
    options = [select("model", "m", "m"), *options]
    on = {"session/new": [[{"result": {"sessionId": "s1", "configOptions": options}}]]}
    async with chatting(tmp_path, on, launch={"selection": Selection("m", effort)}) as it:
        expected = [("session/set_config_option", {"sessionId": "s1", "configId": "t", "value": v}) for v in calls]
        assert switched(it.lines()) == expected


@pytest.mark.requirement("acp-provider.model.effort", "acp-provider.options.set-shape")
async def test_the_effort_is_looked_up_in_what_the_switched_model_offers(tmp_path: Path) -> None:
    before = [select("model", "m", "m", "n"), select("thought_level", "low", "low")]
    after = [select("model", "n", "m", "n"), select("thought_level", "low", "low", "deep")]
    on: dict[str, Any] = {
        "session/new": [[{"result": {"sessionId": "s1", "configOptions": before}}]],
        "session/set_config_option": [[{"result": {"configOptions": after}}]],
    }
    async with chatting(tmp_path, on, launch={"selection": Selection("n", "deep")}) as it:
        assert [params["value"] for _, params in switched(it.lines())] == ["n", "deep"]
        assert it.chat.info.options[0].current == "n"


@pytest.mark.requirement("acp-provider.spec.on-session")
async def test_the_host_hears_what_a_continued_session_offers_too(tmp_path: Path) -> None:
    offers: list[AcpSessionInfo] = []
    modes = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}]}
    on = {"session/resume": [[{"result": {"modes": modes, "configOptions": [select("weird", "x", "x")]}}]]}
    launch = {"session_id": "old", "on_event": Host()}
    async with chatting(tmp_path, on, spec={"on_session": offers.append}, launch=launch):
        (offer,) = offers
        assert (offer.session_id, offer.modes, offer.mode) == ("old", (Choice("ask", "Ask"),), "ask")
        assert [option.id for option in offer.options] == ["weird"]
