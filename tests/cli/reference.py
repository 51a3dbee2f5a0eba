"""Every argument of every command, read off the parser, in the form of the tables in docs/cli.md.

`python -m tests.cli.reference` writes those tables anew and leaves the rest of the page alone.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from sluice.cli.main import build_parser

__all__ = ["PAGE", "commands", "sections", "tables_of", "with_tables"]

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"

_SHARED = ("runtime options", "how the agent file is read", "where sessions are kept")
"""Groups of arguments that several commands have; each has one table."""

_HEAD = ["| argument | default | meaning |", "| --- | --- | --- |"]


def commands(parser: argparse.ArgumentParser | None = None) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every command that can be run, by the words that call it, in the order of `--help`."""
    parser = parser or build_parser()
    inner = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not inner:
        yield parser.prog, parser
    for action in inner:
        for child in action.choices.values():
            yield from commands(child)


def sections() -> dict[str, list[str]]:
    """Heading -> rows: one for each command with its own arguments, one for each group that commands share."""
    own: dict[str, list[str]] = {}
    shared: dict[str, list[str]] = {}
    for name, parser in commands():
        groups = [group for group in parser._action_groups if group.title in _SHARED]
        taken = [action for group in groups for action in group._group_actions]
        heading = f"`{name}`"
        own[heading] = [_row(action) for action in parser._actions if action not in taken and action.dest != "help"]
        for group in groups:
            rows = [_row(action) for action in group._group_actions]
            known = shared.setdefault(_heading(str(group.title)), rows)
            assert known == rows, f"{name} has other {group.title} than the commands before it"
    return {**own, **shared}


def tables_of(text: str) -> dict[str, list[str]]:
    """Heading -> rows of the first table below it, of a page in Markdown."""
    found: dict[str, list[str]] = {}
    heading = ""
    before = ""
    for line in text.splitlines():
        if match := re.match(r"#+ (.*)", line):
            heading = match[1]
        elif line.startswith("|") and heading and (heading not in found or before.startswith("|")):
            found.setdefault(heading, []).append(line)
        elif before.startswith("|"):
            # The first table below a heading is the one that counts.
            heading = ""
        before = line
    return {heading: rows[2:] for heading, rows in found.items() if rows[:2] == _HEAD}


def with_tables(text: str) -> str:
    """The page with every table as the parser has it; sections that are missing come at its end."""
    for heading, rows in sections().items():
        table = "\n".join([*_HEAD, *rows])
        pattern = re.compile(rf"^(## {re.escape(heading)}\n(?:(?!#|\|).*\n)*?)(?:\|.*(?:\n|\Z))+", re.MULTILINE)
        text, count = pattern.subn(lambda match, table=table: f"{match[1]}{table}\n", text, count=1)  # type: ignore[misc]  # bound at once
        if not count:
            text += f"\n## {heading}\n\n{table}\n"
    return text


def _heading(title: str) -> str:
    return title[0].upper() + title[1:]


def _row(action: argparse.Action) -> str:
    return f"| {_name(action)} | {_default(action)} | {_meaning(action)} |"


def _name(action: argparse.Action) -> str:
    if not action.option_strings:
        return {"?": f"`[{action.metavar}]`", "+": f"`{action.metavar}...`"}.get(
            str(action.nargs), f"`{action.metavar}`"
        )
    value = action.metavar or ("{" + ",".join(map(str, action.choices)) + "}" if action.choices else "")
    value = {0: "", "?": f"[{value}]"}.get(action.nargs or "", str(value))
    *others, last = action.option_strings
    return ", ".join([*(f"`{each}`" for each in others), f"`{last} {value}`".replace(" `", "`")])


def _default(action: argparse.Action) -> str:
    if match := re.search(r"\(default: (.*)\)$", action.help or ""):
        return match[1]
    if not action.option_strings:
        return "none" if action.nargs == "?" else "required"
    return "off" if action.nargs == 0 else "none"


def _meaning(action: argparse.Action) -> str:
    return re.sub(r" \(default: .*\)$", "", action.help or "").replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text("utf-8")), "utf-8")
