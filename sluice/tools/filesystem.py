"""The filesystem toolset: reading, writing and editing texts, listing and searching directories.

Texts come from the host or, in an editor that offers it, from the client; directories are always the host's. Every
path is checked first (`paths`), for both. Requirements `tools.filesystem.*`, `fs-policy.check.*`, `client-fs.gate.*`.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import anyio
import anyio.to_thread

from sluice.agent.events import Diff
from sluice.agent.ports import Tool, ToolContext, ToolFailure, ToolResult
from sluice.tools import directories, edits, filesystem_specs
from sluice.tools.paths import PathPolicy, spelled
from sluice.tools.post_edit import PostEdit
from sluice.tools.setup import ToolsetConfigLike, ToolsetSetup, count, flag, text, texts
from sluice.tools.shell import environment
from sluice.tools.textfiles import READ_BYTES, ClientFiles, HostFiles, TextFiles

__all__ = ["FilesystemOptions", "FilesystemToolset", "build"]

_INSTRUCTION = (
    "Use the file tools to look at and change files. Paths may be relative to the working directory. Read a file"
    " before editing it, give just enough old text to be found once, and prefer edit_file to writing a whole file"
    " again. Use search_files_content to find where something is."
)

_Run = Callable[[Mapping[str, Any], ToolContext], Awaitable[ToolResult]]


@dataclass(frozen=True)
class FilesystemOptions:
    """Options besides the lists: the commands after a write, and whether what version control ignores is left out."""

    post_edit: PostEdit
    ignore_vcs: bool = True


@dataclass(frozen=True, slots=True)
class Place:
    """A checked path: where it really leads, and the name it has where the texts come from."""

    real: str
    name: str


class FilesystemToolset:
    """The file tools of one session.

    Args:
        policy: what may be touched.
        files: where texts are read from and written to. A client's files are confined to the session's directories.
        can_read: whether the two reading tools are offered.
        can_write: whether `write_file` is offered; `edit_file` needs both.
        options: what else the configuration says.
    """

    def __init__(
        self,
        policy: PathPolicy,
        files: TextFiles,
        *,
        can_read: bool = True,
        can_write: bool = True,
        options: FilesystemOptions,
    ) -> None:
        self._policy = policy
        self._files = files
        self._confined = isinstance(files, ClientFiles)
        self._post_edit = options.post_edit
        # Calls of one batch run at once: two edits of one file must not both start from the old text.
        self._writing = anyio.Lock()
        runs: dict[str, _Run] = {}
        if can_read:
            runs |= {"read_file": self._read, "read_multiple_files": self._read_multiple}
        if can_write:
            runs["write_file"] = self._write
        if can_read and can_write:
            runs["edit_file"] = self._edit
        runs |= directories.DirectoryTools(policy, options.ignore_vcs).runs()
        tools = {name: filesystem_specs.tool(name, run) for name, run in runs.items()}
        if "edit_file" in tools:
            tools["edit_file"] = replace(tools["edit_file"], preview=self._preview)
        self._tools = tuple(tools.values())

    @property
    def instruction(self) -> str:
        """How to use the tools, for the system prompt."""
        return _INSTRUCTION

    async def start(self) -> None:
        """Nothing to start; a bad policy makes the calls fail, so that the person sees why."""

    def tools(self) -> Sequence[Tool]:
        """The tools that the capabilities allow."""
        return self._tools

    async def stop(self) -> None:
        """Nothing to end."""

    async def _checked(self, path: object, context: ToolContext, *, writing: bool = False) -> Place:
        """Where a path leads, if policy and workspace permit; looked at in a thread, before any client is asked."""

        def check() -> Place:
            # Load and resume replace the roots of a session whose toolsets live on: the call's are those in force.
            real = replace(self._policy, roots=context.roots).check(path, context.cwd, writing=writing)
            return Place(real, spelled(real, (context.cwd, *context.roots)) if self._confined else real)

        return await anyio.to_thread.run_sync(check, abandon_on_cancel=True)

    async def _read(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        line, limit = count(arguments, "line"), count(arguments, "limit")
        place = await self._checked(text(arguments, "path"), context)
        return ToolResult(await self._files.read_text(place.name, line, limit) or "[the file is empty]")

    async def _read_multiple(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        as_json = flag(arguments, "json")
        paths = texts(arguments, "paths")
        if not paths:
            raise ToolFailure("the argument 'paths' must name at least one file")
        found: list[dict[str, str]] = []
        taken = 0
        for path in paths:
            full = taken > READ_BYTES
            if full and not self._confined:
                # What lies beyond the bound of a result is not read at all; only a client is asked all the same.
                item = {"path": path, "error": "not read: the result is full"}
            else:
                item = await self._one(path, context)
            if full and "content" in item:
                item = {"path": path, "error": "not shown: the result is full"}
            found.append(item)
            taken += len(item.get("content", ""))
        failed = all("error" in item for item in found)
        if as_json:
            return ToolResult(json.dumps(found, ensure_ascii=False), is_error=failed)
        shown = (f"=== {item['path']} ===\n{item.get('content', '')}{_error(item)}" for item in found)
        return ToolResult("\n\n".join(shown), is_error=failed)

    async def _one(self, path: str, context: ToolContext) -> dict[str, str]:
        try:
            place = await self._checked(path, context)
            return {"path": path, "content": await self._files.read_text(place.name, None, None)}
        except ToolFailure as failure:
            return {"path": path, "error": str(failure)}

    async def _write(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        content = text(arguments, "content", empty=True)
        async with self._writing:
            place = await self._checked(text(arguments, "path"), context, writing=True)
            await self._files.write_text(place.name, content)
            done = f"Wrote {len(content.encode())} bytes to {place.name}."
            return await self._written(ToolResult(done), place)

    async def _edit(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        name = text(arguments, "path")
        changes = _changes(arguments)
        async with self._writing:
            place = await self._checked(name, context, writing=True)
            before = await self._files.snapshot(place.name)
            after = edits.apply(before, changes)
            # A link on the way may have been turned round since: what is written to was checked, and shows no diff.
            target = await self._checked(name, context, writing=True)
            await self._files.write_text(target.name, after)
            # After a formatter the diff would show what is no longer there.
            whole = target == place and not self._post_edit.commands
            shown = edits.diff(place.name, before, after) if whole else None
            done = f"Made {len(changes)} edit{'s' * (len(changes) != 1)} in {target.name}."
            return await self._written(ToolResult(done, diff=shown), target)

    async def _preview(self, arguments: Mapping[str, Any], context: ToolContext) -> Diff | None:
        """What an edit would change, from the present text; nothing is written."""
        changes = _changes(arguments)
        place = await self._checked(text(arguments, "path"), context, writing=True)
        before = await self._files.snapshot(place.name)
        return edits.diff(place.name, before, edits.apply(before, changes))

    async def _written(self, result: ToolResult, target: Place) -> ToolResult:
        """Run what is to follow a write; its failure is told, and neither repeats nor undoes the write."""
        failure = await self._post_edit.run(target.real)
        if not failure:
            return result
        return ToolResult(
            f"{result.text}\nThe file was written, but a command after it failed. {failure}", is_error=True
        )


def _error(item: Mapping[str, str]) -> str:
    return f"[error: {item['error']}]" if "error" in item else ""


def _changes(arguments: Mapping[str, Any]) -> tuple[edits.Edit, ...]:
    given = arguments.get("edits")
    if not isinstance(given, (list, tuple)) or not given or not all(isinstance(item, Mapping) for item in given):
        raise ToolFailure("the argument 'edits' must be a list of objects with 'oldText' and 'newText'")
    return tuple(edits.Edit(text(item, "oldText"), text(item, "newText", empty=True)) for item in given)


def build(config: ToolsetConfigLike, setup: ToolsetSetup) -> FilesystemToolset:
    """Build the toolset; reads the options `allow_list`, `deny_list`, `ignore_vcs`, `post_edit` and `env`.

    Raises:
        ToolFailure: `post_edit` or `env` cannot be used.
    """
    env = environment(setup, config.options)
    post_edit = PostEdit.from_options(config.options, cwd=setup.cwd, env=env)
    policy = PathPolicy.from_options(config.options, cwd=setup.cwd, roots=setup.roots, env=setup.env)
    return FilesystemToolset(
        policy,
        HostFiles() if setup.files is None else ClientFiles(setup.files),
        can_read=setup.can_read,
        can_write=setup.can_write,
        options=FilesystemOptions(post_edit, config.options.get("ignore_vcs") is not False),
    )
