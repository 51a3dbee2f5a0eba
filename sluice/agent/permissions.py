"""May this call run? Rules, session grants and the safety mode, in that order.

Inside one set of rules deny comes before allow and allow before ask. A deny or an allow of a rule is final; what no
rule names is decided by the mode. What a client was shown decides nothing (permission.status.not-inferred).
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sluice.agent.ports import Tool

__all__ = ["MODES", "Approval", "Decision", "Label", "Rule", "Rules", "label_of", "parse_rule"]

Decision = Literal["allow", "ask", "deny"]
Label = Literal["annotated_safe", "safe", "destructive", "unknown"]

MODES: Mapping[str, Mapping[Label, Decision]] = {
    "default": {"annotated_safe": "allow", "safe": "ask", "destructive": "ask", "unknown": "ask"},
    "strict": {"annotated_safe": "ask", "safe": "ask", "destructive": "ask", "unknown": "ask"},
    "balanced": {"annotated_safe": "allow", "safe": "allow", "destructive": "ask", "unknown": "ask"},
    "restricted": {"annotated_safe": "allow", "safe": "allow", "destructive": "deny", "unknown": "deny"},
    "autonomous": {"annotated_safe": "allow", "safe": "allow", "destructive": "allow", "unknown": "allow"},
}
"""What each safety mode says of a call that no rule decided. Five names, never more (modes.list.five-ids)."""

SHELL_TOOLS = frozenset({"shell", "run_background_job"})
"""Tools whose `cmd` is a command line; their rules must not let a second command slip through a pattern."""

_COMPOUND = re.compile(r"[;&|<>`$(){}\\\n\r!*?\[\]~#]")
"""Characters that can make one command line into more than one plain command with literal words."""

_CONDITION = re.compile(r":(?=\w+=)")


@dataclass(frozen=True, slots=True)
class Rule:
    """`tool` is a glob over tool names; each condition is (argument, glob), and all must hold."""

    tool: str
    conditions: tuple[tuple[str, str], ...] = ()


def parse_rule(text: str) -> Rule:
    """Read `tool`, `glob` or `tool:arg=glob[:arg=glob]`; other colons are literal."""
    tool, *rest = _CONDITION.split(text.strip())
    conditions = tuple((name, pattern) for name, _, pattern in (part.partition("=") for part in rest))
    return Rule(tool, conditions)


def _glob(pattern: str, value: str) -> bool:
    if "[" in pattern and "]" not in pattern:
        pattern = pattern.replace("[", "[[]")
    return fnmatch.fnmatchcase(value.casefold(), pattern.replace("[^", "[!").casefold())


def _argument(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


def _shell_words(value: str) -> str | None:
    """The command with single blanks, or None when it is not one plain command (permission.grant.shell-words)."""
    if _COMPOUND.search(value) or not value.isprintable():
        return None
    return " ".join(value.split())


def _matches_shell(pattern: str, value: str) -> bool:
    words = _shell_words(value)
    if words is None:
        return False
    if pattern.endswith("*") and not pattern.endswith(" *"):
        # A prefix ends at a word: `ls*` allows `ls -la`, never `lsof`.
        prefix = " ".join(pattern[:-1].split())
        return _glob(prefix, words) or _glob(prefix + " *", words)
    return _glob(" ".join(pattern.split()), words)


@dataclass(frozen=True, slots=True)
class Rules:
    """One checker: three lists of rules, deny before allow before ask."""

    allow: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()

    @classmethod
    def of(cls, allow: Iterable[str] = (), ask: Iterable[str] = (), deny: Iterable[str] = ()) -> Rules:
        """Parse three lists of patterns."""
        return cls(tuple(map(parse_rule, allow)), tuple(map(parse_rule, ask)), tuple(map(parse_rule, deny)))

    def decide(self, name: str, arguments: Mapping[str, Any]) -> Decision | None:
        """The decision of the first list with a matching rule; None when no rule names the call."""
        if any(_applies(rule, name, arguments, strict=False) for rule in self.deny):
            return "deny"
        if any(_applies(rule, name, arguments, strict=True) for rule in self.allow):
            return "allow"
        if any(_applies(rule, name, arguments, strict=False) for rule in self.ask):
            return "ask"
        return None


def _applies(rule: Rule, name: str, arguments: Mapping[str, Any], *, strict: bool) -> bool:
    """Whether every condition holds. `strict` reads shell commands as words: it is for rules that let a call run."""
    if not _glob(rule.tool, name):
        return False
    for argument, pattern in rule.conditions:
        key = "cmd" if argument == "command" and name in SHELL_TOOLS else argument
        if key not in arguments:
            return False
        value = _argument(arguments[key])
        shell = strict and name in SHELL_TOOLS and key == "cmd"
        if not (_matches_shell(pattern, value) if shell else _glob(pattern, value)):
            return False
    return True


def label_of(tool: Tool) -> Label:
    """Sort a tool by its annotations: read-only is safe, destructive is destructive, everything else unknown."""
    if tool.read_only:
        return "annotated_safe"
    return "destructive" if tool.destructive else "unknown"


@dataclass(slots=True)
class Approval:
    """The session's approval settings.

    `mode` is the safety mode in force; a stored mode of unknown name counts as strict. `grants` are tool names
    allowed for this session: each covers that one tool, survives every mode switch and is never autonomy.
    """

    mode: str = "default"
    team: Rules = field(default_factory=Rules)
    session: Rules = field(default_factory=Rules)
    grants: set[str] = field(default_factory=set)

    def decide(self, tool: Tool, arguments: Mapping[str, Any]) -> Decision:
        """Whether the call may run, must be asked about, or is denied."""
        by_session = self.session.decide(tool.name, arguments)
        by_team = self.team.decide(tool.name, arguments)
        if "deny" in (by_session, by_team):
            return "deny"
        if tool.name in self.grants or "allow" in (by_session, by_team):
            return "allow"
        if by_session == "ask":
            return "ask"
        mode = self.mode if self.mode in MODES else "strict"
        if by_team == "ask" and mode in ("default", "strict"):
            return "ask"
        return MODES[mode][label_of(tool)]
