"""What a shell command line is likely to do: safe, destructive or unknown. The data is in shell_commands.toml.

Safe is a narrow word: one plain command from the list of those that only look, without a flag that makes them do
more. A wrong "safe" runs something unasked, a wrong "unknown" asks; so every doubt is unknown. Requirement
`tools.shell.classifier`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal

from sluice.agent.shell_words import every_command, parse

__all__ = ["ShellLabel", "label"]

ShellLabel = Literal["safe", "destructive", "unknown"]

_LONGEST_NAME = 3
"""Words of the longest name in the table (`docker image ls`)."""


@dataclass(frozen=True, slots=True)
class _Safe:
    unsafe: frozenset[str]
    only: frozenset[str]
    skip: frozenset[str]
    operands: int | None
    pattern: re.Pattern[str] | None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> _Safe:
        def texts(key: str) -> frozenset[str]:
            return frozenset(row.get(key, ()))

        pattern = re.compile(row["pattern"]) if "pattern" in row else None
        return cls(texts("unsafe"), texts("only"), texts("skip"), row.get("operands"), pattern)

    def covers(self, words: tuple[str, ...]) -> bool:
        """Whether the words behind the name leave the command safe."""
        if self.only:
            return len(words) == 1 and words[0] in self.only
        flags, operands = _sorted(words)
        if any(self._is_unsafe(flag) for flag in flags):
            return False
        if self.operands is not None and len(operands) > self.operands:
            return False
        return self.pattern is None or all(self.pattern.fullmatch(word) for word in operands)

    def _is_unsafe(self, flag: str) -> bool:
        if flag.startswith("--"):
            # A long flag may be shortened as long as it stays unique.
            name = flag.partition("=")[0]
            return any(known.startswith(name) for known in self.unsafe)
        if flag.partition("=")[0] in self.unsafe:
            return True
        # One-letter flags may stand together, and their values right behind them.
        return any(len(known) == 2 and known[1] in flag[1:] for known in self.unsafe)


@dataclass(frozen=True, slots=True)
class _Table:
    safe: Mapping[tuple[str, ...], _Safe]
    destructive: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]


@lru_cache(maxsize=1)
def _table() -> _Table:
    rows = tomllib.loads(files("sluice.agent").joinpath("shell_commands.toml").read_text(encoding="utf-8"))
    safe: dict[tuple[str, ...], _Safe] = {}
    for row in rows["safe"]:
        for name in row["names"]:
            safe[tuple(name.split())] = _Safe.of(row)
    destructive = tuple(
        (tuple(name.split()), tuple(row.get("any", ()))) for row in rows["destructive"] for name in row["names"]
    )
    return _Table(safe, destructive)


def label(line: str) -> ShellLabel:
    """Sort a command line. Compound lines are never safe, and destructive when any part of them is."""
    if any(_destroys(words) for words in every_command(line)):
        return "destructive"
    parsed = parse(line)
    if parsed is None or not parsed.plain:
        return "unknown"
    return "safe" if _is_safe(parsed.commands[0].words) else "unknown"


def _is_safe(words: tuple[str, ...]) -> bool:
    if len(words) > 2 and words[1].startswith("-"):
        # A flag of the whole program before its command: `git --no-pager log`.
        found = _row((words[0], *words[2:]))
        if found is not None and words[1] in found[0].skip:
            return found[0].covers(found[1])
    found = _row(words)
    return found is not None and found[0].covers(found[1])


def _row(words: tuple[str, ...]) -> tuple[_Safe, tuple[str, ...]] | None:
    """What the table says of a command, by its longest name, and the words behind the name."""
    table = _table().safe
    for length in range(min(_LONGEST_NAME, len(words)), 0, -1):
        if (row := table.get(words[:length])) is not None:
            return row, words[length:]
    return None


def _sorted(words: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Flags and the other words; what stands behind `--` is no flag."""
    end = words.index("--") if "--" in words else len(words)
    flags = [word for word in words[:end] if word.startswith("-") and word != "-"]
    operands = [word for word in words[:end] if not word.startswith("-") or word == "-"]
    return flags, [*operands, *words[end + 1 :]]


def _destroys(words: tuple[str, ...]) -> bool:
    return any(
        len(words) >= len(name)
        and all(_fits(pattern, word) for pattern, word in zip(name, words, strict=False))
        and (not needed or any(_fits(pattern, word) for pattern in needed for word in words[len(name) :]))
        for name, needed in _table().destructive
    )


def _fits(pattern: str, word: str) -> bool:
    return word.startswith(pattern[:-1]) if pattern.endswith("*") else word == pattern
