"""Commands that run on the agent host after a file was written, such as a formatter.

They see the disk: a text that the client keeps in a buffer is not copied there for them. Requirements
`fs-policy.post-edit.*`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sluice.agent.ports import ToolFailure
from sluice.tools import process
from sluice.tools.ignore import IgnoreRules
from sluice.tools.paths import inside
from sluice.tools.shell import INTERPRETER

__all__ = ["POST_EDIT_SECONDS", "PostEdit"]

POST_EDIT_SECONDS = 60.0
"""How long one command may run, in seconds: a formatter on one file, not a test suite."""

_SHOWN_BYTES = 4000


@dataclass(frozen=True)
class PostEdit:
    """The configured commands: pairs of a pattern (as in .gitignore, below `cwd`) and a command line.

    In the command line `${file}` is the file that was written. It is a variable of the shell, so that a name with
    blanks or quotes is one word where the command puts it in double quotes, and never a piece of the command.
    """

    cwd: str
    env: Mapping[str, str] = field(repr=False)
    commands: tuple[tuple[IgnoreRules, str], ...] = ()

    @classmethod
    def from_options(cls, options: Mapping[str, Any], *, cwd: str, env: Mapping[str, str]) -> PostEdit:
        """Read the option `post_edit`, a list of objects with `path` and `cmd`. Raises ToolFailure."""
        given = options.get("post_edit") or ()
        if not isinstance(given, (list, tuple)) or not all(_is_command(item) for item in given):
            raise ToolFailure("post_edit must be a list of objects with the texts 'path' and 'cmd'")
        return cls(cwd, env, tuple((IgnoreRules(item["path"]), item["cmd"]) for item in given))

    async def run(self, target: str) -> str:
        """Run the commands whose pattern fits a file, in order.

        Args:
            target: the file that was written, resolved.

        Returns:
            What failed, "" when nothing did. The commands after one that failed are not run.
        """
        shown = target[len(self.cwd.rstrip("/")) + 1 :] if inside(target, self.cwd) else target.lstrip("/")
        for rules, line in self.commands:
            if rules.ignores(shown, is_dir=False):
                failure = await self._one(line, target)
                if failure:
                    return failure
        return ""

    async def _one(self, line: str, target: str) -> str:
        env = {**self.env, "file": target}
        argv = (INTERPRETER, "-c", line)
        try:
            outcome = await process.run(process.Command(argv, self.cwd, env, POST_EDIT_SECONDS, keep=_SHOWN_BYTES))
        except ToolFailure as failure:
            return str(failure)
        if outcome.leftover is not None:
            await process.end_groups([outcome.leftover])
        if outcome.code == 0:
            return ""
        how = (
            f"timed out after {POST_EDIT_SECONDS:g} seconds" if outcome.code is None else f"ended with {outcome.code}"
        )
        return f"`{line}` {how}: {outcome.output.strip()}"


def _is_command(item: object) -> bool:
    return isinstance(item, Mapping) and all(isinstance(item.get(key), str) and item[key] for key in ("path", "cmd"))
