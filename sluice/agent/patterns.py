r"""The patterns of permission rules: globs over names and values, and globs over the words of a command line.

`*` stands for anything, `?` for one character, `[a-z]` and `[^a-z]` for one of a set; a backslash takes the next
character as it is, and a `[` without its end is a `[`. Upper and lower case are the same.

Source: requirement `permission.grant.shell-words`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

__all__ = ["matches", "matches_words"]

_END = "\0"
"""What stands between words here; no word of a command line can hold it."""


def matches(pattern: str, value: str) -> bool:
    """Whether a glob covers a whole text; `*` spans line ends and slashes too."""
    return _text_pattern(pattern).fullmatch(value) is not None


def matches_words(pattern: str, words: Sequence[str]) -> bool:
    """Whether a rule that lets a command run covers its words; narrower than `matches` on purpose.

    - `*` as a word stands for one or more words, whatever they are;
    - `*` right behind a letter or digit at the end of the pattern ends that word: `ls*` is `ls`, alone or with
      further words, and never `lsof`;
    - anywhere else `*` stays within its word: `cat src/*` is one file, and none that `..` leads out of `src` to.
    """
    expression = _word_pattern(pattern)
    if expression is None or expression.fullmatch(_END.join(words)) is None:
        return False
    return ".." in pattern or not any(_climbs(word) for word in words)


def _climbs(word: str) -> bool:
    return ".." in re.split(r"[/=:,]", word)


@lru_cache(maxsize=512)
def _text_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile("(?s:" + _stars(_pieces(pattern, "."), "") + ")", re.IGNORECASE)


@lru_cache(maxsize=512)
def _word_pattern(pattern: str) -> re.Pattern[str] | None:
    tokens = pattern.split()
    if not tokens:
        return None
    parts = [_token(token, last=number == len(tokens)) for number, token in enumerate(tokens, 1)]
    return re.compile("(?s:" + _END.join(parts) + ")", re.IGNORECASE)


def _token(token: str, *, last: bool) -> str:
    if token == "*":
        return f"[^{_END}]*(?:{_END}.*)?" if last else f"[^{_END}]*(?:{_END}[^{_END}]*)*?"
    ends_word = last and token.endswith("*") and token[-2].isalnum()
    pieces = _pieces(token[:-1] if ends_word else token, f"[^{_END}]")
    return _stars(pieces, _END) + (f"(?:{_END}.*)?" if ends_word else "")


def _stars(pieces: list[str | None], barrier: str) -> str:
    """Join pieces; None is a star. All but the last star take the nearest fit for good, so a match stays cheap."""
    anything = f"[^{barrier}]" if barrier else "."
    groups: list[list[str]] = [[]]
    for piece in pieces:
        if piece is None:
            groups.append([])
        else:
            groups[-1].append(piece)
    first, *rest = ("".join(group) for group in groups)
    if not rest:
        return first
    return first + "".join(f"(?>{anything}*?{group})" for group in rest[:-1]) + f"{anything}*{rest[-1]}"


def _pieces(pattern: str, any_one: str) -> list[str | None]:
    pieces: list[str | None] = []
    at = 0
    while at < len(pattern):
        one = pattern[at]
        if one == "*":
            if not pieces or pieces[-1] is not None:
                pieces.append(None)
        elif one == "?":
            pieces.append(any_one)
        elif one == "[" and (found := _set(pattern[at:])) is not None:
            expression, length = found
            pieces.append(f"(?={any_one}){expression}")
            at += length - 1
        else:
            if one == "\\" and at + 1 < len(pattern):
                at += 1
            pieces.append(re.escape(pattern[at]))
        at += 1
    return pieces


def _set(rest: str) -> tuple[str, int] | None:
    """A set that begins a pattern, as a regular expression, and its length; None when it has no end."""
    negated = rest[1:2] in ("^", "!")
    begin = 2 if negated else 1
    end = rest.find("]", begin + 1)
    if end < 0:
        return None
    inner = re.sub(r"([\\\[\]&~|^])", r"\\\1", rest[begin:end])
    expression = f"[{'^' if negated else ''}{inner}]"
    try:
        re.compile(expression)
    except re.error:
        return None
    return expression, end + 1
