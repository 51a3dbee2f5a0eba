"""The real engine on real weights; collected only where SLUICE_TEST_WEIGHTS names a directory that has them."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from sluice.agent.ports import ModelRequest, ToolResult
from sluice.config.weights import WEIGHTS, weights_file
from sluice.models import build
from sluice.tools.filesystem_specs import tool
from tests.models.helpers import Heard, user
from tests.models.local.support import local

_DIRECTORY = os.environ.get("SLUICE_TEST_WEIGHTS")
WEIGHTS_FILE = weights_file(Path(_DIRECTORY), WEIGHTS["0.5b"]) if _DIRECTORY else None

pytestmark = pytest.mark.anyio

if WEIGHTS_FILE is not None and importlib.util.find_spec("xllamacpp") is not None:

    async def test_the_real_model_calls_a_tool_and_streams_an_answer() -> None:
        assert WEIGHTS_FILE is not None
        model = build(local(WEIGHTS_FILE))
        specs = [tool(name, _never).spec for name in ("list_directory", "read_file")]
        heard = Heard()
        try:
            called = await model.complete(ModelRequest([user("What does README.md say?")], specs), heard)
            said = await model.complete(ModelRequest([user("Hello!")], specs), heard)
        finally:
            await model.aclose()
        assert [(call.name, call.arguments) for call in called.tool_calls] == [("read_file", '{"path": "README.md"}')]
        assert said.text and "".join(heard.texts).endswith(said.text)
        assert said.usage is not None and said.usage.cached_input_tokens > 0


async def _never(*_: object) -> ToolResult:
    raise AssertionError
