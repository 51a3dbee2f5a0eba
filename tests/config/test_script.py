from __future__ import annotations

from pathlib import Path

import pytest

from sluice.config.errors import ConfigError
from sluice.config.script import CLOSING, ScriptedTurn, When, load_script, read_script

FULL = """
description: everything
turns:
  - when: hello
    thought: [a, b]
    text: hi
    delay: 0.5
  - when: {user: x, tool: shell, result: ok, step: 2}
    tool_calls: [{name: shell, arguments: {cmd: ls, n: 1}, id: c1}]
    usage: {input_tokens: 5, output_tokens: 2}
    finish_reason: length
  - error: {status: 503, text: down, times: 2, retry_after: 1, after_text: true, retryable: false}
closing: bye
"""


def test_every_key_is_read() -> None:
    script = read_script(FULL, "s.yaml")
    first, second, third = script.turns
    assert (first.thought, first.text, first.delay) == (("a", "b"), "hi", 0.5)
    assert first.condition == When(user="hello", step=0)
    assert second.condition == When(user="x", tool="shell", result="ok", step=2)
    assert second.tool_calls[0].arguments == {"cmd": "ls", "n": 1}
    assert third.error is not None
    assert (third.error.status, third.error.times, third.condition) == (503, 2, None)
    assert script.closing == "bye"


def test_a_turn_may_be_empty_and_closing_has_a_text() -> None:
    script = read_script("turns:\n  - {}\n", "s.yaml")
    assert script.turns == (ScriptedTurn(),)
    assert script.closing == CLOSING


@pytest.mark.parametrize(
    ("text", "line", "key", "words"),
    [
        ("turns:\n  - text: a\n    tex: b\n", 3, "turns[0].tex", "unknown key"),
        ("turns:\n  - text: a\n  - delay: soon\n", 3, "turns[1].delay", "float"),
        ("turns:\n  - delay: -1\n", 2, "turns[0].delay", ">="),
        ("turns:\n  - tool_calls:\n      - arguments: {}\n", 3, "turns[0].tool_calls[0]", "name"),
        ("turns:\n  - error:\n      code: oops\n", 3, "turns[0].error.code", "oops"),
        ("turns: []\n", 1, "turns", "length"),
        ("closing: a\n", 1, "", "turns"),
        ("turns:\n  - when: {usr: a}\n", 2, "turns[0].when.usr", "unknown key"),
        ("turns:\n  - text: 'a\n", 3, "", "YAML"),
        ("turns:\n  - text: a\n    text: b\n", 3, "turns[0].text", "twice"),
        ("- a\n", None, "", "mapping"),
        ("", None, "", "mapping"),
    ],
)
def test_an_error_names_file_line_and_key(text: str, line: int | None, key: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_script(text, "dir/s.yaml")
    error = caught.value
    assert (error.file, error.line, error.key) == ("dir/s.yaml", line, key)
    assert words in error.message
    assert "\n" not in str(error)


def test_a_file_that_cannot_be_read_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_script(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"closing: \xe9\n")
    with pytest.raises(ConfigError, match="UTF-8"):
        load_script(tmp_path / "latin.yaml")


def test_a_script_is_read_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("turns: [{text: hé}]\n", encoding="utf-8")
    assert load_script(tmp_path / "s.yaml").turns[0].text == "hé"
