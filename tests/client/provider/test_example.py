"""examples/provider.py runs, as a program of its own, against this program's server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[3] / "examples" / "provider.py"


def test_the_example_holds_a_conversation_and_approves_a_call(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), "hello", "demo"],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "> hello"
    assert any("scripted model" in line for line in lines)
    call = "shell: echo Hello from the shell, in $(pwd)"
    assert lines.index(f"allowed once: {call}") < lines.index(f"[Bash] {call}: completed")
    assert "a real process" in lines[lines.index(f"[Bash] {call}: completed") + 1]
