"""The lines at the bottom of a terminal that may still change; everything above them is final.

A redraw writes over what is there, line by line, and only where something changed: nothing is blanked first, so
nothing flickers. All of it goes out in one piece, and the cursor rests at the start of the line below the region.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

__all__ = ["Region", "Size"]

Size = tuple[int, int]
"""Columns and rows of a terminal."""

_TO_END_OF_LINE, _TO_END_OF_SCREEN = "\x1b[K", "\x1b[J"


class Region:
    """A region of changing lines.

    Args:
        write: takes text for the terminal.
        size: asks the terminal for its size; it may change at any time.
        width: columns a drawn line takes, escape sequences not counted.
    """

    def __init__(self, write: Callable[[str], None], size: Callable[[], Size], width: Callable[[str], int]) -> None:
        self._write = write
        self._size = size
        self._width = width
        self._lines: list[str] = []
        self._columns = 0

    def draw(self, lines: Sequence[str], above: str = "") -> None:
        """Make the region show these lines.

        Args:
            lines: each of fewer columns than the terminal has, and fewer of them than it has rows; each resets its
                own colours.
            above: final text to be put above the region, of whole lines; it scrolls away like any output.
        """
        columns = self._size()[0]
        moved = columns != self._columns
        if not above and not moved and list(lines) == self._lines:
            return
        final = above[:-1].split("\n") if above else []
        out = [self._up(columns)]
        for index, line in enumerate([*final, *lines]):
            before = self._lines[index] if index < len(self._lines) and not moved else None
            if line == before:
                out.append("\n")
            else:
                # Only where something may stand is something to be erased: what nothing was drawn over is plain text.
                stale = moved if before is None else bool(before)
                out.append(f"{line}{_TO_END_OF_LINE}\n" if stale and self._lines else f"{line}\n")
        if self._lines and (moved or len(final) + len(lines) < len(self._lines)):
            out.append(_TO_END_OF_SCREEN)
        self._lines, self._columns = list(lines), columns
        self._write("".join(out))

    def _up(self, columns: int) -> str:
        """Go to the region's first line, wherever a change of the terminal's width has moved it."""
        rows = len(self._lines)
        if columns != self._columns:
            rows = sum(max(1, -(-self._width(line) // columns)) for line in self._lines)
        return f"\x1b[{rows}A" if rows else ""
