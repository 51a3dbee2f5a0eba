"""The pictures of the README: `sluice run` on a pseudo-terminal, its screen written as SVG.

    python docs/pictures/make.py

Nothing is drawn by hand: a terminal emulator reads what the program writes, and each of its cells becomes text of the
picture. A script stands for the model (script.yaml beside this file), so the pictures come out the same every time; a
test compares them.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from html import escape
from itertools import groupby
from pathlib import Path

import pyte
from pyte.screens import Char

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT))

from tests.cli.support import Terminal  # noqa: E402

COLUMNS = 84
ROWS = 60
CELL_WIDTH, CELL_HEIGHT, MARGIN = 8.4, 18, 14

BACKGROUND, FOREGROUND, DIM = "#16181d", "#d7dae0", "#7f8794"
COLOURS = {
    "black": "#3a3f4a",
    "red": "#e8707a",
    "green": "#8bc97f",
    "brown": "#e2c06c",
    "yellow": "#e2c06c",
    "blue": "#6fb0ef",
    "magenta": "#c58bdc",
    "cyan": "#5cc2c9",
    "white": FOREGROUND,
    "default": FOREGROUND,
    "brightblack": DIM,
}
"""The emulator's names of colours; what it gives as six hexadecimal digits is taken as it is."""

PROJECT = {
    "larch/version.py": 'VERSION = "1.4.2"\n',
    "larch/hello.py": 'def greet(name: str) -> str:\n    """What the program says first."""\n    return "Hello, " + name\n',
    "CHANGELOG.md": "# Changelog\n\n## 1.4.2\n\n- The greeting has a name in it.\n",
}


def turn(terminal: Terminal) -> None:
    terminal.wait()


def permission(terminal: Terminal) -> None:
    terminal.expect("reject\n")


def diff(terminal: Terminal) -> None:
    terminal.expect("reject\n")
    terminal.type("y")
    terminal.wait()


def cancelled(terminal: Terminal) -> None:
    terminal.expect("every winter")
    terminal.type("\x03")
    terminal.wait()


SCENES: dict[str, tuple[str, Callable[[Terminal], None]]] = {
    "turn": ("Which version is this?", turn),
    "permission": ("Run the tests", permission),
    "diff": ("Make the greeting friendlier", diff),
    "cancelled": ("Tell me a long story", cancelled),
}


def play(name: str) -> str:
    """The picture of one scene, as SVG."""
    prompt, act = SCENES[name]
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "larch"
        for path, text in PROJECT.items():
            (project / path).parent.mkdir(parents=True, exist_ok=True)
            (project / path).write_text(text, encoding="utf-8")
        arguments = ["-m", "sluice", "run", "--working-dir", str(project), str(HERE / "agent.yaml"), prompt]
        surroundings = {"NO_COLOR": "", "TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(ROWS)}
        with Terminal(arguments, SLUICE_DATA_DIR=f"{folder}/data", PYTHONPATH=str(ROOT), **surroundings) as terminal:
            act(terminal)
            output = terminal.output.replace(str(project), "~/larch")
    screen = pyte.Screen(COLUMNS, ROWS)
    pyte.Stream(screen).feed(f"$ sluice run agent.yaml '{prompt}'\r\n" + output.replace("\n", "\r\n"))
    return svg(screen, f"sluice run: {prompt}")


def svg(screen: pyte.Screen, title: str) -> str:
    """The rows of a screen that have something on them."""
    rows = [[screen.buffer[y][x] for x in range(COLUMNS)] for y in range(ROWS)]
    while rows and not "".join(cell.data for cell in rows[-1]).strip():
        rows.pop()
    width, height = round(COLUMNS * CELL_WIDTH + 2 * MARGIN), len(rows) * CELL_HEIGHT + 2 * MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img"><title>{escape(title)}</title>',
        f'<rect width="{width}" height="{height}" rx="8" fill="{BACKGROUND}"/>',
        '<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" font-size="14" xml:space="preserve">',
    ]
    for y, row in enumerate(rows):
        lines += _row(row, MARGIN + y * CELL_HEIGHT)
    return "\n".join([*lines, "</g></svg>", ""])


def _row(row: list[Char], top: int) -> Iterator[str]:
    x = 0
    for look, cells in groupby(row, key=_look):
        text = "".join(cell.data for cell in cells)
        left, span = MARGIN + x * CELL_WIDTH, len(text) * CELL_WIDTH
        x += len(text)
        colour, background, weight, style = look
        if background is not None:
            yield f'<rect x="{left:.1f}" y="{top}" width="{span:.1f}" height="{CELL_HEIGHT}" fill="{background}"/>'
        if text.strip():
            yield (
                f'<text x="{left:.1f}" y="{top + 14}" textLength="{span:.1f}" fill="{colour}"{weight}{style}>'
                f"{escape(text)}</text>"
            )


def _look(cell: Char) -> tuple[str, str | None, str, str]:
    front = _colour(cell.fg)
    back = None if cell.bg == "default" else _colour(cell.bg)
    if cell.reverse:
        front, back = back or BACKGROUND, front
    return front, back, ' font-weight="bold"' if cell.bold else "", ' font-style="italic"' if cell.italics else ""


def _colour(name: str) -> str:
    return COLOURS.get(name) or (COLOURS[name.removeprefix("bright")] if name.startswith("bright") else f"#{name}")


if __name__ == "__main__":
    for name in SCENES:
        (HERE / f"{name}.svg").write_text(play(name), encoding="utf-8")
        print(f"{name}.svg")
