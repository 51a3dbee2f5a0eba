"""Commands that print, when nobody reads any more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.setup import scripted_agent

JOURNAL = (
    '{"at": 0.5, "machine": "turn", "key": "k", "event": "session/prompt", "source": "idle", "target": "busy"}\n'
)


@pytest.mark.parametrize(
    "command",
    [
        ("journal", "FILE"),
        ("journal", "FILE", "--check"),
        ("check-config", "AGENT"),
        ("model", "list"),
        ("run", "AGENT", "hi"),
    ],
    ids=" ".join,
)
def test_a_reader_that_has_left_is_no_error_to_be_shown(tmp_path: Path, command: tuple[str, ...]) -> None:
    journal = tmp_path / "journal.jsonl"
    journal.write_text(JOURNAL * 3000)
    names = {"FILE": str(journal), "AGENT": str(scripted_agent(tmp_path, {"text": "x"}))}
    reading, writing = os.pipe()
    os.close(reading)
    try:
        program = [sys.executable, "-m", "sluice", *(names.get(word, word) for word in command)]
        done = subprocess.run(program, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60)
    finally:
        os.close(writing)
    complaints = [
        line for line in done.stderr.splitlines() if "not a row" not in line and "the machine was" not in line
    ]
    assert complaints == [] and done.returncode == 1


@pytest.mark.parametrize(
    ("command", "where"),
    [
        (("run", "AGENT", "hi"), "standard output: "),
        (("check-config", "AGENT"), ""),
        (("journal", "FILE"), ""),
        (("serve", "acp", "AGENT", "--journal", "/dev/full"), "/dev/full: "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_full_disk_is_told(tmp_path: Path, command: tuple[str, ...], where: str) -> None:
    journal = tmp_path / "journal.jsonl"
    journal.write_text(JOURNAL)
    names = {"FILE": str(journal), "AGENT": str(scripted_agent(tmp_path, {"text": "x"}))}
    program = [sys.executable, "-m", "sluice", *(names.get(word, word) for word in command)]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            program, stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert (done.stderr, done.returncode) == (f"sluice: {where}no space left on device\n", 1)


@pytest.mark.parametrize("command", ["run AGENT hi", "serve acp AGENT", "check-config AGENT", "--help"])
def test_a_closed_standard_output_is_told_and_nothing_else_is_written_into(tmp_path: Path, command: str) -> None:
    """Naively the answer goes into whatever file is opened first and gets the number 1: here the log."""
    agent, log = scripted_agent(tmp_path, {"text": "x"}), tmp_path / "log"
    words = command.replace("AGENT", str(agent)).split()
    flags = ["--log-file", str(log), "--data-dir", str(tmp_path)] if words[0] in ("run", "serve") else []
    program = [sys.executable, "-m", "sluice", *words, *flags]
    closed = ["sh", "-c", 'exec "$@" >&-', "sh", *program]
    done = subprocess.run(closed, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (done.stderr, done.returncode) == ("sluice: standard output is closed\n", 1)
    assert not log.exists()


@pytest.mark.parametrize("closed", ["<&-", "2>&-", "<&- 2>&-"])
def test_a_closed_input_or_error_output_harms_nothing(tmp_path: Path, closed: str) -> None:
    agent = scripted_agent(tmp_path, {"text": "here I am"})
    program = [sys.executable, "-m", "sluice", "run", str(agent), "hi", "--data-dir", str(tmp_path)]
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh", *program]
    done = subprocess.run(shell, stdout=subprocess.PIPE, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("here I am\n", 0)
