"""The three standard descriptors of a process that was started without one of them."""

from __future__ import annotations

import os
import sys

__all__ = ["filled"]


def filled() -> bool:
    """Put something where a standard descriptor is closed: the next file that is opened would get its number, and
    what is said would be written into it. Returns whether there is a standard output.
    """
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if stream is None:
            # From 0 upwards, so what is opened gets this very number. Commands that are started inherit it.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stdout is None:
        os.write(2, b"sluice: standard output is closed\n")
        return False
    return True
