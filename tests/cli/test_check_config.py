"""`sluice check-config`: one line a finding, with file, line and key, and an exit status for scripts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

RIGHT = """\
agents:
  root:
    model: script
    description: d
    instruction: i
models:
  script:
    provider: scripted
    model: m
    provider_opts: {script: script.yaml}
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "right.yaml").write_text(RIGHT, "utf-8")
    (tmp_path / "script.yaml").write_text("turns:\n  - text: hi\n", "utf-8")
    (tmp_path / "wrong.yaml").write_text(RIGHT.replace("instruction", "instructoin"), "utf-8")
    (tmp_path / "keyless.yaml").write_text(
        RIGHT.split("models:")[0].replace(": script", ": openai/gpt-5-mini"), "utf-8"
    )
    return tmp_path


def check(here: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    bare = {"PATH": os.environ["PATH"], "HOME": str(here)}
    command = [sys.executable, "-m", "sluice", "check-config", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, cwd=here, env=bare)


def test_a_right_file_is_ok(here: Path) -> None:
    done = check(here, "right.yaml")
    assert (done.returncode, done.stdout, done.stderr) == (0, "right.yaml: ok\n", "")
    assert check(here, "--quiet", "right.yaml").stdout == ""


def test_every_file_is_checked_and_an_error_names_file_line_and_key(here: Path) -> None:
    done = check(here, "wrong.yaml", "missing.yaml", "right.yaml")
    assert done.returncode == 1
    first, second, third = done.stdout.splitlines()
    assert first.startswith("wrong.yaml:5: agents.root.instructoin: ")
    assert '"instruction"' in first
    assert second == "missing.yaml: does not exist"
    assert third == "right.yaml: ok"


def test_a_script_that_cannot_be_played_is_found(here: Path) -> None:
    (here / "script.yaml").write_text("turns:\n  - txet: hi\n", "utf-8")
    done = check(here, "right.yaml")
    assert done.returncode == 1
    assert "script.yaml:2: " in done.stdout


def test_warnings_do_not_fail_unless_they_shall(here: Path) -> None:
    done = check(here, "keyless.yaml")
    assert done.returncode == 0
    assert done.stdout.startswith("keyless.yaml: warning: credentials are missing")
    assert "OPENAI_API_KEY" in done.stdout
    assert check(here, "--strict", "keyless.yaml").returncode == 1
    (here / "keys").write_text("OPENAI_API_KEY=x\n", "utf-8")
    assert check(here, "--strict", "--env-from-file=keys", "keyless.yaml").stdout == "keyless.yaml: ok\n"


def test_a_warning_names_file_line_and_key(here: Path) -> None:
    (here / "early.yaml").write_text(RIGHT + "rag: {}\n", "utf-8")
    done = check(here, "early.yaml")
    assert done.returncode == 0
    assert done.stdout.startswith("early.yaml:11: rag: warning: ")


def test_nothing_to_check_is_wrong_usage(here: Path) -> None:
    assert check(here).returncode == 2


def test_the_examples_are_right() -> None:
    examples = Path(__file__).parents[2] / "examples"
    done = check(examples, "scripted.yaml")
    assert (done.returncode, done.stdout) == (0, "scripted.yaml: ok\n")
