"""Single keys from a terminal, for questions that are answered with one.

What was typed before a question appeared does not answer it: it is thrown away first.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager

import anyio

__all__ = ["read_key", "single_keys", "unechoed"]

QUIET = 0.5
"""Seconds without a key after one that answers nothing, until keys count again."""

_END = b"\x04"
"""Ctrl-D, which a terminal in single-key mode delivers as a character."""

_BURST = 4096
"""Bytes taken at once."""


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


async def read_key(descriptor: int, keys: Collection[str], refusals: Collection[str] = ()) -> str | None:
    """Wait for one of some keys, within `single_keys`.

    A key answers only when it comes alone and after a pause: an arrow key arrives as an escape character and letters,
    over a slow line one by one, and who types or pastes a word has not pressed the key that is one of its letters.
    Neither may approve anything. To refuse, any such letter will do.

    Args:
        descriptor: the terminal.
        keys: the keys that answer, in lower case.
        refusals: those of them that answer in any company.

    Returns:
        The key in lower case, or None when the user ended the input.
    """
    alone = True
    while True:
        data = b""
        with anyio.move_on_after(None if alone else QUIET) as pause:
            await anyio.wait_readable(descriptor)
            data = os.read(descriptor, _BURST)
        if pause.cancelled_caught:
            alone = True
            continue
        if data in (b"", _END):
            return None
        typed = data.decode("ascii", "ignore").lower()
        if alone and len(data) == 1 and typed in keys:
            return typed
        for key in typed:
            if key in refusals and key in keys:
                return key
        alone = False
