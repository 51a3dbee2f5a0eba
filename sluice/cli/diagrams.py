"""`sluice diagrams`: write the generated diagrams, or check that the committed ones are current."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

__all__ = ["diagrams"]


def diagrams(options: argparse.Namespace) -> int:
    """Write or check. Returns the exit status: 0, or 1 when `--check` found stale files, which it names."""
    from sluice.machines import generate, render

    directory = Path(options.directory)
    if not options.check:
        render.write(directory)
        generate.FILE.write_text(generate.source(), encoding="utf-8")
        return 0
    if not directory.is_dir():
        print(f"sluice: there is no directory {directory} here to check", file=sys.stderr)
        return 1
    stale = [directory / name for name in render.check(directory)]
    if generate.FILE.read_text(encoding="utf-8") != generate.source():
        stale.append(generate.FILE)
    for path in stale:
        print(f"sluice: {path} is not what the machines say; run `sluice diagrams`", file=sys.stderr)
    return 1 if stale else 0
