"""Which file `default` is."""

from pathlib import Path

import pytest

from sluice.cli.agent_file import agent_file
from sluice.config.environment import Environment
from sluice.config.load import load


def test_default_is_the_agent_of_the_package_unless_a_file_has_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    built_in = Path(agent_file("default"))
    assert load(built_in, Environment.read({}, (), None), ()).default_agent.model == "auto"
    (tmp_path / "default").write_text("agents: {root: {model: x/y}}")
    assert agent_file("default") == "default"
    assert agent_file("./default.yaml") == "./default.yaml"
