"""Attachments of a prompt, from the blocks on the wire to what the model server is sent and the store keeps."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from sluice.handlers import attachments, audio
from tests.support.model_server import text
from tests.support.setup import Stage, on_stage

Json = dict[str, Any]


def base(data: bytes) -> str:
    return base64.b64encode(data).decode()


def png(width: int = 1, height: int = 1) -> str:
    out = io.BytesIO()
    Image.new("RGB", (width, height), "red").save(out, "PNG")
    return base(out.getvalue())


def resource(uri: str, **contents: Any) -> Json:
    return {"type": "resource", "resource": {"uri": uri, **contents}}


async def sent(stage: Stage, *blocks: Json) -> Any:
    """Prompt with these blocks; the content of the user's message as the model server got it."""
    response = await stage.client.call("session/prompt", sessionId=stage.session, prompt=list(blocks))
    assert response["result"] == {"stopReason": "end_turn"}
    return stage.model.requests[-1].messages[-1]["content"]


@pytest.mark.requirement("attachments.limits.per-item", "attachments.limits.notice")
def test_texts_and_binaries_are_judged_at_and_above_their_limit() -> None:
    at, above = attachments.MAX_TEXT, attachments.MAX_TEXT + 1
    assert attachments.text_document("x" * at, None, "a").size == at
    told = attachments.text_document("ä" * (above // 2 + 1), None, "a")
    assert told.notice and told.text == "[Resource left out: a: it is larger than 5 MiB]"
    (kept,) = attachments.binary_document(base(bytes(attachments.MAX_BINARY)), "application/x", "a")
    assert kept.size == attachments.MAX_BINARY and not kept.notice
    (told,) = attachments.binary_document(base(bytes(attachments.MAX_BINARY + 1)), "application/x", "a")
    assert told.notice and told.text == "[Binary resource left out: a: it is larger than 20 MiB]"


@pytest.mark.parametrize(
    ("uri", "name", "shown"),
    [
        ("file:///w/a%20b.json", "", "a b.json"),
        ("https://user:pw@host/dir/page?token=x#y", "", "page"),
        ("https://host", "", "resource"),
        ("http://[", "", "resource"),
        ("data:text/plain;base64,QUJD", "", "resource"),
        ("file:///x", "/home/me/secret dir/n.txt", "n.txt"),
        ("file:///x", "C:\\Users\\me\\n.txt", "n.txt"),
        ("file:///x", "https://host/p%20q?token=x", "p q"),
        ("file:///x", "n" * 500, "n" * 200),
    ],
)
@pytest.mark.requirement("attachments.limits.notice")
def test_a_label_holds_no_full_address(uri: str, name: str, shown: str) -> None:
    assert attachments.label(uri, name) == shown


@pytest.mark.anyio
@pytest.mark.requirement(
    "attachments.document.ordered",
    "attachments.document.duplicates-kept",
    "attachments.document.text-mime-as-text",
    "attachments.limits.notice",
    "audio.notice.every-block",
)
async def test_all_kinds_of_blocks_reach_the_model_in_their_order(tmp_path: Path) -> None:
    """Field case: attached content is dropped without a word, or a block nobody expected hangs the turn."""
    json = resource("file:///w/a%20b.json", mimeType="application/json", text='{"k":1}')
    async with on_stage(tmp_path, text("ok"), takes={"image": True}) as stage:
        content = await sent(
            stage,
            {"type": "text", "text": "look"},
            json,
            json,
            resource("file:///w/p.png", mimeType="image/png", blob=png()),
            {"type": "image", "mimeType": "image/png", "data": png()},
            {"type": "image", "mimeType": "image/png", "data": "%%%", "uri": "file:///secret/place/q.png"},
            {"type": "audio", "mimeType": "Audio/WAV", "data": base(b"RIFF")},
            resource("file:///w/z.bin", blob=base(b"\x00\x01")),
            resource("file:///w/n.yaml", mimeType="application/yaml", blob=base(b"a: 1")),
            {"type": "text", "text": "end"},
        )
        assert [part["type"] for part in content] == ["text", "image_url", "image_url", "text"]
        document = '[document a b.json application/json]\n{"k":1}'
        assert content[0]["text"] == f"look\n\n{document}\n\n{document}"
        assert content[3]["text"] == (
            "[Image left out: q.png: its data is no valid base64]"
            "\n\n[audio audio/wav, 4 bytes: left out, this model cannot take it]"
            f"\n\n{audio.NOTICE}"
            "\n\n[document z.bin application/octet-stream, 2 bytes: left out, this model cannot take it]"
            "\n\n[document n.yaml application/yaml]\na: 1"
            "\n\nend"
        )


@pytest.mark.anyio
@pytest.mark.requirement("attachments.document.binary-model-dependent", "initialize.agent.capability-values")
@pytest.mark.parametrize("takes", [True, False])
async def test_a_model_that_does_not_take_a_kind_is_told_of_it_instead(tmp_path: Path, takes: bool) -> None:
    kinds = {"image": takes, "pdf": takes}
    async with on_stage(tmp_path, text("ok"), takes=kinds) as stage:
        offered = (await stage.client.initialize())["agentCapabilities"]
        assert offered["promptCapabilities"] == {"image": True, "audio": True, "embeddedContext": True}
        assert offered["loadSession"] is True and offered["mcpCapabilities"] == {"http": True, "sse": True}
        assert set(offered["sessionCapabilities"]) == {"list", "delete", "additionalDirectories", "resume", "close"}
        pdf = resource("file:///w/p.pdf", mimeType="application/pdf", blob=base(b"%PDF"))
        content = await sent(stage, {"type": "image", "mimeType": "image/png", "data": png()}, pdf)
        if takes:
            assert [part["type"] for part in content] == ["image_url", "file"]
        else:
            assert content.count("left out, this model cannot take it") == 2


@pytest.mark.anyio
@pytest.mark.requirement("attachments.persist.no-protocol-metadata")
async def test_what_the_protocol_adds_to_a_block_is_not_stored(tmp_path: Path) -> None:
    extras = {"annotations": {"audience": ["user"], "priority": 0.25}, "_meta": {"hidden": "hidden"}}
    contents = {"uri": "https://hidden/hidden/a.txt", "text": "inside", "_meta": {"hidden": "hidden"}}
    more = {"title": "hidden", "description": "hidden"}
    async with on_stage(tmp_path, text("ok")) as stage:
        await sent(
            stage,
            {"type": "resource", "resource": contents, **extras},
            {"type": "image", "mimeType": "image/png", "data": png(), "uri": "https://hidden/b.png", **extras},
            {"type": "resource_link", "uri": "https://hidden/c", "name": "c", **more, **extras},
        )
        store = await stage.server.connection.assembly.store()
        kept = str(await store.items(stage.session))
        assert "inside" in kept and "b.png" in kept
        assert "hidden" not in kept and "priority" not in kept and "audience" not in kept


@pytest.mark.anyio
@pytest.mark.requirement("attachments.redaction.text-and-labels")
async def test_secrets_in_documents_and_labels_stop_at_the_model_and_the_store_keeps_what_was_said(
    tmp_path: Path,
) -> None:
    key = "sk-" + "a1B2" * 8
    code = f"token = read_token()\nkey = '{key}'\n"
    async with on_stage(tmp_path, text("ok"), text("ok")) as stage:
        content = await sent(stage, resource(f"file:///{key}.txt", text=code))
        assert key not in content and content.count("[redacted]") == 2
        assert "token = read_token()" in content
        store = await stage.server.connection.assembly.store()
        kept = (await store.items(stage.session))[0].message
        assert kept is not None and kept.parts[0].text == code and key in kept.parts[0].name


@pytest.mark.anyio
async def test_one_picture_above_the_limits_does_not_fail_later_turns(tmp_path: Path) -> None:
    """Field case: a service refuses a picture, which is then sent again in each later turn."""
    async with on_stage(tmp_path, text("1"), text("2"), takes={"image": True}) as stage:
        await sent(stage, {"type": "image", "mimeType": "image/png", "data": png(9000, 200)})
        assert await sent(stage, {"type": "text", "text": "and this"}) == "and this"
        (picture, told) = stage.model.requests[1].messages[1]["content"]
        data = base64.b64decode(picture["image_url"]["url"].partition(",")[2])
        assert max(Image.open(io.BytesIO(data)).size) <= 2000
        assert "9000x200" in told["text"]


@pytest.mark.anyio
@pytest.mark.requirement("attachments.cache.bypass")
async def test_a_prompt_with_an_attachment_neither_reads_nor_fills_the_response_cache(tmp_path: Path) -> None:
    replies = text("1"), text("2"), text("3"), text("4")
    said = {"type": "text", "text": "What is it?"}
    async with on_stage(tmp_path, *replies, agent={"cache": {"enabled": True}}) as stage:
        for block in (
            {"type": "image", "mimeType": "image/png", "data": png()},
            {"type": "audio", "mimeType": "audio/wav", "data": "%%%"},
            {"type": "resource_link", "uri": "https://example.org/a", "name": "a"},
        ):
            await sent(stage, said, block)
        await sent(stage, said)
        assert len(stage.model.requests) == 4
