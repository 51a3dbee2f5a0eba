"""Ignore files in the form of .gitignore: patterns, negation, anchors and `**`."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["IgnoreRules"]


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str]
    negated: bool
    only_directories: bool


class IgnoreRules:
    """The rules of one ignore file; paths are relative to its directory, with `/` between names."""

    def __init__(self, text: str) -> None:
        rules = (_rule(line) for line in text.removeprefix("\ufeff").splitlines())
        self._rules = tuple(rule for rule in rules if rule is not None)

    def ignores(self, path: str, *, is_dir: bool) -> bool:
        """Return whether a path is ignored: by itself or because a directory above it is."""
        names = path.split("/")
        for depth in range(1, len(names) + 1):
            if self.matches("/".join(names[:depth]), is_dir=is_dir or depth < len(names)):
                return True
        return False

    def matches(self, path: str, *, is_dir: bool) -> bool:
        """Return what the last rule that fits says about a path, without looking at the directories above it."""
        for rule in reversed(self._rules):
            if (is_dir or not rule.only_directories) and rule.pattern.fullmatch(path):
                return not rule.negated
        return False


def _rule(line: str) -> _Rule | None:
    line = re.sub(r"(?<!\\)[ \t]+$", "", line)
    if not line or line.startswith("#"):
        return None
    negated = line.startswith("!")
    line = line[1:] if negated else line
    only_directories = line.endswith("/")
    line = line.rstrip("/")
    if not line:
        return None
    anchored = "/" in line
    body = _translate(line.lstrip("/"))
    return _Rule(re.compile(body if anchored else f"(?:.*/)?{body}", re.DOTALL), negated, only_directories)


def _translate(glob: str) -> str:
    out: list[str] = []
    at = 0
    while at < len(glob):
        piece, length = _piece(glob, at)
        out.append(piece)
        at += length
    return "".join(out)


def _piece(glob: str, at: int) -> tuple[str, int]:
    """Translate what starts at a position: the regular expression and how many characters it took."""
    rest = glob[at:]
    if rest.startswith("**/") and (at == 0 or glob[at - 1] == "/"):
        return "(?:.*/)?", 3
    if rest == "**" and at > 0 and glob[at - 1] == "/":
        return ".+", 2
    if rest[0] == "*":
        stars = len(rest) - len(rest.lstrip("*"))
        return "[^/]*", stars
    if rest[0] == "?":
        return "[^/]", 1
    if rest[0] == "[":
        return _class(rest)
    if rest[0] == "\\" and len(rest) > 1:
        return re.escape(rest[1]), 2
    return re.escape(rest[0]), 1


def _class(rest: str) -> tuple[str, int]:
    """Translate a character class; one that does not end, or makes no sense, is taken as the bracket itself."""
    end = rest.find("]", 3 if rest[1:3] in ("!]", "^]") else 2)
    if end < 0:
        return r"\[", 1
    inner = rest[1:end]
    negated = inner[:1] in ("!", "^")
    members = re.sub(r"([\\\[\]&~|^])", r"\\\1", inner[1:] if negated else inner)
    expression = f"(?!/)[{'^' if negated else ''}{members}]"
    try:
        re.compile(expression)
    except re.error:
        return r"\[", 1
    return expression, end + 1
