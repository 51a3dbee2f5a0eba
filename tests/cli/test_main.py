"""The command line itself: usage, variables, laziness, and no tracebacks."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sluice import __version__
from sluice.cli import main as cli
from sluice.cli.main import main


def sluice(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **environment}
    command = [sys.executable, "-m", "sluice", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=20, env=env, stdin=subprocess.DEVNULL)


def parsed(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> argparse.Namespace:
    """The options a command gets."""
    seen: list[argparse.Namespace] = []

    def take(options: argparse.Namespace) -> int:
        seen.append(options)
        return 0

    monkeypatch.setattr(cli, "_serve_acp", take)
    assert main(["serve", "acp", *arguments]) == 0
    return seen[0]


def test_the_version_is_told() -> None:
    done = sluice("--version")
    assert (done.returncode, done.stdout) == (0, f"sluice {__version__}\n")


@pytest.mark.requirement("cli.serve-acp.missing-argument")
@pytest.mark.parametrize(
    "arguments", [[], ["serve"], ["serve", "acp"], ["fly"], ["serve", "acp", "a.yaml", "--nonsense"], ["run"]]
)
def test_wrong_usage_goes_to_stderr_with_status_2(arguments: list[str]) -> None:
    done = sluice(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("usage: sluice")
    assert "Traceback" not in done.stderr


@pytest.mark.requirement("cli.serve-acp.no-safety-flag")
@pytest.mark.parametrize("flag", ["--safety=ask", "--agent=root"])
def test_serve_acp_has_no_safety_and_no_agent_flag(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "acp", "a.yaml", flag]) == 2
    assert f"unrecognized arguments: {flag}" in capsys.readouterr().err


def test_help_shows_the_runtime_flags_and_variables(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "acp", "--help"]) == 0
    shown = capsys.readouterr().out
    for flag in (
        "--debug",
        "--log-file",
        "--working-dir",
        "--env-from-file",
        "--data-dir",
        "--config-dir",
        "--session-db",
    ):
        assert flag in shown
        assert f"SLUICE_{flag[2:].replace('-', '_').upper()}" in shown


@pytest.mark.requirement("cli.env.prefix")
def test_a_flag_outranks_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WORKING_DIR", "DATA_DIR", "CONFIG_DIR", "SESSION_DB", "LOG_FILE"):
        monkeypatch.setenv(f"SLUICE_{name}", f"/var/{name}")
    monkeypatch.setenv("SLUICE_ENV_FROM_FILE", f"/one{os.pathsep}/two")
    monkeypatch.setenv("SLUICE_DEBUG", "1")
    from_variables = parsed(monkeypatch, "a.yaml")
    assert from_variables.working_dir == "/var/WORKING_DIR"
    assert from_variables.data_dir == "/var/DATA_DIR"
    assert from_variables.config_dir == "/var/CONFIG_DIR"
    assert from_variables.session_db == "/var/SESSION_DB"
    assert from_variables.log_file == "/var/LOG_FILE"
    assert from_variables.env_from_file == ["/one", "/two"]
    assert from_variables.debug is True
    typed = parsed(monkeypatch, "a.yaml", "--data-dir", "/d", "-s", "/s", "--env-from-file=/f", "--env-from-file=/g")
    assert (typed.data_dir, typed.session_db, typed.env_from_file) == ("/d", "/s", ["/f", "/g"])


def test_an_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DATA_DIR", "ENV_FROM_FILE", "DEBUG"):
        monkeypatch.setenv(f"SLUICE_{name}", "")
    options = parsed(monkeypatch, "a.yaml")
    assert (options.data_dir, options.env_from_file, options.debug) == (None, None, False)


def test_a_failure_is_one_line_and_a_traceback_only_with_debug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(options: argparse.Namespace) -> int:
        raise ValueError("it went\nwrong")

    monkeypatch.setattr(cli, "_serve_acp", fail)
    assert main(["serve", "acp", "a.yaml"]) == 1
    assert capsys.readouterr().err == "sluice: it went wrong\n"
    with pytest.raises(ValueError, match="it went"):
        main(["serve", "acp", "a.yaml", "--debug"])


def test_an_interrupt_is_status_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(options: argparse.Namespace) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_run", stop)
    assert main(["run", "a.yaml"]) == 130


def test_the_parser_imports_no_command() -> None:
    code = "import sys; from sluice.cli.main import build_parser; build_parser(); print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=20)
    ours = [name for name in done.stdout.split() if name.partition(".")[0] == "sluice"]
    assert ours == [
        "sluice",
        "sluice.cli",
        "sluice.cli.agent_file",
        "sluice.cli.descriptors",
        "sluice.cli.main",
        "sluice.cli.model_options",
        "sluice.cli.parsers",
    ]
    assert not {"anyio", "msgspec", "yaml", "statemachine", "asyncio"} & set(done.stdout.split())


def test_the_module_is_the_command(tmp_path: Path) -> None:
    done = sluice("diagrams", "--check", "--directory", str(tmp_path / "none"))
    assert done.returncode == 1
