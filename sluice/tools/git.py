"""The git toolset: reading a repository. Requirement `tools.git.read-only-set`.

Nothing here writes: no index refresh, and none of the programs that a repository's own configuration may name is
started for showing (external diffs, text conversion, signatures, a file system monitor).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluice.agent.ports import Tool, ToolContext, ToolFailure, ToolResult, ToolSpec
from sluice.tools import process
from sluice.tools.setup import ToolsetConfigLike, ToolsetSetup, count

__all__ = ["GitToolset", "build"]

TIMEOUT = 30.0
"""Seconds for one command; reading even a large history page takes less."""

MAX_LOG = 200
"""Commits of one git_log."""

BLAME_LINES = 400
"""Lines of one git_blame."""

_SAFE = ("-c", "core.fsmonitor=false", "-c", "log.showSignature=false", "-c", "core.quotePath=false")
_INSTRUCTION = "Use the git tools to read the repository in the working directory. They change nothing."
_PATH = {"type": "string", "description": "A path, relative to the working directory"}
_REF = {"type": "string", "description": "A commit, branch or tag; HEAD when left out"}
_LIMIT = {"type": "integer", "minimum": 1, "maximum": MAX_LOG, "description": "How many commits; 20 when left out"}


@dataclass(frozen=True, slots=True)
class _Command:
    """One tool: `words` makes the arguments of git from those of the call."""

    name: str
    description: str
    properties: Mapping[str, Any]
    words: Callable[[Mapping[str, Any]], tuple[str, ...]]
    required: tuple[str, ...] = ()
    max_lines: int = 0


def _given(arguments: Mapping[str, Any], name: str, default: str = "") -> str:
    value = arguments.get(name)
    if value is None or value == "":
        return default
    if not isinstance(value, str) or "\0" in value or (name != "path" and value.startswith("-")):
        raise ToolFailure(f"{name} must be a name that git knows")
    return value


def _paths(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    path = _given(arguments, "path")
    return ("--", path) if path else ()


def _log(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    limit = min(max(count(arguments, "limit") or 20, 1), MAX_LOG)
    form = "--format=%h %ad %an: %s"
    return ("log", f"--max-count={limit}", "--date=short", form, *_paths(arguments))


def _show(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    plain = ("--no-ext-diff", "--no-textconv", "--no-color", "--stat", "--patch")
    return ("show", *plain, "--end-of-options", _given(arguments, "ref", "HEAD"), "--")


def _blame(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    path = _given(arguments, "path")
    if not path:
        raise ToolFailure("path must be given")
    return ("blame", "--no-textconv", "--date=short", _given(arguments, "rev", "HEAD"), "--", path)


_COMMANDS = (
    _Command("git_status", "Shows branch and changed files.", {}, lambda _: ("status", "--short", "--branch")),
    _Command("git_log", "Lists commits, newest first.", {"limit": _LIMIT, "path": _PATH}, _log),
    _Command("git_branches", "Lists branches.", {}, lambda _: ("branch", "--all", "--verbose", "--no-color")),
    _Command("git_show", "Shows a commit and its changes.", {"ref": _REF}, _show),
    _Command(
        "git_blame",
        f"Shows who last changed each line, up to {BLAME_LINES} lines.",
        {"path": _PATH, "rev": _REF},
        _blame,
        ("path",),
        BLAME_LINES,
    ),
)


class GitToolset:
    """Five tools that run git in the session's directory, on the agent's host."""

    def __init__(self, env: Mapping[str, str]) -> None:
        # Never a pager, a prompt for a password, or a lock for something that only reads.
        self._env = {**env, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_PAGER": "cat"}

    @property
    def instruction(self) -> str:
        """How to use the tools, for the system prompt."""
        return _INSTRUCTION

    async def start(self) -> None:
        """Nothing to start."""

    def tools(self) -> Sequence[Tool]:
        """The five tools, all read-only."""
        return tuple(self._tool(command) for command in _COMMANDS)

    async def stop(self) -> None:
        """Nothing to end: a command ends with its call."""

    def _tool(self, command: _Command) -> Tool:
        async def run(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
            return await self._run(command, arguments, context)

        schema = {"type": "object", "properties": command.properties, "required": list(command.required)}
        spec = ToolSpec(command.name, command.description, schema)
        return Tool(spec, run, read_only=True, subject="path" if "path" in command.properties else "ref")

    async def _run(self, command: _Command, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        argv = ("git", *_SAFE, *command.words(arguments))
        outcome = await process.run(process.Command(argv, context.cwd, self._env, TIMEOUT))
        if outcome.code is None:
            raise ToolFailure(f"git took longer than {TIMEOUT:g} seconds")
        if outcome.code != 0:
            raise ToolFailure(outcome.output.strip() or f"git ended with exit code {outcome.code}")
        lines = outcome.output.splitlines()
        if command.max_lines and len(lines) > command.max_lines:
            return ToolResult(
                "\n".join([*lines[: command.max_lines], f"[{len(lines) - command.max_lines} more lines]"])
            )
        return ToolResult(outcome.output or "(nothing)")


def build(config: ToolsetConfigLike, setup: ToolsetSetup) -> GitToolset:
    """Build the toolset; it has no options."""
    return GitToolset(setup.env)
