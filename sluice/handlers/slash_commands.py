"""Slash commands: which ones a session offers, and what a prompt that begins with one asks for.

Specification page: https://agentclientprotocol.com/protocol/slash-commands. Only text that was typed directly at the
start of a prompt is read; a text inside a resource is never a command. What is offered is run, what is known and
cannot be run is refused, and a word that nobody knows is ordinary chat.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sluice import acp
from sluice.agent.conversation import Conversation
from sluice.config.schema import CommandConfig
from sluice.wire.errors import InvalidParams

__all__ = ["BUILT_IN", "RESERVED", "Typed", "commands_of", "instructed", "read", "supported"]

BUILT_IN = {
    "compact": acp.AvailableCommand(
        "compact",
        "Shorten the history: put a summary in the place of its older part.",
        acp.UnstructuredCommandInput("optional instructions"),
    ),
    "usage": acp.AvailableCommand("usage", "Show how full the context is and what the session has cost."),
}
"""What every session offers, by name."""

RESERVED = frozenset({"compact", "usage", "new"})
"""Names that no configured command can take. `new` is never offered: only session/new begins a conversation."""

MAX_DESCRIPTION = 100
"""Characters of an instruction that stand for a description which is not there."""

_BANG = re.compile(r"![A-Za-z_][\w.-]*\(")
"""A tool call inside an instruction, as older agent files wrote it."""


@dataclass(frozen=True, slots=True)
class Typed:
    """A command that is to be run.

    Attributes:
        name: the word after the slash.
        arguments: what was typed behind it, without the blanks around it.
        rest: the blocks of the prompt that follow the typed text.
        config: what the agent file says of it, None for a built-in.
    """

    name: str
    arguments: str
    rest: tuple[acp.ContentBlock, ...] = ()
    config: CommandConfig | None = None


def commands_of(talk: Conversation) -> acp.AvailableCommandsUpdate:
    """The whole list for the agent that has the conversation now; nothing is started and nothing expanded for it."""
    own = talk.team.agent.config.commands
    configured = [_described(own[name]) for name in sorted(own) if name not in RESERVED and supported(own[name])]
    return acp.AvailableCommandsUpdate([*BUILT_IN.values(), *configured])


def supported(command: CommandConfig) -> bool:
    """Whether a configured command can be run here: no URL, no script, no tool call in its text, a plain name."""
    text = command.instruction
    plain = bool(command.name) and not re.search(r"[/\s]", command.name)
    return plain and not (command.url or "${" in text or _BANG.search(text))


def _described(command: CommandConfig) -> acp.AvailableCommand:
    text = command.description.strip() or _summary(command)
    return acp.AvailableCommand(command.name, text, acp.UnstructuredCommandInput("optional arguments"))


def _summary(command: CommandConfig) -> str:
    if not command.instruction.strip():
        return f"Go on with the agent {command.agent}."
    line = " ".join(command.instruction.split())
    return line if len(line) <= MAX_DESCRIPTION else line[: MAX_DESCRIPTION - 1].rstrip() + "…"


def read(talk: Conversation, prompt: Sequence[acp.ContentBlock]) -> Typed | None:
    """The command a prompt begins with, None for ordinary chat. Looked up in the table of the present agent.

    Raises:
        InvalidParams: the command is known and cannot be run, or not in this way.
    """
    text = "".join(block.text for block in _leading_texts(prompt))
    word = re.match(r"/(\S+)", text)
    if word is None:
        return None
    name, arguments = word.group(1), text[word.end() :].strip()
    rest = tuple(prompt[sum(1 for _ in _leading_texts(prompt)) :])
    if name in BUILT_IN:
        return _built_in(Typed(name, arguments, rest))
    if name in RESERVED:
        raise _refused(name, "starts nothing here; a new conversation is a new session")
    config = talk.team.agent.config.commands.get(name)
    if config is None:
        return None
    if not supported(config):
        raise _refused(name, "needs a browser, a script or a tool call in its text, which this agent does not offer")
    return Typed(name, arguments, rest, config)


def _leading_texts(prompt: Sequence[acp.ContentBlock]) -> Iterator[acp.TextContent]:
    for block in prompt:
        if not isinstance(block, acp.TextContent):
            return
        yield block


def _built_in(typed: Typed) -> Typed:
    if typed.rest:
        raise _refused(typed.name, "takes no attachments")
    if typed.arguments and BUILT_IN[typed.name].input is None:
        raise _refused(typed.name, "takes no arguments")
    return typed


def _refused(name: str, reason: str) -> InvalidParams:
    shown = "".join(char if char.isprintable() else "?" for char in name[:40])
    return InvalidParams(f"/{shown} {reason}", {"path": "$.prompt", "command": shown})


def instructed(typed: Typed) -> tuple[acp.ContentBlock, ...]:
    """What a configured command says to the model: its instruction, the arguments after one blank, the attachments.

    Empty when nothing remains to be said, as after a command that only switches the agent.
    """
    assert typed.config is not None, "built-in commands say nothing to the model"
    words = (typed.config.instruction.strip(), typed.arguments)
    text = " ".join(word for word in words if word)
    return (acp.TextContent(text), *typed.rest) if text else typed.rest
