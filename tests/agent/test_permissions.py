"""Rules, modes and grants: what may run, what is asked about, what is denied."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.agent import shell_words
from sluice.agent.permissions import Approval, Rules, parse_rule
from sluice.agent.ports import Tool, ToolContext, ToolResult, ToolSpec
from sluice.agent.shell_labels import label
from tests.agent.shell_corpus import CORPUS
from tests.agent.shell_disguises import DISGUISES, LINES

MODES = ("default", "strict", "balanced", "restricted", "autonomous")

EXPECTED: Mapping[str, tuple[str, str, str, str, str]] = {
    "annotated": ("allow", "ask", "allow", "allow", "allow"),
    "safe": ("ask", "ask", "allow", "allow", "allow"),
    "destructive": ("ask", "ask", "ask", "deny", "allow"),
    "unknown": ("ask", "ask", "ask", "deny", "allow"),
}
"""Label -> the decision in each of the modes, in their order."""


async def run(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
    raise AssertionError("a decision runs nothing")


def tool(name: str, **more: Any) -> Tool:
    return Tool(ToolSpec(name, "", {"type": "object"}), run, **more)


SHELL = tool("shell", subject="cmd")


def shell(line: str, mode: str = "default", **rules: Any) -> str:
    return Approval(mode, Rules.of(**rules)).decide(SHELL, {"cmd": line})


# --- modes and the classifier


def test_the_corpus_is_large_and_says_each_thing_once() -> None:
    lines = [line for line, _ in (*CORPUS, *LINES)]
    assert len(lines) == len(set(lines)) >= 350


def test_a_disguise_never_makes_a_line_harmless_and_each_is_tried() -> None:
    expected = {";", "&&", "|", "$()", "backticks", "newlines", "here-documents", "env X=1", "xargs", "find -exec"}
    assert expected | {"redirections", "unicode spaces"} <= set(DISGUISES)
    for trick, lines in DISGUISES.items():
        assert any(label != "safe" for _, label in lines), trick
        # The harmless ones of the table are those whose every special character is quoted or a plain word.
        assert all(
            line.startswith(("echo ", "ls '", "'ls'", "find . -name exec")) for line, one in lines if one == "safe"
        )


@pytest.mark.requirement(
    "tools.shell.classifier",
    "modes.balanced.labels",
    "modes.restricted.never-asks",
    "modes.default.not-balanced",
    "modes.strict.asks-all",
)
@pytest.mark.parametrize(
    ("line", "expected"), [*CORPUS, *LINES], ids=[ascii(line)[:60] for line, _ in (*CORPUS, *LINES)]
)
def test_each_line_of_the_corpus_has_its_decision_in_each_mode(line: str, expected: str) -> None:
    assert label(line) == expected
    assert tuple(shell(line, mode) for mode in MODES) == EXPECTED[expected]


@pytest.mark.requirement("modes.default.read-only-auto", "modes.strict.asks-all", "modes.autonomous.allows-all")
@pytest.mark.parametrize(
    ("more", "label"),
    [
        ({"read_only": True}, "annotated"),
        ({"destructive": True}, "destructive"),
        ({"destructive": False}, "unknown"),
        ({}, "unknown"),
    ],
    ids=str,
)
def test_other_tools_are_sorted_by_their_annotations(more: dict[str, Any], label: str) -> None:
    decisions = tuple(Approval(mode).decide(tool("x", **more), {"cmd": "ls"}) for mode in MODES)
    assert decisions == EXPECTED[label]


def test_a_foreign_tool_called_shell_is_not_judged_by_its_command() -> None:
    assert Approval("balanced").decide(tool("shell"), {"cmd": "ls"}) == "ask"
    assert Approval("balanced").decide(tool("run_background_job", subject="cmd"), {"cmd": "ls"}) == "allow"
    assert Approval("balanced").decide(SHELL, {"cmd": 3}) == "ask"


@pytest.mark.requirement("modes.persist.unknown-stored")
def test_a_mode_of_unknown_name_is_strict() -> None:
    assert Approval("reckless").decide(tool("x", read_only=True), {}) == "ask"


def test_without_a_parser_nothing_is_safe_nothing_is_allowed_and_denials_still_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shell_words, "_parser", lambda: None)
    shell_words.parse.cache_clear()
    try:
        assert label("ls") == "unknown"
        assert shell("ls", allow=("shell:cmd=ls*",)) == "ask"
        assert shell("true; sudo 'x'", "autonomous", deny=("shell:cmd=sudo *",)) == "deny"
        assert label("rm x") == "destructive"
    finally:
        shell_words.parse.cache_clear()


@pytest.mark.requirement("tools.shell.classifier")
@given(st.text(alphabet="ls rm-\\'\"$`;&|<>(){}\n\t*~#!=", max_size=30).map(lambda text: f"ls {text}"))
def test_what_is_safe_is_one_simple_command_of_written_words(line: str) -> None:
    if label(line) == "safe":
        parsed = shell_words.parse(line)
        assert parsed is not None and parsed.plain and len(parsed.commands) == 1
        for more in (" ; x", " && x", " | x", " > x", " $(x)", " `x`", " & x", "\nx", " <x"):
            assert label(line.rstrip("\n") + more) != "safe"


@given(st.text(max_size=60))
def test_no_line_makes_the_classifier_fail(line: str) -> None:
    assert label(line) in ("safe", "destructive", "unknown")


UNREADABLE = """
import random
from sluice.agent import shell_words
from sluice.agent.shell_labels import label

rng = random.Random(7)
letters = "ls rm-'$`;&|<>(){}[]~#=" + chr(0xE9) + chr(0x3FB) + chr(0x771A8) + chr(0x1F600) + chr(0xFBA6F)
for turn in range(400):
    shell_words._parser.cache_clear()  # the crash depends on where in memory the parser lies
    for line in ("{" + chr(0x771A8), "t2{" + chr(0x771A8) + ":", "echo {" + chr(0x1F600) + "}",
                 "".join(rng.choice(letters) for _ in range(rng.randrange(1, 40)))):
        shell_words.parse.cache_clear()
        label(line)
print("alive")
"""


def test_characters_the_grammar_has_no_table_for_do_not_end_the_process() -> None:
    """A process of its own, because the naive form ends it with a segmentation fault."""
    done = subprocess.run([sys.executable, "-c", UNREADABLE], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr[-500:]


def test_the_grammar_is_shown_ascii_only_and_the_words_are_those_of_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[bytes] = []
    found = shell_words._parser()
    assert found is not None
    real = found

    class Watched:
        def parse(self, data: bytes) -> object:
            shown.append(data)
            return real.parse(data)

    monkeypatch.setattr(shell_words, "_parser", Watched)
    shell_words.parse.cache_clear()
    try:
        line = shell_words.parse("cat 'é😀' {ü😀} naïve; rm Ö")
        assert line is not None
        assert [command.words for command in line.commands] == [("cat", "é😀", "{ü😀}", "naïve"), ("rm", "Ö")]
        assert label("cat é😀.txt") == "safe" and label("rm -rf é😀") == "destructive"
        assert shell("echo ok; sudo é", "autonomous", deny=("shell:cmd=sudo *",)) == "deny"
        assert shown and all(data.isascii() for data in shown)
    finally:
        shell_words.parse.cache_clear()


# --- rules about commands


ALLOWED = [
    ("ls*", "ls"),
    ("ls*", "ls -la 'a b'"),
    ("ls *", "ls -la"),
    ("ls", "  ls  "),
    ("LS*", "ls -l"),
    ("git push*", "git push origin main"),
    ("git * --stat", "git diff --stat"),
    ("git * --stat", "git show HEAD --stat"),
    ("npm run test:*", "npm run test:unit"),
    ("cat src/*", "cat src/a.py"),
    ("cat ?", "cat a"),
    ("cat [a-c]", "cat b"),
    ("cat [^a-c]", "cat d"),
    (r"cat \*", r"cat \*"),
    ("cat [", "cat '['"),
    ("*", "make all"),
    ("rm -rf build", "rm -rf 'build'"),
]

NOT_ALLOWED = [
    ("ls*", "lsof"),
    ("ls*", "ls; rm x"),
    ("ls*", "ls && rm x"),
    ("ls*", "ls | sh"),
    ("ls*", "ls\nrm x"),
    ("ls*", "ls $(rm x)"),
    ("ls*", "ls `rm x`"),
    ("ls*", "ls > x"),
    ("ls*", "A=1 ls"),
    ("ls*", "ls *"),
    ("ls*", "ls $HOME"),
    ("ls*", "ls & rm x"),
    ("ls*", "ls\u00a0-la"),
    ("ls*", "ls 'unclosed"),
    ("ls *", "ls"),
    ("ls", "ls -la"),
    ("git push*", "git pushx"),
    ("git push*", "git push; rm x"),
    ("cat src/*", "cat src/a /etc/passwd"),
    ("cat src/*", "cat src/../secret"),
    ("cat*", "cat --x=../secret"),
    ("cat [a-c]", "cat d"),
    ("cat ?", "cat ab"),
    ("*", "ls; pwd"),
    ("*", "echo $(pwd)"),
    ("", "ls"),
    ("echo *", "echo a b && x"),
]


@pytest.mark.requirement("permission.grant.shell-words")
@pytest.mark.parametrize(("pattern", "line"), ALLOWED)
def test_an_allowing_rule_covers_the_words_it_names(pattern: str, line: str) -> None:
    assert shell(line, allow=(f"shell:cmd={pattern}",)) == "allow"


@pytest.mark.requirement("permission.grant.shell-words")
@pytest.mark.parametrize(("pattern", "line"), NOT_ALLOWED)
def test_an_allowing_rule_lets_no_other_command_through(pattern: str, line: str) -> None:
    assert shell(line, allow=(f"shell:cmd={pattern}",)) == "ask"


@pytest.mark.requirement("modes.precedence.kept", "modes.autonomous.allows-all")
@pytest.mark.parametrize(
    "line",
    [
        "sudo x",
        "true; sudo x",
        "true && sudo x",
        "echo $(sudo x)",
        "/usr/bin/sudo x",
        "'sudo' x",
        r"s\udo x",
        "A=1 sudo x",
        "env sudo x",
        "xargs sudo x",
        "bash -c 'true; sudo x'",
        "echo 'sudo x' | sh",
        "bash <<EOF\nsudo x\nEOF",
        "find . -exec sudo x {} +",
        "(sudo  x)",
        "SUDO x",
        "sudo 'unclosed",
        "true; sudo 'unclosed",
    ],
)
def test_a_denial_finds_its_command_anywhere_in_a_line_in_every_mode(line: str) -> None:
    assert [shell(line, mode, deny=("shell:cmd=sudo *",)) for mode in MODES] == ["deny"] * 5
    assert shell("echo sudoku", "autonomous", deny=("shell:cmd=sudo *",)) == "allow"


def test_the_other_name_of_the_command_argument_works_in_rules() -> None:
    assert shell("ls", allow=("shell:command=ls",)) == "allow"


@pytest.mark.requirement("permission.order.decision-chain")
def test_a_denial_beats_an_approval_and_an_approval_beats_a_question() -> None:
    rules: dict[str, Any] = {"deny": ("shell:cmd=rm *",), "allow": ("shell",), "ask": ("shell:cmd=git *",)}
    assert shell("rm x", **rules) == "deny"
    assert shell("make; rm x", **rules) == "deny"
    assert shell("git push", **rules) == "allow"


# --- rules in general


@pytest.mark.parametrize(
    ("rule", "name", "arguments", "met"),
    [
        ("read_*", "read_file", {}, True),
        ("READ_*", "read_file", {}, True),
        ("read_file", "read_files", {}, False),
        ("x:a=1", "x", {"a": 1}, True),
        ("x:a=1", "x", {"a": 1.0}, True),
        ("x:a=true", "x", {"a": True}, True),
        ("x:a=1", "x", {"b": 1}, False),
        ("x:a=1:b=2", "x", {"a": 1, "b": 2}, True),
        ("x:a=1:b=2", "x", {"a": 1, "b": 3}, False),
        ("x:a=1:a=2", "x", {"a": 1}, False),
        ("x:url=http://y:80/*", "x", {"url": "http://y:80/a\nb"}, True),
        ("write_file:path=src/*", "write_file", {"path": "src/a/b"}, True),
        ("write_file:path=src/*", "write_file", {"path": "src/../x"}, False),
        ("r:paths=src/*", "r", {"paths": ["src/a", "src/b"]}, True),
        ("r:paths=src/*", "r", {"paths": ["src/a", "b"]}, False),
        ("r:paths=src/*", "r", {"paths": []}, False),
        ("mcp__*__delete*", "mcp__srv__delete_all", {}, True),
    ],
)
def test_an_allowing_rule_needs_all_its_conditions(
    rule: str, name: str, arguments: dict[str, Any], met: bool
) -> None:
    assert (Rules.of(allow=[rule]).decide(name, arguments) == "allow") is met


@pytest.mark.parametrize(
    ("rule", "arguments"),
    [
        ("w:path=/etc/*", {"path": "/etc/passwd"}),
        ("w:path=/etc/*", {"path": "/tmp/../etc/passwd"}),
        ("w:path=/etc/*", {"path": "//etc/passwd"}),
        ("w:paths=*.key", {"paths": ["a.txt", "b.key"]}),
    ],
)
def test_a_denial_sees_through_the_spelling_of_a_path_and_every_item_of_a_list(
    rule: str, arguments: dict[str, Any]
) -> None:
    assert Rules.of(deny=[rule]).decide("w", arguments) == "deny"


def test_only_an_argument_separates_conditions() -> None:
    assert parse_rule("a:b:c=d:e:f=g").conditions == (("c", "d:e"), ("f", "g"))
    assert parse_rule("a:b:c=d:e:f=g").tool == "a:b"


# --- grants, and whose rules come first


@pytest.mark.requirement("permission.grant.tool-only", "modes.grants.survive-switch")
@pytest.mark.parametrize("mode", MODES)
def test_a_grant_covers_its_tool_in_every_mode_and_no_other(mode: str) -> None:
    approval = Approval(mode, grants={"shell"})
    assert approval.decide(SHELL, {"cmd": "make; x"}) == "allow"
    assert approval.decide(tool("write"), {}) == Approval(mode).decide(tool("write"), {})
    denied = Approval(mode, Rules.of(deny=["shell"]), grants={"shell"})
    assert denied.decide(SHELL, {"cmd": "ls"}) == "deny"


@pytest.mark.requirement(
    "modes.precedence.kept", "modes.precedence.team-ask-yields", "permission.order.decision-chain"
)
def test_the_session_speaks_before_the_user_and_the_user_before_the_team() -> None:
    ask, allow, deny = Rules.of(ask=["x"]), Rules.of(allow=["x"]), Rules.of(deny=["x"])
    x = tool("x")

    def decisions(**rules: Any) -> list[str]:
        return [Approval(mode, **rules).decide(x, {}) for mode in MODES]

    assert decisions(session=ask, team=allow, user=allow) == ["ask"] * 5
    assert decisions(user=ask, team=allow) == ["ask", "ask", "ask", "deny", "allow"]
    assert decisions(team=ask) == ["ask", "ask", "ask", "deny", "allow"]
    assert decisions(team=ask, user=allow) == ["allow"] * 5
    for side in ("session", "user", "team"):
        others: dict[str, Any] = {name: allow for name in ("session", "user", "team") if name != side}
        assert decisions(**{side: deny}, **others) == ["deny"] * 5


@pytest.mark.requirement("modes.default.clears-autonomous")
def test_choosing_default_takes_blanket_approval_back() -> None:
    approval = Approval("autonomous")
    assert approval.decide(SHELL, {"cmd": "make"}) == "allow"
    approval.mode = "default"
    assert approval.decide(SHELL, {"cmd": "make"}) == "ask"


def test_a_team_ask_asks_even_for_what_only_reads() -> None:
    assert Approval("default", Rules.of(ask=["read"])).decide(tool("read", read_only=True), {}) == "ask"
