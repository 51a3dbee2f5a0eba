from __future__ import annotations

import fcntl
import json
import logging
from pathlib import Path

import anyio
import pytest

from sluice.persistence import answers
from sluice.persistence.answers import FileAnswers, MemoryAnswers

pytestmark = pytest.mark.anyio


async def test_what_is_kept_is_found_again_and_replaced(tmp_path: Path) -> None:
    for cache in (MemoryAnswers(), FileAnswers(tmp_path / "deep" / "a.json", "root")):
        assert await cache.get("q") is None
        await cache.put("q", "one")
        await cache.put("q", "two é")
        assert await cache.get("q") == "two é"


@pytest.mark.requirement("config-file.agents.cache")
async def test_a_file_outlives_the_process_and_keeps_agents_apart_and_questions_to_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    await FileAnswers(path, "root").put("my secret question", "a")
    await FileAnswers(path, "other").put("my secret question", "b")
    assert await FileAnswers(path, "root").get("my secret question") == "a"
    assert await FileAnswers(path, "other").get("my secret question") == "b"
    assert "secret" not in path.read_text()
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("content", ["[]", "{}", "not json", '{"format": "sluice-answers-1", "answers": {"a": 1}}'])
async def test_a_file_that_holds_something_else_is_left_alone(
    tmp_path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.json"
    path.write_text(content)
    cache = FileAnswers(path, "root")
    with caplog.at_level(logging.WARNING):
        assert await cache.get("q") is None
        await cache.put("q", "a")
    assert path.read_text() == content
    assert len(caplog.records) == 1


async def test_an_empty_file_is_an_empty_cache(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.touch()
    await FileAnswers(path, "root").put("q", "a")
    assert await FileAnswers(path, "root").get("q") == "a"


async def test_the_oldest_go_first_and_a_huge_answer_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MAX_ANSWERS", 2)
    cache = MemoryAnswers()
    for question in "abc":
        await cache.put(question, question)
    await cache.put("d", "x" * (answers.MAX_ANSWER + 1))
    assert [await cache.get(question) for question in "abcd"] == [None, "b", "c", None]


async def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    async with anyio.create_task_group() as tasks:
        for number in range(12):
            tasks.start_soon(FileAnswers(path, "root").put, str(number), str(number))
    assert len(json.loads(path.read_text())["answers"]) == 12
    assert sorted(found.name for found in tmp_path.iterdir()) == ["a.json", "a.json.lock"]


async def test_a_lock_that_is_never_given_up_costs_the_answer_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "LOCK_WAIT", 0.0)
    path = tmp_path / "a.json"
    with (tmp_path / "a.json.lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        await FileAnswers(path, "root").put("q", "a")
    assert not path.exists()
    await FileAnswers(path, "root").put("q", "a")
    assert path.exists()
