"""Kept answers of the response cache, in memory or in a file that several processes may share.

The file is read for each question and replaced as a whole for each new answer, under a lock beside it, so that no
reader sees half of one and no writer loses another's. A file that holds something else is left alone.
Source: requirement config-file.agents.cache.
"""

from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

import anyio.to_thread

from sluice.persistence.shared_file import locked, replace

__all__ = ["FileAnswers", "MemoryAnswers"]

log = logging.getLogger(__name__)

MAX_ANSWERS = 1000
"""Answers that are kept; the oldest go first."""

MAX_ANSWER = 64 * 1024
"""Characters of an answer that is kept."""

MAX_FILE = 128 * 1024 * 1024
"""Bytes of a file that is read."""

LOCK_WAIT = 2.0
"""Seconds to wait for another process to write its answer; then this one is not kept, which only costs a call."""

_FORMAT = "sluice-answers-1"


class MemoryAnswers:
    """The answers of one agent, for as long as the process lives."""

    def __init__(self) -> None:
        self._answers: dict[str, str] = {}

    async def get(self, question: str) -> str | None:
        """The answer, None when there is none."""
        return self._answers.get(_key("", question))

    async def put(self, question: str, answer: str) -> None:
        """Keep an answer; a later one for the same question replaces it."""
        _add(self._answers, _key("", question), answer)


class FileAnswers:
    """The answers of one agent in a file; agents that share the file have answers of their own."""

    def __init__(self, path: Path, agent: str) -> None:
        self._path = path
        self._agent = agent
        self._told = False

    async def get(self, question: str) -> str | None:
        """The answer, None when there is none or the file cannot be used."""
        answers = await anyio.to_thread.run_sync(self._read)
        return answers.get(_key(self._agent, question)) if answers is not None else None

    async def put(self, question: str, answer: str) -> None:
        """Keep an answer. When that fails the log says so once, and nothing else happens."""
        await anyio.to_thread.run_sync(self._put, _key(self._agent, question), answer)

    def _read(self) -> dict[str, str] | None:
        try:
            return _load(self._path)
        except (OSError, ValueError) as error:
            self._tell(error)
            return None

    def _put(self, key: str, answer: str) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with locked(self._path, LOCK_WAIT):
                answers = _load(self._path)
                _add(answers, key, answer)
                text = json.dumps({"format": _FORMAT, "answers": answers}, ensure_ascii=False)
                replace(self._path, text.encode(errors="replace"))
        except (OSError, ValueError) as error:
            self._tell(error)

    def _tell(self, error: Exception) -> None:
        if not self._told:
            self._told = True
            log.warning("the response cache %s is not used: %s", self._path, error)


def _key(agent: str, question: str) -> str:
    """A digest, so that the file does not hold what people asked."""
    return hashlib.sha256(json.dumps([agent, question]).encode()).hexdigest()


def _add(answers: dict[str, str], key: str, answer: str) -> None:
    if len(answer) > MAX_ANSWER:
        return
    answers.pop(key, None)
    answers[key] = answer
    while len(answers) > MAX_ANSWERS:
        del answers[next(iter(answers))]


def _load(path: Path) -> dict[str, str]:
    """The answers in a file; none when it does not exist or is empty. Raises ValueError for anything else."""
    try:
        if path.stat().st_size > MAX_FILE:
            raise ValueError("it is too large")
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    if not data.strip():
        return {}
    value: Any = json.loads(data)
    answers = value.get("answers") if isinstance(value, dict) and value.get("format") == _FORMAT else None
    if not isinstance(answers, dict) or not all(isinstance(answer, str) for answer in answers.values()):
        raise ValueError("it holds something else")
    return answers
