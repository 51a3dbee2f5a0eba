"""Walking directories for the file tools: sorted, bounded, links not followed, ignored entries left out."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from sluice.agent.ports import ToolFailure
from sluice.tools.ignore import IgnoreRules
from sluice.tools.paths import PathView

__all__ = ["SEARCH_FILES", "TREE_DIRECTORIES", "TREE_FILES", "Entry", "Walk", "draw", "files", "listing"]

TREE_FILES = 100
"""How many files a tree shows."""

TREE_DIRECTORIES = 400
"""How many directories a tree shows: directories without files must not make it endless."""

SEARCH_FILES = 20_000
"""How many files a search looks at."""

_VCS_DIRECTORIES = frozenset((".git", ".hg", ".svn"))


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a walk. `relative` is its path below the start; `link` is what a symbolic link holds, else ""."""

    relative: str
    real: str
    is_dir: bool
    link: str = ""


@dataclass
class Walk:
    """How to walk.

    Attributes:
        view: what may be touched.
        exclude: further patterns of entries to leave out, in the form of .gitignore.
        ignore_vcs: whether version control's own directories and what .gitignore excludes are left out.
        stop: set by the caller to end the walk; threads cannot be cancelled.
    """

    view: PathView
    exclude: Sequence[str] = ()
    ignore_vcs: bool = True
    stop: Event = field(default_factory=Event)

    def entries(self, start: str) -> Iterator[Entry]:
        """Give the entries below a directory, a directory before what is in it."""
        rules = IgnoreRules("\n".join(self.exclude))
        # Each frame: what is left in one directory, and the ignore files that hold for it.
        frames = [self._frame(start, "", ())]
        while frames and not self.stop.is_set():
            entries, ignores = frames[-1]
            entry = next(entries, None)
            if entry is None:
                frames.pop()
            elif not self._left_out(entry, ignores) and not rules.ignores(entry.relative, is_dir=entry.is_dir):
                yield entry
                if entry.is_dir:
                    frames.append(self._frame(entry.real, entry.relative, ignores))

    def _frame(
        self, directory: str, relative: str, ignores: tuple[tuple[str, IgnoreRules], ...]
    ) -> tuple[Iterator[Entry], tuple[tuple[str, IgnoreRules], ...]]:
        if self.ignore_vcs:
            try:
                text = Path(directory, ".gitignore").read_text(encoding="utf-8", errors="replace")
                ignores = (*ignores, (directory, IgnoreRules(text)))
            except OSError:
                pass  # most directories have none; an unreadable one only hides less
        return iter(listing(directory, relative)), ignores

    def _left_out(self, entry: Entry, ignores: tuple[tuple[str, IgnoreRules], ...]) -> bool:
        if not self.view.permits(entry.real, is_dir=entry.is_dir):
            return True
        if not self.ignore_vcs:
            return False
        if entry.is_dir and os.path.basename(entry.real) in _VCS_DIRECTORIES:  # noqa: PTH119 - text paths
            return True
        return any(rules.matches(entry.real[len(base) + 1 :], is_dir=entry.is_dir) for base, rules in ignores)


def listing(directory: str, relative: str = "") -> list[Entry]:
    """Return the entries of a directory by name; an unreadable one below the start is empty.

    Raises:
        ToolFailure: the start itself cannot be listed.
    """
    prefix = f"{relative}/" if relative else ""
    try:
        with os.scandir(directory) as found:
            return [
                Entry(
                    prefix + item.name,
                    item.path,
                    item.is_dir(follow_symlinks=False),
                    os.readlink(item.path) if item.is_symlink() else "",  # noqa: PTH115 - text paths
                )
                for item in sorted(found, key=lambda item: item.name)
            ]
    except OSError as error:
        if relative:
            return []
        raise ToolFailure(f"{directory}: {error.strerror}") from error


def draw(walk: Walk, start: str) -> str:
    """Return a directory as an indented tree, cut with a notice after `TREE_FILES` files."""
    lines = [f"{start}/"]
    shown_files = shown_directories = 0
    for entry in walk.entries(start):
        shown_files += not entry.is_dir
        shown_directories += entry.is_dir
        if shown_files > TREE_FILES or shown_directories > TREE_DIRECTORIES:
            lines.append(f"[cut: more than {TREE_FILES} files or {TREE_DIRECTORIES} directories]")
            break
        depth = entry.relative.count("/") + 1
        lines.append("  " * depth + entry.relative.rpartition("/")[2] + _mark(entry))
    return "\n".join(lines) if len(lines) > 1 else f"{start}/ is empty"


def _mark(entry: Entry) -> str:
    if entry.is_dir:
        return "/"
    return f" -> {entry.link}" if entry.link else ""


def files(walk: Walk, start: str) -> tuple[list[tuple[str, str]], bool]:
    """Return the (shown, real) paths of the regular files below a directory and whether there were more."""
    found: list[tuple[str, str]] = []
    for entry in walk.entries(start):
        if entry.is_dir or entry.link:
            continue
        if len(found) == SEARCH_FILES:
            return found, True
        found.append((entry.relative, entry.real))
    return found, False
