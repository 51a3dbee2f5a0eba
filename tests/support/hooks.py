"""Real hook scripts in a directory of the test: each keeps what it is told and answers as it is made to."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

__all__ = ["Script", "answering", "group", "script"]

Json = dict[str, Any]


class Script:
    """A hook script. `entry` is the hook as it stands in an agent file."""

    def __init__(self, path: Path, entry: Json) -> None:
        self._told = path.with_suffix(".told")
        self.entry = entry

    @property
    def told(self) -> list[Json]:
        """What it was told, call by call."""
        lines = self._told.read_text(encoding="utf-8").splitlines() if self._told.exists() else []
        return [json.loads(line) for line in lines]


def script(directory: Path, name: str, body: str = "", **entry: Any) -> Script:
    """A shell script that keeps its standard input and then does `body`; `entry` are further keys of the hook."""
    path = directory / f"{name}.sh"
    told = shlex.quote(str(path.with_suffix(".told")))
    path.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$(cat)\" >> {told}\n{body}\n", encoding="utf-8")
    path.chmod(0o700)
    return Script(path, {"type": "command", "name": name, "command": shlex.quote(str(path)), **entry})


def answering(directory: Path, name: str, answer: Json | None = None, code: int = 0, **own: Any) -> Script:
    """A script that says `answer`, with `own` as its hook_specific_output, and exits with `code`."""
    said = {**(answer or {}), **({"hook_specific_output": own} if own else {})}
    written = directory / f"{name}.json"
    written.write_text(json.dumps(said), encoding="utf-8")
    return script(directory, name, f"cat {shlex.quote(str(written))}\nexit {code}")


def group(*scripts: Script, **more: Any) -> list[Json]:
    """One group of hooks of a tool; `more` are its matcher and preempt_yolo."""
    return [{**more, "hooks": [one.entry for one in scripts]}]
