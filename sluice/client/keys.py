"""Single keys from a terminal, for questions that are answered with one.

What was typed before a question appeared does not answer it: it is thrown away first.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager

import anyio

__all__ = ["read_key"]

_END = "\x04"
"""Ctrl-D, which a terminal in single-key mode delivers as a character."""


async def read_key(descriptor: int, keys: Collection[str]) -> str | None:
    """Wait for one of some keys; other keys are ignored.

    Interrupt keys keep their meaning (they are signals). The terminal is as it was when this returns or is cancelled.

    Args:
        descriptor: an open terminal.
        keys: the keys that answer, in lower case.

    Returns:
        The key in lower case, or None when the user ended the input.
    """
    with _single_keys(descriptor):
        while True:
            await anyio.wait_readable(descriptor)
            data = os.read(descriptor, 1)
            key = data.decode("ascii", "ignore").lower()
            if not data or key == _END:
                return None
            if key in keys and key:
                return key


@contextmanager
def _single_keys(descriptor: int) -> Iterator[None]:
    import termios
    import tty

    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor, termios.TCSAFLUSH)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
