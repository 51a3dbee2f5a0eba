"""`sluice diagrams`: write the generated diagrams, or check that the committed ones are current."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

__all__ = ["diagrams"]


def diagrams(options: argparse.Namespace) -> int:
    """Write or check. Returns the exit status: 0, or 1 when `--check` found stale files, which it names."""
    from sluice.machines import render

    directory = Path(options.directory)
    if not options.check:
        render.write(directory)
        return 0
    stale = render.check(directory)
    for name in stale:
        print(f"sluice: {directory / name} is not what the machines say; run `sluice diagrams`", file=sys.stderr)
    return 1 if stale else 0
