r"""Patterns of form fields: the part of regular expressions that means the same everywhere, and ends soon.

A pattern comes from a tool or an MCP server and is checked against what a person typed, so it may be neither read
more loosely than its author meant nor keep the process busy. What is understood: literals, `.`, classes, `\d`, `\w`,
`\s` and their like, `^` at the start, `$` at the end, and a quantifier after each. No groups, alternatives,
look-around or back-references. Anything else is not understood, and a form with it is declined.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["MOST_STEPS", "Pattern", "PatternError"]

MOST_STEPS = 1_000_000
"""The most positions a match may have to try, roughly; above it a value counts as not matching."""

LONGEST = 1000
"""Characters of a pattern."""

_ATOM = re.compile(
    r"""
    (?P<any>\.)
    | (?P<escaped>\\(?:[dDwWs]|[nrtfv]|[^A-Za-z0-9]))
    | (?P<set>\[(?!\^)(?:\\(?:[dws]|[nrtfv]|[^A-Za-z0-9])|[^\\\]\[])+\])
    | (?P<negated>\[\^(?:\\(?:[dw]|[nrtfv]|[^A-Za-z0-9])|[^\\\]\[])+\])
    | (?P<plain>[^\\.\[\](){}*+?|^$])
    """,
    re.VERBOSE,
)
_QUANTIFIER = re.compile(r"\*|\+|\?|\{(\d{1,4})(,?)(\d{0,4})\}")

_SET_OPERATORS = ("--", "&&", "||", "~~")
"""What `re` may one day read as operations on sets, and ECMAScript does already under one of its flags."""

_SIMPLE: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}

_ANY = "[^\n\r\u2028\u2029]"


class PatternError(ValueError):
    """The pattern is outside what is understood."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern that was understood.

    Attributes:
        least: the characters of the shortest match.
        spans: for each quantifier that varies, how many more lengths it may take; None for any number.
    """

    compiled: re.Pattern[str]
    anchored: bool
    least: int
    spans: tuple[int | None, ...]

    @classmethod
    def read(cls, text: str) -> Pattern:
        """Understand a pattern. Raises PatternError."""
        if len(text) > LONGEST:
            raise PatternError("the pattern is too long")
        anchored = text.startswith("^")
        body = text[1:] if anchored else text
        before = body.removesuffix("$")
        closed = before != body and (len(before) - len(before.rstrip("\\"))) % 2 == 0
        body = before if closed else body
        made, least, spans = _translate(body)
        try:
            # ASCII: \d and \w are what they are in ECMAScript. \Z, because $ here also matches before a last newline.
            compiled = re.compile(("^" if anchored else "") + made + (r"\Z" if closed else ""), re.ASCII)
        except (re.error, OverflowError) as error:
            raise PatternError("the pattern is not valid") from error
        return cls(compiled, anchored, least, tuple(spans))

    def fits(self, value: str) -> bool:
        """Whether the pattern is found in the value; a value that would take too long to search does not fit."""
        steps = (self.least + 1) * (1 if self.anchored else len(value) + 1)
        for span in self.spans:
            steps *= min(len(value) if span is None else span, len(value)) + 1
            if steps > MOST_STEPS:
                return False
        return steps <= MOST_STEPS and self.compiled.search(value) is not None


def _translate(body: str) -> tuple[str, int, list[int | None]]:
    made: list[str] = []
    spans: list[int | None] = []
    at = shortest = 0
    while at < len(body):
        atom = _ATOM.match(body, at)
        if atom is None or any(operator in atom[0] for operator in _SET_OPERATORS):
            raise PatternError(f"the pattern is not understood at character {at + 1}")
        made.append(_ANY if atom["any"] else atom[0])
        at = atom.end()
        quantifier = _QUANTIFIER.match(body, at)
        least: int = 1
        most: int | None = 1
        if quantifier is not None:
            made.append(quantifier[0])
            at = quantifier.end()
            least, most = _bounds(quantifier)
        shortest += least
        if most is None or most > least:
            spans.append(None if most is None else most - least)
    return "".join(made), shortest, spans


def _bounds(quantifier: re.Match[str]) -> tuple[int, int | None]:
    """How often at least and at most; None for any number."""
    if quantifier[0] in _SIMPLE:
        return _SIMPLE[quantifier[0]]
    least, comma, most = quantifier.groups()
    if not comma and not most:
        return int(least), int(least)
    if not comma or (most and int(most) < int(least)):
        raise PatternError("a quantifier of the pattern is not understood")
    return int(least), int(most) if most else None
