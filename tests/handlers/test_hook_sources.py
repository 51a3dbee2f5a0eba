"""Where hooks come from besides the agent file, over the wire of a real process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.handlers.test_permissions import END
from tests.support.model_server import ModelServer, call, calls, text
from tests.support.setup import agent_on
from tests.support.wire import spawned

pytestmark = pytest.mark.anyio


def noting(name: str) -> dict[str, Any]:
    return {"post_tool_use": [{"hooks": [{"command": f"echo {name} >> order"}]}]}


@pytest.mark.requirement("hooks.sources.order")
async def test_hooks_of_all_sources_run_in_order_and_a_bad_file_is_skipped_with_a_warning(tmp_path: Path) -> None:
    config, cwd = tmp_path / "config", tmp_path / "project"
    (config / "hooks.d").mkdir(parents=True)
    cwd.mkdir()
    (config / "settings.yaml").write_text(yaml.safe_dump({"hooks": noting("settings")}))
    (config / "hooks.d" / "20-b.yaml").write_text(yaml.safe_dump(noting("second file")))
    (config / "hooks.d" / "10-a.yaml").write_text(yaml.safe_dump(noting("first file") | {"notification": []}))
    (config / "hooks.d" / "15-bad.yaml").write_text("post_tool_use:\n  - mathcer: x\n")
    (config / "hooks.d" / "README").write_text("no hooks here")
    flags = ("--hook-post-tool-use=echo first flag >> order", "--hook-post-tool-use=echo second flag >> order")
    ended = f"--hook-session-end=touch {cwd}/ended"
    agent = {"safety": "autonomous", "hooks": noting("agent file")}
    async with ModelServer([calls(call("shell", cmd="true")), text("end"), text("end")]) as model:
        file = agent_on(tmp_path, model.base_url, agent=agent)
        arguments = (f"--config-dir={config}", *flags, ended)
        async with spawned(file, tmp_path / "s.db", *arguments) as server:
            client = server.client
            await client.initialize()
            session = await client.new(cwd)
            assert (await client.prompt(session, "go"))["result"] == END
            assert (cwd / "order").read_text().splitlines() == [
                *("agent file", "settings", "first file", "second file", "first flag", "second flag")
            ]
            (config / "settings.yaml").write_text("hooks:\n  tool_gaurd: []\n")
            error = await client.error("session/new", cwd=str(cwd), mcpServers=[])
            assert (error["data"]["line"], error["data"]["key"]) == (2, "hooks.tool_gaurd")
        assert (cwd / "ended").exists()
        said = server.stderr.read_text()
    assert "15-bad.yaml:2: post_tool_use[0].mathcer: unknown key" in said and "none of the hooks in this file" in said
    assert said.count("known but not built yet") == 1 and "10-a.yaml" in said
