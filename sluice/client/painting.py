"""Things of a session as lines for a colour terminal, drawn with rich.

Two things never happen here. Text of an agent is never read as rich's own markup: it only goes into `Text` objects
and into the Markdown parser. And no character that a terminal obeys comes out: texts are made printable before they
are laid out, what the Markdown parser decodes (`&#8238;`) after parsing, and each finished line is looked over again.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import unified_diff
from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.segment import Segment, Segments
from rich.style import Style
from rich.syntax import Syntax
from rich.text import Text
from rich.theme import Theme

from sluice.client.reading import items, members, text
from sluice.client.updates import ToolRow
from sluice.client.wording import DIFF_LINES, UNSAFE, argument_lines, change_counts, one_line, printable

__all__ = ["Painter", "argument_texts", "blocks", "diff_lines", "markdown"]

_THEME = Theme(
    {
        "markdown.h1": "bold underline",
        "markdown.h2": "bold",
        "markdown.h3": "bold",
        "markdown.h4": "bold",
        "markdown.h5": "bold",
        "markdown.h6": "bold",
        "markdown.code": "cyan",
        "markdown.code_block": "cyan",
        "markdown.block_quote": "dim",
        "markdown.item.bullet": "bold",
        "markdown.item.number": "bold",
        "markdown.link": "underline",
        "markdown.link_url": "dim underline",
        "markdown.hr": "dim",
    }
)

_WHOLE_MARKDOWN = 200_000
"""Characters of one block that are still laid out as Markdown; a longer one is shown as it is."""

_DEFINITION = re.compile(r"^( {0,3})\[(?=[^\]\n]+\]:)", re.MULTILINE)

_HUNK_HEADER = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


class _LeftHeading(Heading):
    """A heading at the left, where everything else begins; rich would centre it or put a box around it."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class _Code(CodeBlock):
    """Code without blank lines around it; those between blocks are ours."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        yield Syntax(code, self.lexer_name, theme=self.theme, word_wrap=True, padding=(0, 1))


class _Markdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _LeftHeading,
        "fence": _Code,
        "code_block": _Code,
    }


def markdown(source: str) -> RenderableType:
    """Markdown of an agent, with every link's address in sight.

    Args:
        source: as it came; it is made printable here.
    """
    said = printable(source)
    if len(said) > _WHOLE_MARKDOWN:
        return Text(said)
    if not said.lstrip().startswith(("```", "~~~")):
        # A definition is invisible by Markdown's rules, and what refers to it is mostly drawn by itself: show both.
        said = _DEFINITION.sub(r"\1\\[", said)
    document = _Markdown(said, code_theme="ansi_dark", hyperlinks=False)
    for token in document.parsed:
        for part in (token, *(token.children or ())):
            part.content = printable(part.content)
            part.attrs = {
                key: printable(value) if isinstance(value, str) else value for key, value in part.attrs.items()
            }
    return document


def _printable_value(value: str | int | float) -> str | int | float:
    return printable(value) if isinstance(value, str) else value


def blocks(source: str) -> list[str]:
    """Cut a Markdown text into its top-level blocks; joined they are the text again.

    A text that still grows can change its last block only. Blocks are drawn one by one, so that a message looks the
    same however it came. The price: a link whose address stands in another block is shown as it was written.
    """
    starts = [token.map[0] for token in Markdown(source).parsed if token.map and token.level == 0]
    lines = re.findall("[^\n]*\n|[^\n]+", source)
    ends = [*starts[1:], len(lines)]
    return (
        ["".join(lines[start:end]) for start, end in zip([0, *starts[1:]], ends, strict=True)]
        if starts
        else [source] * bool(source.strip())
    )


class Painter:
    """Turns what rich can draw into lines with escape sequences for colours, and nothing else in them.

    Args:
        colour: whether there are colours and weights at all.
    """

    def __init__(self, *, colour: bool) -> None:
        self._console = Console(
            file=io.StringIO(),
            force_terminal=True,
            color_system="auto" if colour else None,
            theme=_THEME,
            markup=False,
            emoji=False,
            highlight=False,
            legacy_windows=False,
        )

    def lines(self, what: RenderableType, width: int) -> list[str]:
        """Lay out in at most `width` columns; without blank lines around, and without blanks at line ends."""
        options = self._console.options.update(width=max(10, width), height=None)
        rows = [_clean(row) for row in self._console.render_lines(what, options, pad=False)]
        while rows and not rows[-1]:
            rows.pop()
        while rows and not rows[0]:
            rows.pop(0)
        return self._encoded(rows)

    @staticmethod
    def width(line: str) -> int:
        """Columns of a line that was drawn here."""
        return Text.from_ansi(line).cell_len

    def _encoded(self, rows: Iterable[Sequence[Segment]]) -> list[str]:
        whole: list[Segment] = []
        for row in rows:
            whole += [*row, Segment.line()]
        if not whole:
            return []
        with self._console.capture() as captured:
            self._console.print(Segments(whole), end="", crop=False, no_wrap=True, overflow="ignore")
        return captured.get()[:-1].split("\n")


def _clean(row: Sequence[Segment]) -> list[Segment]:
    """A row without control codes of any origin, and without blanks at its end that have no background."""
    # A replaced character keeps the row's width; none is expected here, as texts are made printable before.
    found = [Segment(UNSAFE.sub("\ufffd", said), style) for said, style, control in row if not control]
    while found and not _marks_blanks(found[-1].style):
        stripped = found[-1].text.rstrip(" ")
        if stripped:
            found[-1] = Segment(stripped, found[-1].style)
            break
        found.pop()
    return found


def _marks_blanks(style: Style | None) -> bool:
    """Whether a blank in this style can be seen."""
    if style is None:
        return False
    return bool(style.reverse or (style.bgcolor is not None and not style.bgcolor.is_default))


def argument_texts(value: object, limit: int) -> Iterator[Text]:
    """A tool's arguments, one a line; replacements of one text by another as coloured lines.

    Args:
        value: the arguments as the agent sent them.
        limit: lines shown of one replacement; a word says how many more there are.
    """
    rest = dict(members(value))
    replacements = [rest] if _replaces(rest) else [entry for entry in items(rest.get("edits")) if _replaces(entry)]
    if not replacements or len(replacements) < len(items(rest.get("edits"))):
        yield from (Text(line) for line in argument_lines(value))
        return
    pairs = [(str(entry["oldText"]), str(entry["newText"])) for entry in replacements]
    for name in ("oldText", "newText", "edits"):
        rest.pop(name, None)
    yield from (Text(line) for line in argument_lines(rest))
    for old, new in pairs:
        lines = [Text(f"- {one_line(line, 400, strip=False)}", "red") for line in old.splitlines()]
        lines += [Text(f"+ {one_line(line, 400, strip=False)}", "green") for line in new.splitlines()]
        yield from lines[:limit]
        if len(lines) > limit:
            yield Text(f"… {len(lines) - limit} more lines", "dim")


def _replaces(entry: Mapping[str, object]) -> bool:
    return isinstance(entry.get("oldText"), str) and isinstance(entry.get("newText"), str)


def diff_lines(row: ToolRow, limit: int) -> Iterator[Text]:
    """The changes a tool call makes or made, file by file, as coloured lines.

    Args:
        row: the call.
        limit: lines per file; a word says how many more there are.
    """
    for entry in row.content:
        path, new = text(entry.get("path")), text(entry.get("newText")) or ""
        if entry.get("type") != "diff" or not path:
            continue
        old = text(entry.get("oldText"))
        yield Text.assemble((one_line(path), "bold"), " ", (change_counts(old, new), "dim"))
        if (old or "").count("\n") + new.count("\n") > DIFF_LINES:
            continue
        shown = list(_hunks((old or "").splitlines(), new.splitlines()))
        yield from shown[:limit]
        if len(shown) > limit:
            yield Text(f"  … {len(shown) - limit} more lines", "dim")


def _hunks(before: list[str], after: list[str]) -> Iterator[Text]:
    old = new = 0
    for number, line in enumerate(unified_diff(before, after, n=3, lineterm="")):
        if number < 2:
            # The two lines with file names; the path stands above.
            continue
        if match := _HUNK_HEADER.match(line):
            if number > 2:
                yield Text("     ⋮", "dim")
            old, new = int(match[1]), int(match[2])
            continue
        sign, said = line[:1], one_line(line[1:].replace("\t", "    "), 400, strip=False)
        if sign == "-":
            yield Text(f"{old:>5} - {said}", "red")
            old += 1
        elif sign == "+":
            yield Text(f"{new:>5} + {said}", "green")
            new += 1
        else:
            yield Text(f"{new:>5}   {said}", "dim")
            old, new = old + 1, new + 1
