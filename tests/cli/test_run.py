"""`sluice run` against a scripted agent: on a pseudo-terminal, through pipes, and its messages."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sluice.cli.main import build_parser
from sluice.cli.run import explain, serve_command
from sluice.client.errors import AgentExited
from sluice.client.fake_agent import Script
from sluice.wire.peer import RemoteError
from tests.cli.support import PATIENCE, Terminal, converse
from tests.client.support import ask, chunk

END_TURN: Mapping[str, Any] = {"result": {"stopReason": "end_turn"}}


OURS = re.compile("\x1b\\[([0-9]+A|K|J)")
"""What this program moves the cursor with; an escape sequence of any other form came from the agent."""


def piped(arguments: list[str], given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, *arguments], input=given, capture_output=True, timeout=PATIENCE)


def answers(script: Script) -> dict[Any, Any]:
    return {line["id"]: line["result"] for line in script.received() if "result" in line}


def selected(option: str) -> dict[str, Any]:
    return {"outcome": {"outcome": "selected", "optionId": option}}


def prompts(script: Script) -> list[str]:
    return [
        line["params"]["prompt"][0]["text"] for line in script.received() if line.get("method") == "session/prompt"
    ]


# --- on a terminal


@pytest.mark.parametrize(
    ("key", "option"),
    [
        *(("y", "yes"), ("a", "always"), ("n", "no"), ("\x04", "no"), ("xqN", "no")),
        # An arrow or a word holds letters that would approve; nobody has pressed them.
        *(("\x1b[An", "no"), ("\x1bOAn", "no"), ("\x1b[200~yes\x1b[201~n", "no"), ("maybe not", "no")),
    ],
)
def test_a_permission_is_answered_with_one_key(tmp_path: Path, key: str, option: str) -> None:
    question = ask("p")
    question["send"]["params"]["toolCall"]["rawInput"] = {"cmd": "rm -r \x1b[2K."}
    script = Script(
        on={"session/prompt": [[question, {"wait": {"response": "p"}}, {"update": chunk("ok")}, END_TURN]]}
    )
    with Terminal(converse(script.command(tmp_path), tmp_path, prompt="go")) as terminal:
        shown = terminal.expect("[n] reject")
        assert "permission: run it" in shown
        assert "cmd: rm -r \\x1b[2K." in shown
        assert "\x1b" not in OURS.sub("", shown)
        assert not terminal.echoes()
        terminal.type(key)
        terminal.expect("ok")
        assert terminal.wait() == 0
        assert answers(script)["p"] == selected(option)


def test_only_keys_the_agent_has_an_option_for_are_offered(tmp_path: Path) -> None:
    question = ask("p", options=[{"optionId": "never", "name": "No", "kind": "reject_always"}])
    script = Script(on={"session/prompt": [[question, {"wait": {"response": "p"}}, END_TURN]]})
    with Terminal(converse(script.command(tmp_path), tmp_path, prompt="go")) as terminal:
        shown = terminal.expect("[n] reject")
        assert "[y]" not in shown
        assert "[a]" not in shown
        terminal.type("yan")
        assert terminal.wait() == 0
        assert answers(script)["p"] == selected("never")


def test_what_was_typed_before_the_question_does_not_answer_it(tmp_path: Path) -> None:
    steps = [ask("first"), {"wait": {"response": "first"}}, ask("p"), {"wait": {"response": "p"}}, END_TURN]
    script = Script(on={"session/prompt": [steps]})
    with Terminal(converse(script.command(tmp_path), tmp_path, prompt="go")) as terminal:
        terminal.expect("[n] reject")
        terminal.type("nyyy")
        terminal.expect("n: reject")
        terminal.expect("[n] reject")
        terminal.type("n")
        assert terminal.wait() == 0
        assert answers(script)["p"] == selected("no")


def test_the_first_interrupt_cancels_the_turn_and_answers_the_open_question(tmp_path: Path) -> None:
    script = Script(
        on={"session/prompt": [[ask("p"), {"wait": "session/cancel"}, {"result": {"stopReason": "cancelled"}}]]}
    )
    with Terminal(converse(script.command(tmp_path), tmp_path, prompt="go")) as terminal:
        terminal.expect("[n] reject")
        terminal.type("\x03")
        terminal.expect("cancelling; press ctrl-c again to leave")
        terminal.expect("cancelled")
        assert terminal.wait() == 130
        assert answers(script)["p"] == {"outcome": {"outcome": "cancelled"}}
        methods = [line.get("method") for line in script.received()]
        assert methods.count("session/cancel") == 1


def test_a_second_interrupt_leaves_an_agent_that_does_not_answer(tmp_path: Path) -> None:
    steps: list[Mapping[str, Any]] = [{"update": chunk("working")}, {"wait": "never"}]
    script = Script(on={"session/prompt": [steps], "session/close": [[{"result": {}}]]}, ignore_term=True)
    with Terminal(converse(script.command(tmp_path), tmp_path, prompt="go")) as terminal:
        terminal.expect("working")
        terminal.type("\x03")
        terminal.expect("again to leave")
        terminal.type("\x03")
        assert terminal.wait() == 130
        assert "Traceback" not in terminal.output


def test_a_conversation_goes_on_after_a_cancelled_and_a_failed_turn_and_ends_with_the_input(tmp_path: Path) -> None:
    script = Script(
        on={
            "session/prompt": [
                [{"update": chunk("one")}, {"wait": "session/cancel"}, {"result": {"stopReason": "cancelled"}}],
                [{"error": {"code": -32603, "message": "failed", "data": {"error": "no \x1bmodel"}}}],
                [{"update": chunk("three")}, END_TURN],
            ]
        }
    )
    with Terminal(converse(script.command(tmp_path), tmp_path)) as terminal:
        terminal.expect("talking to fake-agent")
        terminal.expect("> ")
        terminal.type("first\n")
        terminal.expect("one")
        terminal.type("\x03")
        terminal.expect("cancelled\n")
        terminal.expect("> ")
        terminal.type("second\n")
        terminal.expect("sluice: failed: no \\x1bmodel")
        terminal.expect("> ")
        terminal.type("\n")
        terminal.expect("> ")
        terminal.type("third\n")
        terminal.expect("three")
        terminal.expect("> ")
        terminal.type("\x04")
        assert terminal.wait() == 0
        assert prompts(script) == ["first", "second", "third"]


@pytest.mark.requirement("config-file.agents.welcome-message")
def test_the_welcome_message_is_shown_before_the_first_prompt(tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text(
        "agents:\n  root:\n    model: openai/x\n    welcome_message: Hello from the author\n", encoding="utf-8"
    )
    arguments = [
        "-m",
        "sluice",
        "run",
        str(file),
        "--session-db",
        str(tmp_path / "s.db"),
        "--working-dir",
        str(tmp_path),
    ]
    with Terminal(arguments, OPENAI_API_KEY="not-a-key") as terminal:
        terminal.expect("Hello from the author")
        terminal.expect("> ")
        terminal.type("\x04")
        assert terminal.wait() == 0


def test_an_interrupt_at_the_prompt_leaves(tmp_path: Path) -> None:
    script = Script()
    with Terminal(converse(script.command(tmp_path), tmp_path)) as terminal:
        terminal.expect("> ")
        terminal.type("half a line")
        terminal.expect("half a line")
        terminal.interrupt()
        assert terminal.wait() == 130
        assert "Traceback" not in terminal.output
        assert prompts(script) == []


def test_an_agent_that_dies_is_one_line_and_the_terminal_is_as_it_was(tmp_path: Path) -> None:
    script = Script(on={"session/prompt": [[ask("p"), {"wait": "session/cancel"}, {"stderr": "boom"}, {"exit": 7}]]})
    with Terminal(converse(script.command(tmp_path), tmp_path, prompt="go")) as terminal:
        terminal.expect("[n] reject")
        terminal.type("\x03")
        terminal.expect("exited with status 7 (session/prompt): boom")
        assert terminal.wait() == 1
        assert "Traceback" not in terminal.output


def test_colours_only_without_no_color(tmp_path: Path) -> None:
    tool = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "T", "status": "completed"}
    script = Script(on={"session/prompt": [[{"update": tool}, END_TURN]]})
    with Terminal(converse(script.command(tmp_path), tmp_path, prompt="go"), NO_COLOR="") as terminal:
        terminal.expect("\x1b[32m✓\x1b[0m T")
        assert terminal.wait() == 0


# --- through pipes


def test_piped_output_is_the_plain_text(tmp_path: Path) -> None:
    tool = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "T", "status": "completed"}
    steps = [{"update": chunk("a\x1b[31m")}, {"update": tool}, {"update": chunk("b")}, END_TURN]
    script = Script(on={"session/prompt": [steps]})
    done = piped(converse(script.command(tmp_path), tmp_path, prompt="go"))
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == "a\\x1b[31m\n[done] T\nb\n"


@pytest.mark.parametrize(("yes", "option"), [(False, "no"), (True, "yes")])
def test_piped_input_approves_nothing_unless_told_to(tmp_path: Path, yes: bool, option: str) -> None:
    script = Script(on={"session/prompt": [[ask("p"), {"wait": {"response": "p"}}, END_TURN]]})
    done = piped(converse(script.command(tmp_path), tmp_path, prompt="go", yes=yes), b"y\ny\ny\n")
    assert done.returncode == 0
    assert answers(script)["p"] == selected(option)
    assert (b"rejected, as there is no terminal to ask on (--yes allows): run it" in done.stderr) is not yes


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        ({"result": {"stopReason": "refusal"}}, 1, "the agent refused to go on"),
        ({"result": {"stopReason": "max_tokens"}}, 0, "output limit"),
        ({"result": {"stopReason": "to\x07ld"}}, 0, "unknown reason: to\\x07ld"),
        ({"result": None}, 0, "unknown reason: none"),
        (
            {"error": {"code": -32603, "message": "broken", "data": {"runtimeCode": "x", "error": "why"}}},
            1,
            "broken: why",
        ),
    ],
)
def test_the_exit_status_tells_how_the_turn_ended(tmp_path: Path, answer: Any, status: int, said: str) -> None:
    script = Script(on={"session/prompt": [[answer]]})
    done = piped(converse(script.command(tmp_path), tmp_path, prompt="go"))
    assert done.returncode == status
    assert said in (done.stdout + done.stderr).decode()


def test_an_agent_that_cannot_be_started_is_one_line(tmp_path: Path) -> None:
    done = piped(converse([str(tmp_path / "nothing")], tmp_path, prompt="go"))
    assert done.returncode == 1
    assert done.stderr.decode() == f"sluice: cannot start {tmp_path}/nothing: command not found\n"


@pytest.mark.parametrize("prompt", [[], [""], [" \n"]])
def test_no_prompt_at_all_is_wrong_usage(tmp_path: Path, prompt: list[str]) -> None:
    done = piped(["-m", "sluice", "run", str(tmp_path / "agent.yaml"), *prompt], b"  \n")
    assert done.returncode == 2
    assert b"nothing to do" in done.stderr


def test_a_reader_that_leaves_ends_the_run_quietly(tmp_path: Path) -> None:
    steps = [{"update": chunk("x" * 1000 + "\n")} for _ in range(300)]
    script = Script(on={"session/prompt": [[*steps, {"wait": "never"}]]})
    program = subprocess.Popen(
        [sys.executable, *converse(script.command(tmp_path), tmp_path, prompt="go")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    )
    assert program.stdout is not None
    assert program.stderr is not None
    with program.stdout, program.stderr:
        program.stdout.read(100)
        program.stdout.close()
        assert program.stderr.read() == b""
        assert program.wait(PATIENCE) != 0


def test_the_team_of_the_examples_plays_its_scripts(tmp_path: Path) -> None:
    example = str(Path(__file__).parents[2] / "examples" / "team.yaml")
    where = ["--data-dir", str(tmp_path), "--working-dir", str(tmp_path)]
    said = piped(["-m", "sluice", "run", example, "Write a haiku.", *where], b"").stdout.decode()
    assert "[done] transfer_task: poet" in said and "every arrow has a name." in said
    assert said.splitlines()[-1].startswith("I am the critic")
    again = piped(["-m", "sluice", "run", "--continue", example, "And now?", *where], b"").stdout.decode()
    assert again.splitlines()[-1].startswith("Still the critic.")


# --- its parts


def options(*arguments: str) -> argparse.Namespace:
    return build_parser().parse_args(["run", *arguments])


def test_the_shared_flags_reach_the_server_and_a_strange_file_name_stays_a_file_name() -> None:
    flags = ["--working-dir=/w", "--data-dir=/d", "--config-dir=/c", "-s", "/s", "--log-file=/l"]
    flags += ["--env-from-file=/1", "--env-from-file", "/2", "--debug"]
    flags += ["--hook-stop=a b", "--hook-stop=-c", "--hook-pre-tool-use=d"]
    command = serve_command(options(*flags, "--", "-odd.yaml"))
    assert command[:3] == [sys.executable, "-m", "sluice"]
    served = build_parser().parse_args(command[3:])
    given = options(*flags, "--", "-odd.yaml")
    for name in (
        "working_dir",
        "data_dir",
        "config_dir",
        "session_db",
        "log_file",
        "env_from_file",
        "debug",
        "hook_stop",
        "hook_pre_tool_use",
    ):
        assert getattr(served, name) == getattr(given, name)
    assert served.agent_file == "-odd.yaml"
    assert "--debug" not in serve_command(options("a.yaml"))


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            RemoteError(-32603, "bad", {"file": "a.yaml", "line": 3, "key": "agents.root", "error": "unknown key"}),
            "a.yaml:3: agents.root: unknown key",
        ),
        (
            RemoteError(-32603, "bad", {"file": "a.yaml", "line": None, "key": None, "error": "no file"}),
            "a.yaml: no file",
        ),
        (
            RemoteError(-32000, "Authentication required", {"message": "no key"}),
            "Authentication required: no key; --env-from-file names a file that has it",
        ),
        (RemoteError(-32000, "Log in"), "Log in; set the agent's API key variable"),
        (RemoteError(1, "m", [1]), "m"),
        (RemoteError(1, "m\n\x1b]0;x\x07", {"error": "m"}), "m\\n\\x1b]0;x\\x07: m"),
        (AgentExited("gone\x1b"), "gone\\x1b"),
    ],
)
def test_an_error_is_explained_in_one_printable_line(error: Exception, line: str) -> None:
    assert explain(error) == line
