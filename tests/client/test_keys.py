"""Which keys answer a question."""

from __future__ import annotations

import os
from collections.abc import Iterator

import anyio
import pytest

from sluice.client import keys
from sluice.client.keys import read_key, single_keys
from tests.support.wire import BOUND

pytestmark = pytest.mark.anyio


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """A pseudo-terminal: the person's end, the program's end."""
    person, program = os.openpty()
    with single_keys(program):
        yield person, program
    os.close(person)
    os.close(program)


@pytest.mark.parametrize("noise", [b"\x1b[A", b"\x1b", b"ya", b"x"])
async def test_a_key_answers_alone_and_after_a_pause(
    terminal: tuple[int, int], monkeypatch: pytest.MonkeyPatch, noise: bytes
) -> None:
    person, program = terminal
    monkeypatch.setattr(keys, "QUIET", 3600.0)
    os.write(person, noise)
    with anyio.move_on_after(0.2) as waiting:
        await read_key(program, "yan", "n")
    assert waiting.cancelled_caught, "noise answers nothing"
    os.write(person, noise)
    found: list[str | None] = []

    async def ask() -> None:
        found.append(await read_key(program, "yan", "n"))

    monkeypatch.setattr(keys, "QUIET", 0.02)
    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            while not found:
                await anyio.sleep(0.05)  # a person's pause
                os.write(person, b"y")
    assert found == ["y"]


async def test_a_refusal_counts_in_any_company(terminal: tuple[int, int]) -> None:
    person, program = terminal
    os.write(person, b"maybe Not")
    with anyio.fail_after(BOUND):
        assert await read_key(program, "yan", "n") == "n"
