"""Single keys from a terminal, for questions that are answered with one.

What was typed before a question appeared does not answer it: it is thrown away first.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager

import anyio

__all__ = ["read_key", "single_keys", "unechoed"]

_END = "\x04"
"""Ctrl-D, which a terminal in single-key mode delivers as a character."""


@contextmanager
def single_keys(descriptor: int) -> Iterator[None]:
    """Make a terminal deliver each key at once and unechoed, and throw away what was typed before.

    Enter this before the question is shown, or a quick answer to it is thrown away too. Interrupt keys keep their
    meaning (they are signals). On the way out the terminal is as it was.

    Args:
        descriptor: an open terminal.
    """
    import termios
    import tty

    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor, termios.TCSAFLUSH)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


@contextmanager
def unechoed(descriptor: int) -> Iterator[None]:
    """Let a terminal keep what is typed for whoever reads the next line, without showing it. Signals still work.

    Args:
        descriptor: an open terminal.
    """
    import termios

    before = termios.tcgetattr(descriptor)
    quiet = [*before[:3], before[3] & ~(termios.ECHO | termios.ECHONL), *before[4:]]
    try:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, quiet)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


async def read_key(descriptor: int, keys: Collection[str]) -> str | None:
    """Wait for one of some keys, within `single_keys`; other keys are ignored.

    Args:
        descriptor: the terminal.
        keys: the keys that answer, in lower case.

    Returns:
        The key in lower case, or None when the user ended the input.
    """
    while True:
        await anyio.wait_readable(descriptor)
        data = os.read(descriptor, 1)
        key = data.decode("ascii", "ignore").lower()
        if not data or key == _END:
            return None
        if key in keys and key:
            return key
