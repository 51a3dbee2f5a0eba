"""Which paths the file tools may touch: names to absolute paths, and the lists that allow and deny.

The check happens before an operation and is not atomic with it: it keeps a model in bounds, it is no sandbox.
Requirements `fs-policy.check.*`.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sluice.agent.ports import ToolFailure
from sluice.tools.ignore import IgnoreRules

__all__ = ["IGNORE_FILE", "PathPolicy", "PathView", "absolute", "inside", "resolve", "spelled"]

IGNORE_FILE = ".agentsignore"
"""Patterns, in the form of .gitignore, of what the file tools must not touch; read in the cwd and in each root."""

_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
_CASE_FOLDS = sys.platform in ("darwin", "win32")


def absolute(path: object, cwd: str) -> str:
    """Return a path as absolute text: `~` expanded, relative to `cwd`, `.` and `..` taken out. No file is looked at.

    Raises:
        ToolFailure: it is no usable path.
    """
    if not isinstance(path, str) or not path or "\0" in path:
        raise ToolFailure("a path must be a non-empty text without NUL")
    if path == "~" or path.startswith("~/"):
        path = os.path.expanduser(path)  # noqa: PTH111 - text in, text out; a Path would drop nothing we need
    return os.path.normpath(os.path.join(cwd, path))  # noqa: PTH118 - lexical on purpose


def resolve(path: str) -> str:
    """Return where an absolute path really leads: the links of its nearest existing ancestor followed.

    Raises:
        ToolFailure: a link on the way leads nowhere or in a circle, or a directory cannot be searched.
    """
    probe, rest = path, ""
    while True:
        try:
            os.lstat(probe)
            break
        except (FileNotFoundError, NotADirectoryError):
            probe, name = os.path.split(probe)
            rest = f"{name}/{rest}" if rest else name
        except OSError as error:
            reason = "a link on the way leads nowhere" if error.errno == errno.ELOOP else error.strerror
            raise ToolFailure(f"{path}: {reason}") from error
    try:
        real = os.path.realpath(probe, strict=True)
    except OSError as error:
        raise ToolFailure(f"{path}: the link {probe} leads nowhere") from error
    return os.path.join(real, rest) if rest else real  # noqa: PTH118 - text paths throughout


def spelled(real: str, directories: Sequence[str]) -> str:
    """Return a resolved path as the client knows it, which may have opened its workspace through a link; blocking.

    Args:
        real: where the path really leads.
        directories: the workspace: cwd and roots, as the client gave them.

    Raises:
        ToolFailure: it lies outside of all of them (requirement `workspace.roots.confine-client-paths`).
    """
    for directory in directories:
        base = os.path.realpath(directory)
        if inside(real, base):
            return os.path.join(directory, real[len(base) :].lstrip("/")) if real != base else directory  # noqa: PTH118
    raise ToolFailure(f"{real} may not be used: it is outside of the session's directories")


def inside(path: str, directory: str) -> bool:
    """Return whether an absolute path is the directory or lies below it (ignoring case where the system does)."""
    if _CASE_FOLDS:
        path, directory = path.casefold(), directory.casefold()
    return path == directory or path.startswith(directory.rstrip("/") + "/")


@dataclass(frozen=True)
class PathView:
    """The policy as it stands now: lists resolved, ignore files read. Good for one operation.

    `allow` is None when everything is allowed that is not denied.
    """

    allow: tuple[str, ...] | None
    deny: tuple[str, ...]
    ignores: tuple[tuple[str, IgnoreRules], ...] = ()

    def permits(self, real: str, *, is_dir: bool) -> bool:
        """Return whether a resolved path may be touched."""
        return not self.refusal(real, is_dir=is_dir)

    def refusal(self, real: str, *, is_dir: bool) -> str:
        """Return why a resolved path may not be touched, "" when it may. Deny wins over allow."""
        if any(inside(real, entry) for entry in self.deny):
            return "it is in the deny list"
        if self.allow is not None and not any(inside(real, entry) for entry in self.allow):
            return "it is not in the allow list"
        for base, rules in self.ignores:
            if (
                real != base
                and inside(real, base)
                and rules.ignores(real[len(base.rstrip("/")) + 1 :], is_dir=is_dir)
            ):
                return f"{IGNORE_FILE} excludes it"
        return ""


@dataclass(frozen=True)
class PathPolicy:
    """The lists of a file toolset.

    Attributes:
        cwd: the session's directory; relative entries and the ignore file are looked for here.
        roots: further directories with an ignore file of their own. They neither allow nor lift anything.
        allow: absolute entries, None for no allow list; an empty one allows nothing.
        deny: absolute entries.
        problem: why the lists cannot be used, "" when they can; then every check fails.
    """

    cwd: str
    roots: tuple[str, ...] = ()
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    problem: str = ""
    ignore_file: str = field(default=IGNORE_FILE)

    @classmethod
    def from_options(
        cls, options: Mapping[str, Any], *, cwd: str, roots: tuple[str, ...], env: Mapping[str, str]
    ) -> PathPolicy:
        """Read `allow_list` and `deny_list`; what is wrong with them ends up in `problem`."""
        try:
            allow = _entries(options, "allow_list", cwd, env)
            deny = _entries(options, "deny_list", cwd, env)
        except ToolFailure as error:
            return cls(cwd, roots, (), (), f"the file tools are disabled: {error}")
        return cls(cwd, roots, allow, deny or ())

    def view(self) -> PathView:
        """Resolve the lists and read the ignore files; blocking.

        Raises:
            ToolFailure: the configuration or an ignore file cannot be used.
        """
        if self.problem:
            raise ToolFailure(self.problem)
        allow = None if self.allow is None else tuple(resolve(entry) for entry in self.allow)
        # A denied name that is a link denies both the link and what it leads to.
        deny = tuple(dict.fromkeys(path for entry in self.deny for path in (entry, _target(entry))))
        ignores = [_ignores(directory, self.ignore_file) for directory in dict.fromkeys((self.cwd, *self.roots))]
        return PathView(allow, deny, tuple(found for found in ignores if found is not None))

    def check(self, path: object, cwd: str, *, writing: bool = False, is_dir: bool | None = None) -> str:
        """Return where a path leads if it may be touched; blocking.

        Args:
            path: what the model gave.
            cwd: what relative paths start from.
            writing: whether the operation changes it; the ignore file itself may be read, not changed.
            is_dir: whether it is to be taken as a directory; None looks.

        Raises:
            ToolFailure: it may not be touched, with the reason.
        """
        lexical = absolute(path, cwd)
        view = self.view()
        real = resolve(lexical)
        reason = view.refusal(real, is_dir=os.path.isdir(real) if is_dir is None else is_dir)  # noqa: PTH112
        if not reason and writing and os.path.basename(real) == self.ignore_file:  # noqa: PTH119
            reason = "it holds the rules of these tools"
        if reason:
            raise ToolFailure(f"{lexical} may not be {'changed' if writing else 'used'}: {reason}")
        return real


def _entries(options: Mapping[str, Any], name: str, cwd: str, env: Mapping[str, str]) -> tuple[str, ...] | None:
    value = options.get(name)
    if value is None:
        return None
    if not isinstance(value, (list, tuple)) or not all(isinstance(entry, str) and entry.strip() for entry in value):
        raise ToolFailure(f"{name} must be a list of non-empty paths")
    return tuple(absolute(_expand(entry.strip(), name, env), cwd) for entry in value)


def _expand(entry: str, name: str, env: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        variable = match[1] or match[2]
        if not env.get(variable):
            raise ToolFailure(f"{name} uses the variable {variable}, which is not set")
        return env[variable]

    return _VARIABLE.sub(value, entry)


def _target(entry: str) -> str:
    """Where a denied entry leads; one that cannot be followed denies its own name at least."""
    try:
        return resolve(entry)
    except ToolFailure:
        return entry


def _ignores(directory: str, name: str) -> tuple[str, IgnoreRules] | None:
    file = Path(directory, name)
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            raise ToolFailure(f"{file} is no regular file")
        return os.path.realpath(directory), IgnoreRules(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        # Closed, not open: rules that cannot be read may have excluded anything.
        raise ToolFailure(f"{file} cannot be read, so nothing may be used") from error
