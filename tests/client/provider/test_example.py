"""examples/provider.py and the programs of docs/provider.md run, each by itself, against this program's server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "provider.md"
EXAMPLE = Path(__file__).parents[3] / "examples" / "provider.py"


def run(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=home,
        env={**os.environ, "HOME": str(home), "XDG_DATA_HOME": str(home), "XDG_CONFIG_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_programs_of_the_page_run_as_they_stand(tmp_path: Path) -> None:
    """But for the agent, which is the scripted one: `default` would want a model."""
    chat, providers = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    scripted = str(EXAMPLE.with_name("scripted.yaml"))
    program = chat.replace('command="sluice", args=[', f'command={sys.executable!r}, args=["-m", "sluice", ')
    assert program != chat
    done = run("-c", program.replace('"default"', repr(scripted)), home=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "TextDelta(" in done.stdout and done.stdout.splitlines()[-1].startswith("the turn: TurnDone(")
    done = run("-c", providers, home=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "['Mine']\n", "")


def test_the_events_of_the_page_are_those_there_are() -> None:
    from sluice.client.provider import events

    table = PAGE.read_text(encoding="utf-8").partition("## Events")[2].partition("## Providers")[0]
    named = set(re.findall(r"`([A-Z]\w+)`", table)) - {"Row"}
    others = {"ChatEvent", "FileChange", "FileEdit", "Row", "TurnEvent"}
    assert named == set(events.__all__) - others


def test_the_example_holds_a_conversation_and_approves_a_call(tmp_path: Path) -> None:
    done = run(str(EXAMPLE), "hello", "demo", home=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "> hello"
    assert any("scripted model" in line for line in lines)
    call = "shell: echo Hello from the shell, in $(pwd)"
    assert lines.index(f"allowed once: {call}") < lines.index(f"[Bash] {call}: completed")
    assert "a real process" in lines[lines.index(f"[Bash] {call}: completed") + 1]
