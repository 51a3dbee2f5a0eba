"""What can be wrong with an agent file, and the warnings that do not stop it from loading."""

from __future__ import annotations

from sluice.config.values import Frozen

__all__ = ["ConfigError", "ConfigWarning"]


def _one_line(text: str) -> str:
    """Names are the file's and may hold anything; what is no printable character is shown as an escape."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


class ConfigError(Exception):
    """The agent file cannot be used. The text is one line that says where, what, and where it can what to do.

    Attributes:
        file: the agent file as the caller named it.
        line: the line, counted from 1; None when the error is about the file as a whole.
        key: the dotted path of the key (`agents.root.model`); "" when the error is about no key.
        message: what is wrong, without the place.
    """

    def __init__(self, file: str, line: int | None, key: str, message: str) -> None:
        place = file if line is None else f"{file}:{line}"
        super().__init__(_one_line(f"{place}: {key}: {message}" if key else f"{place}: {message}"))
        self.file = file
        self.line = line
        self.key = key
        self.message = message


class ConfigWarning(Frozen, frozen=True):
    """Something in the agent file that has no effect, or less than it seems. `line` counts from 1."""

    line: int
    key: str
    message: str

    def __str__(self) -> str:
        """The warning as a line for a log, without the file's name."""
        return _one_line(f"line {self.line}: {self.key}: {self.message}")
