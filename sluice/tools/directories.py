"""The directory half of the filesystem toolset: listing, tree, search, making and removing. Always on the host."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

import anyio.to_thread

from sluice.agent.ports import ToolContext, ToolFailure, ToolResult
from sluice.tools import grep, process, tree
from sluice.tools.paths import PathPolicy
from sluice.tools.setup import flag, text, texts

__all__ = ["SEARCH_SECONDS", "DirectoryTools"]

SEARCH_SECONDS = 60.0
"""How long a search may take, in seconds; a regular expression may otherwise run for ever."""

_T = TypeVar("_T")
_Run = Callable[[Mapping[str, Any], ToolContext], Awaitable[ToolResult]]


class DirectoryTools:
    """Runs the directory tools under a path policy."""

    def __init__(self, policy: PathPolicy, ignore_vcs: bool) -> None:
        self._policy = policy
        self._ignore_vcs = ignore_vcs

    def _in_force(self, context: ToolContext) -> PathPolicy:
        """The policy with the session's present roots, which load and resume replace."""
        return replace(self._policy, roots=context.roots)

    def runs(self) -> dict[str, _Run]:
        """Return what runs each tool, by name."""
        return {
            "list_directory": self._list,
            "directory_tree": self._tree,
            "search_files_content": self._search,
            "create_directory": self._create,
            "remove_directory": self._remove,
        }

    async def _list(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        path = text(arguments, "path")

        def work() -> str:
            policy = self._in_force(context)
            real, view = policy.check(path, context.cwd), policy.view()
            entries = [item for item in tree.listing(real) if view.permits(item.real, is_dir=item.is_dir)]
            return "\n".join(_line(item) for item in entries) or f"The directory {real} is empty."

        return ToolResult(await anyio.to_thread.run_sync(work, abandon_on_cancel=True))

    async def _tree(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        path = text(arguments, "path")
        return ToolResult(await self._walk(path, context, (), tree.draw))

    async def _search(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        path, query = text(arguments, "path"), text(arguments, "query")
        regex, exclude = flag(arguments, "is_regex"), texts(arguments, "excludePatterns", optional=True)
        found, cut = await self._walk(path, context, exclude, _candidates)
        request = json.dumps({"query": query, "regex": regex, "files": found}).encode()
        program = str(Path(grep.__file__))
        # -I: neither the environment nor the working directory decides what the child imports.
        command = process.Command((sys.executable, "-I", "-S", program), "/", {}, SEARCH_SECONDS, request)
        outcome = await process.run(command)
        if outcome.code == grep.BAD_PATTERN:
            raise ToolFailure(f"the query is no regular expression: {outcome.output.strip()}")
        if outcome.code is None:
            raise ToolFailure(
                f"the search took longer than {SEARCH_SECONDS:g} seconds; use a simpler pattern or path"
            )
        if outcome.code != 0:
            raise ToolFailure("the search ended unexpectedly")
        notice = f"[only the first {len(found)} files were searched]" if cut else ""
        return ToolResult((outcome.output or "No matches.\n") + notice)

    async def _walk(
        self, path: str, context: ToolContext, exclude: tuple[str, ...], work: Callable[[tree.Walk, str], _T]
    ) -> _T:
        """Check a path and walk it in a thread, which is told to stop when the call is cancelled."""
        stop = Event()

        def checked() -> _T:
            policy = self._in_force(context)
            real = policy.check(path, context.cwd)
            return work(tree.Walk(policy.view(), exclude, self._ignore_vcs, stop), real)

        try:
            return await anyio.to_thread.run_sync(checked, abandon_on_cancel=True)
        finally:
            stop.set()

    async def _create(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        return await self._each(
            arguments, context, lambda real: Path(real).mkdir(parents=True, exist_ok=True), "Made"
        )

    async def _remove(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        return await self._each(arguments, context, os.rmdir, "Removed")

    async def _each(
        self, arguments: Mapping[str, Any], context: ToolContext, change: Callable[[str], None], verb: str
    ) -> ToolResult:
        """Change each of `paths`; one that fails is noted and the others are still changed."""
        paths = texts(arguments, "paths")
        if not paths:
            raise ToolFailure("the argument 'paths' must name at least one directory")

        def work() -> ToolResult:
            lines = []
            failed = False
            policy = self._in_force(context)
            for path in paths:
                try:
                    change(policy.check(path, context.cwd, writing=True, is_dir=True))
                    lines.append(f"{verb} {path}.")
                except (ToolFailure, OSError) as error:
                    failed = True
                    lines.append(f"Not done, {path}: {getattr(error, 'strerror', None) or error}")
            return ToolResult("\n".join(lines), is_error=failed)

        return await anyio.to_thread.run_sync(work)


def _line(entry: tree.Entry) -> str:
    if entry.is_dir:
        return f"DIR  {entry.relative}"
    return f"LINK {entry.relative} -> {entry.link}" if entry.link else f"FILE {entry.relative}"


def _candidates(walk: tree.Walk, start: str) -> tuple[list[tuple[str, str]], bool]:
    if os.path.isdir(start):  # noqa: PTH112 - text paths throughout
        return tree.files(walk, start)
    if not os.path.exists(start):  # noqa: PTH110
        raise ToolFailure(f"{start} does not exist")
    return [(os.path.basename(start), start)], False  # noqa: PTH119
