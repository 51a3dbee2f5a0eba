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

    @property
    def empty(self) -> bool:
        """Whether nothing is drawn."""
        return not self._lines

    def draw(self, lines: Sequence[str], above: str = "") -> None:
        """Make the region show these lines.

        Args:
            lines: each of fewer columns than the terminal has, and fewer of them than it has rows; each resets its
                own colours.
            above: final text to be put above the region, of whole lines; it scrolls away like any output.
        """
        columns = self._size()[0]
        out, same = self._up(columns), columns == self._columns and not above
        if above:
            final = above[:-1].split("\n")
            # What stands there now is written over as well; what is longer is cut off, what is left is erased below.
            out += "".join(f"{line}{_TO_END_OF_LINE}\n" for line in final)
        for index, line in enumerate(lines):
            unchanged = same and index < len(self._lines) and self._lines[index] == line
            out += "\n" if unchanged else f"{line}{_TO_END_OF_LINE}\n"
        shorter = len(lines) < len(self._lines) or not same
        if list(lines) == self._lines and same:
            return
        self._lines, self._columns = list(lines), columns
        self._write(out + (_TO_END_OF_SCREEN if shorter else ""))

    def _up(self, columns: int) -> str:
        """Go to the region's first line, wherever a change of the terminal's width has moved it."""
        rows = len(self._lines)
        if columns != self._columns:
            rows = sum(max(1, -(-self._width(line) // columns)) for line in self._lines)
        return f"\x1b[{rows}A" if rows else ""
