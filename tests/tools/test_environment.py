"""The environment tool."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from sluice.agent.ports import TerminalCommand, TerminalOutcome, ToolContext
from sluice.tools import build
from tests.tools.support import Config, call, make, setup

pytestmark = pytest.mark.anyio


class NoTerminal:
    """A terminal that must not be used."""

    async def run(self, command: TerminalCommand, context: ToolContext) -> TerminalOutcome:
        raise AssertionError("a fact needs no command")


@pytest.mark.requirement("tools.environment.info")
async def test_it_reports_platform_directory_and_interpreter(tmp_path: Path) -> None:
    toolset = make("environment", tmp_path)
    facts = (await call(toolset, tmp_path, "get_environment_info")).text
    assert f"Platform: {platform.system()}" in facts and f"Working directory: {tmp_path}\n" in facts
    assert facts.endswith("Commands run with: /bin/sh, on the agent's host")
    assert "Git repository: no" in facts
    (tmp_path / ".git").mkdir()
    (tmp_path / "sub").mkdir()
    assert "Git repository: yes" in (await call(toolset, tmp_path / "sub", "get_environment_info")).text
    assert toolset.tools()[0].read_only


@pytest.mark.requirement("client-terminal.command.environment-info")
async def test_with_a_client_terminal_it_names_the_interpreter_there_and_asks_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", "/bin/fancy")
    toolset = build(Config("environment"), setup=setup(tmp_path, terminal=NoTerminal()))
    facts = (await call(toolset, tmp_path, "get_environment_info")).text
    assert facts.endswith("Commands run with: /bin/sh, in the client's terminal")
    assert f"Platform: {platform.system()}" in facts
