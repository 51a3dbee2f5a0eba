"""`python -m sluice` is the `sluice` command."""

from __future__ import annotations

import sys

from sluice.cli.main import main

__all__: list[str] = []

if __name__ == "__main__":
    sys.exit(main())
