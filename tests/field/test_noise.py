"""Everything that could land between the protocol lines, at once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sluice.persistence.connection import connect
from sluice.persistence.migrations import MIGRATIONS, migrate
from tests.field.test_mcp_servers import ASKING, ODD, stdio
from tests.handlers.support import history
from tests.handlers.test_mcp_servers import use_tool
from tests.support.model_server import ModelServer, call, calls, text
from tests.support.setup import agent_on
from tests.support.wire import spawned

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("transport.stdio.stdout-pure", "transport.stdio.plain-child", "store.engine.migrations")
async def test_an_old_store_and_talkative_servers_put_nothing_between_the_lines(tmp_path: Path) -> None:
    """Naively the notes of a migration, the banner of a server or the output of a child reach the client's pipe. The
    client of these tests refuses every line that is not one message."""
    database = tmp_path / "s.db"
    connection = connect(database)
    migrate(connection, database, MIGRATIONS[:1])
    connection.execute(
        "INSERT INTO sessions VALUES ('old', 1, ?, NULL, NULL, '', '', '{}', '[]', 0, 0.0)", [str(tmp_path)]
    )
    connection.commit()
    connection.close()
    loud = 'print("to stdout"); import sys; print("to stderr", file=sys.stderr)'
    replies = [
        use_tool("asking_ask_secret"),
        calls(call("shell", cmd=f"{sys.executable} -c '{loud}'; printf '\\033]0;title\\007'")),
        text("done"),
    ]
    async with ModelServer(replies) as model:
        async with spawned(agent_on(tmp_path, model.base_url), database, "--debug") as server:
            client = server.client
            await client.initialize()
            servers = [stdio("asking", ASKING), stdio("noisy", ODD, "noisy")]
            session = await client.new(tmp_path, mcpServers=servers)
            await client.result("session/set_mode", sessionId=session, modeId="autonomous")
            assert (await client.prompt(session, "go"))["result"] == {"stopReason": "end_turn"}
            (last,) = [m["content"] for m in model.requests[2].messages[-1:]]
            assert "to stdout" in last and "to stderr" in last
            listed = {entry["sessionId"] for entry in (await client.result("session/list"))["sessions"]}
            assert listed == {"old", session}
            await client.result("session/load", sessionId="old", cwd=str(tmp_path), mcpServers=[])
            assert history(client, "old") == []
            assert server.process.stdin is not None
            await server.process.stdin.aclose()
            assert await server.wait() == 0
        assert "Welcome!" in server.stderr.read_text()
