"""What the store's tests share: an open store, a way to look at its file, and children that use it."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import sluice
from sluice.persistence.store import Store

ROOT = Path(sluice.__file__).parent.parent

Query = Callable[..., list[tuple[Any, ...]]]
Lock = sqlite3.Connection
Child = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[Store]:
    opened = await Store.open(path, busy_timeout=0.05)
    yield opened
    await opened.aclose()


@pytest.fixture
def query(path: Path) -> Iterator[Query]:
    """Run one statement in the store's file, on a connection of nobody."""
    connections: list[sqlite3.Connection] = []

    def run(sql: str, *values: object) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(path, isolation_level=None)
        connections.append(connection)
        return connection.execute(sql, values).fetchall()

    yield run
    for connection in connections:
        connection.close()


@pytest.fixture
def lock(path: Path) -> Iterator[Lock]:
    """A connection as of another process, to hold the file's locks with."""
    path.touch()
    connection = sqlite3.connect(path, isolation_level=None)
    yield connection
    connection.close()


@pytest.fixture
def child() -> Iterator[Child]:
    """Start Python processes that run a text with arguments; what still runs at the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(code: str, *arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-W", "error", "-c", code, *map(str, arguments)]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
