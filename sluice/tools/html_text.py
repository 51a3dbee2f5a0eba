"""HTML as plain text or as Markdown: what a reader would see, without scripts and styles. No document is refused."""

from __future__ import annotations

import re
from html.parser import HTMLParser

__all__ = ["readable"]

_HIDDEN = frozenset({"script", "style", "noscript", "template", "svg", "head", "iframe", "object"})
_BLOCKS = frozenset(
    [
        "address",
        "article",
        "aside",
        "blockquote",
        "body",
        "dd",
        "div",
        "dl",
        "dt",
        "figcaption",
        "figure",
        "footer",
        "form",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "header",
        "hr",
        "html",
        "li",
        "main",
        "nav",
        "ol",
        "p",
        "pre",
        "section",
        "table",
        "tr",
        "ul",
    ]
)
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_MARKS = {"strong": "**", "b": "**", "em": "*", "i": "*", "code": "`"}
_BLANK = re.compile(r"[ \t\r\f\v\n]+")


class _Reader(HTMLParser):
    """Collects lines; `marks` writes headings, lists, links and emphasis as Markdown."""

    def __init__(self, marks: bool) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._marks = marks
        self._hidden: list[str] = []
        self._pre = 0
        self._links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._hidden or tag in _HIDDEN:
            if tag in _HIDDEN:
                self._hidden.append(tag)
            return
        if tag in _BLOCKS or tag == "br":
            self.pieces.append("\n" if tag in ("br", "li", "tr") else "\n\n")
        if tag == "pre":
            self._pre += 1
        if tag in ("td", "th"):
            self.pieces.append(" ")
        if self._marks:
            self._open(tag, dict(attrs))

    def _open(self, tag: str, attributes: dict[str, str | None]) -> None:
        if tag == "a":
            self._links.append(attributes.get("href") or "")
            self.pieces.append("[" if self._links[-1] else "")
        elif tag == "pre":
            self.pieces.append("```\n")
        elif tag == "li":
            self.pieces.append("- ")
        elif tag in _HEADINGS:
            self.pieces.append(_HEADINGS[tag])
        elif not self._pre:
            self.pieces.append(_MARKS.get(tag, ""))

    def handle_endtag(self, tag: str) -> None:
        if self._hidden:
            if tag in self._hidden:
                del self._hidden[self._hidden.index(tag) :]
            return
        if self._marks:
            self._close(tag)
        if tag == "pre":
            self._pre = max(0, self._pre - 1)
        if tag in _BLOCKS:
            self.pieces.append("\n" if tag in ("li", "tr") else "\n\n")

    def _close(self, tag: str) -> None:
        if tag == "a" and self._links:
            target = self._links.pop()
            self.pieces.append(f"]({target})" if target else "")
        elif tag == "pre" and self._pre:
            self.pieces.append("\n```")
        elif not self._pre:
            self.pieces.append(_MARKS.get(tag, ""))

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.pieces.append(data if self._pre else _BLANK.sub(" ", data))


def readable(html: str, *, marks: bool) -> str:
    """Return the text of a document.

    Args:
        html: the document, however broken.
        marks: whether headings, lists, links, code and emphasis are written as Markdown.
    """
    reader = _Reader(marks)
    reader.feed(html)
    reader.close()
    lines = [line.rstrip() for line in "".join(reader.pieces).splitlines()]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
