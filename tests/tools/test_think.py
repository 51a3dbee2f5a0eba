"""The think tool."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sluice.agent.ports import ToolFailure
from tests.tools.support import call, make

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("tools.think.one-argument")
async def test_a_thought_is_noted_and_nothing_changes(tmp_path: Path) -> None:
    think = make("think", tmp_path)
    (tool,) = think.tools()
    assert tool.read_only
    assert list(tool.spec.parameters["properties"]) == ["thought"]
    assert "first look" in (await call(think, tmp_path, "think", thought="first look")).text
    assert os.listdir(tmp_path) == []


async def test_a_thought_is_needed(tmp_path: Path) -> None:
    with pytest.raises(ToolFailure, match="'thought'"):
        await call(make("think", tmp_path), tmp_path, "think")
