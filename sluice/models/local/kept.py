"""What an engine has read in front of a conversation, kept on the disk for the engines after it.

Instruction, tools and worked examples are most of a first prompt, and reading them takes a small machine ten seconds
and more. An engine that finds them read already takes a fraction of one. Only what stands in front is kept: nothing
that a person or the model said is in it.

The engine compares what is kept with the prompt token by token and reads the rest itself, so a kept file that does
not fit costs time and never changes an answer. A damaged one would end it, so a kept file has its SHA-256 in its name
and is not given to the engine without a look. Nothing here fails a call: where it cannot keep, the engine reads.

Source: the llama.cpp server's documentation, "POST /slots/{id_slot}?action=save" and "…=restore".
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
import msgspec

from sluice.agent.ports import ModelRequest
from sluice.models.http import new_client

__all__ = ["KEPT_BYTES", "SPARE_BYTES", "Kept", "directory_of"]

KEPT_BYTES = 256_000_000
"""What may be kept beside one file of weights, in bytes; the newest stays in any case. A thousand tokens take 12 MB
with the smaller model and 29 MB with the larger one."""

SPARE_BYTES = 1_000_000_000
"""What has to be free on the disk for anything to be kept, in bytes: this is a convenience."""

SLOT_SECONDS = 20.0
"""How long the engine may take to write or read a kept file, in seconds; a tenth of one is usual."""

log = logging.getLogger(__name__)


def directory_of(weights: str | Path) -> Path:
    """Where it is kept what engines with these weights have read: beside them."""
    return Path(f"{weights}.read")


class Kept:
    """What one engine has read and will read, as the process that asks it sees it.

    Args:
        weights: the file it has loaded.
        library: which version of the library it is; another one may write another form.
        base_url: where its chat completions are.
        key: what it wants to be shown.
    """

    def __init__(self, weights: str, library: str, base_url: str, key: str) -> None:
        self._weights = Path(weights)
        self._library = library
        self._url = f"{base_url.removesuffix('/v1')}/slots/0"
        self._headers = {"authorization": f"Bearer {key}", "connection": "close"}
        self._directory = directory_of(weights)
        self._taken: Path | None = None

    async def ready(self, front: ModelRequest, read: Callable[[], Awaitable[bool]]) -> None:
        """Leave the engine with this in front: taken from the disk, or read, and then kept.

        Args:
            front: what stands in front of a conversation, as a prompt.
            read: has the engine read it; returns whether it did.
        """
        try:
            name = await anyio.to_thread.run_sync(self._name, front)
            kept = await anyio.to_thread.run_sync(self._found, name)
            if kept is not None and await self._restored(kept):
                return
            if await read() and await anyio.to_thread.run_sync(self._room):
                await self._keep(name)
        except OSError as error:
            log.info("what the local model has read is not kept: %s", error.strerror)

    async def _restored(self, path: Path) -> bool:
        if await self._slot("restore", path.name):
            os.utime(path)
            self._taken = path
            return True
        # Whatever is wrong with it, the next engine must not meet it again.
        path.unlink(missing_ok=True)
        return False

    async def distrust(self) -> None:
        """Forget the file that the engine was given, since the engine has ended by itself: it may be the reason, and
        what is read anew costs some seconds only.
        """
        taken, self._taken = self._taken, None
        if taken is not None:
            await anyio.to_thread.run_sync(partial(taken.unlink, missing_ok=True))

    async def _keep(self, name: str) -> None:
        """Written beside its place and moved there whole, whenever this process or the engine is ended."""
        new = self._directory / f"{name}.{os.getpid()}"
        try:
            if await self._slot("save", new.name):
                new.replace(self._directory / f"{name}-{await anyio.to_thread.run_sync(_sum, new)}")
                await anyio.to_thread.run_sync(self._prune)
        finally:
            new.unlink(missing_ok=True)

    def _name(self, front: ModelRequest) -> str:
        file = self._weights.stat()
        said = (self._library, file.st_size, file.st_mtime_ns, front.messages, front.tools)
        return hashlib.sha256(msgspec.json.encode(said)).hexdigest()[:32]

    def _found(self, name: str) -> Path | None:
        """The file of this name that is as it was written; one that is not is removed."""
        for path in self._directory.glob(f"{name}-*"):
            if path.name == f"{name}-{_sum(path)}":
                return path
            path.unlink(missing_ok=True)
        return None

    def _room(self) -> bool:
        with suppress(OSError):
            return self._directory.is_dir() and shutil.disk_usage(self._directory).free > SPARE_BYTES
        return False

    def _prune(self) -> None:
        """Remove the oldest until the rest fits, what a killed process left half written like everything else."""
        found = []
        for path in self._directory.iterdir():
            with suppress(OSError):
                found.append((path.stat(), path))
        size = 0
        for number, (file, path) in enumerate(sorted(found, key=lambda one: one[0].st_mtime_ns, reverse=True)):
            size += file.st_size
            if number and size > KEPT_BYTES:
                path.unlink(missing_ok=True)

    async def _slot(self, action: str, name: str) -> bool:
        """Ask the engine to write or read a kept file. Returns whether it did, whole."""
        import httpx

        path = self._directory / name
        try:
            async with await anyio.to_thread.run_sync(partial(new_client, self._url, SLOT_SECONDS)) as client:
                answer = await client.post(
                    self._url, params={"action": action}, json={"filename": name}, headers=self._headers
                )
            done: Any = answer.json() if answer.status_code == httpx.codes.OK else {}
            # A full disk leaves a short file, and the engine says 0.
            return (
                bool(done) and 0 < done.get("n_written" if action == "save" else "n_read", 0) == path.stat().st_size
            )
        except (httpx.HTTPError, ValueError, AttributeError, TypeError, OSError) as error:
            log.info("the local model could not %s what stands in front: %s", action, type(error).__name__)
            return False


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
