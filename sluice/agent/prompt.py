"""The prompt of one call: the system text with what is added to it for this turn, and the history as it is sent.

Nothing here is stored: the date, the surroundings and prompt files are fresh for every call, and old tool results are
shortened in what is sent only (config-file.agents.context-extras, config-file.agents.limits).
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

import anyio.to_thread

from sluice.agent.conversation import Conversation
from sluice.agent.history import conversation, text_message
from sluice.agent.redaction import masked_message
from sluice.config.schema import AgentConfig
from sluice.persistence.records import Message, Part, ToolCallRecord

__all__ = ["messages"]

MAX_PROMPT_FILE = 64 << 10
"""Bytes of one prompt file that are read."""

MAX_DEEPER = 100
"""Paths of prompt files in deeper directories that are named."""

TOKEN = 4
"""Characters that count as one token where the agent file limits tool texts."""

SHORT_ARGUMENTS = 200
"""Characters of the arguments of an old call that stay: they say what was done."""

LEFT_OUT = "[An older tool result, left out here.]"


async def messages(talk: Conversation, context: Sequence[str] = ()) -> list[Message]:
    """What the model gets next; `context` is said behind the system text, in this turn only."""
    agent = talk.team.agent
    extras: list[str] = []
    if agent.config.add_date or agent.config.add_environment_info or agent.config.add_prompt_files:
        extras = await anyio.to_thread.run_sync(_extras, agent.config, talk.cwd, talk.roots)
    system = "\n\n".join(text for text in (agent.system_prompt(), *extras, *context) if text)
    history = _shortened(_newest(conversation(talk.items), agent.config.num_history_items), agent.config)
    sent = [text_message("system", system), *history] if system else history
    return list(map(masked_message, sent)) if agent.config.redact_secrets else sent


# --- what is added to the system text ----------------------------------------------------------------------------


def _extras(config: AgentConfig, cwd: str, roots: Sequence[str]) -> list[str]:
    texts = []
    if config.add_date:
        texts.append(f"Today is {date.today().isoformat()}.")
    if config.add_environment_info:
        texts.append(_environment(cwd, roots))
    for name in config.add_prompt_files:
        texts += _prompt_files(name, Path(cwd), config.add_prompt_files_depth)
    return texts


def _environment(cwd: str, roots: Sequence[str]) -> str:
    repository = any((place / ".git").exists() for place in (Path(cwd), *Path(cwd).parents))
    further = f"\nFurther directories: {', '.join(roots)}" if roots else ""
    return (
        f"Working directory: {cwd}{further}\n"
        f"Inside a Git repository: {'yes' if repository else 'no'}\n"
        f"Operating system: {platform.system()} on {platform.machine()}"
    )


def _prompt_files(name: str, cwd: Path, depth: int) -> Iterator[str]:
    """The nearest file of this name from the directory upwards, then the one at home, then where deeper ones are."""
    nearest = next((place / name for place in (cwd, *cwd.parents) if (place / name).is_file()), None)
    home = Path("~").expanduser() / name
    for path in (nearest, home if home.is_file() and home != nearest else None):
        if path is not None and (text := _read(path)):
            yield f"Contents of {path}:\n\n{text}"
    deeper = list(_deeper(name, cwd, depth)) if depth else []
    if deeper:
        yield f"More files named {name}, to be read where they matter:\n" + "\n".join(deeper)


def _deeper(name: str, cwd: Path, depth: int) -> Iterator[str]:
    found = 0
    for place, directories, _ in os.walk(cwd):
        level = len(Path(place).relative_to(cwd).parts)
        directories[:] = sorted(one for one in directories if not one.startswith(".")) if level < depth else []
        if level and (Path(place) / name).is_file():
            yield str(Path(place) / name)
            found += 1
            if found == MAX_DEEPER:
                return


def _read(path: Path) -> str:
    """The text of a file, "" when it cannot be read: a prompt file that is not there is no error."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_PROMPT_FILE).decode("utf-8", "replace").strip()
    except OSError:
        return ""


# --- the history as it is sent -----------------------------------------------------------------------------------


def _newest(history: Sequence[Message], most: int | None) -> list[Message]:
    """At most so many messages: the oldest answers go, each with its results. What people said stays, and so does
    the newest answer.
    """
    if most is None:
        return list(history)
    groups: list[list[Message]] = []
    for message in history:
        if message.role == "tool" and groups:
            groups[-1].append(message)
        else:
            groups.append([message])
    surplus = len(history) - most
    kept: list[Message] = []
    for number, group in enumerate(groups):
        if surplus > 0 and group[0].role == "assistant" and number < len(groups) - 1:
            surplus -= len(group)
        else:
            kept += group
    return kept


def _shortened(history: Sequence[Message], config: AgentConfig) -> list[Message]:
    """Results cut in their middle, and calls that lie too far back without their texts."""
    left = config.max_old_tool_call_tokens
    if left is None and config.max_tool_result_tokens is None:
        return list(history)
    sent: list[Message] = []
    for message in reversed(history):
        if message.role == "tool" and config.max_tool_result_tokens is not None:
            message = _with_text(message, _middle_out(message.text, config.max_tool_result_tokens * TOKEN))
        if left is not None and (size := _tool_characters(message)):
            left -= -(-size // TOKEN)
            message = _without_tool_texts(message) if left < 0 else message
        sent.append(message)
    return sent[::-1]


def _middle_out(text: str, room: int) -> str:
    if len(text) <= room:
        return text
    half = room // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[len(text) - half :]}"


def _tool_characters(message: Message) -> int:
    if message.role == "tool":
        return len(message.text)
    return sum(len(call.arguments) for call in message.tool_calls)


def _without_tool_texts(message: Message) -> Message:
    if message.role == "tool":
        return _with_text(message, LEFT_OUT)
    calls = [
        call if len(call.arguments) <= SHORT_ARGUMENTS else ToolCallRecord(call.id, call.name, "{}")
        for call in message.tool_calls
    ]
    return replace(message, tool_calls=tuple(calls))


def _with_text(message: Message, text: str) -> Message:
    return replace(message, parts=(Part(type="text", text=text),))
