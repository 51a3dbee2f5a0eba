"""The script of a scripted model: a YAML file to frozen structs, with errors that name file, line and key.

The format is documented in `docs/scripted-model.md`. Source: requirement models.providers.scripted-fake.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from sluice.config.errors import ConfigError
from sluice.config.tree import Node, parse

__all__ = [
    "CLOSING",
    "Script",
    "ScriptedCall",
    "ScriptedError",
    "ScriptedTurn",
    "ScriptedUsage",
    "When",
    "load_script",
    "read_script",
]

CLOSING = "This is the end of the script; a scripted model has nothing more to say."
"""What a scripted model answers once its turns are used up, unless the script says something else."""

MAX_BYTES = 4 * 1024 * 1024
"""Bytes of a script: far more than anybody writes by hand, and soon parsed."""

Count = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(ge=0, le=3600)]
Chunks = str | tuple[str, ...]


class When(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """On which calls a turn is played; all that is set must hold, and texts match without regard to case.

    `user` is found in the person's last text. `tool` is the name, and `result` found in the text, of the tool result
    that the call follows. `step` is the number of model answers since that last text: 0 is the first call.
    """

    user: str | None = None
    tool: str | None = None
    result: str | None = None
    step: Count | None = None


class ScriptedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call; without an `id` the model makes one up."""

    name: Annotated[str, Meta(min_length=1)]
    arguments: dict[str, Any] = {}
    id: str = ""


class ScriptedUsage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The tokens a turn claims to have used."""

    input_tokens: Count = 0
    output_tokens: Count = 0
    cached_input_tokens: Count = 0
    reasoning_tokens: Count = 0


class ScriptedError(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A failure in place of an answer, or after its text when `after_text` is true.

    `code` is a runtime code and `status` an HTTP status; either can be left out. `retryable` None follows the status
    (408 and 5xx may be tried again). `times` failures are played for one call before the next turn answers it; None
    fails every attempt. `retry_after` is in seconds.
    """

    code: (
        Literal["model_error", "rate_limited", "context_exceeded", "request_too_large", "media_too_large"] | None
    ) = None
    status: Annotated[int, Meta(ge=300, le=599)] | None = None
    text: str = ""
    retryable: bool | None = None
    after_text: bool = False
    times: Annotated[int, Meta(ge=1)] | None = None
    retry_after: Seconds | None = None


class ScriptedTurn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One model call. `delay` is the wait in seconds before each piece that is sent."""

    when: str | When | None = None
    thought: Chunks = ()
    text: Chunks = ()
    delay: Seconds = 0.0
    tool_calls: tuple[ScriptedCall, ...] = ()
    usage: ScriptedUsage | None = None
    finish_reason: Literal["stop", "length", "refusal", "tool_calls"] | None = None
    error: ScriptedError | None = None

    @property
    def condition(self) -> When | None:
        """`when` in its long form; a plain text is what the person said, on the first call that answers it."""
        return When(user=self.when, step=0) if isinstance(self.when, str) else self.when


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All turns in file order, and the answer for when they are used up."""

    turns: Annotated[tuple[ScriptedTurn, ...], Meta(min_length=1)]
    closing: str = CLOSING
    description: str = ""


def load_script(path: Path) -> Script:
    """Read a script file.

    Raises:
        ConfigError: the file cannot be read, or is no valid script.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        text = data.decode("utf-8")
    except OSError as error:
        raise ConfigError(str(path), None, "", f"the script cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise ConfigError(str(path), None, "", "the script is not UTF-8 text") from None
    except ValueError:
        raise ConfigError(str(path).replace("\0", "?"), None, "", "the script's path holds a NUL character") from None
    if len(data) > MAX_BYTES:
        raise ConfigError(str(path), None, "", f"the script is larger than {MAX_BYTES} bytes")
    return read_script(text, str(path))


def read_script(text: str, file: str) -> Script:
    """Read the text of a script; `file` is the name used in errors.

    Raises:
        ConfigError: it is no valid script.
    """
    root = parse(text, file)
    if root is None or not isinstance(root.value, Mapping):
        raise ConfigError(file, None, "", "a script is a mapping with the key turns")
    try:
        return msgspec.convert(root.plain(), Script)
    except msgspec.ValidationError as error:
        raise _explained(str(error), root, file) from None


_PLACE = re.compile(r" - at `\$([^`]*)`$")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")


def _explained(message: str, root: Node, file: str) -> ConfigError:
    """The decoder's message with the line of the value it is about."""
    place = _PLACE.search(message)
    path = place.group(1) if place is not None else ""
    message = _PLACE.sub("", message)
    unknown = _UNKNOWN.fullmatch(message)
    if unknown is not None:
        path, message = f"{path}.{unknown.group(1)}", "unknown key"
    line = _line(root, path)
    return ConfigError(file, line, path.lstrip("."), message[:1].lower() + message[1:])


def _line(root: Node, path: str) -> int:
    node = root
    for name, index in _STEP.findall(path):
        value = node.value
        if isinstance(value, dict) and name in value:
            node = value[name]
        elif isinstance(value, list) and index and int(index) < len(value):
            node = value[int(index)]
    return node.line
