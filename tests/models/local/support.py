"""The embedded model with a stand-in for the library and weights that take no room."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from sluice.config.weights import WEIGHTS
from tests.models.helpers import Options, Resolved

LIBRARY = Path(__file__).with_name("library")


def pretend(directory: Path, weights: str = "0.5b") -> Path:
    """A file of the right name and size, which takes no room on the disk."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / WEIGHTS[weights].file
    with path.open("wb") as file:
        file.truncate(WEIGHTS[weights].size)
    return path


def local(weights: Path, context: int | None = None, model: str = "0.5b") -> Resolved:
    """The embedded model, resolved."""
    return Resolved(None, "local", model, "local", None, Options(context_size=context), weights=str(weights))


async def gone(pid: int) -> None:
    """Wait until a process that need not be our child has ended."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        with anyio.fail_after(20):
            await anyio.wait_readable(process)
    finally:
        os.close(process)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines that are started load the stand-in."""
    monkeypatch.setenv("PYTHONPATH", str(LIBRARY))
