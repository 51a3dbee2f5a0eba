"""What a person sees: the bytes of a program played on an emulated terminal, the scrollback included."""

from __future__ import annotations

import pyte

__all__ = ["seen"]


def seen(output: str, columns: int = 80, rows: int = 24) -> list[str]:
    """The lines of a terminal after some output, from the first that scrolled away; without blanks at their ends."""
    screen = pyte.HistoryScreen(columns, rows, history=10_000, ratio=0.5)
    pyte.Stream(screen).feed(output.replace("\r\n", "\n").replace("\n", "\r\n"))
    above = ["".join(line[column].data for column in range(columns)) for line in screen.history.top]
    lines = [line.rstrip() for line in [*above, *screen.display]]
    while lines and not lines[-1]:
        lines.pop()
    return lines
