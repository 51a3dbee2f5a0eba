"""May this call run? Rules, session grants and the safety mode, in that order.

Inside one set of rules deny comes before allow and allow before ask. A deny or an allow of a rule is final; what no
rule names is decided by the mode. What a client was shown decides nothing (permission.status.not-inferred).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from sluice.agent import shell_labels
from sluice.agent.patterns import matches, matches_words
from sluice.agent.ports import Tool
from sluice.agent.shell_words import every_command, parse

__all__ = ["MODES", "Approval", "Decision", "Label", "Rule", "Rules", "Weighed", "label_of", "parse_rule"]

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
"""Tools whose `cmd` is a command line: it is judged by its words."""

PATH_ARGUMENTS = frozenset({"path", "paths", "file", "filepath", "filename", "file_path", "cwd"})
"""Arguments that name files: `..` in them must not lead out of what a pattern seems to say."""

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
        if any(_holds(rule, name, arguments, _restricts) for rule in self.deny):
            return "deny"
        if any(_holds(rule, name, arguments, _permits) for rule in self.allow):
            return "allow"
        if any(_holds(rule, name, arguments, _restricts) for rule in self.ask):
            return "ask"
        return None


_Test = Callable[[str, str, str], bool]
"""Pattern, argument (`cmd` only for a command line), value -> whether it is met."""


def _holds(rule: Rule, name: str, arguments: Mapping[str, Any], test: _Test) -> bool:
    """Whether a rule names the tool and all its conditions hold; an argument that is not there fails."""
    if not matches(rule.tool, name):
        return False
    shell = name in SHELL_TOOLS
    for argument, pattern in rule.conditions:
        key = "cmd" if shell and argument == "command" else argument
        if key not in arguments:
            return False
        kind = key if shell or key != "cmd" else ""
        values = _values(arguments[key])
        met = [test(pattern, kind, value) for value in values]
        # One forbidden path of several forbids the call; several paths are allowed when each of them is.
        if not (any(met) if test is _restricts else met and all(met)):
            return False
    return True


def _restricts(pattern: str, argument: str, value: str) -> bool:
    """For deny and ask: generous, any part of a command line and either spelling of a path is enough."""
    if argument == "cmd":
        pattern = " ".join(pattern.split())
        candidates = (" ".join(value.split()), *(" ".join(words) for words in every_command(value)))
        return any(matches(pattern, candidate) for candidate in candidates)
    # Two slashes at the front are one for the system, but not for normpath.
    if argument in PATH_ARGUMENTS and value and matches(pattern, re.sub("^/+", "/", os.path.normpath(value))):
        return True
    return matches(pattern, value)


def _permits(pattern: str, argument: str, value: str) -> bool:
    """For allow: strict, a command line must be one plain command and a path must not climb."""
    if argument == "cmd":
        line = parse(value)
        return line is not None and line.plain and matches_words(pattern, line.commands[0].words)
    if argument in PATH_ARGUMENTS and ".." in value.split("/") and ".." not in pattern:
        return False
    return matches(pattern, value)


def _values(value: Any) -> list[str]:
    """An argument as texts: each item of a list, numbers in their shortest form."""
    if isinstance(value, (list, tuple)):
        return [text for item in value for text in _values(item)]
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if isinstance(value, float) and value.is_integer():
        return [str(int(value))]
    return [value if isinstance(value, str) else str(value)]


def label_of(tool: Tool, arguments: Mapping[str, Any]) -> Label:
    """How a call is sorted: a shell tool's by its command, any other by its annotations.

    Read-only is safe, destructive is destructive, a tool that says nothing of itself is unknown.
    """
    if tool.read_only:
        return "annotated_safe"
    command = arguments.get("cmd")
    if tool.name in SHELL_TOOLS and tool.subject == "cmd" and isinstance(command, str):
        return shell_labels.label(command)
    return "destructive" if tool.destructive else "unknown"


class Weighed(NamedTuple):
    """What rules, grants and mode say. `open`: the mode alone said so, and leaves ordinary hooks a say."""

    decision: Decision
    open: bool = False


@dataclass(slots=True)
class Approval:
    """The session's approval settings.

    `mode` is the safety mode in force; a stored mode of unknown name counts as strict. `grants` are tool names
    allowed for this session: each covers that one tool, survives every mode switch and is never autonomy.

    A deny wins wherever it stands. Then the session's word counts, then the user's rules, then the team's, then the
    mode. An ask of the session always asks; one of the user or the team asks where the mode leaves the asking to
    them (default, strict) and yields to a mode that a person chose.
    """

    mode: str = "default"
    team: Rules = field(default_factory=Rules)
    user: Rules = field(default_factory=Rules)
    session: Rules = field(default_factory=Rules)
    grants: set[str] = field(default_factory=set)

    def decide(self, tool: Tool, arguments: Mapping[str, Any]) -> Decision:
        """Whether the call may run, must be asked about, or is denied."""
        return self.weigh(tool, arguments).decision

    def weigh(self, tool: Tool, arguments: Mapping[str, Any]) -> Weighed:
        """The decision, and whether hooks may still change it: a person's grant, a rule and autonomy are final."""
        by_session, by_user, by_team = (
            rules.decide(tool.name, arguments) for rules in (self.session, self.user, self.team)
        )
        if "deny" in (by_session, by_user, by_team):
            return Weighed("deny")
        if tool.name in self.grants or by_session == "allow":
            return Weighed("allow")
        if by_session == "ask":
            return Weighed("ask")
        rule = by_user or by_team
        mode = self.mode if self.mode in MODES else "strict"
        if rule == "allow" or (rule == "ask" and mode in ("default", "strict")):
            return Weighed(rule)
        decision = MODES[mode][label_of(tool, arguments)]
        return Weighed(decision, decision == "ask" or (decision == "allow" and mode == "default"))

    def granted(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """Whether the session itself allows the call: by a grant of the person or by a rule of its own."""
        return name in self.grants or self.session.decide(name, arguments) == "allow"
