"""Skills: instructions for one kind of work, in directories that many agents share, read when they are needed.

A skill is a directory with a file `SKILL.md`: a head in YAML (`name`, `description`) between two lines of `---`, then
the instructions. Only names and descriptions are put into the system prompt. They come with `skills` of an agent and
are no toolset type of the file. Requirement `tools.skills.discovery`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio.to_thread

from sluice.agent.ports import Tool, ToolContext, ToolFailure, ToolResult, ToolSpec
from sluice.config.errors import ConfigError
from sluice.config.tree import parse
from sluice.tools.setup import text

__all__ = ["MAX_FILE", "MAX_SKILLS", "PLACES", "Skill", "SkillsToolset", "found"]

PLACES = (".claude/skills", ".github/skills", ".agents/skills")
"""Where a project has them, from the session's directory."""

HOME_PLACES = (".agents/skills", ".claude/skills", ".codex/skills")
"""Where a person has them, from the home directory. Of equal names the first wins, the project's before these."""

MAX_FILE = 64 << 10
"""Bytes of a skill's file that are read."""

MAX_SKILLS = 100
"""Skills that are offered at most."""

_MAX_DESCRIPTION = 500
_SKILL = "SKILL.md"

_Run = Callable[[Mapping[str, Any], ToolContext], Awaitable[ToolResult]]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill. `forked`: it is to be followed in a session of its own (`context: fork`)."""

    name: str
    description: str
    directory: Path
    forked: bool = False


class SkillsToolset:
    """The tools for the skills that one agent may use; looked for when the session begins.

    Args:
        cwd: the session's directory, absolute.
        home: the person's directory, None when it is not known.
        names: the skills to offer; None offers all that are found.
    """

    def __init__(self, cwd: Path, home: Path | None, names: Sequence[str] | None = None) -> None:
        self._cwd = cwd
        self._home = home
        self._names = names
        self._skills: dict[str, Skill] = {}

    @property
    def instruction(self) -> str:
        """Which skills there are and how they are used, for the system prompt; "" when there are none."""
        if not self._skills:
            return ""
        lines = [f"- {skill.name}: {skill.description}" for skill in self._skills.values()]
        return (
            "There are skills: instructions for one kind of work each. When a task is of such a kind, read its skill"
            " with read_skill first and follow it; one that has to run by itself is used with run_skill.\n"
            + "\n".join(lines)
        )

    async def start(self) -> None:
        """Look for the skills; one that cannot be read is left out, and the log says why."""
        skills = await anyio.to_thread.run_sync(found, self._cwd, self._home)
        self._skills = skills if self._names is None else {n: skills[n] for n in self._names if n in skills}
        for name in self._names or ():
            if name not in skills:
                log.warning("there is no skill %r in the project or at home", name)

    def tools(self) -> Sequence[Tool]:
        """`read_skill`, `read_skill_file`, and `run_skill` when a skill is to run by itself; none without skills."""
        if not self._skills:
            return ()
        made = [
            _tool("read_skill", "Returns the instructions of a skill.", self._read, name=_one_of(self._skills)),
            _tool(
                "read_skill_file",
                "Returns another file of a skill.",
                self._read_file,
                skill_name=_one_of(self._skills),
                path={"type": "string", "description": "From the skill's directory"},
            ),
        ]
        if forked := [name for name, skill in self._skills.items() if skill.forked]:
            made.append(
                _tool(
                    "run_skill",
                    "Follows a skill in a session of its own and returns the answer.",
                    self._run,
                    name=_one_of(forked),
                    task={"type": "string", "description": "What to do, with everything that is needed to know"},
                )
            )
        return made

    async def stop(self) -> None:
        """Nothing to end."""

    async def _read(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        skill = self._skills[text(arguments, "name")]  # the schema lists them
        said = await anyio.to_thread.run_sync(_instructions, skill)
        return ToolResult(f"{said}\n\n(The skill's own files are in {skill.directory}.)")

    async def _read_file(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        skill, path = self._skills[text(arguments, "skill_name")], text(arguments, "path")
        return ToolResult(await anyio.to_thread.run_sync(_file_of, skill, path))

    async def _run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        if context.colleagues is None:
            raise ToolFailure("no skill can run by itself here")
        said = await anyio.to_thread.run_sync(_instructions, self._skills[text(arguments, "name")])
        return await context.colleagues.fork(f"{said}\n\nThe task: {text(arguments, 'task')}")


def _one_of(names: Iterable[str]) -> Mapping[str, Any]:
    return {"type": "string", "enum": list(names)}


def _tool(name: str, description: str, run: _Run, /, **properties: Mapping[str, Any]) -> Tool:
    """A tool that only reads, all of whose arguments are needed; the first says what a call is about."""
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return Tool(ToolSpec(name, description, schema), run, read_only=True, subject=next(iter(properties)))


# --- the files ---------------------------------------------------------------------------------------------------


def found(cwd: Path, home: Path | None) -> dict[str, Skill]:
    """The skills of a project and of a person, by name; blocks.

    Args:
        cwd: the project's directory.
        home: the person's directory, None when it is not known.
    """
    skills: dict[str, Skill] = {}
    places = [cwd / place for place in PLACES] + [home / place for place in HOME_PLACES if home is not None]
    for place in places:
        for directory in _directories(place):
            skill = _read_head(directory)
            if skill is not None and len(skills) < MAX_SKILLS:
                skills.setdefault(skill.name, skill)
    return skills


def _directories(place: Path) -> Iterator[Path]:
    try:
        directories = sorted(place.iterdir())
    except OSError:
        return  # most projects have none
    for directory in directories:
        if (directory / _SKILL).is_file():
            yield directory


def _read_head(directory: Path) -> Skill | None:
    try:
        head, _ = _parts(_text_of(directory / _SKILL))
        root = parse(head, str(directory / _SKILL))
    except (ToolFailure, ConfigError) as error:
        log.warning("the skill in %s is left out: %s", directory, error)
        return None
    said = root.plain() if root is not None else None
    said = said if isinstance(said, dict) else {}
    name, description = said.get("name") or directory.name, said.get("description")
    if not isinstance(name, str) or not isinstance(description, str) or not description.strip():
        log.warning("the skill in %s is left out: its SKILL.md has no description in its head", directory)
        return None
    short = " ".join(description.split())[:_MAX_DESCRIPTION]
    return Skill(" ".join(name.split()), short, directory, said.get("context") == "fork")


def _parts(said: str) -> tuple[str, str]:
    """The head and the instructions; without a head everything is instructions."""
    lines = said.split("\n")
    if lines[0].rstrip() != "---":
        return "", said
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), len(lines))
    return "\n".join(lines[1:end]), "\n".join(lines[end + 1 :])


def _instructions(skill: Skill) -> str:
    return _parts(_text_of(skill.directory / _SKILL))[1].strip() or "(This skill says nothing.)"


def _file_of(skill: Skill, path: str) -> str:
    """Another text of a skill, links followed; nothing outside of its directory."""
    try:
        base = os.path.realpath(skill.directory)
        real = os.path.realpath(os.path.join(base, path))  # noqa: PTH118 - text paths throughout
    except (OSError, ValueError):
        raise ToolFailure(f"{path!r} is no path") from None
    if not real.startswith(base + os.sep):
        raise ToolFailure(f"{path} is not in the directory of the skill")
    return _text_of(Path(real))


def _text_of(path: Path) -> str:
    try:
        if not path.is_file():
            raise ToolFailure(f"{path.name} does not exist, or is no file")
        with path.open("rb") as file:
            data = file.read(MAX_FILE + 1)
    except OSError as error:
        raise ToolFailure(f"{path.name} cannot be read: {error.strerror}") from None
    except ValueError:
        raise ToolFailure("a path holds no NUL character") from None
    if b"\0" in data:
        raise ToolFailure(f"{path.name} is no text")
    cut = f"\n[the file is longer than {MAX_FILE} bytes; its end is missing]" if len(data) > MAX_FILE else ""
    return data[:MAX_FILE].decode("utf-8-sig", "replace").replace("\r\n", "\n") + cut
