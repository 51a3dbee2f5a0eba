"""What an engine has read in front of a conversation is there for the engines after it."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from sluice.config.weights import WEIGHTS
from sluice.models import Engines, build
from sluice.models.local import kept
from sluice.models.local.kept import directory_of
from sluice.models.local.prompt import identity
from sluice.models.local.pull import remove
from tests.models.helpers import Heard, ask, asked
from tests.models.local.library.xllamacpp import FATAL, FATAL_LATER, FULL_CONTEXT
from tests.models.local.support import local, pretend

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("library")]


async def said(weights: Path, text: str, *, context: int | None = None, model: str = "0.5b") -> str:
    """What an engine of its own answers."""
    chat = build(local(weights, context, model))
    try:
        return (await ask(chat, text)).text
    finally:
        await chat.aclose()


def files(weights: Path) -> list[Path]:
    return sorted(directory_of(weights).iterdir())


async def test_the_next_engine_has_read_what_stands_in_front_and_nothing_that_was_said(tmp_path: Path) -> None:
    weights = pretend(tmp_path)
    first = await said(weights, "read my secret")
    assert first.startswith(f"\n{identity('0.5b')}"), "it is read before the conversation, on its own"
    again = await said(weights, "read on")
    assert again == first, "the second engine knows as much, and has been told nothing"
    (file,) = files(weights)
    assert file.read_text(encoding="utf-8") == first and "secret" not in first
    assert directory_of(weights).stat().st_mode & 0o777 == 0o700


async def test_an_engine_reads_ahead_once_whatever_the_sessions_ask_meanwhile(tmp_path: Path) -> None:
    weights = pretend(tmp_path)
    engines = Engines()
    chats = [build(local(weights), engines=engines) for _ in range(3)]
    async with anyio.create_task_group() as tasks:
        for chat in chats:
            tasks.start_soon(ask, chat, "my secret")
    heard = (await ask(chats[0], "read")).text
    for chat in chats:
        await chat.aclose()
    await engines.aclose()
    assert heard.count("\n.\n") == 1
    (file,) = files(weights)
    assert "my secret" not in file.read_text(encoding="utf-8")


async def test_another_front_and_other_weights_have_files_of_their_own(tmp_path: Path) -> None:
    weights = pretend(tmp_path)
    small = await said(weights, "read")
    other = await said(weights, "read", model="1.5b")
    assert small != other and len(files(weights)) == 2
    weights.touch()  # the same name, and other weights for all we know
    assert await said(weights, "read") == small
    assert len(files(weights)) == 3


async def test_a_damaged_file_is_not_given_to_the_engine_and_is_written_again(tmp_path: Path) -> None:
    weights = pretend(tmp_path)
    expected = await said(weights, "read")
    (file,) = files(weights)
    file.write_bytes(FATAL)
    assert await said(weights, "read") == expected
    assert files(weights) == [file] and file.read_text(encoding="utf-8") == expected


@pytest.mark.parametrize("fatal", [FATAL, FATAL_LATER])
async def test_a_file_that_ends_the_engine_is_met_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fatal: bytes
) -> None:
    weights = pretend(tmp_path)
    expected = await said(weights, "read")
    (file,) = files(weights)
    file.write_bytes(fatal)
    monkeypatch.setattr(kept, "_sum", lambda path: file.name.partition("-")[2])
    chat = build(local(weights))
    with pytest.raises(Exception, match="was ended by SIGABRT; the next call starts it again"):
        await ask(chat, "read")
    assert (await ask(chat, "read")).text == expected
    await chat.aclose()


async def test_a_full_disk_keeps_nothing_and_the_call_is_answered(tmp_path: Path) -> None:
    weights = pretend(tmp_path)
    assert await said(weights, "hello", context=FULL_CONTEXT) == "hello"
    assert files(weights) == []


async def test_without_room_to_spare_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "SPARE_BYTES", 1 << 60)
    weights = pretend(tmp_path)
    assert await said(weights, "hello") == "hello"
    assert files(weights) == []


async def test_where_no_directory_can_be_made_the_call_is_answered(tmp_path: Path) -> None:
    weights = pretend(tmp_path)
    directory_of(weights).write_text("in the way", encoding="utf-8")
    assert await said(weights, "hello") == "hello"
    assert directory_of(weights).read_text(encoding="utf-8") == "in the way"


async def test_the_oldest_go_when_there_is_too_much_and_the_newest_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "KEPT_BYTES", 1)
    weights = pretend(tmp_path)
    await said(weights, "hello")
    (old,) = files(weights)
    await said(weights, "hello", model="1.5b")
    (new,) = files(weights)
    assert new != old


async def test_a_front_without_tools_is_not_kept(tmp_path: Path) -> None:
    weights = pretend(tmp_path)
    chat = build(local(weights))
    await chat.complete(asked("hello", tools=()), Heard())
    await chat.aclose()
    assert files(weights) == []


async def test_removing_the_weights_removes_what_was_read_with_them(tmp_path: Path) -> None:
    weights = pretend(tmp_path)
    await said(weights, "hello")
    assert remove(WEIGHTS["0.5b"], tmp_path)
    assert list(tmp_path.iterdir()) == []
