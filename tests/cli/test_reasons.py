"""What goes wrong before anything is served is told once, in words, with the file it is about."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sluice.cli.reasons import reason
from sluice.cli.serve_mcp import duration
from sluice.config.environment import EnvFileError
from tests.support.setup import scripted_agent


def sluice(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sluice", *map(str, arguments)]
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, cwd=cwd, check=False
    )


def test_an_error_of_the_system_names_the_file_and_no_number() -> None:
    assert reason(FileNotFoundError(2, "No such file or directory", "/a/b")) == "/a/b: no such file or directory"
    assert reason(PermissionError(13, "Permission denied")) == "permission denied"
    assert reason(ExceptionGroup("g", [ExceptionGroup("h", [OSError("odd")])])) == "odd"
    assert reason(EnvFileError(Path("/k.env"), "is not UTF-8")) == "/k.env: is not UTF-8"
    assert reason(ValueError()) == "ValueError"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "--log-file=no/x.log", "agent.yaml", "hi"), "no/x.log: no such file or directory"),
        (("run", "--working-dir=no", "agent.yaml", "hi"), "no: no such file or directory"),
        (("run", "--env-from-file=no.env", "agent.yaml", "hi"), "no.env: no such file or directory"),
        (("run", "--env-from-file=.", "agent.yaml", "hi"), ".: is a directory"),
        (("run", "--env-from-file=odd.env", "agent.yaml", "hi"), "odd.env: is not UTF-8"),
        (("run", "--allow-address=here", "agent.yaml", "hi"), "'here' is no network, such as 10.1.0.0/16 or ::1"),
        (("serve", "acp", "--journal=no/j", "agent.yaml"), "no/j: no such file or directory"),
        (("serve", "mcp", "--working-dir=no", "agent.yaml"), "no: no such file or directory"),
        (("serve", "mcp", "none.yaml"), "none.yaml: does not exist"),
        (("serve", "mcp", "bad.yaml"), 'bad.yaml:1: agents.root.modle: unknown key; did you mean "model"?'),
        (("journal", "none"), "none: no such file or directory"),
        (("journal", "."), ".: is a directory"),
    ],
)
def test_one_line_says_what_is_wrong_with_which_file(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    scripted_agent(tmp_path, {"text": "x"})
    (tmp_path / "bad.yaml").write_text("agents: {root: {modle: x}}\n")
    (tmp_path / "odd.env").write_bytes(b"\xff\xfe\x00")
    done = sluice(*arguments, cwd=tmp_path)
    assert done.returncode == 1 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("sluice: ") and line.replace(f"{tmp_path}/", "") == f"sluice: {said}"


@pytest.mark.parametrize("text", ["0", "0s", "0.0ms", "25h", "999999999h", "-5s", "soon", "1 s 2"])
def test_a_keepalive_is_a_time_that_makes_sense(text: str) -> None:
    with pytest.raises(ValueError, match=r"no duration|at most a day"):
        duration(text)
    assert duration("90s") == duration("1.5m") == 90.0
