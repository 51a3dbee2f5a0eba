"""Registrations of processes that can be attached to: a file each in `<data-dir>/runs`, for their owner only."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Registration", "register", "registrations"]


@dataclass(frozen=True, slots=True)
class Registration:
    """A process that can be attached to. `address` is the path of its socket, `started` seconds since the epoch."""

    pid: int
    address: str
    started: float


@contextmanager
def register(data_dir: Path, started: float) -> Iterator[Registration]:
    """Make the directory and the registration of this process; gone, with the socket, at the end.

    Raises:
        OSError: the directory or the file cannot be written.
    """
    directory = data_dir / "runs"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory.chmod(0o700)
    own = Registration(os.getpid(), str(directory / f"{os.getpid()}.sock"), started)
    file = directory / f"{own.pid}.json"
    # A socket of an earlier process with this number: it cannot be alive.
    Path(own.address).unlink(missing_ok=True)
    file.touch(mode=0o600)
    file.write_text(json.dumps({"pid": own.pid, "address": own.address, "started": own.started}), encoding="utf-8")
    try:
        yield own
    finally:
        for left in (file, Path(own.address)):
            with suppress(OSError):
                left.unlink()


def registrations(data_dir: Path) -> list[Registration]:
    """The processes that run, newest first; what a killed one has left behind is taken away."""
    found = []
    for file in (data_dir / "runs").glob("*.json"):
        try:
            read = json.loads(file.read_text(encoding="utf-8"))
            one = Registration(int(read["pid"]), str(read["address"]), float(read["started"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if _runs(one.pid):
            found.append(one)
            continue
        for left in (file, Path(one.address)):
            with suppress(OSError):
                left.unlink()
    return sorted(found, key=lambda one: one.started, reverse=True)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
