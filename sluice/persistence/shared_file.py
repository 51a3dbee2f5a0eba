"""A small file that several processes change: one at a time, and a reader sees the old one or the new one.

These calls block; run them in a worker thread.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["locked", "replace"]

_PAUSE = 0.02
"""Seconds between two tries to get the lock."""


@contextmanager
def locked(path: Path, wait: float) -> Iterator[None]:
    """Hold the lock of a file, which is a file beside it; it goes with the process that has it, however that ends.

    Args:
        path: the file that will be changed; its directory exists.
        wait: how long to try, in seconds.

    Raises:
        OSError: another process has it for longer.
    """
    deadline = time.monotonic() + wait
    with path.with_name(f"{path.name}.lock").open("a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise OSError("another process keeps it locked") from None
                time.sleep(_PAUSE)
        yield


def replace(path: Path, data: bytes) -> None:
    """Write beside the file, bring that to the disk, then put it in the file's place. A link stays a link.

    Raises:
        OSError: it cannot be written; the old file is as it was.
    """
    target = path.resolve()
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(target)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
