"""What a prompt may hold besides plain words."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from tests.handlers.test_attachments import png
from tests.handlers.test_images import header
from tests.support.model_server import ModelServer, text
from tests.support.setup import agent_on, on_stage
from tests.support.wire import serving

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
END_TURN = {"stopReason": "end_turn"}


def words(said: str) -> Json:
    return {"type": "text", "text": said}


def picture(data: str) -> Json:
    return {"type": "image", "mimeType": "image/png", "data": data}


@pytest.mark.requirement("slash-commands.builtin.no-attachments", "slash-commands.parse.not-in-resources")
async def test_a_compaction_is_neither_begun_by_an_attached_text_nor_with_an_attachment(tmp_path: Path) -> None:
    """Naively all texts of a prompt are joined and compared, and a picture beside a command vanishes."""
    note = {
        "type": "resource",
        "resource": {"uri": "file:///w/n.md", "mimeType": "text/markdown", "text": "/compact"},
    }
    async with on_stage(tmp_path, text("first"), text("second"), text("third")) as stage:
        client, where = stage.client, {"sessionId": stage.session}
        assert await client.result("session/prompt", **where, prompt=[words("summarise"), note]) == END_TURN
        assert await client.result("session/prompt", **where, prompt=[note]) == END_TURN
        assert len(stage.model.requests) == 2 and "/compact" in str(stage.model.requests[1].messages[-1])
        error = await client.error("session/prompt", **where, prompt=[words("/compact"), picture(png())])
        assert error["code"] == -32602 and len(stage.model.requests) == 2
        assert await client.result("session/prompt", **where, prompt=[words("and?")]) == END_TURN
        roles = [m["role"] for m in stage.model.requests[-1].messages[1:]]
        assert roles == ["user", "assistant", "user", "assistant", "user"]


@pytest.mark.requirement("turn-admission.params.blocks")
async def test_a_block_of_a_type_nobody_knows_is_refused_in_words_and_the_session_goes_on(tmp_path: Path) -> None:
    """Naively it falls through the switch: dropped without a word, or the turn never ends."""
    async with on_stage(tmp_path, text("seen")) as stage:
        client = stage.client
        for odd in ({"type": "hologram", "data": "?"}, {"type": None}, {"data": "?"}, "text", None):
            prompt = [words("look"), odd, words("end")]
            error = await client.error("session/prompt", sessionId=stage.session, prompt=prompt)
            assert error["code"] == -32602, odd
        assert (await client.prompt(stage.session, "go on"))["result"] == END_TURN
        assert [m["content"] for m in stage.model.requests[0].messages[1:]] == ["go on"]


@pytest.mark.requirement("attachments.limits.per-item", "attachments.limits.notice")
async def test_pictures_above_every_bound_spoil_no_later_turn_not_even_in_the_next_process(tmp_path: Path) -> None:
    """Naively the picture stays in the history as it came, and the service refuses each later request; the model
    server here has the bounds of the services and answers 400 beyond them."""
    fat = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(6 << 20)).decode()
    async with ModelServer([text(str(number)) for number in range(5)]) as model:
        file = agent_on(tmp_path, model.base_url, takes={"image": True})
        async with serving(file, tmp_path / "s.db") as server:
            client = server.client
            await client.initialize()
            session = await client.new(tmp_path)
            for prompt in (
                [picture(png(9000, 200))],
                [picture(header(5000, 4000)), words("and this")],
                [picture(fat), words("and that")],
                [words("plain text")],
            ):
                assert await client.result("session/prompt", sessionId=session, prompt=prompt) == END_TURN
            big, mega, too_fat = (m["content"] for m in model.requests[3].messages[1:6:2])
            assert [part["type"] for part in big] == ["image_url", "text"] and "9000x200" in big[1]["text"]
            assert "16" in str(mega) and "image_url" not in str(mega) and len(str(mega)) < 500
            assert "image_url" not in str(too_fat) and len(str(too_fat)) < 500
        async with serving(file, tmp_path / "s.db") as server:
            await server.client.initialize()
            await server.client.result("session/load", sessionId=session, cwd=str(tmp_path), mcpServers=[])
            assert (await server.client.prompt(session, "again"))["result"] == END_TURN
        assert model.refusals == [] and model.requests[4].messages[1:6:2] == model.requests[3].messages[1:6:2]
