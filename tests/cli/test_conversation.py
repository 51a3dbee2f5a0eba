"""A conversation on a terminal, with our own agent and with scripted ones: local commands, sessions, choices."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sluice.cli.local_commands import HELP, is_local
from sluice.cli.opening import NoSession, find_session
from sluice.cli.settings import UnknownChoice, choose, status_parts
from sluice.client.fake_agent import Script
from sluice.client.session import Session, SessionEntry
from sluice.client.updates import ConfigOption, Usage
from tests.cli.support import Terminal, converse
from tests.client.support import chunk
from tests.support.screen import seen

EXAMPLE = Path(__file__).parents[2] / "examples" / "scripted.yaml"
END_TURN: Mapping[str, Any] = {"result": {"stopReason": "end_turn"}}


def run(tmp_path: Path, *more: str, **environment: str) -> Terminal:
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    flags = [
        "--data-dir",
        str(tmp_path / "data"),
        "--config-dir",
        str(tmp_path / "config"),
        "--working-dir",
        str(work),
    ]
    return Terminal(["-m", "sluice", "run", str(EXAMPLE), *flags, *more], **environment)


def test_modes_and_models_are_shown_and_chosen(tmp_path: Path) -> None:
    with run(tmp_path) as terminal:
        terminal.expect("> ")
        terminal.type(":mode\n")
        assert "*  1  default" in terminal.expect("\n> ")
        terminal.type(":mode bal\n")
        terminal.expect("mode: balanced\n> ")
        terminal.type(":mode\n")
        assert "*  3  balanced" in terminal.expect("\n> ")
        terminal.type(":mode nonsense\n")
        terminal.expect("mode: there is no 'nonsense', but default, strict")
        terminal.type(":model script\n")
        terminal.expect("model: model:script")
        terminal.type("hello\n")
        terminal.expect("mode Balanced")
        terminal.type(":nonsense\n")
        terminal.expect("there is no :nonsense; :help shows what there is")
        terminal.type(":quit\n")
        assert terminal.wait() == 0


def test_commands_of_both_sides_are_completed(tmp_path: Path) -> None:
    with run(tmp_path) as terminal:
        terminal.expect("> ")
        terminal.type("/us\t")
        terminal.expect("/usage ")
        terminal.type("\n")
        terminal.expect("Context:")
        terminal.expect("> ")
        terminal.type(":mo\t\t\t")
        assert ":mode" in terminal.expect(":model")
        terminal.type(" str\t\n")
        terminal.expect("mode: strict\n> ")
        terminal.type(":help\n")
        assert "/usage" in terminal.expect("\n> ")
        terminal.type(":q\n")
        assert terminal.wait() == 0


def test_a_session_is_continued_with_its_history_shown(tmp_path: Path) -> None:
    with run(tmp_path, "hello") as terminal:
        assert terminal.wait() == 0
    with run(tmp_path, "--continue") as terminal:
        shown = terminal.expect("talking to")
        assert seen(shown)[0] == "> hello"
        assert "I am a scripted model" in shown
        terminal.expect("\n> ")
        terminal.type(":sessions\n")
        identity = terminal.expect("  hello").split()[-2]
        terminal.type("goodbye\n")
        terminal.expect("I am only a script")
        terminal.expect("\n> ")
        terminal.type(":new\n")
        terminal.expect("session ")
        terminal.expect("\n> ")
        terminal.type(f":resume {identity}\n")
        assert "> goodbye" in terminal.expect("session ")
        terminal.expect("\n> ")
        terminal.type("\x04")
        assert terminal.wait() == 0
    with run(tmp_path, "--resume") as terminal:
        terminal.expect("  hello")
        terminal.expect("resume which? ")
        terminal.type("2\n")
        assert "> goodbye" in terminal.expect("talking to")
        terminal.expect("\n> ")
        terminal.type("\x04")
        assert terminal.wait() == 0
    with run(tmp_path, f"--resume={identity}", "edit", "--yes") as terminal:
        assert "> goodbye" in terminal.expect("Now I change its second line.")
        assert terminal.wait() == 0


def test_what_cannot_be_opened_is_one_line(tmp_path: Path) -> None:
    for flag, said in (
        ("--continue", f"sluice: no session of {tmp_path}/work is stored yet"),
        ("--resume=nothing", "sluice: no session begins with 'nothing'"),
        ("--mode=nothing", "sluice: mode: there is no 'nothing'"),
    ):
        with run(tmp_path, flag) as terminal:
            assert terminal.wait() == 1
            assert said in terminal.output.replace("\n", "")


def test_mode_and_model_may_be_named_beforehand(tmp_path: Path) -> None:
    with run(tmp_path, "--mode=autonomous", "--model=script", "demo") as terminal:
        terminal.expect("Hello from the shell, in ")
        assert terminal.wait() == 0
        assert "permission" not in terminal.output
        assert "mode Autonomous · model script" in terminal.output


def test_a_turn_is_drawn_in_place_and_stays_as_it_ended(tmp_path: Path) -> None:
    with run(tmp_path, "demo", NO_COLOR="", TERM="xterm-256color") as terminal:
        terminal.expect("reject")
        assert not terminal.echoes()
        terminal.type("y")
        assert terminal.wait() == 0
        lines = seen(terminal.output)
        assert lines[:4] == [
            "~ A harmless command shows best how a call is approved.",
            "",
            "I would like to run one harmless command.",
            "",
        ]
        assert lines[4].startswith("permission: shell: echo Hello")
        assert "✓ shell: echo Hello from the shell, in $(pwd)" in lines
        assert not any("pending" in line or "ctrl-c stops" in line for line in lines)


def test_keys_typed_during_a_turn_are_not_shown_in_it(tmp_path: Path) -> None:
    steps: list[Mapping[str, Any]] = [{"update": chunk("working")}, {"wait": "session/cancel"}, END_TURN]
    script = Script(on={"session/prompt": [steps, [{"update": chunk("second")}, END_TURN]]})
    with Terminal(converse(script.command(tmp_path), tmp_path)) as terminal:
        terminal.expect("> ")
        terminal.type("first\n")
        terminal.expect("working")
        assert not terminal.echoes()
        terminal.type("ahead")
        terminal.type("\x03")
        assert "ahead" not in terminal.expect("cancelled\n")
        terminal.expect("> ")
        terminal.interrupt()
        assert terminal.wait() == 130


def test_plain_output_moves_no_cursor_even_on_a_terminal(tmp_path: Path) -> None:
    with run(tmp_path, "--plain", "--yes", "demo") as terminal:
        assert "[pending] shell: echo" in terminal.expect("[done] shell: echo")
        assert terminal.wait() == 0
        assert "\x1b" not in terminal.output
    with run(tmp_path, "hello", TERM="dumb") as terminal:
        assert terminal.wait() == 0
        assert "\x1b" not in terminal.output


def test_a_colon_and_a_letter_begin_a_local_command_and_nothing_else_does() -> None:
    assert all(is_local(name) for name in HELP)
    assert not any(is_local(line) for line in (":-)", ":", " :mode", "/mode", "a :mode", ": mode", ""))


def test_a_choice_is_named_by_id_number_name_or_beginning() -> None:
    values = [("m1", "Fast"), ("m2", "Faster"), ("2", "Odd")]
    assert [choose(values, wanted, "x") for wanted in ("m1", "fast", "FASTER", "m2", "2", "1", "o")] == [
        "m1",
        "m1",
        "m2",
        "m2",
        "2",
        "m1",
        "2",
    ]
    for wanted, said in (
        ("fas", "could be m1 or m2"),
        ("zz", "there is no 'zz', but m1, m2, 2"),
        ("", "there is no ''"),
    ):
        with pytest.raises(UnknownChoice, match=said):
            choose(values, wanted, "x")


def test_a_session_is_named_by_id_beginning_or_number() -> None:
    entries = [SessionEntry("abc", "/"), SessionEntry("abd", "/"), SessionEntry("x", "/")]
    assert [find_session(entries, wanted).session_id for wanted in ("abc", "x", "2")] == ["abc", "x", "abd"]
    for wanted, said in (("ab", "2 sessions begin"), ("", "no session begins"), ("9", "no session")):
        with pytest.raises(NoSession, match=said):
            find_session(entries, wanted)


def test_the_status_says_what_is_known() -> None:
    session = Session("s", os.sep)
    assert status_parts(None) == status_parts(session) == []
    session.usage = Usage(1234, 200_000, (0.01234, "USD"))
    session.options = (ConfigOption("m", "Model", "model", "a", (("a", "Model A"),)),)
    assert status_parts(session) == ["1.2k of 200k tokens", "$0.0123", "model Model A"]
