"""Agent files of several agents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.model_server import ModelServer, text
from tests.support.setup import agent_on
from tests.support.wire import serving

pytestmark = pytest.mark.anyio

Json = dict[str, Any]


@pytest.mark.requirement("config-file.agents.required")
@pytest.mark.parametrize(
    ("names", "first"), [(["orchestrator", "a", "b"], "orchestrator"), (["helper", "root"], "root")], ids=str
)
async def test_the_agent_called_root_or_else_the_first_one_answers(
    tmp_path: Path, names: list[str], first: str
) -> None:
    """Naively the name root is looked up and a file without it cannot be used, or the first one wins over root."""
    agents: Json = {name: {"model": "m", "description": name, "instruction": f"You are {name}."} for name in names}
    async with ModelServer([text("hi")]) as model:
        async with serving(agent_on(tmp_path, model.base_url, agents=agents), tmp_path / "s.db") as server:
            await server.client.initialize()
            session = await server.client.new(tmp_path)
            assert (await server.client.prompt(session, "who?"))["result"] == {"stopReason": "end_turn"}
            assert model.requests[0].messages[0]["content"].startswith(f"You are {first}.")
