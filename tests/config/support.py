"""Shorthands of the configuration tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

import pytest

from sluice.config.errors import ConfigError
from sluice.config.load import loads
from sluice.config.schema import AgentFile

MINIMAL = "agents:\n  root:\n    model: auto\n"


def read(text: str, env: Mapping[str, str] | None = None, path: str = "agent.yaml") -> AgentFile:
    return loads(dedent(text), Path(path), env or {})


def error(text: str, env: Mapping[str, str] | None = None) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        read(text, env)
    assert caught.value.file == "agent.yaml"
    assert "\n" not in str(caught.value)
    return caught.value


def warnings(text: str, env: Mapping[str, str] | None = None) -> list[tuple[int, str, str]]:
    return [(warning.line, warning.key, warning.message) for warning in read(text, env).warnings]
