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
    [("journal", "FILE"), ("journal", "FILE", "--check"), ("check-config", "AGENT"), ("model", "list")],
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
