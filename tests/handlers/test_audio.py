"""Sounds: bytes in, the same bytes out, and a notice with each."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.handlers import attachments, audio
from tests.support.model_server import text
from tests.support.setup import on_stage

SOUND = base64.b64encode(b"RIFF no wav at all").decode()


@pytest.mark.requirement("audio.bytes.exact", "audio.no-processing.none")
@given(st.binary(min_size=1, max_size=300))
def test_the_bytes_are_those_that_came(data: bytes) -> None:
    sound, told = audio.parts(base64.b64encode(data).decode(), "audio/wav")
    assert base64.b64decode(sound.data) == data and sound.size == len(data)
    assert told.notice and told.text == audio.NOTICE


@pytest.mark.requirement("audio.mime.normalised")
@pytest.mark.parametrize(
    ("given_type", "kept"),
    [
        ("Audio/WAV", "audio/wav"),
        (" audio/L16 ; Rate=16000;CHANNELS=1 ", "audio/l16;rate=16000;channels=1"),
        ('audio/ogg; codecs="Opus; x"', 'audio/ogg;codecs="Opus; x"'),
        ("audio/x" + "y" * 249, "audio/x" + "y" * 249),
    ],
)
def test_a_type_is_put_into_one_form_and_keeps_its_parameters(given_type: str, kept: str) -> None:
    assert audio.parts(SOUND, given_type)[0].mime_type == kept


@pytest.mark.requirement("audio.invalid.fixed-notice", "audio.mime.normalised")
@pytest.mark.parametrize(
    ("data", "mime_type"),
    [
        ("", "audio/wav"),
        ("%%%", "audio/wav"),
        (SOUND + "\n", "audio/wav"),
        (SOUND, "audio/*"),
        (SOUND, "*/*"),
        (SOUND, "video/mp4"),
        (SOUND, "audio/"),
        (SOUND, "audio/wav; rate"),
        (SOUND, "audio/wav\x00"),
        (SOUND, "audio/x" + "y" * 250),
        (SOUND, "audio/wav;a=" + "ä" * 130),
    ],
)
def test_what_is_no_sound_becomes_one_fixed_notice(data: str, mime_type: str) -> None:
    (part,) = audio.parts(data, mime_type)
    assert part.notice and part.text == audio.UNAVAILABLE


@pytest.mark.requirement("audio.invalid.fixed-notice", "attachments.limits.per-item")
def test_a_sound_is_judged_at_and_above_the_limit() -> None:
    assert audio.parts(base64.b64encode(bytes(attachments.MAX_BINARY)).decode(), "audio/wav")[0].type == "audio"
    assert audio.parts(base64.b64encode(bytes(attachments.MAX_BINARY + 1)).decode(), "audio/wav")[0].notice


@pytest.mark.anyio
@pytest.mark.requirement(
    "audio.capability.advertised",
    "audio.bytes.exact",
    "audio.provider.chat-completions",
    "audio.provider.two-conditions",
    "audio.notice.every-block",
)
@pytest.mark.parametrize("takes", [True, False])
async def test_a_model_gets_the_sounds_it_takes_and_the_notice_of_all(tmp_path: Path, takes: bool) -> None:
    types = {
        **dict.fromkeys(("audio/wav", "Audio/X-WAV;rate=8000", "audio/wave", "audio/vnd.wave"), "wav"),
        **dict.fromkeys(("audio/mpeg", "audio/MP3"), "mp3"),
        "audio/ogg": None,
    }
    blocks = [{"type": "audio", "data": SOUND, "mimeType": kind} for kind in types]
    async with on_stage(tmp_path, text("ok"), takes={"audio": takes}) as stage:
        response = await stage.client.call("session/prompt", sessionId=stage.session, prompt=blocks)
        assert response["result"] == {"stopReason": "end_turn"}
        content = stage.model.requests[0].messages[-1]["content"]
        told = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
        assert told.count(audio.NOTICE) == len(types)
        sent = [] if isinstance(content, str) else [p["input_audio"] for p in content if p["type"] == "input_audio"]
        wanted = [{"data": SOUND, "format": name} for name in types.values() if name]
        assert sent == (wanted if takes else [])
        assert "audio/ogg" in told and (takes or "audio/x-wav;rate=8000" in told)
        sessions = (await stage.client.result("session/list"))["sessions"]
        assert sessions[0].get("title") is None
