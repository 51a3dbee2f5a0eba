"""Each reason of the refusal table over the wire: the code and the data a caller gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sluice.machines.refusals import CODES
from tests.support.model_server import Reply, Stall, Text
from tests.support.setup import on_stage, scripted_agent
from tests.support.wire import Server, serving

pytestmark = pytest.mark.anyio

SHOWN_ELSEWHERE = {
    "authenticating": "tests/handlers/test_credentials.py",
    "live_sessions": "tests/handlers/test_credentials.py",
    "cleanup_failed": "tests/handlers/test_lifecycle.py",
    "shutting_down": "tests/handlers/test_lifecycle.py",
    "silent": "notifications have no answer: tests/handlers/test_protocol.py",
    "bug": "never reached; the random sequences would find it",
}


def shape(error: dict[str, Any]) -> tuple[int, str]:
    return error["code"], error["data"].get("reason", "")


async def test_before_initialize_the_table_says_not_initialized(tmp_path: Path) -> None:
    async with serving(scripted_agent(tmp_path, {"text": "x"}), tmp_path / "s.db") as server:
        assert shape(await server.client.error("session/list")) == (CODES["not_initialized"], "not_initialized")


@pytest.mark.requirement("machines.table.codes-match-wire")
async def test_busy_unknown_and_signed_out_get_the_codes_of_the_table(tmp_path: Path) -> None:
    assert CODES.keys() - SHOWN_ELSEWHERE.keys() == {"not_initialized", "busy", "not_found", "auth_required"}
    async with on_stage(tmp_path, Reply([Text("x"), Stall()])) as stage:
        client = stage.client
        await client.write(client.send_prompt(stage.session, "1"))
        await client.until(lambda m: "agent_message_chunk" in str(m))
        busy = (await client.prompt(stage.session, "2"))["error"]
        assert shape(busy) == (CODES["busy"], "busy") and busy["data"]["sessionId"] == stage.session
        unknown = (await client.prompt("nobody", "2"))["error"]
        assert unknown["code"] == CODES["not_found"] == -32002 and unknown["data"]["sessionId"] == "nobody"
        await client.result("logout")
        signed_out = await client.error("session/list")
        assert signed_out["code"] == CODES["auth_required"] == -32000
        assert signed_out["data"]["methodId"] == "host-credentials"
        assert known_codes(stage.server)


def known_codes(server: Server) -> bool:
    """Every refusal on the wire has a code of the table."""
    codes = {m["error"]["code"] for m in server.client.log if "error" in m}
    return codes <= {code for code in CODES.values() if code is not None}
